/* Callees: what Python code called. Of the native frames between two Python frames it is the one that is nearest to the
 * caller, not counting the interpreter's own, nor a trampoline that called another one. Walk a stack from its leaf. */
#ifndef CPROFD_EXPORT_CALLEE_H
#define CPROFD_EXPORT_CALLEE_H

#include <string.h>

#include "export/model.h"

struct callee_finder {
	uint32_t candidate; /* frame; UINT32_MAX: none */
};
#define CALLEE_FINDER_NONE ((struct callee_finder){UINT32_MAX})

/* Code that calls what Python code asked it to call. */
static inline bool callee__is_trampoline(const struct model_frame *frame)
{
	return !strncmp(frame->kind == FUNCTION_CALL ? frame->name : frame->module, "_ctypes.", 8) ||
	       !strncmp(frame->module, "libffi.so", 9);
}

/* The next frame outwards. True: it is a Python frame, and what it called is `*ret`. */
static inline bool callee_finder__frame(struct callee_finder *finder, const struct model_frame *look, uint32_t frame,
					uint32_t *ret)
{
	bool callee = look->kind == FUNCTION_NATIVE || look->kind == FUNCTION_JIT || look->kind == FUNCTION_CALL;

	if (callee && (finder->candidate == UINT32_MAX || !callee__is_trampoline(look)))
		finder->candidate = frame;
	if (look->kind != FUNCTION_PYTHON)
		return false;
	*ret = finder->candidate;
	finder->candidate = UINT32_MAX;
	return *ret != UINT32_MAX;
}

#endif
