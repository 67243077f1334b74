/* SPDX-License-Identifier: MIT */
/* A recording that is made up, and the truth about it: threads that walk at
 * random through a call graph, sampled at a rate. Sums are kept here as the
 * samples are made, so they owe nothing to any code under test.
 *
 * Thread 0 is the main thread and now and then sleeps; the last one of several
 * is never sampled; the one before it starts late and ends early; others work.
 * With `units` they compile meanwhile: compiles, phases and passes in each other; names of every fifth phase come late.
 */
#pragma once

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "events/events.h"

#define SYNTHETIC_FUNCTIONS 600
#define SYNTHETIC_CALLEES 5 /* of each function */
#define SYNTHETIC_LINES 2   /* that it calls from */
#define SYNTHETIC_CHILDREN (SYNTHETIC_CALLEES * SYNTHETIC_LINES)
#define SYNTHETIC_DEPTH 100
#define SYNTHETIC_BATCH 200
#define SYNTHETIC_ORIGIN 5000000000000ull

#define SYNTHETIC_UNITS 6 /* one in another */

/* A call of a compile, phase or pass, and the samples whose innermost one it was. */
struct synthetic_unit {
	uint32_t thread, parent; /* parent: of all calls, or UINT32_MAX */
	uint32_t number, id;	 /* number: its name; id: of this epoch */
	uint8_t kind;
	bool unnamed; /* it ended with an epoch, before its name was told */
	uint64_t begin, end, cpu, wall;
};

struct synthetic_thread {
	uint64_t begin, end; /* ns since the session's start */
	uint64_t wall, cpu, samples;
	uint64_t self[SYNTHETIC_FUNCTIONS]; /* CPU ns by leaf function */
	uint64_t clock;
	uint32_t stack[SYNTHETIC_DEPTH]; /* node ids */
	uint32_t functions[SYNTHETIC_DEPTH];
	uint32_t depth;
	uint32_t open[SYNTHETIC_UNITS], open_n, open_epoch; /* calls, outermost first */
};

struct synthetic {
	/* given */
	uint32_t threads, rate, seconds, depth;
	uint32_t epoch_seconds; /* 0: one epoch */
	unsigned seed;
	bool units;
	struct event_sink *sink;
	/* the truth */
	struct synthetic_thread *truth;
	struct synthetic_unit *calls;
	uint32_t calls_n;
	/* inner state */
	uint32_t nodes, epoch;
	uint32_t (*children)[SYNTHETIC_CHILDREN];
	struct stack_row new_rows[4096];
	uint32_t new_n;
	struct sample_row batch[SYNTHETIC_BATCH];
	uint32_t batch_n;
	uint32_t unit_ids; /* told in this epoch */
	struct unit_row unit_rows[SYNTHETIC_BATCH * SYNTHETIC_UNITS];
	struct event_unit_end unit_ends[SYNTHETIC_BATCH * SYNTHETIC_UNITS];
	char unit_names[2 * SYNTHETIC_BATCH * SYNTHETIC_UNITS][2][32];
	uint32_t unit_rows_n, unit_ends_n;
};

static inline uint32_t synthetic_random(struct synthetic *s, uint32_t below)
{
	return (uint32_t)rand_r(&s->seed) % below;
}

static inline void synthetic_event(struct synthetic *s, const struct event *event)
{
	int err = s->sink->event(s->sink, event);

	if (err) {
		fprintf(stderr, "synthetic: event %d: %s\n", (int)event->kind, strerror(-err));
		abort();
	}
}

static inline void synthetic_name(uint32_t function, char name[64])
{
	snprintf(name, 64, "%s_%u", function % 3 ? "Pass.run_on_function" : "llvm::Pass::run",
		 function);
}

static inline void synthetic_tables(struct synthetic *s)
{
	static char names[SYNTHETIC_FUNCTIONS][64];
	static struct function_row functions[SYNTHETIC_FUNCTIONS];
	static struct frame_row frames[SYNTHETIC_FUNCTIONS * SYNTHETIC_LINES];
	struct event event = {.kind = EVENT_FUNCTIONS, .rows = {0, SYNTHETIC_FUNCTIONS, functions}};
	uint32_t i;

	for (i = 0; i < SYNTHETIC_FUNCTIONS; i++) {
		bool native = i % 3 == 0;

		synthetic_name(i, names[i]);
		functions[i] = (struct function_row){
			names[i], native ? "" : "/usr/lib/python3/compiler.py",
			native ? 0 : 10 + i * 10, native ? "/usr/lib/libLLVM-14.so.1" : "", native};
	}
	for (i = 0; i < SYNTHETIC_FUNCTIONS * SYNTHETIC_LINES; i++) {
		uint32_t f = i / SYNTHETIC_LINES, line = i % SYNTHETIC_LINES;

		frames[i] = (struct frame_row){f, (int32_t)line * 8, f % 3 ? 11 + f * 10 + line : 0,
					       f % 3 ? 5 : 0};
	}
	synthetic_event(s, &event);
	event = (struct event){.kind = EVENT_FRAMES,
			       .rows = {0, SYNTHETIC_FUNCTIONS * SYNTHETIC_LINES, frames}};
	synthetic_event(s, &event);
}

