/* SPDX-License-Identifier: MIT */
/* Weave: merges the Python frames and the native frames of one sample into one stack in call order. Pure functions.
 *
 * The rule: each time native code enters the interpreter, there is one native frame of the eval loop. It runs the
 * Python frames from an innermost one out to the one with the flag PY_FRAME_ENTRY (3.8 to 3.10: each frame has it). So
 * eval loops and groups of Python frames (each ends with an entry) are equal in number and order. The eval loop's
 * native frames are replaced by the Python frames that they run; all other native frames stay between them.
 *
 * The exceptions: an eval loop that just begins or ends has no Python frame linked; it runs no Python code, so it is
 * the innermost. A loop that destroys its last frame has none, and Python code (__del__) may run below; the walker
 * counts these (PY_FRAME_LOOPS_*). Either stack may be truncated at its outer end. docs/weaving.md explains how each
 * case is recognised. What cannot be decided is counted as a loss: no order is invented.
 *
 * Callers: profile/stack.c for samples, dump/emit.c for dumps. They say the role of each native frame (eval_ranges.h,
 * frame_role__of()) and make frames with names of the items.
 *
 * All arrays are innermost first. Memory: the caller's. Errors: none; see `loss`.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "cprofd/loss.h"
#include "cprofd/record.h"

/* What a native frame means for weaving. */
enum frame_role {
	WEAVE_CODE,     /* ordinary code */
	WEAVE_EVAL,     /* the eval loop: one frame for each time it was entered */
	WEAVE_HANDLER,  /* the function of an instruction in an interpreter with tail calls (3.14+): its
			 * caller's frame is the eval loop's, unless the compiler made that a jump, too */
	WEAVE_BASE,     /* greenlet: a stack begins in this function; frames further out belong to other stacks */
	WEAVE_SWITCHER, /* a function of greenlet without a symbol: may be WEAVE_BASE, or WEAVE_SWITCH */
	WEAVE_SWITCH,   /* greenlet: while it runs, frames further out may be another greenlet's already */
	WEAVE_LEAVE,    /* greenlet: called by WEAVE_SWITCH before anything is overwritten */
	WEAVE_ARRIVE,   /* greenlet: called by WEAVE_SWITCH when all is restored */
	FRAME_ROLES
};

/* The role of a function in the interpreter's module by its symbol (not demangled; NULL, "": none). Suffixes of clones
 * and parts (".cold", ".lto_priv.0") are ignored. */
enum frame_role frame_role__of(const char *symbol);
/* Is this file greenlet's module, which moves C stacks? `file_name`: the last part of the path. Then the role of its
 * functions. */
bool weave__switches(const char *file_name);
enum frame_role frame_role__of_switcher(const char *symbol);

/* One stack. Only the flags of python[] are read. */
struct weave_input {
	const struct py_frame *python;
	uint32_t n_python;
	const uint8_t *native;   /* enum frame_role of each */
	uint32_t n_native;
	bool python_whole;       /* false: truncated at its outer end, perhaps to nothing */
	bool native_whole;       /* false: it ended early, or only the inner part was walked */
	bool eval_known;         /* the ranges of the interpreter's eval loop are known */
};

enum weave_kind {
	WEAVE_PYTHON,       /* index: into python[] */
	WEAVE_NATIVE,       /* index: into native[] */
	WEAVE_CUT_PYTHON,   /* here Python frames are missing */
	WEAVE_CUT_NATIVE,   /* here native frames are missing */
	WEAVE_LEFT_OUT,     /* here native frames were left out, see `loss` */
};

/* One frame of the merged stack, or a note (WEAVE_CUT_..., WEAVE_LEFT_OUT), whose index is 0. */
struct weave_item {
	uint32_t kind;      /* enum weave_kind */
	uint32_t index;
};

struct weave_result {
	uint32_t n;         /* items */
	uint16_t loss;      /* LOSS_WEAVE_COUNT, LOSS_WEAVE_NO_EVAL or 0 */
	bool guess;         /* one possible order of several: LOSS_WEAVE_GUESS */
};

/* What greenlet does to a stack (docs/weaving.md). */
enum weave_greenlet {
	WEAVE_NO_GREENLET, /* nothing: all native frames belong to it */
	WEAVE_GREENLET,    /* it is a greenlet's: the native frames end, whole, where the greenlet begins */
	WEAVE_SWITCHES,    /* one greenlet is left for another: of the native frames only those of the switch are certain */
};

/* Limits the native frames to those that belong to the Python frames. A function counts as a greenlet's begin only if there
 * are as many eval loops inside of it as groups of Python frames. WEAVE_SWITCHES: native_whole is false then; there are no
 * Python frames if it is not certain whose they are, and they may end without an entry frame (LOSS_FRAME_HALF) though none is missing. */
enum weave_greenlet weave__greenlet(struct weave_input *input);

/* Items beyond the frames themselves. */
#define WEAVE_ITEMS_MORE 3u

/* `items` has room for n_python + n_native + WEAVE_ITEMS_MORE. Each Python frame is in the result once; each native
 * frame at most once, in its order. O(n_python + n_native). */
void weave(const struct weave_input *input, struct weave_item *items, struct weave_result *ret);
