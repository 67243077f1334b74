/* SPDX-License-Identifier: MIT */
/* Clocks of CPUs: one tick a period on each CPU, whoever runs there; the sampler takes those that meet a target.
 *
 * They are several on each CPU, of periods that have no small common multiple: a target that makes threads three times a
 * period would fall into step with one clock, as its own ticks delay it.
 *
 * The clocks of threads (perf.h) begin a period when the thread does: who lives shorter is in no sample, and who lives for some
 * periods is met at the same places of its life each time. The phase of a CPU's clock has nothing to do with births. But it
 * ticks on idle CPUs, too, and meets everybody's threads: it is there only while a target makes threads or processes.
 *
 * While a CPU has one, threads' own ticks there are no samples (bpf/tick.h). A CPU that has none, as one that came later, needs none.
 */
#ifndef CPROFD_BROKER_CLOCKS_H
#define CPROFD_BROKER_CLOCKS_H

#include "broker/perf.h"

struct cpu_clocks {
	int *fds;
	size_t n;
	struct charge *charge; /* as in perf.h */
};

/* One for each CPU that is there, ticking. On error there is none. */
int cpu_clocks__open(struct cpu_clocks *clocks, const struct perf_options *options);
void cpu_clocks__close(struct cpu_clocks *clocks);

#endif
