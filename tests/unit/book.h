/* SPDX-License-Identifier: MIT */
/* A reader of events for tests: keeps the tables of each epoch, renders stacks as text, and sums times per (pid,
 * tid) across epochs. It trusts nothing: ids must increase, a sample must refer to a known thread and stack. `wire`
 * sends each event through the encoder and the decoder first. */
#pragma once

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/buf.h"
#include "events/events.h"

#define BOOK_ROWS 40000u
#define BOOK_TASKS 4096u
#define BOOK_SAMPLES 40000u

struct book_function {
	char name[128], file[64];
	uint32_t line;
	uint8_t kind;
};

struct book_thread {
	uint32_t process;
	int32_t tid;
	uint64_t begin;
	char name[32];
	bool ended;
	struct book_time *time;
};

/* Of one thread over all epochs. */
struct book_time {
	int32_t tid;
	uint64_t start, begin, end;
	uint32_t exec;
	uint64_t wall, cpu, tail_wall, tail_cpu;
	unsigned samples, ends;
	uint64_t over; /* cpu beyond wall in samples: must stay 0 */
};

struct book_sample {
	uint64_t time, wall, cpu, others, given;
	int32_t tid;
	uint32_t stack, epoch, class_id;
};

struct book {
	struct event_sink sink;
	struct event_session session;
	unsigned sessions, epochs, parts, ends;
	uint32_t epoch;
	struct event_process processes[BOOK_TASKS];
	char process_names[BOOK_TASKS][32], pythons[BOOK_TASKS][16];
	bool process_ended[BOOK_TASKS];
	struct book_thread threads[BOOK_TASKS];
	struct book_function functions[BOOK_ROWS];
	char modules[256]; /* "libfoo.so=0123 ", of the epoch */
	struct frame_row frames[BOOK_ROWS];
	struct stack_row stacks[BOOK_ROWS];
	uint32_t n_processes, n_threads, n_functions, n_frames, n_stacks;
	struct book_time times[BOOK_TASKS];
	uint32_t n_times;
	struct book_sample samples[BOOK_SAMPLES];
	uint32_t n_samples;
	struct event_ledger ledger;
	uint64_t stop_counts; /* their sum */
	char stops[1024]; /* "loss module+0xoffset function=count ", the last ledger's */
	char losses[1024];
	char classes[64][32]; /* names, by id */
	uint64_t counts[64];
	char end_reason[32];
	int fail;
};

static inline struct book_time *book_time(struct book *book, int32_t tid, uint64_t start,
					  uint32_t exec)
{
	struct book_time *time = book->times;

	while (time < book->times + book->n_times &&
	       (time->tid != tid || time->start != start || time->exec != exec))
		time++;
	if (time == book->times + book->n_times) {
		assert_true(book->n_times++ < BOOK_TASKS);
		*time = (struct book_time){.tid = tid, .start = start, .exec = exec};
	}
	return time;
}

static inline struct book_time *book_tid(struct book *book, int32_t tid)
{
	uint32_t i;

	for (i = book->n_times; i; i--)
		if (book->times[i - 1].tid == tid)
			return &book->times[i - 1];
	return NULL;
}

static inline void book_rows(struct book *book, const struct event *event)
{
	const struct event_rows *rows = &event->rows;
	const struct function_row *function = rows->rows;
	uint32_t i;

	assert_true(rows->n > 0);
	assert_true(rows->first + rows->n < BOOK_ROWS);
	if (event->kind == EVENT_FUNCTIONS) {
		assert_int_equal(rows->first, book->n_functions);
		for (i = 0; i < rows->n; i++) {
			struct book_function *to = &book->functions[book->n_functions++];

			snprintf(to->name, sizeof(to->name), "%s", function[i].name);
			snprintf(to->file, sizeof(to->file), "%s", function[i].file);
			to->line = function[i].line;
			to->kind = function[i].kind;
		}
	} else if (event->kind == EVENT_FRAMES) {
		assert_int_equal(rows->first, book->n_frames);
		memcpy(book->frames + book->n_frames, rows->rows,
		       rows->n * sizeof(struct frame_row));
		for (i = 0; i < rows->n; i++)
			assert_true(book->frames[book->n_frames++].function < book->n_functions);
	} else {
		assert_int_equal(rows->first, book->n_stacks + 1);
		memcpy(book->stacks + book->n_stacks + 1, rows->rows,
		       rows->n * sizeof(struct stack_row));
		for (i = 0; i < rows->n; i++) {
			book->n_stacks++;
			assert_true(book->stacks[book->n_stacks].parent < book->n_stacks);
			assert_true(book->stacks[book->n_stacks].frame < book->n_frames);
		}
	}
}

