/* The interpreter's functions that weaving has to know, by name. */
#include <stddef.h>
#include <string.h>

#include "weave/weave.h"

static const struct {
	const char *name;
	enum weave_mark mark;
} names[] = {
	{"_PyEval_EvalFrameDefault", WEAVE_EVAL},
	/* Python/ceval.c: 3.11; 3.12 and 3.13; 3.14. 3.12's two halves, where inlining left them.
	 */
	{"_PyEvalFrameClearAndPop", WEAVE_CLEAR},
	{"_PyEval_FrameClearAndPop", WEAVE_CLEAR},
	{"clear_thread_frame", WEAVE_CLEAR},
	{"clear_gen_frame", WEAVE_CLEAR},
	/* Python/frame.c: 3.11; 3.12; 3.13 and later */
	{"_PyFrame_Clear", WEAVE_CLEAR},
	{"_PyFrame_ClearExceptCode", WEAVE_CLEAR},
	{"_PyFrame_ClearLocals", WEAVE_CLEAR},
	/* What those call, if they are inlined into the eval loop. */
	{"_Py_Dealloc", WEAVE_CLEAR},
	{"take_ownership", WEAVE_CLEAR},
};

/* Python/generated_cases.c.h, 3.14: a function for each instruction. */
#define HANDLER_PREFIX "_TAIL_CALL_"
/* tp_dealloc of most types: subtype_dealloc, tupledealloc, gen_dealloc ... */
#define DEALLOC_SUFFIX "dealloc"

enum weave_mark weave__mark(const char *symbol)
{
	size_t len, i, suffix = strlen(DEALLOC_SUFFIX);

	if (!symbol || !*symbol)
		return WEAVE_UNNAMED;
	len = 1 + strcspn(symbol + 1, ".");
	if (!strncmp(symbol, HANDLER_PREFIX, strlen(HANDLER_PREFIX)))
		return WEAVE_HANDLER;
	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (strlen(names[i].name) == len && !memcmp(names[i].name, symbol, len))
			return names[i].mark;
	if (len >= suffix && !memcmp(symbol + len - suffix, DEALLOC_SUFFIX, suffix))
		return WEAVE_CLEAR;
	return WEAVE_CODE;
}
