/* SPDX-License-Identifier: MIT */
/* A sample record becomes a row, which waits in a queue until all of it is known, and then is emitted.
 *
 *    profile__sample()   which thread, how much time
 *    unfinished__read()  its stack (stack.c), or a copy of the record if that has to wait
 *    profile__push()     into the queue: samples, waits and thread ends, in the order in which they came
 *    profile__drain()    the one place where samples are emitted
 *
 * An item leaves the queue when everything before it has left, and
 *
 *    its CPU time is known                     (item->waits, cpu.c)
 *    its native walk is done                   (item->unfinished)
 *    it is decided for whom the thread worked  (item->undecided, workers.c)
 *    its stack, and its caller's, is emitted   (emit.c)
 *
 * Each of these has a deadline, so nothing is held for ever. Rows of one thread leave in order of time, which
 * readers rely on.
 *
 * Unfinished are samples whose native walk lacked an unwind table, or whose interpreter's eval loop is not known yet:
 * they wait with a copy of their record until the walk can be done again over the copied stack (codemap__walk()).
 * Bounds: PROFILE_FINISH_NS for each, PROFILE_FINISH_BYTES for all. What does not fit is read at once with what is
 * known (`last`). */
#include <errno.h>
#include <stdlib.h>

#include "collect/collect.h"
#include "profile/internal.h"
#include "wait/wait.h"

/* --- the stack, now or later --- */

/* With --gil, a tick of a thread that does not hold the GIL: one note instead of a stack. It counts as whole. */
static int without_gil(struct profile *profile, struct item *item)
{
	uint32_t frame;
	int err = tables__says(&profile->tables, "(without the GIL)", &frame);

	profile->ledger.samples++;
	profile->ledger.whole++;
	err = err ?: tables__stack(&profile->tables, 0, frame, &item->row.stack);
	return err ?: classify__without_gil(profile, item);
}

/* Sets item->row.stack, or says -EAGAIN: later. `last`: there is no later; the walk's result is taken as it is. */
static int read_now(struct profile *profile, const struct sample *sample, bool last,
		    struct item *item)
{
	const struct part_native_frames *native = sample->native;
	const bool walks = codemap__walks(profile->options.codemap);
	struct part_native_frames *walked = (void *)profile->stack->native;
	bool again = walks && native && native->part.loss && sample->stack;
	int err;

	if (profile->options.gil && !(sample->record->flags & (SAMPLE_GIL | SAMPLE_OFF_CPU)))
		return without_gil(profile, item);
	err = again ? codemap__walk(profile->options.codemap, sample, last, walked) : -ENOENT;

	if (!last && (err == -EAGAIN || (walks && codemap__awaits_eval(profile->options.codemap, sample))))
		return -EAGAIN;
	if (err)
		walked = (void *)native;
	item->native = walked && profile->options.codemap;
	if (sample->record->flags & SAMPLE_OFF_CPU)
		return waits__locate(profile, item, sample, walked, again);
	item->kernel = classify__kernel(profile, sample, walked);
	err = stack__locate(profile, item->thread, sample, walked, again, &item->row.stack);
	item->thread->stack = item->row.stack;
	item->thread->stack_epoch = profile->epoch;
	workers__ticked(profile, item->thread, sample, item->row.stack);
	return err;
}

int unfinished__now(struct profile *profile, const struct sample *sample, struct item *item)
{
	return read_now(profile, sample, false, item);
}

static bool keep(struct profile *profile, const struct sample *sample, struct item *item)
{
	size_t size = sample->record->header.size;
	struct unfinished *unfinished = NULL;

	if (profile->unfinished_bytes + size <= PROFILE_FINISH_BYTES)
		unfinished = malloc(sizeof(*unfinished) + size);
	if (!unfinished)
		return false;
	unfinished->until = sample->record->header.time + PROFILE_FINISH_NS;
	sample__copy(sample, unfinished->bytes, &unfinished->sample);
	item->unfinished = unfinished;
	profile->n_unfinished++;
	profile->unfinished_bytes += size;
	return true;
}

static void drop(struct profile *profile, struct item *item)
{
	profile->n_unfinished--;
	profile->unfinished_bytes -= item->unfinished->sample.record->header.size;
	free(item->unfinished);
	item->unfinished = NULL;
}

int unfinished__read(struct profile *profile, const struct sample *sample, struct item *item)
{
	const struct part_native_frames *native = sample->native;
	int err = read_now(profile, sample, false, item);

	if (codemap__walks(profile->options.codemap) && native && native->part.loss && sample->stack && !(sample->record->flags & SAMPLE_OFF_CPU))
		profile->ledger.again[native->part.loss]++;
	if (err != -EAGAIN || keep(profile, sample, item))
		return err == -EAGAIN ? 0 : err;
	return read_now(profile, sample, true, item);
}

/* In order of the queue: once one still waits (`blocked`), decisions about workers that come after it wait as well,
 * as they depend on earlier stacks. */
int unfinished__run(struct profile *profile, uint64_t now, bool all)
{
	struct queue *queue = &profile->queue;
	bool blocked = false;
	int err = 0;

	for (uint64_t number = queue->first;
	     !err && (profile->n_unfinished || (profile->n_undecided && !blocked)) && number < queue->end; number++) {
		struct item *item = queue__item(queue, number);
		const struct unfinished *unfinished = item->unfinished;

		if (item->undecided && !blocked)
			err = workers__decide(profile, item, all || now >= item->row.time + PROFILE_FINISH_NS);
		else if (!blocked && !unfinished && profile->n_undecided && !item->wait && !item->end)
			workers__sampled(profile, item);
		if (!unfinished || err)
			continue;
		err = read_now(profile, &unfinished->sample, all || now >= unfinished->until, item);
		if (err == -EAGAIN) {
			err = 0;
			blocked = true;
			continue;
		}
		drop(profile, item);
	}
	return err;
}