static inline void book_samples(struct book *book, const struct event_samples *samples)
{
	uint32_t i;

	assert_true(samples->n > 0);
	for (i = 0; i < samples->n; i++) {
		const struct sample_row *row = &samples->rows[i];
		struct book_thread *thread = &book->threads[row->thread];
		struct book_sample *to = &book->samples[book->n_samples % BOOK_SAMPLES];

		book->n_samples++;
		assert_true(row->thread < book->n_threads);
		assert_true(row->stack <= book->n_stacks);
		assert_false(thread->ended);
		thread->time->wall += row->wall;
		thread->time->cpu += row->cpu;
		thread->time->samples++;
		if (row->cpu > row->wall)
			thread->time->over += row->cpu - row->wall;
		*to = (struct book_sample){row->time,	row->wall,  row->cpu,	 row->others,  row->given,
					   thread->tid, row->stack, book->epoch, row->class_id};
	}
}

static inline void book_thread(struct book *book, const struct event_thread *row)
{
	struct book_thread *thread = &book->threads[row->id];
	const struct event_process *process = &book->processes[row->process];
	bool fresh = row->id == book->n_threads;

	assert_true(row->id <= book->n_threads && row->id < BOOK_TASKS);
	assert_true(row->process < book->n_processes);
	book->n_threads += fresh;
	thread->process = row->process;
	thread->tid = row->tid;
	if (fresh)
		thread->begin = row->time;
	thread->ended = fresh ? false : thread->ended;
	snprintf(thread->name, sizeof(thread->name), "%s", row->name);
	thread->time = book_time(book, row->tid, row->start, process->exec);
	if (!thread->time->begin)
		thread->time->begin = row->time;
}

static inline void book_ending(struct book *book, const struct event *event)
{
	const struct event_ending *ending = &event->ending;
	struct book_time *time;

	if (event->kind == EVENT_PROCESS_END) {
		assert_true(ending->id < book->n_processes);
		assert_false(book->process_ended[ending->id]);
		book->process_ended[ending->id] = true;
		return;
	}
	assert_true(ending->id < book->n_threads);
	assert_false(book->threads[ending->id].ended);
	book->threads[ending->id].ended = true;
	time = book->threads[ending->id].time;
	time->end = ending->time;
	time->tail_wall += ending->wall;
	time->tail_cpu += ending->cpu;
	time->ends++;
}

static inline void book_ledger(struct book *book, const struct event_ledger *ledger)
{
	uint32_t i, len = 0;

	book->ledger = *ledger;
	book->losses[0] = '\0';
	for (i = 0; i < ledger->n; i++)
		len += (uint32_t)snprintf(book->losses + len, sizeof(book->losses) - len,
					  "%s=%llu ", ledger->lines[i].name,
					  (unsigned long long)ledger->lines[i].count);
	book->stops[0] = '\0';
	book->stop_counts = 0;
	for (i = 0; i < ledger->n_stops; i++)
		book->stop_counts += ledger->stops[i].count;
	for (i = len = 0; i < ledger->n_stops && len < sizeof(book->stops); i++)
		len += (uint32_t)snprintf(book->stops + len, sizeof(book->stops) - len,
					  "%s %s+0x%llx %s=%llu ", ledger->stops[i].loss,
					  ledger->stops[i].module,
					  (unsigned long long)ledger->stops[i].offset,
					  ledger->stops[i].function,
					  (unsigned long long)ledger->stops[i].count);
}

