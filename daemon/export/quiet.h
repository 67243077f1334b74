/* Threads that hardly ran: of wall time, the waiting of one that nobody needs (of a pool) would make half of all, so it is told
 * apart. Less than 0.1 % of the CPU time of all threads; and 1 % of their wall time or more, as less changes no share much. */
#ifndef CPROFD_EXPORT_QUIET_H
#define CPROFD_EXPORT_QUIET_H

#include <stdbool.h>
#include <stdint.h>

#define QUIET_CPU 1000u
#define QUIET_WALL 100u

/* ns: of the thread, and of all. */
static inline bool thread__is_quiet(uint64_t cpu, uint64_t wall, uint64_t all_cpu, uint64_t all_wall)
{
	return cpu < all_cpu / QUIET_CPU && wall >= all_wall / QUIET_WALL;
}

#endif
