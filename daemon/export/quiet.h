/* SPDX-License-Identifier: MIT */
/* Quiet threads: those that hardly ran. The waits of one idle pool thread could be half of all wall time, so quiet
 * threads are shown separately and are not part of any share, in all outputs. A thread is quiet if it has less than
 * 0.1 % of the CPU time of all threads, and at least 1 % of their wall time; with less it would not change the
 * shares much. */
#pragma once

#include "base/buf.h"

/* 1/1000 of all CPU time, 1/100 of all wall time. */
#define QUIET_CPU 1000u
#define QUIET_WALL 100u

/* ns of the thread, and of all threads. */
static inline bool thread__is_quiet(uint64_t cpu, uint64_t wall, uint64_t all_cpu, uint64_t all_wall)
{
	return cpu < all_cpu / QUIET_CPU && wall >= all_wall / QUIET_WALL;
}

/* A first pass over a recording, from its start: which threads are quiet, one char for each thread id of a model that is read with
 * the same options. For readers that handle samples as they come, before that is known. A recording of CPU time has
 * no quiet threads; one from a pipe can be read only once: *ret_unknown. Afterwards the fd is at the start, a pipe where it was. -ENOMEM. */
struct export_options;
int quiet__find(int recording_fd, const struct export_options *how, struct buf *ret, bool *ret_unknown);

static inline bool quiet__is(const struct buf *quiet, uint32_t thread)
{
	return thread < quiet->len && quiet->data[thread];
}
