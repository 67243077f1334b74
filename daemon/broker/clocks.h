/* SPDX-License-Identifier: MIT */
/* Clocks of CPUs: timers on each CPU that tick at the session's rate, whichever thread runs there. The sampler takes
 * the ticks that hit a thread of a target.
 *
 * Each CPU has several, with periods without a small common multiple. With a single one, a target that creates
 * threads about three times per period would fall into step with it, because each tick delays the target.
 *
 * Why: the timer of a thread (perf.h) starts when the thread does. A thread that lives shorter than a period is in
 * no sample, and one that lives for some periods is sampled at the same points of its life each time. The phase of a
 * CPU's clock does not depend on when threads start. But it also ticks on idle CPUs, and for all other processes: it
 * is open only while a target creates threads or processes.
 *
 * While a CPU has such clocks, ticks of threads' own timers there are not samples (bpf/tick.h). A CPU without
 * one, such as one that came online later, is sampled by the threads' timers as usual. */
#pragma once

#include <stdint.h>

#include "broker/perf.h"

#define CPU_CLOCKS 8u

/* The open clocks of a session. */
struct cpu_clocks {
	struct clocks_of_cpu {
		int fds[CPU_CLOCKS];
		unsigned n;      /* 0: it is offline */
		uint64_t count;  /* of the first one, as read last: of one that ticks it moves on */
	} *cpus;                 /* NULL: none are open */
	size_t n;
	uint64_t looked;         /* clock__now() */
	struct charge *charge;   /* as in perf.h */
};

/* Opens and starts clocks on all CPUs that are online. Called again, on those that came online since: a clock ends for
 * good when its CPU goes offline. On error there are none, or, called again, those that were there. */
int cpu_clocks__open(struct cpu_clocks *clocks, const struct perf_options *options);
void cpu_clocks__close(struct cpu_clocks *clocks);
