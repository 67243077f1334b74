/* SPDX-License-Identifier: MIT */
/* Which rows were counted for the current step (a stack, a sample)? Each row has the number of the step that it was
 * last counted for, 0 for none: no set has to be emptied between steps. */
#pragma once

#include "base/buf.h"

/* Begins the next step. `stamps`: a uint32_t of each row; *now: the step's number, 0 before the first. */
static inline void stamps__next(struct buf *stamps, uint32_t *now)
{
	if (++*now)
		return;
	/* It wrapped around: old stamps would look like new ones. */
	if (stamps->len)
		memset(stamps->data, 0, stamps->len);
	*now = 1;
}
