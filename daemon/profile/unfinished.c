/* SPDX-License-Identifier: MIT */
/* Samples whose native walk lacked an unwind table, or whose interpreter's eval loop is not known yet: they wait in
 * the queue, with a copy of their record, until the walk can be done again over the copied stack (codemap__walk()).
 * Later samples wait behind them, so that order and times are those of the records.
 *
 * Bounds: PROFILE_FINISH_NS for each, PROFILE_FINISH_BYTES for all. What does not fit is read at once with what is
 * known (`last`). */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "collect/collect.h"
#include "profile/internal.h"

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
	err = sample__locate(profile, item->thread, sample, walked, again, &item->row.stack);
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
	uint64_t number;
	int err = 0;

	for (number = queue->first;
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
	uint64_t number;

	for (number = profile->queue.first; number < profile->queue.end; number++)
		free(queue__item(&profile->queue, number)->unfinished);
}
