/* Bytecode: what the instruction at an offset does, and which names the instructions before it load. Read from a living
 * interpreter's memory: 3.11+ rewrites instructions into specialised ones in place, which the tables know.
 *
 * All bytes are the target's. Threads: any. Errors: none; what does not decode is OPCODE_OTHER.
 */
#ifndef CPROFD_CLASSES_BYTECODE_H
#define CPROFD_CLASSES_BYTECODE_H

#include <stdint.h>

#define OPCODE_FIRST 8 /* 3.8 */
#define OPCODE_VERSIONS 8
#define BYTECODE_NAMES 16u

enum opcode_kind {
	OPCODE_OTHER,
	OPCODE_EXTENDED, /* EXTENDED_ARG */
	OPCODE_NAME,     /* loads co_names[arg] or an attribute of that name */
	OPCODE_NAME_1,   /* co_names[arg >> 1] */
	OPCODE_NAME_2,
	OPCODE_CALL,     /* 3.8 to 3.10: CALL_FUNCTION, CALL_METHOD...; 3.11: PRECALL, CALL; 3.13: CALL_KW */
	OPCODE_OPERATOR, /* an operator, a subscript, an iteration: what slots are for */
};

struct opcode {
	uint8_t kind, caches; /* caches: of 2 bytes, which follow */
};
extern const struct opcode opcodes[OPCODE_VERSIONS][256];

struct bytecode_site {
	uint8_t kind;        /* OPCODE_CALL, OPCODE_OPERATOR, OPCODE_OTHER */
	uint32_t n;          /* names loaded last before it, the newest first: indices into co_names */
	uint32_t names[BYTECODE_NAMES];
};

/* `minor`: of 3.x. `offset`: bytes. */
void bytecode__site(uint32_t minor, const uint8_t *code, uint32_t size, uint32_t offset, struct bytecode_site *ret);

#endif
