/* SPDX-License-Identifier: MIT */
/* Sums of a recording for the summary: how often each function was the leaf, how
 * often it was on the stack, and what the ledger says.
 *
 * The interpreter's own native frames are no functions here: their time is that of the frame around them.
 *
 * A sink of events: give it to recording__read(). Weights are CPU nanoseconds.
 * Memory: the tables of one epoch and one entry for each function of all.
 * Errors: -ENOMEM. */
#ifndef CPROFD_CLI_TALLY_H
#define CPROFD_CLI_TALLY_H

#include <stdbool.h>
#include <stdint.h>

#include "events/events.h"

struct tally_function {
	const char *name, *file; /* owned by the tally */
	uint32_t line;
	uint64_t self, total;    /* ns of CPU */
};

struct tally_loss {
	const char *name;
	uint64_t count;
};

struct tally_class {
	const char *name;        /* owned by the tally */
	uint64_t cpu;            /* ns */
};

struct tally_stop {
	char loss[32], module[64], function[128]; /* the begin of longer ones */
	uint64_t offset, count;
};
#define TALLY_STOPS 16u

struct tally;
/* `lines`: each line of a function is one of its own, where it is known. `thread_sums`: of a first reading, or NULL; then what
 * threads waited that hardly ran in it is a sum of its own (`quiet`), and in no function or class. */
struct thread_sums;
int tally__new(bool lines, struct thread_sums *thread_sums, struct tally **ret);
struct tally *tally__free(struct tally *tally);
struct event_sink *tally__sink(struct tally *tally);

struct tally_result {
	bool lines;                    /* functions are lines */
	uint32_t rate;                 /* asked for */
	uint64_t samples, whole;       /* by the ledger */
	uint64_t native, native_whole; /* likewise; native 0: no native stacks */
	struct tally_stop stops[TALLY_STOPS]; /* where the others end, most frequent first */
	uint32_t n_stops;
	uint64_t seen, waits;          /* what the recording holds: ticks, and stretches of waiting (then shares are of wall time) */
	uint64_t cpu, wall;            /* ns, sums over the threads */
	uint64_t stood;                /* ... which samples of other threads stand for */
	uint64_t unsampled;            /* of cpu: what threads ran after their last sample, or without one */
	uint64_t quiet;                /* of wall: of threads that hardly ran */
	uint32_t quiet_threads;
	uint64_t span;                 /* ns from the session's start to its end */
	uint64_t gap_events;
	uint32_t threads, processes;
	const char *unsupported;       /* a Python that ran and whose frames are not read; NULL: none */
	const struct tally_loss *losses; /* of the last ledger */
	uint32_t n_losses;
	const struct tally_class *classes; /* heaviest first; those without time, too */
	uint32_t n_classes;
	const struct tally_function *functions; /* by self, heaviest first */
	uint32_t n_functions;
};
/* After the reading; valid until the tally is freed. */
int tally__finish(struct tally *tally, struct tally_result *ret);

#endif
