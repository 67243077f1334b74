/* SPDX-License-Identifier: MIT */
/* Lines from anybody: the decoder takes or refuses them. What it hands over must
 * keep the contract (events.h): references go back, ids go on; and an event
 * encodes to lines that decode to an event that encodes to the same lines. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "events/events.h"

#define NDJSON_HEAD 0
#include "ndjson.h"

struct count {
	struct event_sink sink;
	struct event_decoder *again;
	struct buf first, second;
	uint32_t functions, frames, stacks, threads, processes;
};

static void must(int holds)
{
	if (!holds)
		abort();
}

static int second_event(struct event_sink *self, const struct event *event)
{
	return event__encode(event, &((struct count *)self)->second);
}

/* Strings are touched to their end, ids are held against the tables. */
static void keeps_contract(struct count *count, const struct event *event)
{
	const struct function_row *function = event->rows.rows;
	const struct frame_row *frame = event->rows.rows;
	const struct stack_row *stack = event->rows.rows;
	uint32_t i;

	switch (event->kind) {
	case EVENT_SESSION:
	case EVENT_EPOCH:
		count->functions = count->frames = count->stacks = count->threads =
			count->processes = 0;
		break;
	case EVENT_PROCESS:
		must(event->process.id <= count->processes);
		count->processes += event->process.id == count->processes;
		break;
	case EVENT_THREAD:
		must(event->thread.id <= count->threads &&
		     event->thread.process < count->processes);
		count->threads += event->thread.id == count->threads;
		break;
	case EVENT_FUNCTIONS:
		must(event->rows.first == count->functions);
		count->functions += event->rows.n;
		for (i = 0; i < event->rows.n; i++, function++)
			must(strlen(function->name) + strlen(function->file) +
				     strlen(function->module) <
			     EVENTS_LINE_MAX);
		break;
	case EVENT_FRAMES:
		must(event->rows.first == count->frames);
		count->frames += event->rows.n;
		for (i = 0; i < event->rows.n; i++, frame++)
			must(frame->function < count->functions);
		break;
	case EVENT_STACKS:
		must(event->rows.first == count->stacks + 1);
		for (i = 0; i < event->rows.n; i++, stack++)
			must(stack->parent < event->rows.first + i && stack->frame < count->frames);
		count->stacks += event->rows.n;
		break;
	case EVENT_SAMPLES:
		for (i = 0; i < event->samples.n; i++) {
			const struct sample_row *row = &event->samples.rows[i];

			must(row->thread < count->threads && row->stack <= count->stacks &&
			     row->time <= INT64_MAX);
		}
		break;
	default:
		break;
	}
}

static int first_event(struct event_sink *self, const struct event *event)
{
	struct count *count = (struct count *)self;
	size_t at = 0;

	keeps_contract(count, event);
	buf__clear(&count->first);
	buf__clear(&count->second);
	must(event__encode(event, &count->first) == 0);
	count->sink.event = second_event;
	while (at < count->first.len) {
		char *newline = memchr(count->first.data + at, '\n', count->first.len - at);

		must(newline != NULL);
		must(event_decoder__line(count->again, count->first.data + at,
					 (size_t)(newline - count->first.data) - at,
					 &count->sink) == 0);
		at = (size_t)(newline - count->first.data) + 1;
	}
	count->sink.event = first_event;
	must(count->second.len == count->first.len);
	must(!memcmp(count->first.data, count->second.data, count->first.len));
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct count count = {.sink = {first_event}};
	struct event_decoder *decoder;
	const char *at = (const char *)data, *end = at + size;

	must(!event_decoder__new(&decoder) && !event_decoder__new(&count.again));
	while (at < end) {
		const char *newline = memchr(at, '\n', (size_t)(end - at));
		size_t len = (size_t)((newline ? newline : end) - at);
		char *line = malloc(len ? len : 1); /* its own block: one byte too far is seen */

		memcpy(line, at, len);
		event_decoder__line(decoder, line, len, &count.sink);
		free(line);
		at += len + 1;
	}
	event_decoder__free(decoder);
	event_decoder__free(count.again);
	buf__free(&count.first);
	buf__free(&count.second);
	return 0;
}
