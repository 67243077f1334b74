/* SPDX-License-Identifier: MIT */
#include "cli/thread_sums.h"

#include <errno.h>

#include "export/quiet.h"

#define IDS_MAX (1u << 20) /* threads of an epoch; more are not told apart */

struct thread_sum {
	int32_t tid;
	uint64_t start, cpu, wall;
};

static uint32_t find(const struct thread_sums *thread_sums, const struct event_thread *event)
{
	uint32_t i;

	/* Told again in each epoch: the latest is the likeliest. */
	for (i = LENGTH(thread_sums->threads, struct thread_sum); i; i--)
		if (ITEM(thread_sums->threads, struct thread_sum, i - 1).tid == event->tid &&
		    ITEM(thread_sums->threads, struct thread_sum, i - 1).start == event->start)
			return i;
	return 0;
}

int thread_ids__add(struct thread_ids *ids, const struct thread_sums *thread_sums, const struct event_thread *event)
{
	uint32_t *thread = event->id < IDS_MAX ? buf__at(&ids->ids, sizeof(*thread), event->id) : NULL;

	if (thread)
		*thread = find(thread_sums, event);
	return thread || event->id >= IDS_MAX ? 0 : -ENOMEM;
}

uint32_t thread_ids__thread(const struct thread_ids *ids, uint32_t id)
{
	return id < LENGTH(ids->ids, uint32_t) ? ITEM(ids->ids, uint32_t, id) : 0;
}

void thread_ids__free(struct thread_ids *ids)
{
	buf__free(&ids->ids);
}

static int on_thread(struct thread_sums *thread_sums, const struct event_thread *event)
{
	const struct thread_sum thread_sum = {.tid = event->tid, .start = event->start};
	int err = find(thread_sums, event) ? 0 : buf__append(&thread_sums->threads, &thread_sum, sizeof(thread_sum));

	return err ?: thread_ids__add(&thread_sums->ids, thread_sums, event);
}

static void add(struct thread_sums *thread_sums, uint32_t id, uint64_t cpu, uint64_t wall)
{
	uint32_t thread = thread_ids__thread(&thread_sums->ids, id);

	thread_sums->cpu += cpu;
	thread_sums->wall += wall;
	if (!thread)
		return;
	ITEM(thread_sums->threads, struct thread_sum, thread - 1).cpu += cpu;
	ITEM(thread_sums->threads, struct thread_sum, thread - 1).wall += wall;
}

static int on_event(struct event_sink *self, const struct event *event)
{
	struct thread_sums *thread_sums = (struct thread_sums *)self;
	uint32_t i;

	if (event->kind == EVENT_THREAD)
		return on_thread(thread_sums, &event->thread);
	if (event->kind == EVENT_THREAD_END)
		add(thread_sums, event->ending.id, event->ending.cpu, event->ending.wall);
	for (i = 0; event->kind == EVENT_SAMPLES && i < event->samples.n; i++)
		add(thread_sums, event->samples.rows[i].thread, event->samples.rows[i].cpu, event->samples.rows[i].wall);
	return 0;
}

void thread_sums__init(struct thread_sums *thread_sums)
{
	*thread_sums = (struct thread_sums){.sink.event = on_event};
}

void thread_sums__free(struct thread_sums *thread_sums)
{
	buf__free(&thread_sums->threads);
	thread_ids__free(&thread_sums->ids);
}

bool thread_sums__is_quiet(const struct thread_sums *thread_sums, uint32_t thread)
{
	const struct thread_sum *thread_sum;

	if (!thread || thread > LENGTH(thread_sums->threads, struct thread_sum))
		return false;
	thread_sum = &ITEM(thread_sums->threads, struct thread_sum, thread - 1);
	return thread__is_quiet(thread_sum->cpu, thread_sum->wall, thread_sums->cpu, thread_sums->wall);
}

uint32_t thread_sums__quiet(const struct thread_sums *thread_sums)
{
	uint32_t i, n = 0;

	for (i = 1; i <= LENGTH(thread_sums->threads, struct thread_sum); i++)
		n += thread_sums__is_quiet(thread_sums, i);
	return n;
}