static inline void synthetic_thread_event(struct synthetic *s, uint32_t i, uint32_t id,
					  uint64_t time)
{
	char name[16];
	const struct event event = {
		.kind = EVENT_THREAD,
		.thread = {id, 0, 4242 + (int32_t)i, 90 + i, SYNTHETIC_ORIGIN + time, name}};

	snprintf(name, sizeof(name), i ? "worker-%u" : "python3", i);
	synthetic_event(s, &event);
}

static inline void synthetic_flush(struct synthetic *s)
{
	struct event event = {.kind = EVENT_STACKS,
			      .rows = {s->nodes - s->new_n, s->new_n, s->new_rows}};
	uint32_t i;

	if (s->new_n)
		synthetic_event(s, &event);
	s->new_n = 0;
	event = (struct event){.kind = EVENT_UNITS,
			       .rows = {s->unit_ids - s->unit_rows_n + 1, s->unit_rows_n, s->unit_rows}};
	if (s->unit_rows_n)
		synthetic_event(s, &event);
	s->unit_rows_n = 0;
	event = (struct event){.kind = EVENT_SAMPLES, .samples = {s->batch_n, s->batch}};
	if (s->batch_n)
		synthetic_event(s, &event);
	s->batch_n = 0;
	for (i = 0; i < s->unit_ends_n; i++) {
		event = (struct event){.kind = EVENT_UNIT_END, .unit_end = s->unit_ends[i]};
		synthetic_event(s, &event);
	}
	s->unit_ends_n = 0;
}

/* --- compiles --- */

static inline void synthetic_unit_name(const struct synthetic_unit *unit, char name[32], char signature[32])
{
	static const char *const words[] = {"compile", "phase", "pass"};

	snprintf(name, 32, unit->unnamed ? "(name unknown)" : "%s_%u", words[unit->kind], unit->number);
	snprintf(signature, 32, unit->kind ? "" : "int%u", unit->number % 3);
}

static inline bool synthetic_name_is_late(const struct synthetic_unit *unit)
{
	return unit->kind == 1 && unit->number % 5 == 0;
}

static inline void synthetic_tell_unit(struct synthetic *s, struct synthetic_unit *unit, uint64_t begin)
{
	char(*name)[32] = s->unit_names[s->unit_rows_n];
	bool late = synthetic_name_is_late(unit);

	synthetic_unit_name(unit, name[0], name[1]);
	unit->id = ++s->unit_ids;
	s->unit_rows[s->unit_rows_n++] = (struct unit_row){
		.parent = unit->parent == UINT32_MAX ? 0 : s->calls[unit->parent].id,
		.thread = unit->thread,
		.kind = unit->kind,
		.compiler = "Made-up",
		.name = late ? "" : name[0],
		.signature = late ? "" : name[1],
		.time = SYNTHETIC_ORIGIN + begin,
		.file = unit->kind ? "" : "compile.py",
		.line = unit->kind ? 0 : unit->number};
}

static inline void synthetic_end_unit(struct synthetic *s, const struct synthetic_unit *unit)
{
	char(*name)[32] = s->unit_names[SYNTHETIC_BATCH * SYNTHETIC_UNITS + s->unit_ends_n];
	bool late = synthetic_name_is_late(unit);

	synthetic_unit_name(unit, name[0], name[1]);
	s->unit_ends[s->unit_ends_n++] = (struct event_unit_end){
		unit->id, SYNTHETIC_ORIGIN + unit->end, late ? name[0] : "", "", "", 0, 0};
}

static inline uint32_t synthetic_random_unit(struct synthetic *s, uint32_t thread_id, uint32_t avoid)
{
	struct synthetic_thread *thread = &s->truth[thread_id];
	struct synthetic_unit *unit;

	if (!(s->calls_n & (s->calls_n - 1)))
		s->calls = realloc(s->calls, (s->calls_n ? 2 * s->calls_n : 1) * sizeof(*s->calls));
	if (!s->calls)
		abort();
	unit = &s->calls[s->calls_n];
	*unit = (struct synthetic_unit){.thread = thread_id, .parent = UINT32_MAX};
	if (thread->open_n) {
		unit->parent = thread->open[thread->open_n - 1];
		unit->kind = (uint8_t)(s->calls[unit->parent].kind == 2 ? 0 : synthetic_random(s, 3));
	}
	do
		unit->number = synthetic_random(s, 20);
	while (unit->number == avoid);
	return s->calls_n++;
}

