/* SPDX-License-Identifier: MIT */
/* Callees: what Python code called. Of the native frames between two Python frames it is the one that is nearest to the
 * caller, not counting the interpreter's own, nor a trampoline that called another one. Walk a stack from its leaf. */
#ifndef CPROFD_EXPORT_CALLEE_H
#define CPROFD_EXPORT_CALLEE_H

#include <string.h>

#include "base/libc_name.h"
#include "export/model.h"
#include "wait/wait.h"

struct callee_finder {
	uint32_t candidate; /* frame; UINT32_MAX: none */
	uint32_t waits;	    /* the frame that says that the GIL is waited for */
	bool called;	    /* the candidate is what an instruction called */
};
#define CALLEE_FINDER_NONE ((struct callee_finder){UINT32_MAX, UINT32_MAX, false})

/* Code that calls what Python code asked it to call. */
static inline bool callee__is_trampoline(const struct model_frame *frame)
{
	return !strncmp(frame->kind == FUNCTION_CALL ? frame->name : frame->module, "_ctypes.", 8) ||
	       !strncmp(frame->module, "libffi.so", 9);
}

/* Between two instructions nothing was called, whatever the interpreter waits in. */
static inline bool callee__is_gil(const struct model_frame *frame)
{
	return frame->kind == FUNCTION_NOTE && !strcmp(frame->name, wait__frame(WAIT_GIL));
}

/* The next frame outwards. True: it is a Python frame, and what it called is `*ret`. */
static inline bool callee_finder__frame(struct callee_finder *finder, const struct model_frame *look, uint32_t frame,
					uint32_t *ret)
{
	bool callee = look->kind == FUNCTION_NATIVE || look->kind == FUNCTION_JIT || look->kind == FUNCTION_CALL;

	if (callee && (finder->candidate == UINT32_MAX || !callee__is_trampoline(look)))
		finder->candidate = frame;
	finder->called |= callee && (look->kind != FUNCTION_NATIVE || !libc_name__is(look->module));
	if (callee__is_gil(look))
		finder->waits = frame;
	if (look->kind != FUNCTION_PYTHON)
		return false;
	*ret = finder->called || finder->waits == UINT32_MAX ? finder->candidate : finder->waits;
	*finder = CALLEE_FINDER_NONE;
	return *ret != UINT32_MAX;
}

#endif
