/* SPDX-License-Identifier: MIT */
/* Samples, waits and thread ends on their way out, in the order in which they came. An item leaves when everything
 * before it has left, and
 *
 *    its CPU time is known                     (item->waits, cpu.c)
 *    its native walk is done                   (item->unfinished, unfinished.c)
 *    it is decided for whom the thread worked  (item->undecided, workers.c)
 *    its stack, and its caller's, is emitted   (emit.c)
 *
 * Each of these has a deadline, so nothing is held for ever. Rows of one thread leave in order of time, which
 * readers rely on. A ring: items are addressed by numbers that only grow, since the array moves when it grows. */
#include <errno.h>
#include <stdlib.h>

#include "profile/internal.h"
#include "wait/wait.h"

#define QUEUE_FIRST 256u
#define QUEUE_KEPT 8192u /* items: more are given back when the queue is empty */

uint32_t queue__length(const struct queue *queue)
{
	return (uint32_t)(queue->end - queue->first);
}

struct item *queue__item(const struct queue *queue, uint64_t number)
{
	return &queue->items[number & (queue->capacity - 1)];
}

/* Doubles. Item numbers stay valid, pointers do not. */
static int grow(struct queue *queue)
{
	struct queue fresh = *queue;
	uint64_t number;

	fresh.capacity = queue->capacity ? queue->capacity * 2 : QUEUE_FIRST;
	fresh.items = malloc((size_t)fresh.capacity * sizeof(*fresh.items));
	if (!fresh.items)
		return -ENOMEM;
	for (number = queue->first; number < queue->end; number++)
		*queue__item(&fresh, number) = *queue__item(queue, number);
	free(queue->items);
	*queue = fresh;
	return 0;
}

int profile__push(struct profile *profile, const struct item *item, uint64_t *ret_number)
{
	struct queue *queue = &profile->queue;
	int err = 0;

	if (queue__length(queue) >= profile->options.pending_max) {
		profile__release(profile, 0, true);
		err = profile__drain(profile, true);
	}
	if (!err && queue__length(queue) == queue->capacity)
		err = grow(queue);
	if (err)
		return err;
	*queue__item(queue, queue->end) = *item;
	*ret_number = queue->end++;
	return 0;
}

void profile__release(struct profile *profile, uint64_t now, bool all)
{
	struct queue *queue = &profile->queue;
	uint64_t number;

	for (number = queue->first; number < queue->end; number++) {
		const struct item *item = queue__item(queue, number);

		if (!all && (now < PROFILE_HOLD_NS || item->row.time > now - PROFILE_HOLD_NS))
			break;
		/* Older items of its thread wait no more. A thread that has ended may not have run for a period:
		 * nothing is given on account, its end gets the rest. */
		if (item->waits)
			cpu__release(profile, item->thread, !item->thread->ending);
	}
}

/* One `samples` event with *n rows. Rows of classes come first: the samples refer to them. */
static int emit_batch(struct profile *profile, uint32_t *n)
{
	struct event event = {.kind = EVENT_SAMPLES};

	int err = classify__emit(profile, profile->sink, false);

	event.samples.n = *n;
	event.samples.rows = profile->rows;
	*n = 0;
	if (err)
		return err;
	return event.samples.n ? profile->sink->event(profile->sink, &event) : 0;
}

static int emit_row(struct profile *profile, struct item *item, uint32_t *n)
{
	int err = classify__item(profile, item);

	profile->rows[(*n)++] = item->row;
	return !err && *n == BATCH_ROWS ? emit_batch(profile, n) : err;
}

/* In wall mode what is no CPU time is a wait. The sampler reports no waits of a thread that exits: it could run, and
 * others did. */
static int emit_rest(struct profile *profile, struct item *item, uint32_t *n)
{
	struct item rest = *item;

	if (!profile->wall || item->wait || item->row.cpu >= item->row.wall)
		return 0;
	rest.wait = rest.ready = true;
	rest.row.cause = WAIT_READY;
	rest.row.time -= item->row.cpu;
	rest.row.wall -= item->row.cpu;
	rest.row.cpu = rest.row.others = rest.row.given = 0;
	item->row.wall = item->row.cpu;
	return emit_row(profile, &rest, n);
}

/* The one place where samples are emitted. Before them: threads that are new, then rows of functions, frames and
 * stacks. give_up: nothing waits any more, what is unknown is emitted as unknown (end of an epoch, a full queue). */
int profile__drain(struct profile *profile, bool give_up)
{
	struct queue *queue = &profile->queue;
	uint32_t n = 0;
	int err;

	err = announce__new(profile, false);
	if (!err && give_up)
		err = unfinished__run(profile, 0, true);
	if (!err)
		err = tables__emit(&profile->tables, profile->sink, give_up);
	for (; !err && queue->first < queue->end; queue->first++) {
		struct item *item = queue__item(queue, queue->first);
		struct thread *thread = item->thread;

		if (item->waits || item->unfinished || item->undecided || item->row.stack > profile->tables.emitted_stacks ||
		    item->row.call > profile->tables.emitted_stacks)
			break;
		thread->emitted = item->row.time > thread->emitted ? item->row.time : thread->emitted;
		if (item->end) {
			err = emit_batch(profile, &n);
			stands__end(profile, item);
			if (!err)
				err = announce__thread_end(profile, thread, item);
			continue;
		}
		item->row.thread = thread->id;
		item->row.caller = item->caller ? item->caller->id : 0;
		stands__row(profile, item);
		err = emit_rest(profile, item, &n);
		err = err ?: emit_row(profile, item, &n);
	}
	if (!queue__length(queue) && queue->capacity > QUEUE_KEPT) {
		free(queue->items);
		queue->items = NULL;
		queue->capacity = 0;
	}
	return err ? err : emit_batch(profile, &n);
}
