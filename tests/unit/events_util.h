/* SPDX-License-Identifier: MIT */
/* Shared by the tests of events: sinks, and decoding of one line. */
#pragma once

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "base/buf.h"
#include "events/events.h"

/* Encodes all that it gets. */
struct echo {
	struct event_sink sink;
	struct buf lines;
	unsigned events;
	int fail; /* returned instead when not 0 */
};

static inline int echo_event(struct event_sink *self, const struct event *event)
{
	struct echo *echo = (struct echo *)self;

	echo->events++;
	return echo->fail ? echo->fail : event__encode(event, &echo->lines);
}

#define ECHO_INIT                                                                                  \
	{                                                                                          \
		.sink = { echo_event }                                                             \
	}

static inline const char *echo_text(struct echo *echo)
{
	assert_int_equal(buf__append(&echo->lines, "", 1), 0);
	echo->lines.len--;
	return echo->lines.data;
}

/* Writes all that it gets into a recording. */
struct memory {
	struct event_sink sink;
	struct recording_writer *writer;
	struct buf line;
	int fd;
};

static inline int memory_event(struct event_sink *self, const struct event *event)
{
	struct memory *memory = (struct memory *)self;

	memory->line.len = 0;
	return event__encode(event, &memory->line)
		       ?: recording_writer__lines(memory->writer, memory->line.data,
						  memory->line.len);
}
