/* SPDX-License-Identifier: MIT */
/* CPU and wall time in ns: the unit in which all outputs count. 64 bits hold 584 years of CPU time, so sums
 * over threads and recordings need no test for overflow. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct times {
	uint64_t cpu, wall; /* ns; wall includes waits whose stack is known */
};

/* The one of the two that orders rows and makes shares: wall time in wall-mode recordings. */
static inline uint64_t times__weight(const struct times *times, bool wall)
{
	return wall ? times->wall : times->cpu;
}

static inline void times__add(struct times *to, const struct times *times)
{
	to->cpu += times->cpu;
	to->wall += times->wall;
}
