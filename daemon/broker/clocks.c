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

#include "base/clock.h"
#include "cprofd/record.h"

/* How often each of a CPU's clocks ticks in 8,000,000 periods of the session's rate: together 8,000,000 times, so that
 * the CPU ticks at that rate. They are primes times 1,000, so that two of the clocks rarely tick together. */
static const unsigned ticks[] = {829000, 887000, 941000, 983000, 1031000, 1069000, 1109000, 1151000};
_Static_assert(sizeof(ticks) / sizeof(*ticks) == CPU_CLOCKS, "one period for each clock of a CPU");
#define LOOK_NS 1000000000ull /* between looks at clocks that are open: one that ticks has moved on for sure */
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

static void close_cpu(struct cpu_clocks *clocks, struct clocks_of_cpu *cpu)
{
	if (clocks->charge)
		charge__give(clocks->charge, LIMIT_DESCRIPTORS, cpu->n);
	while (cpu->n)
		close(cpu->fds[--cpu->n]);
	cpu->count = 0;
}

/* A random part is added to one clock and taken from the next, so that the sum stays. Sessions that start at the same
 * time are not in step then. -ENODEV: the CPU is offline. On error it has none. */
static int open_cpu(struct cpu_clocks *clocks, int number, const struct perf_options *options)
{
	struct clocks_of_cpu *cpu = &clocks->cpus[number];
	uint64_t often = CPU_CLOCKS * 1000000ull * (1000000000ull / options->rate), drawn = 0;
	int fd, err = 0;

	for (size_t i = 0; !err && i < CPU_CLOCKS; i++) {
		drawn = i % 2 ? 2 * DRAWN - drawn : perf__draw(0, 2 * DRAWN);
		fd = open_clock(number, often / (ticks[i] - DRAWN + drawn), options);
		err = fd < 0 ? fd : clocks->charge ? charge__take(clocks->charge, LIMIT_DESCRIPTORS, 1) : 0;
		if (!err)
			cpu->fds[cpu->n++] = fd;
		else if (fd >= 0)
			close(fd);
	}
	if (err)
		close_cpu(clocks, cpu);
	return err;
}

/* The kernel takes a clock away from a CPU that goes offline, and does not bring it back; its descriptor tells nothing. */
static bool ticks_on(struct clocks_of_cpu *cpu)
{
	uint64_t before = cpu->count;

	return cpu->n && read(cpu->fds[0], &cpu->count, sizeof(cpu->count)) == sizeof(cpu->count) && cpu->count != before;
}

int cpu_clocks__open(struct cpu_clocks *clocks, const struct perf_options *options)
{
	/* Configured, not only online: numbers of CPUs may have holes. */
	long cpus = sysconf(_SC_NPROCESSORS_CONF);
	bool again = clocks->cpus;
	int err = 0;

	if (cpus < 1 || (again && clock__now() < clocks->looked + LOOK_NS))
		return 0;
	if (!again) {
		clocks->cpus = calloc((size_t)cpus, sizeof(*clocks->cpus));
		clocks->n = clocks->cpus ? (size_t)cpus : 0;
	}
	if (!clocks->cpus)
		return -ENOMEM;
	clocks->looked = clock__now();
	for (size_t i = 0; !err && i < clocks->n; i++) {
		if (ticks_on(&clocks->cpus[i]))
			continue;
		close_cpu(clocks, &clocks->cpus[i]);
		err = open_cpu(clocks, (int)i, options);
		if (err == -ENODEV) /* offline */
			err = 0;
	}
	if (err && !again)
		cpu_clocks__close(clocks);
	return err;
}

void cpu_clocks__close(struct cpu_clocks *clocks)
{
	for (size_t i = 0; i < clocks->n; i++)
		close_cpu(clocks, &clocks->cpus[i]);
	free(clocks->cpus);
	clocks->cpus = NULL;
	clocks->n = 0;
}
