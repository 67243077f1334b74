/* SPDX-License-Identifier: MIT */
/* Time in ns, as BPF programs see it: CLOCK_MONOTONIC as bpf_ktime_get_ns(), CLOCK_BOOTTIME as the start of a task.
 *
 * In a time namespace (time_namespaces(7)) the clocks that a process reads, and the start times in /proc/PID/stat, are
 * shifted. These functions remove the shift, so that all times of a session are of one clock, in whatever namespace the
 * daemon runs. Threads: any. */
#pragma once

#include <stdint.h>
#include <time.h>

/* How far this process's clocks are ahead of the kernel's; 0 outside of time namespaces. Read once, before main(). */
extern int64_t clock__monotonic_ahead, clock__boottime_ahead;

static inline uint64_t clock__read(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static inline uint64_t clock__now(void)
{
	return clock__read(CLOCK_MONOTONIC) - (uint64_t)clock__monotonic_ahead;
}

static inline uint64_t clock__boottime(void)
{
	return clock__read(CLOCK_BOOTTIME) - (uint64_t)clock__boottime_ahead;
}

/* Converts a start time from /proc to the kernel's clock. */
static inline uint64_t clock__of_proc(uint64_t boottime)
{
	return boottime - (uint64_t)clock__boottime_ahead;
}

/* Converts a time of clock__now() to one for waits with CLOCK_MONOTONIC, such as pthread_cond_timedwait(). */
static inline struct timespec clock__until(uint64_t time)
{
	time += (uint64_t)clock__monotonic_ahead;
	return (struct timespec){.tv_sec = (time_t)(time / 1000000000u), .tv_nsec = (long)(time % 1000000000u)};
}
