/* SPDX-License-Identifier: MIT */
/* Where a function of a module leads. Private to this folder. */
#ifndef CPROFD_CLASSES_JUMPS_H
#define CPROFD_CLASSES_JUMPS_H

#include "classes/data.h"
#include "weave/frames.h"

#define JUMPS_FROM 64u

/* The functions that the one at `at` jumps to the begin of (`calls`: or calls), in the first 4 KB of it; how many. Bytes are tried as
 * instructions wherever they could be one: a false one meets the begin of a function by chance only. */
uint32_t jumps__from(const struct data *data, const struct code_frames *frames, uint64_t at, bool calls,
		     uint64_t ret[JUMPS_FROM]);

#endif