static inline int book_event(struct event_sink *self, const struct event *event)
{
	struct book *book = (struct book *)self;
	uint32_t id;

	if (book->fail)
		return book->fail;
	assert_int_equal(book->ends, 0);
	if (event->kind != EVENT_SESSION)
		assert_int_equal(book->sessions, 1 + book->parts);
	switch (event->kind) {
	case EVENT_SESSION:
		book->sessions++;
		book->session = event->session;
		break;
	case EVENT_EPOCH:
		book->epochs++;
		book->epoch = event->epoch.number;
		book->n_processes = book->n_threads = 0;
		book->n_functions = book->n_frames = book->n_stacks = 0;
		book->modules[0] = 0;
		break;
	case EVENT_PROCESS:
		id = event->process.id;
		assert_true(id <= book->n_processes && id < BOOK_TASKS);
		if (id == book->n_processes) {
			book->process_ended[id] = false;
			book->n_processes++;
		}
		book->processes[id] = event->process;
		snprintf(book->process_names[id], 32, "%s", event->process.name);
		snprintf(book->pythons[id], 16, "%s", event->process.python);
		break;
	case EVENT_THREAD:
		book_thread(book, &event->thread);
		break;
	case EVENT_MODULES:
		for (id = 0; id < event->rows.n; id++) {
			const struct module_row *row = (const struct module_row *)event->rows.rows + id;
			size_t len = strlen(book->modules);

			snprintf(book->modules + len, sizeof(book->modules) - len, "%s=%s ", row->name, row->build_id);
		}
		break;
	case EVENT_FUNCTIONS:
	case EVENT_FRAMES:
	case EVENT_STACKS:
		book_rows(book, event);
		break;
	case EVENT_SAMPLES:
		book_samples(book, &event->samples);
		break;
	case EVENT_THREAD_END:
	case EVENT_PROCESS_END:
		book_ending(book, event);
		break;
	case EVENT_LEDGER:
		book_ledger(book, &event->ledger);
		break;
	case EVENT_END:
		book->ends++;
		snprintf(book->end_reason, sizeof(book->end_reason), "%s", event->end.reason);
		break;
	case EVENT_CLASSES:
		for (id = 0; id < event->rows.n; id++)
			snprintf(book->classes[(event->rows.first + id) % 64], sizeof(book->classes[0]), "%s",
				 ((const struct class_row *)event->rows.rows)[id].name);
		break;
	case EVENT_PART:
		book->parts++;
		break;
	default:
		fail_msg("event %d", event->kind);
	}
	return 0;
}

static inline struct book *book_new(void)
{
	struct book *book = calloc(1, sizeof(*book));

	assert_non_null(book);
	book->sink.event = book_event;
	return book;
}

/* "outer:line;inner:line" */
static inline const char *book_stack(const struct book *book, uint32_t stack)
{
	static char text[4096];
	size_t at = sizeof(text) - 1;

	text[at] = '\0';
	while (stack) {
		const struct frame_row *frame = &book->frames[book->stacks[stack].frame];
		const struct book_function *function = &book->functions[frame->function];
		char one[192];
		int len =
			snprintf(one, sizeof(one), function->kind == FUNCTION_NOTE ? "%s" : "%s:%u",
				 function->name, frame->line);

		if (text[at])
			text[--at] = ';';
		assert_true(at > (size_t)len);
		at -= (size_t)len;
		memcpy(text + at, one, (size_t)len);
		stack = book->stacks[stack].parent;
	}
	return text + at;
}

/* Encoder and decoder in between; goes to up to two sinks, as the server does. */
struct wire {
	struct event_sink sink;
	struct event_sink *to[2];
	struct event_decoder *decoders[2];
	uint64_t bytes;
};

static inline int wire_event(struct event_sink *self, const struct event *event)
{
	struct wire *wire = (struct wire *)self;
	struct buf line = {};
	int i, err = event__encode(event, &line);

	assert_int_equal(err, 0);
	wire->bytes += line.len;
	for (i = 0; i < 2; i++) {
		const char *at = line.data, *newline;

		for (; !err && wire->to[i] && at < line.data + line.len; at = newline + 1) {
			newline = memchr(at, '\n', (size_t)(line.data + line.len - at));
			assert_non_null(newline);
			err = event_decoder__line(wire->decoders[i], at, (size_t)(newline - at),
						  wire->to[i]);
		}
	}
	buf__free(&line);
	return err;
}

static inline void wire_add(struct wire *wire, int i, struct event_sink *to)
{
	wire->sink.event = wire_event;
	wire->to[i] = to;
	assert_int_equal(event_decoder__new(&wire->decoders[i]), 0);
}

static inline void wire_free(struct wire *wire)
{
	event_decoder__free(wire->decoders[0]);
	event_decoder__free(wire->decoders[1]);
}
