/* Which frames of a stack are told as functions and lines. The interpreter's own native frames (the
 * eval loop, what it calls for a bytecode) say nothing to who wrote the Python code: their time is
 * that of the frame around them. The outermost frame is told all the same where nothing else of the
 * stack is: the time must be somewhere.
 *
 * Walk a stack from its leaf; `alone`: no frame inside of this one was told. */
#ifndef CPROFD_EXPORT_TOLD_H
#define CPROFD_EXPORT_TOLD_H

#include <stdbool.h>
#include <stdint.h>

#include "events/events.h"

static inline bool frame__is_told(uint8_t kind, bool outermost, bool alone)
{
	return kind != FUNCTION_INTERPRETER || (outermost && alone);
}

#endif
