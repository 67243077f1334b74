#include "cli/rhythm.h"

#include <errno.h>

#include "export/quiet.h"

#define IDS_MAX (1u << 20) /* threads of an epoch; more are not told apart */
#define LENGTH(buf, type) ((uint32_t)((buf).len / sizeof(type)))
#define ITEM(buf, type, i) (((type *)(buf).data)[i])

struct beat {
	int32_t tid;
	uint64_t start, cpu, wall;
};

static uint32_t find(const struct rhythm *rhythm, const struct event_thread *event)
{
	uint32_t i;

	/* Told again in each epoch: the latest is the likeliest. */
	for (i = LENGTH(rhythm->threads, struct beat); i; i--)
		if (ITEM(rhythm->threads, struct beat, i - 1).tid == event->tid &&
		    ITEM(rhythm->threads, struct beat, i - 1).start == event->start)
			return i;
	return 0;
}

int rhythm_ids__tell(struct rhythm_ids *ids, const struct rhythm *rhythm, const struct event_thread *event)
{
	const uint32_t none = 0;
	int err = 0;

	if (event->id >= IDS_MAX)
		return 0;
	while (LENGTH(ids->ids, uint32_t) <= event->id && !err)
		err = buf__append(&ids->ids, &none, sizeof(none));
	if (!err)
		ITEM(ids->ids, uint32_t, event->id) = find(rhythm, event);
	return err;
}

uint32_t rhythm_ids__thread(const struct rhythm_ids *ids, uint32_t id)
{
	return id < LENGTH(ids->ids, uint32_t) ? ITEM(ids->ids, uint32_t, id) : 0;
}

void rhythm_ids__free(struct rhythm_ids *ids)
{
	buf__free(&ids->ids);
}

static int on_thread(struct rhythm *rhythm, const struct event_thread *event)
{
	const struct beat beat = {.tid = event->tid, .start = event->start};
	int err = find(rhythm, event) ? 0 : buf__append(&rhythm->threads, &beat, sizeof(beat));

	return err ?: rhythm_ids__tell(&rhythm->ids, rhythm, event);
}

static void add(struct rhythm *rhythm, uint32_t id, uint64_t cpu, uint64_t wall)
{
	uint32_t thread = rhythm_ids__thread(&rhythm->ids, id);

	rhythm->cpu += cpu;
	rhythm->wall += wall;
	if (!thread)
		return;
	ITEM(rhythm->threads, struct beat, thread - 1).cpu += cpu;
	ITEM(rhythm->threads, struct beat, thread - 1).wall += wall;
}

static int on_event(struct event_sink *self, const struct event *event)
{
	struct rhythm *rhythm = (struct rhythm *)self;
	uint32_t i;

	if (event->kind == EVENT_THREAD)
		return on_thread(rhythm, &event->thread);
	if (event->kind == EVENT_THREAD_END)
		add(rhythm, event->ending.id, event->ending.cpu, event->ending.wall);
	for (i = 0; event->kind == EVENT_SAMPLES && i < event->samples.n; i++)
		add(rhythm, event->samples.rows[i].thread, event->samples.rows[i].cpu, event->samples.rows[i].wall);
	return 0;
}

void rhythm__init(struct rhythm *rhythm)
{
	*rhythm = (struct rhythm){.sink.event = on_event};
}

void rhythm__free(struct rhythm *rhythm)
{
	buf__free(&rhythm->threads);
	rhythm_ids__free(&rhythm->ids);
}

bool rhythm__is_quiet(const struct rhythm *rhythm, uint32_t thread)
{
	const struct beat *beat;

	if (!thread || thread > LENGTH(rhythm->threads, struct beat))
		return false;
	beat = &ITEM(rhythm->threads, struct beat, thread - 1);
	return thread__is_quiet(beat->cpu, beat->wall, rhythm->cpu, rhythm->wall);
}

uint32_t rhythm__quiet(const struct rhythm *rhythm)
{
	uint32_t i, n = 0;

	for (i = 1; i <= LENGTH(rhythm->threads, struct beat); i++)
		n += rhythm__is_quiet(rhythm, i);
	return n;
}
