/* The interpreter's functions that weaving has to know, by name. */
#include <string.h>

#include "weave/weave.h"

#define EVAL "_PyEval_EvalFrameDefault"
/* Python/generated_cases.c.h, 3.14: a function for each instruction. */
#define HANDLER_PREFIX "_TAIL_CALL_"

enum weave_mark weave__mark(const char *symbol)
{
	if (!symbol || !*symbol)
		return WEAVE_CODE;
	if (!strncmp(symbol, HANDLER_PREFIX, strlen(HANDLER_PREFIX)))
		return WEAVE_HANDLER;
	if (strcspn(symbol, ".") == strlen(EVAL) && !memcmp(symbol, EVAL, strlen(EVAL)))
		return WEAVE_EVAL;
	return WEAVE_CODE;
}
