/* SPDX-License-Identifier: MIT */
/* Finds the threads of a recording that hardly ran (export/quiet.h), in a first pass, so that the second pass can
 * leave their waits out of its sums.
 *
 * Memory: one entry per thread. One thread. Errors: -ENOMEM. Zero-initialised is empty. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "aggregate/sums.h"
#include "events/events.h"

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
