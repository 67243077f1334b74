/* SPDX-License-Identifier: MIT */
/* Time as the kernel's programs have it: CLOCK_MONOTONIC of bpf_ktime_get_ns(), CLOCK_BOOTTIME of a task's start. ns.
 *
 * In a time namespace (time_namespaces(7)) the clocks that a process reads, and the starts in /proc/PID/stat, are shifted against
 * those of the kernel. What these functions return is not: so all times of a session are of one clock, whatever namespace the
 * daemon runs in. Threads: any. */
#ifndef CPROFD_CLOCK_H
#define CPROFD_CLOCK_H

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

/* A start that /proc told, as the kernel's programs have it. */
static inline uint64_t clock__of_proc(uint64_t boottime)
{
	return boottime - (uint64_t)clock__boottime_ahead;
}

/* `time`, which is one of clock__now(), for waits until CLOCK_MONOTONIC. */
static inline struct timespec clock__until(uint64_t time)
{
	time += (uint64_t)clock__monotonic_ahead;
	return (struct timespec){.tv_sec = (time_t)(time / 1000000000u), .tv_nsec = (long)(time % 1000000000u)};
}

#endif
