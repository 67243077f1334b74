/* SPDX-License-Identifier: MIT */
/* perf events of whole CPUs (pid -1), all with the sampler's one program. The lowest bit of a period tells the
 * sampler that the tick is of a CPU's clock and not of a thread's (CLOCK_OF_CPU in record.h). */
#include "broker/clocks.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "cprofd/record.h"

/* How often each of a CPU's clocks ticks in 8,000,000 periods of the session's rate: together 8,000,000 times, so that
 * the CPU ticks at that rate. They are primes times 1,000, so that two of the clocks rarely tick together. */
static const unsigned ticks[] = {829000, 887000, 941000, 983000, 1031000, 1069000, 1109000, 1151000};
#define CLOCKS (sizeof(ticks) / sizeof(*ticks))
#define DRAWN 15000u /* random part: added to one clock, and subtracted from the next */

/* Disabled until its program is attached: a tick without a program would do nothing but cost. */
static int open_clock(int cpu, uint64_t period, const struct perf_options *options)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE,
		.size = sizeof(attr),
		.config = PERF_COUNT_SW_CPU_CLOCK,
		.sample_period = period | CLOCK_OF_CPU,
		.disabled = 1,
	};
	int fd = syscall(SYS_perf_event_open, &attr, -1, cpu, -1, PERF_FLAG_FD_CLOEXEC);

	if (fd < 0)
		return -errno;
	if (ioctl(fd, PERF_EVENT_IOC_SET_BPF, options->program) || ioctl(fd, PERF_EVENT_IOC_ENABLE, 0)) {
		int err = -errno;

		close(fd);
		return err;
	}
	return fd;
}

/* A random part is added to one clock and taken from the next, so that the sum stays. Sessions that start at the same
 * time are not in step then. */
static int open_cpu(struct cpu_clocks *clocks, int cpu, const struct perf_options *options)
{
	uint64_t often = CLOCKS * 1000000 * (1000000000ull / options->rate), drawn = 0;
	int fd, err;

	for (size_t i = 0; i < CLOCKS; i++) {
		drawn = i % 2 ? 2 * DRAWN - drawn : perf__draw(0, 2 * DRAWN);
		fd = open_clock(cpu, often / (ticks[i] - DRAWN + drawn), options);
		if (fd < 0)
			return fd;
		err = clocks->charge ? charge__take(clocks->charge, LIMIT_DESCRIPTORS, 1) : 0;
		if (err) {
			close(fd);
			return err;
		}
		clocks->fds[clocks->n++] = fd;
	}
	return 0;
}

int cpu_clocks__open(struct cpu_clocks *clocks, const struct perf_options *options)
{
	/* Configured, not only online: numbers of CPUs may have holes. One that is offline is left out by its
	 * -ENODEV. */
	long cpus = sysconf(_SC_NPROCESSORS_CONF);
	int cpu, err;

	if (clocks->n || cpus < 1)
		return 0;
	clocks->fds = calloc((size_t)cpus * CLOCKS, sizeof(*clocks->fds));
	if (!clocks->fds)
		return -ENOMEM;
	for (cpu = 0; cpu < cpus; cpu++) {
		err = open_cpu(clocks, cpu, options);
		if (err && err != -ENODEV) { /* the CPU is offline */
			cpu_clocks__close(clocks);
			return err;
		}
	}
	return 0;
}

void cpu_clocks__close(struct cpu_clocks *clocks)
{
	if (clocks->charge)
		charge__give(clocks->charge, LIMIT_DESCRIPTORS, clocks->n);
	while (clocks->n)
		close(clocks->fds[--clocks->n]);
	free(clocks->fds);
	clocks->fds = NULL;
}
