/* SPDX-License-Identifier: MIT */
/* Finds callees: what a Python function called. Between two Python frames that is the native frame nearest to the
 * caller, except frames of the interpreter and trampolines that called another function. Example, from the caller
 * inwards: `_PyEval_EvalFrameDefault`, `_ctypes.call`, `LLVMPY_RunPass`: the callee is `LLVMPY_RunPass`. Feed it the
 * frames of a stack from the leaf outwards. */
#pragma once

#include "base/libc_name.h"
#include "export/model.h"
#include "wait/wait.h"

/* State between two Python frames. CALLEE_FINDER_NONE at the leaf and after each Python frame. */
struct callee_finder {
	uint32_t candidate; /* frame; UINT32_MAX: none */
	uint32_t waits;	    /* the frame "waiting for the GIL" */
	bool called;	    /* a bytecode instruction called the candidate */
};
#define CALLEE_FINDER_NONE ((struct callee_finder){UINT32_MAX, UINT32_MAX, false})

/* ctypes and libffi: code that only passes a call on. */
static inline bool callee__is_trampoline(const struct model_frame *frame)
{
	return !strncmp(frame->kind == FUNCTION_CALL ? frame->name : frame->module, "_ctypes.", 8) ||
	       !strncmp(frame->module, "libffi.so", 9);
}

/* Between two instructions the eval loop may wait for the GIL. Then nothing was called, whatever libc frame the wait
 * is in. */
static inline bool callee__is_gil(const struct model_frame *frame)
{
	return frame->kind == FUNCTION_NOTE && !strcmp(frame->name, wait__frame(WAIT_GIL));
}

/* Takes the next frame outwards. True: it is a Python frame, and *ret is the frame that it called. */
static inline bool callee_finder__frame(struct callee_finder *finder, const struct model_frame *row, uint32_t frame,
					uint32_t *ret)
{
	bool callee = row->kind == FUNCTION_NATIVE || row->kind == FUNCTION_JIT || row->kind == FUNCTION_CALL;

	if (callee && (finder->candidate == UINT32_MAX || !callee__is_trampoline(row)))
		finder->candidate = frame;
	/* libc alone proves no call: the eval loop itself waits for the GIL in it. */
	finder->called |= callee && (row->kind != FUNCTION_NATIVE || !libc_name__is(row->module));
	if (callee__is_gil(row))
		finder->waits = frame;
	if (row->kind != FUNCTION_PYTHON)
		return false;
	*ret = finder->called || finder->waits == UINT32_MAX ? finder->candidate : finder->waits;
	*finder = CALLEE_FINDER_NONE;
	return *ret != UINT32_MAX;
}
