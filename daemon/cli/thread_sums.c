/* SPDX-License-Identifier: MIT */
/* CPU and wall time of each thread, from a first pass over the recording: which threads hardly ran is known only at
 * its end. */
#include "cli/tally.h"

#include <errno.h>

#include "export/quiet.h"

#define IDS_MAX (1u << 20) /* threads of an epoch; more count as one without a name */

/* A thread is emitted again in each epoch, with another id: it is recognised by its tid and start time. */
int thread_ids__add(struct thread_ids *ids, struct thread_sums *thread_sums, const struct event_thread *event)
{
	const uint64_t key[] = {(uint32_t)event->tid, event->start};
	uint32_t *thread, known;

	/* A damaged recording could make a table of 4 billion entries. */
	if (event->id >= IDS_MAX)
		return 0;
	thread = buf__at(&ids->ids, sizeof(*thread), event->id);
	if (!thread || sums__id(&thread_sums->threads, key, sizeof(key), &known))
		return -ENOMEM;
	*thread = known + 1;
	return 0;
}

uint32_t thread_ids__thread(const struct thread_ids *ids, uint32_t id)
{
	return id < LENGTH(ids->ids, uint32_t) ? ITEM(ids->ids, uint32_t, id) : 0;
}

void thread_ids__free(struct thread_ids *ids)
{
	buf__free(&ids->ids);
}

/* Time of an unknown thread counts in the sum of all, but for no thread. */
static void add(struct thread_sums *thread_sums, uint32_t id, uint64_t cpu, uint64_t wall)
{
	const uint32_t thread = thread_ids__thread(&thread_sums->ids, id);
	const struct times times = {cpu, wall};

	times__add(&thread_sums->all, &times);
	if (thread)
		sums__add_to(&thread_sums->threads, thread - 1, &times);
}

static int on_event(struct event_sink *self, const struct event *event)
{
	struct thread_sums *thread_sums = (struct thread_sums *)self;

	if (event->kind == EVENT_THREAD)
		return thread_ids__add(&thread_sums->ids, thread_sums, &event->thread);
	if (event->kind == EVENT_THREAD_END)
		add(thread_sums, event->ending.id, event->ending.cpu, event->ending.wall);
	for (uint32_t i = 0; event->kind == EVENT_SAMPLES && i < event->samples.n; i++)
		add(thread_sums, event->samples.rows[i].thread, event->samples.rows[i].cpu, event->samples.rows[i].wall);
	return 0;
}

void thread_sums__init(struct thread_sums *thread_sums)
{
	*thread_sums = (struct thread_sums){.sink.event = on_event};
}

void thread_sums__free(struct thread_sums *thread_sums)
{
	sums__free(&thread_sums->threads);
	thread_ids__free(&thread_sums->ids);
}

bool thread_sums__is_quiet(const struct thread_sums *thread_sums, uint32_t thread)
{
	const struct times *times, *all = &thread_sums->all;

	if (!thread || thread > sums__n(&thread_sums->threads))
		return false;
	times = sums__times(&thread_sums->threads, thread - 1);
	return thread__is_quiet(times->cpu, times->wall, all->cpu, all->wall);
}

uint32_t thread_sums__quiet(const struct thread_sums *thread_sums)
{
	uint32_t i, n = 0;

	/* Numbers begin at 1, as 0 means "unknown". */
	for (i = 1; i <= sums__n(&thread_sums->threads); i++)
		n += thread_sums__is_quiet(thread_sums, i);
	return n;
}
