/* SPDX-License-Identifier: MIT */
/* Unwinding machine code that has no call frame information: an abstract interpretation follows what its instructions
 * do to the stack pointer and to callee-saved registers.
 *
 *   bytes --code_decoder__run()--> operations --code__run()--> a state before each instruction -> rows
 *
 * A function begins with its return address on top of the stack, so that the CFA is the stack pointer +
 * MACHINE_ENTRY_CFA there. From there on each register and each word of the stack that was written is one of: CFA +
 * constant; what the stack pointer became where it was aligned + constant; what a register held at the entry; anything.
 * Where paths join, only what all of them agree on is kept. So a state is right or incomplete, never wrong; if nothing
 * is left from which the CFA follows, the row has the reason. Nothing is guessed:
 *
 * - a call preserves the registers that the calling convention names. If the code after it then contradicts other paths
 *   (another stack pointer where they join, or a return with a wrong one), the called function never returns;
 * - code that only an indirect jump can reach has the state of that jump, if all such jumps of the function agree and
 *   no contradiction follows.
 *
 * Assumptions: functions that C code can call follow the calling convention, and stores through pointers do not
 * overwrite saved registers.
 *
 * Bounds: bytes, operations, states and steps (below); larger functions get a row that says so. Owner: the caller owns
 * its arguments; states are valid during the call. Threads: any. Errors: -errno. */
#pragma once

#include "arch/operation.h"
#include "unwind/cfi.h"

#define CODE_FUNCTION_MAX (1u << 20) /* bytes of one function */
#define CODE_BLOCKS_MAX (1u << 16)   /* of one function */
#define CODE_STEPS_MAX (4u << 20)    /* operations that are interpreted for one function, repeats included */

/* --- states --- */

enum code_what {
	CODE_IS_ANY,
	CODE_IS_FRAME, /* CFA + at */
	CODE_IS_BASED, /* the base + at: what the stack pointer became when it was aligned, or moved otherwise */
	CODE_IS_ENTRY, /* what register `reg` held at the entry */
};

struct code_value {
	uint8_t what, reg;
	int32_t at;
};

/* A word of the stack whose value is known. */
struct code_slot {
	struct code_value place; /* FRAME or BASED */
	struct code_value value;
};

#define CODE_SLOTS 12u
struct code_state {
	struct code_value regs[CODE_REGISTERS];
	struct code_slot slots[CODE_SLOTS];
	uint32_t n_slots;
	uint32_t base; /* offset of the operation that made the base */
	bool first;    /* the frame pointer was set to 0 without being saved: only a thread's first
			  function does that */
	bool signal;   /* the stack pointer points to the context that the kernel saved for a signal handler */
};

void code_state__entry(struct code_state *ret);
/* Updates the state by `op` (at offset `at`), which does not end the path. */
void code_state__step(struct code_state *state, const struct code_op *op, uint32_t at);
/* Joins two paths: keeps in `state` only what `other` agrees on. True: `state` became weaker. */
bool code_state__meet(struct code_state *state, const struct code_state *other);
/* Is the state that of a function's entry: only the return address on the stack, callee-saved registers unchanged? */
bool code_state__is_fresh(const struct code_state *state);
/* Expresses the state as call frame information: -1, or enum unwind_unsupported if it cannot be. */
int code_state__cfi(const struct code_state *state, struct cfi_state *ret);
/* The value of the stack word at `place`; ANY: unknown. */
struct code_value code_state__word(const struct code_state *state, struct code_value place);

/* --- functions --- */

struct code_entry {
	uint32_t at;			/* offset in the function */
	const struct code_state *state; /* NULL: it is called */
};

struct code_function {
	const uint8_t *bytes;
	uint32_t size;
	uint64_t address;
	const struct code_entry *entries;
	uint32_t n_entries;
	bool half; /* it may have other, unknown entries: the cold part of another function */
};

struct code_rows {
	/* `state` holds before the instruction at `pc`, and from there on until the next row. NULL: it is unknown, for
	 * the reason `why`. Rows ascend. */
	int (*row)(struct code_rows *self, uint64_t pc, const struct code_state *state, int why);
	/* A path leaves the function for `target`; may be NULL. */
	int (*leaves)(struct code_rows *self, uint64_t target, const struct code_state *state);
	bool each; /* a row for each instruction, also where nothing changed */
};

/* Finds the function [*ret_start, *ret_end) that contains the byte at offset `place`, in code without symbols that
 * begins with a function or with padding. The answer is checked: all exits of the function must leave the stack as a
 * function that was entered at its begin does. -ENOENT: not found. */
struct code_bytes {
	const uint8_t *bytes;
	uint32_t size;
	uint64_t address; /* of the first */
};
int code__find(const struct code_decoder *decoder, const struct code_bytes *code, uint32_t place,
	       uint32_t *ret_start, uint32_t *ret_end);

/* 0, or what `rows` returned; -ENOMEM. */
int code__run(const struct code_decoder *decoder, const struct code_function *function,
	      struct code_rows *rows);
