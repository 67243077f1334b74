/* SPDX-License-Identifier: MIT */
/* Which frames are shown as functions and lines. The interpreter's own native frames (the eval loop, and what it
 * calls for a bytecode) mean nothing to the author of Python code: their time goes to the frame around them. A stack
 * without Python code (the interpreter starts, or collects garbage when it ends) keeps its leaf, so that its time
 * does not go to the function that started the interpreter.
 *
 * `alone`: the frame is the leaf, and the stack has no Python frame. */
#pragma once

#include "events/events.h"

static inline bool frame__is_shown(uint8_t kind, bool alone)
{
	return kind != FUNCTION_INTERPRETER || alone;
}
