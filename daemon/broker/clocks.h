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

#include "broker/perf.h"

/* The open clocks of a session; n 0: none. */
struct cpu_clocks {
	int *fds;
	size_t n;
	struct charge *charge; /* as in perf.h */
};

/* Opens and starts clocks on all CPUs that are online. On error there are none. */
int cpu_clocks__open(struct cpu_clocks *clocks, const struct perf_options *options);
void cpu_clocks__close(struct cpu_clocks *clocks);
