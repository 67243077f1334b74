/* SPDX-License-Identifier: MIT */
/* Threads that hardly ran: of wall time, the waiting of one that nobody needs (of a pool) would make half of all, so it is shown
 * apart, and is part of no share, in any output. Less than 0.1 % of the CPU time of all threads; and 1 % of their wall time or more, as less changes no share much. */
#ifndef CPROFD_EXPORT_QUIET_H
#define CPROFD_EXPORT_QUIET_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"

#define QUIET_CPU 1000u
#define QUIET_WALL 100u

/* ns: of the thread, and of all. */
static inline bool thread__is_quiet(uint64_t cpu, uint64_t wall, uint64_t all_cpu, uint64_t all_wall)
{
	return cpu < all_cpu / QUIET_CPU && wall >= all_wall / QUIET_WALL;
}

/* Which threads of a recording are, by their ids in a model of it that is read with the same options: char by thread. For who takes samples
 * as they come, before it is known. A recording of CPU time has none, and one from a pipe is read once only: *ret_unknown. At the
 * recording's begin afterwards. -ENOMEM. */
struct export_options;
int quiet__find(int recording_fd, const struct export_options *how, struct buf *ret, bool *ret_unknown);

static inline bool quiet__is(const struct buf *quiet, uint32_t thread)
{
	return thread < quiet->len && quiet->data[thread];
}

#endif
