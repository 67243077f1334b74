/* SPDX-License-Identifier: MIT */
/* CPU and wall time in ns. */
#ifndef CPROFD_AGGREGATE_TIMES_H
#define CPROFD_AGGREGATE_TIMES_H

#include <stdbool.h>
#include <stdint.h>

struct times {
	uint64_t cpu, wall; /* ns; wall includes waits whose stack is known */
};

static inline uint64_t times__weight(const struct times *times, bool wall)
{
	return wall ? times->wall : times->cpu;
}

static inline void times__add(struct times *to, const struct times *times)
{
	to->cpu += times->cpu;
	to->wall += times->wall;
}

#endif