/* The units of a thread's next sample, of the `wall` ns up to `time`: some are over, some begin. Returns the innermost's id. */
static inline uint32_t synthetic_units(struct synthetic *s, uint32_t i, uint64_t time, uint64_t wall, uint64_t cpu)
{
	struct synthetic_thread *thread = &s->truth[i];
	uint32_t keep = thread->open_n, avoid = UINT32_MAX, n;

	if (!synthetic_random(s, 10))
		keep = synthetic_random(s, keep + 1);
	while (thread->open_n > keep) {
		struct synthetic_unit *unit = &s->calls[thread->open[--thread->open_n]];

		avoid = unit->number;
		unit->unnamed = thread->open_epoch != s->epoch && synthetic_name_is_late(unit);
		if (thread->open_epoch == s->epoch)
			synthetic_end_unit(s, unit);
	}
	for (n = 0; n < thread->open_n && thread->open_epoch != s->epoch; n++)
		synthetic_tell_unit(s, &s->calls[thread->open[n]], time - wall);
	thread->open_epoch = s->epoch;
	if (!synthetic_random(s, 8) && thread->open_n < SYNTHETIC_UNITS) {
		n = synthetic_random_unit(s, i, avoid);
		thread->open[thread->open_n++] = n;
		s->calls[n].begin = time - wall;
		synthetic_tell_unit(s, &s->calls[n], time - wall);
	}
	for (n = 0; n < thread->open_n; n++)
		s->calls[thread->open[n]].end = time;
	if (!thread->open_n)
		return 0;
	s->calls[thread->open[thread->open_n - 1]].cpu += cpu;
	s->calls[thread->open[thread->open_n - 1]].wall += wall;
	return s->calls[thread->open[thread->open_n - 1]].id;
}

/* Thread ids are the same in each epoch: all threads are told when it starts. */
static inline void synthetic_epoch(struct synthetic *s, uint64_t time)
{
	struct event event = {.kind = EVENT_EPOCH, .epoch = {++s->epoch, SYNTHETIC_ORIGIN + time}};
	uint32_t i;

	synthetic_flush(s);
	synthetic_event(s, &event);
	event = (struct event){
		.kind = EVENT_PROCESS,
		.process = {0, 4242, 1, 77, 0, SYNTHETIC_ORIGIN, "python3 compile.py", "3.11.2"}};
	synthetic_event(s, &event);
	for (i = 0; i < s->threads; i++) {
		synthetic_thread_event(s, i, i, s->truth[i].clock);
		s->truth[i].depth = 0;
	}
	synthetic_tables(s);
	s->nodes = 1;
	s->unit_ids = 0;
	memset(s->children, 0, sizeof(*s->children));
}

static inline void synthetic_push(struct synthetic *s, struct synthetic_thread *thread)
{
	uint32_t parent = thread->depth ? thread->stack[thread->depth - 1] : 0;
	uint32_t child = synthetic_random(s, synthetic_random(s, 3) ? 3 : SYNTHETIC_CHILDREN);
	uint32_t caller = thread->depth ? thread->functions[thread->depth - 1] : 0;
	uint32_t function = thread->depth ? (caller * 7 + 13 + child / SYNTHETIC_LINES * 31) %
						    SYNTHETIC_FUNCTIONS
					  : 0;
	uint32_t *node = &s->children[parent][child];

	if (!*node) {
		if (s->new_n == 4096 || s->nodes >= 4000000)
			synthetic_flush(s);
		*node = s->nodes;
		s->new_rows[s->new_n++] = (struct stack_row){
			parent, function * SYNTHETIC_LINES + child % SYNTHETIC_LINES};
		memset(s->children[s->nodes++], 0, sizeof(*s->children));
	}
	thread->functions[thread->depth] = function;
	thread->stack[thread->depth++] = *node;
}

static inline void synthetic_walk(struct synthetic *s, struct synthetic_thread *thread)
{
	uint32_t pop, want;

	if (!synthetic_random(s, 4) && thread->depth)
		return; /* the same stack again */
	pop = synthetic_random(s, 100) ? 1 + synthetic_random(s, 4)
				       : 1 + synthetic_random(s, s->depth);
	thread->depth = thread->depth > pop ? thread->depth - pop : 0;
	want = s->depth / 2 + synthetic_random(s, s->depth / 2);
	do
		synthetic_push(s, thread);
	while (thread->depth < want && thread->depth < SYNTHETIC_DEPTH);
}

