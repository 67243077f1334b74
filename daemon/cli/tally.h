/* SPDX-License-Identifier: MIT */
/* Sums of a recording for the summary: exclusive and inclusive CPU time of each function, times of classes and
 * threads, and the last ledger.
 *
 * Native frames of the interpreter are not functions here: their time belongs to the frame around them.
 *
 * It is an event sink: pass it to recording__read(). Memory: the tables of one epoch, and one row per function of
 * all epochs. Errors: -ENOMEM. */
#pragma once

#include "events/events.h"
#include "aggregate/sums.h"

/* One row of the summary's table. `line` is the function's first line, or with `lines` the line itself; 0:
 * not known. With waits in the recording, times are wall time. */
struct tally_function {
	const char *name, *file; /* owned by the tally */
	uint32_t line;
	/* exclusive and inclusive time, ns */
	uint64_t self, total;
};

struct tally_loss {
	const char *name;
	uint64_t count;
};

struct tally_class {
	const char *name;        /* owned by the tally */
	uint64_t cpu;            /* ns */
};

/* Where native stacks end that are not whole: the loss, and the innermost code that has no caller. */
struct tally_stop {
	char loss[32], module[64], function[128]; /* truncated */
	/* offset: address within the module's file; count: of stacks */
	uint64_t offset, count;
};
#define TALLY_STOPS 16u

struct tally;
/* `lines`: rows are lines of functions, where the line is known. `thread_sums`: from a first pass, or NULL. With it,
 * the waits of threads that hardly ran are summed up as `quiet`, apart from functions and classes. */
struct thread_sums;
int tally__new(bool lines, struct thread_sums *thread_sums, struct tally **ret);
/* Accepts NULL; returns NULL. */
void tally__free(struct tally *tally);
/* Owned by the tally. Give each event once, in order. */
struct event_sink *tally__sink(struct tally *tally);

struct tally_result {
	bool lines;                    /* functions are lines */
	uint32_t rate;                 /* requested, Hz */
	/* by the ledger: samples that were taken, and those with a whole stack; 0: no ledger yet */
	uint64_t samples, whole;
	uint64_t native, native_whole; /* by the ledger; native 0: no native stacks */
	struct tally_stop stops[TALLY_STOPS]; /* where the incomplete ones end, most frequent first */
	uint32_t n_stops;
	uint64_t seen, waits;          /* samples: ticks, and waits (with waits, shares are of wall time) */
	uint64_t cpu, wall;            /* ns, sums over the threads */
	uint64_t unsampled;            /* of cpu: what threads ran after their last sample, or without one */
	uint64_t quiet;                /* of wall: of threads that hardly ran */
	uint32_t quiet_threads;
	uint64_t span;                 /* ns from the session's start to its end */
	uint64_t gap_events;
	uint32_t threads, processes;
	const char *unsupported;       /* an unsupported Python version that ran; NULL: none */
	const struct tally_loss *losses; /* of the last ledger */
	uint32_t n_losses;
	const struct tally_class *classes; /* heaviest first; those without time, too */
	uint32_t n_classes;
	const struct tally_function *functions; /* those with time of their own, heaviest first */
	uint32_t n_functions;
};
/* After the reading; valid until the tally is freed. */
int tally__finish(struct tally *tally, struct tally_result *ret);

/* --- thread_sums.c --- */
/* Finds the threads of a recording that hardly ran (export/quiet.h), in a first pass, so that the second pass can
 * leave their waits out of its sums.
 *
 * Memory: one entry per thread. One thread. Errors: -ENOMEM. Zero-initialised is empty. */
/* Thread id of an epoch -> index in thread_sums.threads + 1; 0: unknown. */
struct thread_ids {
	struct buf ids; /* uint32_t */
};

/* The first pass: its sink, and the times of each thread. `ids` is for reading only. The second pass needs a
 * thread_ids of its own, which goes through the epochs again. */
struct thread_sums {
	struct event_sink sink;
	struct sums threads; /* by tid and start time */
	struct thread_ids ids;
	/* of all threads, the unknown ones included */
	struct times all;
};

void thread_sums__init(struct thread_sums *thread_sums); /* then give its sink to recording__read() */
void thread_sums__free(struct thread_sums *thread_sums);
/* By the rule of export/quiet.h. `thread`: of thread_ids__thread(). */
bool thread_sums__is_quiet(const struct thread_sums *thread_sums, uint32_t thread);
uint32_t thread_sums__quiet(const struct thread_sums *thread_sums); /* how many */

/* Enters a thread of the current epoch, in the second pass too, where its sums exist already. */
int thread_ids__add(struct thread_ids *ids, struct thread_sums *thread_sums, const struct event_thread *event);
uint32_t thread_ids__thread(const struct thread_ids *ids, uint32_t id);
void thread_ids__free(struct thread_ids *ids);
