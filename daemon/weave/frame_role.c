/* SPDX-License-Identifier: MIT */
/* Roles of native frames by symbol: the eval loop of the interpreter, and greenlet's functions that switch C stacks. */
#include <string.h>

#include "weave/weave.h"

#define EVAL "_PyEval_EvalFrameDefault"
/* Python/generated_cases.c.h, 3.14: a function for each instruction. */
#define HANDLER_PREFIX "_TAIL_CALL_"

/* Called for each function of the interpreter's module, not for each frame: its result is cached with the name. */
enum frame_role frame_role__of(const char *symbol)
{
	if (!symbol || !*symbol)
		return WEAVE_CODE;
	if (!strncmp(symbol, HANDLER_PREFIX, strlen(HANDLER_PREFIX)))
		return WEAVE_HANDLER;
	if (strcspn(symbol, ".") == strlen(EVAL) && !memcmp(symbol, EVAL, strlen(EVAL)))
		return WEAVE_EVAL;
	return WEAVE_CODE;
}

bool weave__switches(const char *file_name)
{
	return !strncmp(file_name, "_greenlet.", 10) || !strncmp(file_name, "greenlet.", 9);
}

/* A greenlet's stack begins in the function that calls the greenlet's Python function: UserGreenlet::inner_bootstrap()
 * since greenlet 2.0, g_initialstub() before (static functions; src/greenlet). */
enum frame_role frame_role__of_switcher(const char *symbol)
{
	if (!symbol || !*symbol)
		return WEAVE_SWITCHER;
	return strstr(symbol, "inner_bootstrap") || strstr(symbol, "g_initialstub") ? WEAVE_BASE : WEAVE_CODE;
}
