/* The clock of all times: CLOCK_MONOTONIC, as bpf_ktime_get_ns() has it. ns. */
#ifndef CPROFD_CLOCK_H
#define CPROFD_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline uint64_t clock__now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

#endif
