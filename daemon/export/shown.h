/* SPDX-License-Identifier: MIT */
/* Which frames of a stack are shown as functions and lines. The interpreter's own native frames (the
 * eval loop, what it calls for a bytecode) say nothing to who wrote the Python code: their time is
 * that of the frame around them. Where no Python code is around them (the interpreter begins, or
 * ends and collects what is left), the innermost one is shown: the time is not that of who started it.
 *
 * `alone`: it is the innermost of its stack, and no Python frame is around. */
#ifndef CPROFD_EXPORT_SHOWN_H
#define CPROFD_EXPORT_SHOWN_H

#include <stdbool.h>
#include <stdint.h>

#include "events/events.h"

static inline bool frame__is_shown(uint8_t kind, bool alone)
{
	return kind != FUNCTION_INTERPRETER || alone;
}

#endif
