/* SPDX-License-Identifier: MIT */
/* Weave: the Python frames and the native frames of one sample -> one stack in the true order of
 * calls. Pure functions.
 *
 * What is used: each time that native code enters the interpreter there is one native frame of its
 * eval loop, which runs the Python frames from an innermost one out to the one that is flagged
 * PY_FRAME_ENTRY (3.8 to 3.10: each one is). So the eval loops, counted from either end, and the
 * groups of Python frames that end with an entry, are the same in number and order; the eval loop's
 * own frames are replaced by the Python frames that they run, all others stay between them.
 *
 * What disturbs it: an eval loop that begins or ends is not linked, so that it has no Python frame; as it
 * runs no Python code, it is the innermost. One that destroys its last frame has none, and Python code may run
 * below (__del__): the walker counts those (PY_FRAME_LOOPS_*). Either stack may be cut at its outer end.
 * docs/weaving.md says how each case is told. What cannot be told is a loss: no order is made up.
 *
 * All arrays are innermost first. Memory: the caller's. Errors: none; `loss` says.
 */
#ifndef CPROFD_WEAVE_WEAVE_H
#define CPROFD_WEAVE_WEAVE_H

#include <stdbool.h>
#include <stdint.h>

#include "cprofd/loss.h"
#include "cprofd/record.h"

/* What a native frame is to weaving. */
enum frame_role {
	WEAVE_CODE,     /* has nothing to do with it */
	WEAVE_EVAL,     /* the eval loop: a frame for each time that it was entered */
	WEAVE_HANDLER,  /* an instruction's function in an interpreter of tail calls (3.14+): the frame
			 * that called it is the eval loop's, unless the compiler made that a jump, too */
	WEAVE_BASE,     /* greenlet: a stack begins in this function; what lies further out belongs to other stacks by now */
	WEAVE_SWITCHER, /* a function of greenlet's without a name: it may be such a one */
	FRAME_ROLES
};

/* The mark of a function of the interpreter's own module by its symbol (not demangled; NULL, "": it has
 * none). Suffixes that compilers give to clones and parts (".cold", ".lto_priv.0") do not matter. */
enum frame_role frame_role__of(const char *symbol);
/* Is this the module of greenlet, which moves C stacks? By the last part of its path; and its functions, as above. */
bool weave__switches(const char *file_name);
enum frame_role frame_role__of_switcher(const char *symbol);

struct weave_input {
	const struct py_frame *python;
	uint32_t n_python;
	const uint8_t *native;   /* enum frame_role of each */
	uint32_t n_native;
	bool python_whole;       /* false: cut at its outer end (no frame at all: nothing is known) */
	bool native_whole;       /* false: it ended early, or only so much was asked for */
	bool eval_known;         /* it is known where the interpreter's eval loop lies */
};

enum weave_kind {
	WEAVE_PYTHON,       /* index: into python[] */
	WEAVE_NATIVE,       /* index: into native[] */
	WEAVE_CUT_PYTHON,   /* here Python frames are missing */
	WEAVE_CUT_NATIVE,   /* here native frames are missing */
	WEAVE_LEFT_OUT,     /* here native frames were left out: `loss` */
};

struct weave_item {
	uint32_t kind;      /* enum weave_kind */
	uint32_t index;
};

struct weave_result {
	uint32_t n;         /* items */
	uint16_t loss;      /* LOSS_WEAVE_COUNT, LOSS_WEAVE_NO_EVAL or 0 */
	bool guess;         /* one possible order of several: LOSS_WEAVE_GUESS */
};

/* How many native frames are this stack's own: all; or, where the thread runs a greenlet, those up to where that one's stack begins. It
 * is taken for its begin only if the eval loops inside of it are as many as the groups of Python frames (docs/weaving.md). */
uint32_t weave__own(const struct weave_input *input);

/* Items beyond the frames themselves. */
#define WEAVE_ITEMS_MORE 3u

/* `items` has room for n_python + n_native + WEAVE_ITEMS_MORE. */
void weave(const struct weave_input *input, struct weave_item *items, struct weave_result *ret);

#endif
