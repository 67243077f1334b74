/* SPDX-License-Identifier: MIT */
/* Bytecode: what the instruction at an offset does, and what it calls, as far as the instructions before it say. Read from a living
 * interpreter's memory: 3.11+ rewrites instructions into specialised ones in place, which the tables know.
 *
 * The stack of values is in no memory while a frame runs. But a call's argument says how far below its top the callee is, and the
 * instructions before it, read backwards, which one pushed that: as long as none of them jumps (a conditional expression among the
 * arguments). Then `exact` is set; else there is what was loaded lately.
 *
 * All bytes are the target's. Threads: any. Errors: none; what does not decode is OPCODE_OTHER.
 */
#ifndef CPROFD_CLASSES_BYTECODE_H
#define CPROFD_CLASSES_BYTECODE_H

#include <stdbool.h>
#include <stdint.h>

#define OPCODE_FIRST 8 /* 3.8 */
#define BYTECODE_NAMES 16u

enum opcode_kind {
	OPCODE_OTHER,
	OPCODE_EXTENDED, /* EXTENDED_ARG */
	OPCODE_NAME,     /* loads an attribute of what is on the stack: co_names[arg] */
	OPCODE_NAME_1,   /* co_names[arg >> 1] */
	OPCODE_NAME_2,   /* ... of super(): co_names[arg >> 2] */
	OPCODE_GLOBAL,   /* loads a global, or a name of `builtins` */
	OPCODE_GLOBAL_1,
	OPCODE_CALL,     /* 3.8 to 3.10: CALL_FUNCTION, CALL_METHOD...; 3.11: PRECALL, CALL; 3.13: CALL_KW */
	OPCODE_OPERATOR, /* an operator, a subscript, an iteration: what slots are for */
};

/* How a number grows with the argument. */
enum opcode_growth {
	GROWS_UNKNOWN, GROWS_NONE, GROWS_PLUS, GROWS_MINUS, GROWS_MINUS_2,
	GROWS_BIT, GROWS_MINUS_BIT, /* by its lowest bit */
};

#define OPCODE_BUILTIN 1 /* specialised: the name was found in `builtins` */
#define OPCODE_MODULE 2  /* ... among the module's own */
#define OPCODE_POINTER 4 /* specialised: the last 8 bytes of its caches point to what it loads */
#define OPCODE_KEEPS 8   /* pushes nothing */

struct opcode {
	uint8_t kind, caches; /* caches: of 2 bytes, which follow */
	int8_t effect;        /* on the stack's depth: what it pushes less what it pops */
	uint8_t growth;
	int8_t depth;         /* of a call: how many items are above what it calls */
	uint8_t depth_growth;
	uint8_t flags;        /* OPCODE_BUILTIN... */
	const char *callee;   /* what it was specialised for; NULL: none */
};
extern const struct opcode opcodes[][256]; /* of 3.8, 3.9...; made by tools/opcodes */
extern const uint32_t opcodes_n;

enum bytecode_builtin {
	BUILTIN_ATTRIBUTE, /* no global at all */
	BUILTIN_NO, BUILTIN_YES,
	BUILTIN_MAYBE,     /* the instruction was not specialised */
};

struct bytecode_site {
	uint8_t kind;        /* OPCODE_CALL, OPCODE_OPERATOR, OPCODE_OTHER */
	bool exact;          /* of a call: it is known which instruction pushed what is called */
	bool named, owned;   /* ... by a name, co_names[own]; an attribute of what co_names[owner] loaded, */
	bool of_global;      /* ... which is a global, or a name of `builtins` */
	uint8_t builtin;     /* enum bytecode_builtin: is `own` one of `builtins`? */
	uint32_t own, owner;
	uint32_t pointer;    /* the offset of a pointer to what is called; 0: none */
	const char *callee;  /* what the instruction was specialised for, or NULL */
	uint32_t n;          /* names that were loaded, the nearest first: indices into co_names */
	uint32_t names[BYTECODE_NAMES];
};

/* `minor`: of 3.x. `offset`: bytes. */
void bytecode__site(uint32_t minor, const uint8_t *code, uint32_t size, uint32_t offset, struct bytecode_site *ret);

#endif
