/* SPDX-License-Identifier: MIT */
/* The symbolizer: what is at an address of native code. The stage that follows the mappings of processes fills
 * this interface; profile asks it for each native frame that it has not met.
 *
 * Owner: the implementation is borrowed and outlives who asks. Strings are valid until the next call.
 * Threads: one at a time, the one that drains the rings: find() and changes() take
 * microseconds; what would take longer is made ready elsewhere, and is not known until then.
 * Errors: -errno; -ENOENT is no trouble. Times are CLOCK_MONOTONIC ns.
 */
#ifndef CPROFD_WEAVE_SYMBOLIZER_H
#define CPROFD_WEAVE_SYMBOLIZER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cprofd/record.h"
#include "weave/weave.h"

enum location_kind {
	LOCATION_UNKNOWN,     /* executable memory of nobody knows whom */
	LOCATION_LIBRARY,     /* a program or shared library */
	LOCATION_INTERPRETER, /* the module that has the eval loop: libpython, or python itself */
	LOCATION_JIT,
	LOCATION_VDSO,
	LOCATION_KERNEL,
};

struct callable;

struct code_location {
	uint64_t module;         /* a number that no other module gets during the look-up's life */
	uint64_t function;       /* likewise, in its module: the same for all addresses of a function */
	const char *module_name; /* for people: "libLLVM-14.so.1"; "" if there is none */
	const char *name;        /* for people; "module+0xoffset" where no symbol is */
	bool kept;               /* `name` is valid until new_epoch() */
	uint64_t vaddr;          /* as the module counts (JIT, kernel: an address) */
	uint64_t start;          /* of the function; without a name: of what `name` says */
	uint8_t kind;            /* enum location_kind */
	uint8_t role;            /* enum frame_role: of an interpreter's code */
	const struct callable *callable; /* what Python code calls this function (classes/callables.h); NULL: not told by
				  * any table of the module. Lives as long as the look-up */
	bool stable; /* the answer holds until stable() changes: most of changes() is about JIT code
		      */
	uint64_t from, to;       /* addresses, `address` among them, of which the answer is the same but for `vaddr`; both 0:
				  * it is not known of others. By locate() alone, of what is `lineless` and `stable` */
	bool lineless;           /* line() will not know one of any address there: its function is one place */
	bool pending;            /* the names of its module are being read: name() will know. `name`, `function`
				  * and `start` are those of an address without a name until then */
};

/* The instruction that a Python frame is at, and what it calls, as far as bytecode tells (classes/bytecode.h). */
#define CALL_SITE_NAMES 6u
#define CALL_SITE_NAME 40u
struct call_site {
	uint8_t kind;       /* enum opcode_kind */
	bool exact;         /* it is known which instruction loaded the callee: */
	uint8_t own, owner; /* ... by names[own - 1], an attribute of names[owner - 1]; 0: by no name */
	bool of_global;     /* ... names[owner - 1] is a global */
	uint8_t builtin;    /* enum bytecode_builtin: is names[own - 1] one of `builtins`? */
	bool inlines;       /* 3.11+: no native frame is between a Python function and the one that it calls by an instruction */
	const char *callee; /* what the instruction is specialised for, or NULL */
	uint64_t function;  /* the address of the C function that the callee's descriptor has; 0: not known */
	uint32_t n;         /* those names, and others that were loaded lately, the nearest first */
	char names[CALL_SITE_NAMES][CALL_SITE_NAME];
};

/* place.module of all the kernel's code. */
#define LOCATION_MODULE_KERNEL (1ull << 62)

struct symbolizer {
	/* `address`: a byte of the instruction: of a return address the byte before it. `task`: whose;
	 * the image that was mapped at `time`; the kernel's are those with the highest bit. -ENOENT: nothing
	 * is known to have been there; -EACCES: the kernel hides its names. */
	int (*find)(struct symbolizer *self, const struct record_task *task, uint64_t address,
		    uint64_t time, struct code_location *ret);

	/* The name of what was `pending`. -EAGAIN: it is still; *ret is as find() gave it then. */
	int (*name)(struct symbolizer *self, uint64_t module, uint64_t vaddr, struct code_location *ret);

	/* A number that differs whenever an answer of find() could: what is mapped, JIT code
	 * included, as far as it is known of that time. Answers are kept until it changes. */
	uint64_t (*changes)(struct symbolizer *self, const struct record_task *task, uint64_t time);

	/* Is the eval loop of the interpreter that this process ran at `time` known, so that the absence
	 * of a mark means something? 1, 0; -EAGAIN: it is being looked for. */
	int (*eval_known)(struct symbolizer *self, const struct record_task *task, uint64_t time);

	/* The line of an address in its function (not in what was inlined there). -ENOENT: there is no debug information, or none for it; -EAGAIN:
	 * it is being read. *ret_file may be NULL. May be NULL itself. */
	int (*line)(struct symbolizer *self, uint64_t module, uint64_t vaddr, const char **ret_file,
		    uint32_t *ret_line, uint32_t *ret_column);

	/* The task's memory as it is now: all of `size`, or -EFAULT. May be NULL. */
	int (*read)(struct symbolizer *self, const struct record_task *task, uint64_t address, void *dst, size_t size);

	/* Of the code object that was captured with this key at `code`, and met by the sample `header`: read after that, and proven
	 * to be that one still. -ENOENT: it is not, or cannot be read. May be NULL. */
	int (*site)(struct symbolizer *self, const struct record_header *header, uint64_t key, uint64_t code, uint32_t offset,
		    struct call_site *ret);

	/* A number that differs when line() may say something else than the -EAGAIN of before. May be NULL: each time. */
	uint64_t (*lines_generation)(struct symbolizer *self);

	/* As find(), but of what it told before `name` may be NULL: name() tells it, with `module_name`. Most of what a
	 * find() costs is names, of functions that who asks has. May be NULL: find(). */
	int (*locate)(struct symbolizer *self, const struct record_task *task, uint64_t address, uint64_t time,
		      struct code_location *ret);

	/* As changes(), of answers that are `stable`. May be NULL: changes(). */
	uint64_t (*stable)(struct symbolizer *self, const struct record_task *task, uint64_t time);

	/* The name (PyUFuncObject.name) of the ufunc that a global `owner`, if that is NumPy, has by the name of this attribute; owner NULL: that
	 * is called by the name of this global. -ENOENT, -ENODATA: it is not known. May be NULL. */
	int (*ufunc)(struct symbolizer *self, const struct record_header *header, const char *owner, const char *attribute, char *ret, size_t size);

	/* Names that were `kept` are not used any more. May be NULL. */
	void (*new_epoch)(struct symbolizer *self);
};

#endif
