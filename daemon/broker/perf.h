/* SPDX-License-Identifier: MIT */
/* The perf events of a session: one software clock for each thread of its targets.
 *
 * An event belongs to a thread, on whichever CPU it runs, and ticks only while the thread runs: an idle target and
 * all other processes cost nothing. Threads that are created by a thread with an event inherit it inside the kernel,
 * without a race.
 *
 * The period is random, somewhat shorter than requested, and the sampler takes a random selection of the ticks, so
 * that the rate is as requested (is_chosen() in bpf/tick.h). With exactly the requested period, a program
 * whose loop takes as long would always be sampled at the same point.
 *
 * At the start there is a race: a thread without an event may create another one while the list of threads is being
 * read. So the list is read again. If it shows a new thread, it is unknown whether that inherited an event; all
 * events are closed (inherited ones, too) and opened again. If a target never stops creating threads, then after
 * some rounds each new thread gets an event: some of them may tick twice as often, which costs time but does not
 * change results, because a sample's weight is its thread's own CPU time. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "broker/quota.h"

struct perf_options {
	uint32_t rate;        /* Hz */
	bool follow_children; /* inherit across fork too */
	int program;          /* fd of the sampler */
	bool switches;        /* an event that fires as the thread leaves its CPU, not inherited */
};

/* One thread that was in /proc/PID/task. */
struct perf_thread {
	pid_t tid;
	int fd;               /* -1: it ended before an event was opened */
};

struct perf_events {
	struct perf_thread *threads; /* those in the list; inherited events are not here */
	uint32_t n, capacity;
	struct charge *charge; /* the user's account for descriptors; NULL: not counted */
};

/* Opens events for all threads of `pid`, and adds them to `events`. They tick after perf_events__enable(). -ESRCH:
 * the process ended; -EDQUOT: the user's limit of descriptors is reached. */
int perf_events__open(struct perf_events *events, pid_t pid, const struct perf_options *options);
/* Opens an event for one thread of `pid`, which fires at once. */
int perf_events__add(struct perf_events *events, pid_t pid, pid_t tid, const struct perf_options *options);
/* The kernel took its events away, in an exec: opens new ones, which tick at once. */
int perf_events__renew(struct perf_events *events, pid_t pid, const struct perf_options *options);
int perf_events__enable(struct perf_events *events);
/* Number of threads that got an event here. */
size_t perf_events__count(const struct perf_events *events);
void perf_events__close(struct perf_events *events);

/* A random number from `least` to `most`. */
uint64_t perf__draw(uint64_t least, uint64_t most);

/* Raises the soft limit of descriptors to the hard limit. */
void perf__raise_fd_limit(void);
