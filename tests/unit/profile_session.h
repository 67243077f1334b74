/* SPDX-License-Identifier: MIT */
/* Shared by the tests of daemon/profile/: a session of a target with one thread, and a book (book.h) that reads its
 * events. Include it once per program. */
#pragma once

#include "profile/profile.h"

#include "book.h"
#include "records.h"

#define MS 1000000ull
#define T0 (1000 * 1000 * MS)  /* monotonic at the session's start */
#define BOOT (500 * 1000 * MS) /* boottime = monotonic + BOOT */

static struct profile *profile;
static struct book *book;
static struct wire wire;
static struct rec rec;
static struct record_task task; /* lived before the session */
static uint64_t now;

static inline void start(const struct profile_options *options)
{
	const struct event_session session = {
		.id = 1,
		.pid = 10,
		.rate = 1000,
		.mode = "cpu",
		.monotonic = T0,
		.boottime = T0 + BOOT,
		.realtime = 1,
		.boot_id = "id",
		.command = "python3 x.py",
	};

	assert_int_equal(profile__new(options, &wire.sink, &profile), 0);
	assert_int_equal(profile__begin(profile, &session), 0);
}

static inline void restart(const struct profile_options *options)
{
	profile__free(profile);
	free(book);
	wire_free(&wire);
	memset(&wire, 0, sizeof(wire));
	book = book_new();
	wire_add(&wire, 0, &book->sink);
	start(options);
}

static inline int set_up(void **state)
{
	const struct profile_options options = {.rate = 1000};
	struct profile_process process = {
		.tgid = 10,
		.process_start = T0 + BOOT - 100 * MS,
		.lines = PY_LINES_LINETABLE,
		.name = "python3 x.py",
		.python = "3.10.2",
		.time = T0,
	};

	now = T0;
	task = rec_task(10, 10, 0, process.process_start, "python3");
	memset(&wire, 0, sizeof(wire));
	book = book_new();
	wire_add(&wire, 0, &book->sink);
	start(&options);
	assert_int_equal(profile__process(profile, &process), 0);
	return 0;
}

static inline int tear_down(void **state)
{
	profile = profile__free(profile);
	wire_free(&wire);
	free(book);
	return 0;
}

static inline void code(uint64_t key, const char *name, uint32_t line)
{
	rec_code_whole(&rec, now, &task, key, name, "x.py", line);
	assert_int_equal(profile__code(profile, (void *)rec.data), 0);
}

/* A sample of `task`; frames innermost first. */
static inline void sample_full(uint64_t time, uint64_t cpu, const struct py_frame *frames, uint32_t n,
			uint16_t loss, uint16_t part_loss, uint32_t flags)
{
	struct record_sample *record = rec_sample(&rec, time, &task, cpu);
	struct sample sample;

	record->loss = loss;
	record->flags = flags;
	rec_frames(&rec, part_loss, frames, n);
	record__parse(record, &sample);
	assert_int_equal(profile__sample(profile, &sample), 0);
}

static inline void sample(uint64_t time, uint64_t cpu)
{
	const struct py_frame frames[] = {{.code = 2, .offset = 4}, {.code = 1, .offset = 2}};

	sample_full(time, cpu, frames, 2, 0, 0, 0);
}

static inline void tick(uint64_t time)
{
	now = time;
	assert_int_equal(profile__tick(profile, time), 0);
}

static inline void end(uint64_t time)
{
	assert_int_equal(profile__end(profile, time, "duration", "done"), 0);
	assert_int_equal(book->ends, 1);
}

static uint32_t rnd_state;
static inline uint32_t rnd(uint32_t n)
{
	rnd_state = rnd_state * 1664525u + 1013904223u;
	return (uint32_t)((uint64_t)(rnd_state >> 8) * n >> 24);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, set_up, tear_down)
