/* SPDX-License-Identifier: MIT */
/* Machine code that has no call frame information: where its frames are, by following what its
 * instructions do to the stack pointer and to the registers that a caller expects to be kept.
 *
 *   bytes --code_decode()--> operations --code__run()--> a state before each instruction -> rows
 *
 * A function begins with its return address on top of the stack, so that the CFA is the stack pointer +
 * MACHINE_ENTRY_CFA there. From there on each register and each word of the stack that was written is one of: CFA + constant;
 * what the stack pointer became where it was aligned + constant; what a register held at the entry; anything.
 * Where ways come together only what all of them say is kept: a state is true or says less, and
 * where nothing is left by which the CFA is found, the row says why. Nothing is guessed:
 *
 * - a call keeps the registers that the calling convention says, unless its code goes on in a state that cannot be
 *   (another way comes there with another stack pointer, or it returns with one that is not the
 *   CFA's): then it is one of a function that never returns;
 * - code that only an indirect jump can reach has the state of the jump, when all such jumps of the
 *   function agree, and what follows from it contradicts nothing.
 *
 * What is trusted: that code keeps to the calling convention where it can be called from C, and
 * that a store through a pointer does not hit saved registers.
 *
 * Bounded: bytes, operations, states and steps (below); what is larger is said to be.
 * Owner: the caller owns all it gives; states are valid during the call. Threads: none of it is
 * kept. Errors: -errno. */
#ifndef CPROFD_UNWIND_CODE_H
#define CPROFD_UNWIND_CODE_H

#include "arch/operation.h"
#include "unwind/cfi.h"

#define CODE_FUNCTION_MAX (1u << 20) /* bytes of one function */
#define CODE_BLOCKS_MAX (1u << 16)   /* of one function */
#define CODE_STEPS_MAX (4u << 20)    /* operations that are followed in one, all in all */

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

/* A word of the stack that holds something known. */
struct code_slot {
	struct code_value place; /* FRAME or BASED */
	struct code_value value;
};

#define CODE_SLOTS 12u
struct code_state {
	struct code_value regs[CODE_REGISTERS];
	struct code_slot slots[CODE_SLOTS];
	uint32_t n_slots;
	uint32_t base; /* which operation made the base */
	bool first;    /* the frame pointer was set to 0 without having been saved: a thread's first
			  function does that */
	bool signal;   /* the stack pointer points to what the kernel saved for a signal's handler */
};

void code_state__entry(struct code_state *ret);
/* What holds after `op` (at `at`), which does not end the way. */
void code_state__step(struct code_state *state, const struct code_op *op, uint32_t at);
/* Keeps in `state` what `other` says, too. True: it says less than before. */
bool code_state__meet(struct code_state *state, const struct code_state *other);
/* Nothing but the return address is on the stack, and all that a callee keeps is as it was. */
bool code_state__is_fresh(const struct code_state *state);
/* As call frame information would say it: -1, or enum unwind_unsupported. */
int code_state__cfi(const struct code_state *state, struct cfi_state *ret);
/* The word at CFA + at; ANY when nothing is known. */
struct code_value code_state__word(const struct code_state *state, struct code_value place);

/* --- functions --- */

struct code_entry {
	uint32_t at;			/* after the function's first byte */
	const struct code_state *state; /* NULL: it is called */
};

struct code_function {
	const uint8_t *bytes;
	uint32_t size;
	uint64_t address;
	const struct code_entry *entries;
	uint32_t n_entries;
	bool half; /* it may be entered in other ways, too: a cold half of another function */
};

struct code_rows {
	/* Before the instruction at `pc`, and after it where nothing else is said. `state` NULL:
	 * it is not known, `why` says why. Ascending. */
	int (*row)(struct code_rows *self, uint64_t pc, const struct code_state *state, int why);
	/* The way goes on at `target`, out of the function; may be NULL. */
	int (*leaves)(struct code_rows *self, uint64_t target, const struct code_state *state);
	bool each; /* rows also where nothing can have changed */
};

/* The function that holds the byte at `place`, of code that no symbol names and that begins with a
 * function's first byte, or with padding: [*ret_start, *ret_end). All its ways out must leave the stack as a
 * function does that was entered where it begins, or -ENOENT: it cannot be told. */
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

#endif