static inline void synthetic_sample(struct synthetic *s, uint32_t i, uint64_t time)
{
	struct synthetic_thread *thread = &s->truth[i];
	uint64_t wall = time - thread->clock, cpu;

	synthetic_walk(s, thread);
	cpu = wall > 3000000000ull / s->rate ? 1000000000ull / s->rate
					     : wall - synthetic_random(s, 2000);
	s->batch[s->batch_n++] = (struct sample_row){.time = SYNTHETIC_ORIGIN + time,
						     .wall = wall,
						     .cpu = cpu,
						     .thread = i,
						     .stack = thread->stack[thread->depth - 1]};
	if (s->units)
		s->batch[s->batch_n - 1].unit = synthetic_units(s, i, time, wall, cpu);
	thread->self[thread->functions[thread->depth - 1]] += cpu;
	thread->cpu += cpu;
	thread->clock = time;
	thread->samples++;
	if (s->batch_n == SYNTHETIC_BATCH)
		synthetic_flush(s);
}

static inline void synthetic_end_thread(struct synthetic *s, uint32_t i, uint64_t time)
{
	const struct event event = {
		.kind = EVENT_THREAD_END,
		.ending = {i, SYNTHETIC_ORIGIN + time, time - s->truth[i].clock, 0}};

	while (s->truth[i].open_n) {
		struct synthetic_unit *unit = &s->calls[s->truth[i].open[--s->truth[i].open_n]];

		unit->unnamed = s->truth[i].open_epoch != s->epoch && synthetic_name_is_late(unit);
		if (s->truth[i].open_epoch == s->epoch)
			synthetic_end_unit(s, unit);
	}
	synthetic_flush(s);
	synthetic_event(s, &event);
	s->truth[i].clock = time;
	s->truth[i].end = time;
	s->truth[i].wall = time - s->truth[i].begin;
}

static inline bool synthetic_runs(const struct synthetic *s, uint32_t i, uint64_t time,
				  uint64_t length)
{
	const struct synthetic_thread *thread = &s->truth[i];

	if (s->threads > 1 && i == s->threads - 1)
		return false; /* never sampled */
	if (i == 0 && time / 100000000 % 7 == 3)
		return false; /* the main thread sleeps a tenth of a second */
	return time > thread->begin && (!thread->end || time < thread->end);
}

/* The whole session. The truth is the caller's to free, with synthetic_free(). */
static inline void synthetic_run(struct synthetic *s)
{
	const char *const features[] = {NULL};
	struct event event = {.kind = EVENT_HELLO,
			      .hello = {EVENTS_MAJOR, EVENTS_MINOR, "synthetic@0", features}};
	uint64_t length = s->seconds * 1000000000ull, tick = 1000000000ull / s->rate, time,
		 samples = 0;
	uint32_t i, early = s->threads > 2 ? s->threads - 2 : UINT32_MAX;
	const struct ledger_line losses[] = {{"tick_missed", 3}, {"frame_half", 1}};

	s->truth = calloc(s->threads, sizeof(*s->truth));
	s->children = malloc(5000000 * sizeof(*s->children));
	if (!s->truth || !s->children)
		abort();
	synthetic_event(s, &event);
	event = (struct event){.kind = EVENT_SESSION,
			       .session = {1, 4242, s->rate, "cpu", SYNTHETIC_ORIGIN,
					   SYNTHETIC_ORIGIN + 5, 1760000000000000000, "a-boot-id",
					   "python3 compile.py", false, true, false}};
	synthetic_event(s, &event);
	if (early != UINT32_MAX)
		s->truth[early].begin = s->truth[early].clock = length / 4;
	synthetic_epoch(s, 0);
	for (time = tick; time <= length; time += tick) {
		for (i = 0; i < s->threads; i++)
			if (synthetic_runs(s, i, time, length))
				synthetic_sample(s, i, time - synthetic_random(s, 1000));
		if (early != UINT32_MAX && !s->truth[early].end && time > length / 4 * 3)
			synthetic_end_thread(s, early, time);
		if ((s->epoch_seconds && time / 1000000000 / s->epoch_seconds >= s->epoch) ||
		    s->nodes > 4000000)
			synthetic_epoch(s, time);
	}
	for (i = 0; i < s->threads; i++) {
		if (!s->truth[i].end)
			synthetic_end_thread(s, i, length);
		samples += s->truth[i].samples;
	}
	event = (struct event){
		.kind = EVENT_LEDGER,
		.ledger = {SYNTHETIC_ORIGIN + length, samples, samples - 1, 2, losses}};
	synthetic_event(s, &event);
	event = (struct event){.kind = EVENT_END,
			       .end = {SYNTHETIC_ORIGIN + length, "duration", ""}};
	synthetic_event(s, &event);
	free(s->children);
}

static inline void synthetic_free(struct synthetic *s)
{
	free(s->truth);
	free(s->calls);
}
