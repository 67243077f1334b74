/* SPDX-License-Identifier: MIT */
/* The events of a session: one software clock for each thread of its target.
 *
 * An event belongs to a thread, on whatever CPU it runs, and ticks while the
 * thread runs: an idle target and all other processes cost nothing. Threads that
 * a thread with an event makes inherit it in the kernel, without a race.
 *
 * Its period is drawn at random, somewhat shorter than the one that was asked for, and the sampler takes so many of its ticks, at
 * random, as make the rate that was asked for (is_chosen() in bpf/tick.h). With the period itself a program whose
 * rounds take as long would be met at one place of them.
 *
 * The race is in the beginning: a thread without an event yet may make another
 * while the list is read. So the list is read again; when it shows a new thread,
 * nobody can tell whether it inherited an event, so all events are closed (which
 * ends the inherited ones too) and opened anew. A target that never ceases to
 * make threads gets, after some rounds, an event for each thread that is new: one
 * of them may then tick twice as often, which costs time but changes no result,
 * as a sample's weight is its thread's own time.
 */
#ifndef CPROFD_BROKER_PERF_H
#define CPROFD_BROKER_PERF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "broker/quota.h"

struct perf_options {
	uint32_t rate;        /* Hz */
	bool follow_children; /* inherit across fork too */
	int program;          /* fd of the sampler */
};

struct perf_thread {
	pid_t tid;
	int fd;               /* -1: it ended before it got one */
};

struct perf_events {
	struct perf_thread *threads; /* those listed; who inherits has none */
	uint32_t n, capacity;
	struct charge *charge; /* who pays for the descriptors; NULL: nobody */
};

/* Opens events for all threads of `pid`; they tick after perf_events__enable.
 * Adds to what `events` holds. -ESRCH: the process ended; -EDQUOT: the user's descriptors do not suffice. */
int perf_events__open(struct perf_events *events, pid_t pid, const struct perf_options *options);
int perf_events__enable(struct perf_events *events);
/* Threads that got an event here. */
size_t perf_events__count(const struct perf_events *events);
void perf_events__close(struct perf_events *events);

/* A number from `least` to `most`, at random. */
uint64_t perf__draw(uint64_t least, uint64_t most);

/* Allows as many fds as the hard limit does. */
void perf__raise_fd_limit(void);

#endif
