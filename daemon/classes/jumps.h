/* SPDX-License-Identifier: MIT */
/* Where a function of a module leads: the functions to which its code jumps or calls. Private to this folder.
 * Example: of math_sin(), which ends with a jump to math_1(): {math_1}. */
#pragma once

#include "classes/data.h"
#include "weave/frames.h"

#define JUMPS_FROM 64u

/* The functions that the one at `at` jumps to the begin of (`calls`: or calls), in the first 4 KB of it; how many.
 * Bytes are tried as instructions wherever they could be one: a false one meets the begin of a function by chance
 * only. */
uint32_t jumps__from(const struct data *data, const struct code_frames *frames, uint64_t at, bool calls,
		     uint64_t ret[JUMPS_FROM]);