uint32_t profile__unfinished(const struct profile *profile)
{
	return profile->n_unfinished;
}

void unfinished__free(struct profile *profile)
{
	for (uint64_t number = profile->queue.first; number < profile->queue.end; number++)
		free(queue__item(&profile->queue, number)->unfinished);
}

/* --- into the queue --- */

int profile__push(struct profile *profile, const struct item *item, uint64_t *ret_number)
{
	struct queue *queue = &profile->queue;
	int err = 0;

	if (queue__length(queue) >= profile->options.pending_max) {
		profile__release(profile, 0, true);
		err = profile__drain(profile, true);
	}
	return err ?: queue__append(queue, item, ret_number);
}

void profile__release(struct profile *profile, uint64_t now, bool all)
{
	struct queue *queue = &profile->queue;
	uint64_t number = queue->first > queue->released ? queue->first : queue->released;

	for (; number < queue->end; number++) {
		const struct item *item = queue__item(queue, number);

		if (!all && (now < PROFILE_HOLD_NS || item->row.time > now - PROFILE_HOLD_NS))
			break;
		/* Older items of its thread wait no more. A thread that has ended may not have run for a period:
		 * nothing is given on account, its end gets the rest. */
		if (item->waits)
			cpu__release(profile, item->thread, !item->thread->ending);
	}
	queue->released = number;
}

/* --- a tick --- */

/* Has a limit of the epoch been reached? Then a new one begins before the next sample. */
bool profile__full(const struct profile *profile)
{
	return profile->tables.n_stacks >= profile->options.stacks_max ||
	       tables__used(&profile->tables) >= profile->options.bytes_max ||
	       profile->tasks.n_ended >= profile->options.ended_max;
}

/* The wall time of a sample is all that went by since the thread's last row, so that the sum over a thread's rows
 * is exactly the time that it lived in the session. Whatever can fail has to happen before thread->last moves. */
int profile__sample(struct profile *profile, const struct sample *sample)
{
	const struct record_header *header = &sample->record->header;
	struct process *process = life__process(profile, header);
	struct thread *thread = NULL;
	struct item item;
	uint64_t number;
	int err = 0;

	if (process && process->withheld) {
		profile->ledger.own[LOSS_NOT_AUTHORISED]++;
		return 0;
	}
	if (process && !process->ended)
		thread = life__thread(profile, process, header);
	if (!process || (!process->ended && !thread))
		return -ENOMEM;
	if (!thread || thread->end_queued) {
		/* A thread may wait for a CPU between its exit's record and its last instruction. */
		profile->ledger.own[LOSS_THREAD_ENDED]++;
		return 0;
	}
	if (sample->record->flags & SAMPLE_OFF_CPU && profile->wall)
		return waits__keep(profile, thread, sample);
	if (profile__full(profile))
		err = profile__rotate(profile, header->time);
	if (sample->record->flags & SAMPLE_OFF_CPU)
		return err ?: waits__asleep(profile, thread, sample);
	err = err ?: waits__found(profile, thread, header->time);
	err = err ?: waits__woke(profile, thread, sample);
	/* What may fail comes first; from cpu__seen() on the time line of the thread changes. */
	item = (struct item){.thread = thread, .waits = true, .of_cpu = sample->record->flags & SAMPLE_OF_CPU};
	err = err ?: unfinished__read(profile, sample, &item);
	if (err)
		return err;
	cpu__seen(profile, thread, sample->record->cpu_time, header->time > thread->last ? header->time : thread->last);
	if (profile->wall)
		err = waits__unrecorded(profile, thread, header->time);
	if (err) {
		free(item.unfinished);
		return err;
	}
	item.row.time = header->time > thread->last ? header->time : thread->last;
	item.row.wall = item.row.time - thread->last;
	life__lasts(thread, item.row.time);
	thread->samples++;
	if (profile->wall && !(sample->record->flags & SAMPLE_EXITING)) /* no waits of exiting threads are reported */
		waits__ran(thread, &item);
	if (sample->record->flags & SAMPLE_GIL)
		waits__held(thread, header->time);
	err = workers__give(profile, sample, &item);
	err = err ?: profile__push(profile, &item, &number);
	if (err)
		free(item.unfinished);
	else if (item.waits)
		cpu__wait(profile, thread, number);
	return err;
}

/* --- out of the queue --- */

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
	int err = announce__new(profile, false);

	if (!err && give_up)
		err = unfinished__run(profile, 0, true);
	err = err ?: tables__emit(&profile->tables, profile->sink, give_up);
	for (; !err && queue__length(queue); queue__drop(queue)) {
		struct item *item = queue__item(queue, queue->first);
		struct thread *thread = item->thread;

		if (item->waits || item->unfinished || item->undecided || item->row.stack > profile->tables.emitted_stacks ||
		    item->row.call > profile->tables.emitted_stacks)
			break;
		thread->emitted = item->row.time > thread->emitted ? item->row.time : thread->emitted;
		if (item->end) {
			err = emit_batch(profile, &n);
			stands__end(profile, item);
			err = err ?: announce__thread_end(profile, thread, item);
			continue;
		}
		item->row.thread = thread->id;
		item->row.caller = item->caller ? item->caller->id : 0;
		stands__row(profile, item);
		err = emit_rest(profile, item, &n);
		err = err ?: emit_row(profile, item, &n);
	}
	return err ? err : emit_batch(profile, &n);
}
