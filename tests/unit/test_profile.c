/* SPDX-License-Identifier: MIT */
/* Profile: names, notes, the account of losses, clients that join late, and memory. */
#include "profile_session.h"

static void a_code_that_comes_a_tick_later_is_named(void **state)
{
	code(1, "main", 10);
	sample(T0 + 1 * MS, 0);
	tick(T0 + 101 * MS);
	assert_int_equal(book->n_samples, 0);
	code(2, "work", 20);
	tick(T0 + 202 * MS);
	assert_int_equal(book->n_samples, 1);
	assert_string_equal(book_stack(book, book->samples[0].stack), "main:11;work:22");
	end(T0 + 300 * MS);
	assert_string_equal(book->losses, "");
}

/* The registry is full: the sampler is asked to send what it meets, and the rest is dropped. What lives has a name before and after. */
static void code_objects_that_come_again_are_kept(void **state)
{
	char name[600];
	unsigned n;

	code(1, "main", 10);
	code(2, "work", 20);
	code(3, "gone", 30);
	for (n = 0; !profile__resends_codes(profile); n++) {
		assert_true(n < 20000);
		snprintf(name, sizeof(name), "%0500u", n);
		code(1000 + n, name, 1);
		if (n % 100 == 0)
			tick(T0 + 10 * MS);
	}
	assert_true(n > 5000);
	code(1, "main", 10);
	sample(T0 + 20 * MS, 0);
	tick(T0 + 110 * MS);
	assert_true(profile__knows_code(profile, 1000)); /* of samples before the resend */
	code(2, "work", 20);
	tick(T0 + 410 * MS);
	assert_false(profile__resends_codes(profile));
	assert_false(profile__knows_code(profile, 3));
	assert_false(profile__knows_code(profile, 1000));
	sample(T0 + 420 * MS, 0);
	code(3, "gone", 30);
	assert_true(profile__knows_code(profile, 3));
	end(T0 + 600 * MS);
	assert_int_equal(book->n_samples, 2);
	assert_string_equal(book_stack(book, book->samples[1].stack), "main:11;work:22");
	assert_string_equal(book->losses, "");
}

static void a_code_that_does_not_come_is_unknown(void **state)
{
	unsigned i;

	code(1, "main", 10);
	sample(T0 + 1 * MS, 0);
	sample(T0 + 2 * MS, 0);
	tick(T0 + 101 * MS);
	sample(T0 + 103 * MS, 0);
	assert_int_equal(book->n_samples, 0);
	tick(T0 + 202 * MS);
	tick(T0 + 303 * MS);
	assert_int_equal(book->n_samples, 3);
	assert_string_equal(book_stack(book, book->samples[0].stack), "main:11;(name unknown)");
	sample(T0 + 304 * MS, 0);
	for (i = 4; i < 8; i++)
		tick(T0 + i * 101 * MS);
	/* It comes at last: a row of its own from now on. */
	code(2, "work", 20);
	sample(T0 + 900 * MS, 0);
	end(T0 + 1000 * MS);
	assert_string_equal(book_stack(book, book->samples[3].stack), "main:11;(name unknown)");
	assert_string_equal(book_stack(book, book->samples[4].stack), "main:11;work:22");
	assert_string_equal(book->losses, "code_uncaptured=4 ");
	assert_int_equal(book->ledger.whole, 5);
}

static void a_partial_line_table_gives_line_0(void **state)
{
	const struct py_frame frame = {.code = 3, .offset = 4};
	unsigned i;

	rec_code(&rec, T0, &task, 3, 30, sizeof(rec_table));
	rec_string(&rec, PART_NAME, "big");
	rec_string(&rec, PART_FILE, "big.py");
	rec_lines(&rec, rec_table, 0, 16);
	assert_int_equal(profile__code(profile, (void *)rec.data), 0);
	sample_full(T0 + MS, 0, &frame, 1, 0, 0, 0);
	sample_full(T0 + 2 * MS, 0, &frame, 1, 0, 0, 0);
	for (i = 1; i < 5; i++)
		tick(T0 + i * 101 * MS);
	sample_full(T0 + 500 * MS, 0, &frame, 1, 0, 0, 0);
	rec_code(&rec, T0, &task, 3, 30, sizeof(rec_table));
	rec_lines(&rec, rec_table, 16, sizeof(rec_table) - 16);
	assert_int_equal(profile__code(profile, (void *)rec.data), 0);
	sample_full(T0 + 501 * MS, 0, &frame, 1, 0, 0, 0);
	end(T0 + 600 * MS);
	assert_string_equal(book_stack(book, book->samples[0].stack), "big:0");
	assert_string_equal(book_stack(book, book->samples[2].stack), "big:0");
	assert_string_equal(book_stack(book, book->samples[3].stack), "big:32");
	assert_int_equal(book->n_functions, 1);
	assert_string_equal(book->losses, "lines_partial=3 ");
}

static void an_offset_beyond_the_table_has_no_line(void **state)
{
	const struct py_frame frame = {.code = 1, .offset = 4000};

	code(1, "main", 10);
	sample_full(T0 + MS, 0, &frame, 1, 0, 0, 0);
	sample_full(T0 + 2 * MS, 0, &frame, 1, 0, 0, 0);
	end(T0 + 10 * MS);
	assert_string_equal(book_stack(book, book->samples[1].stack), "main:0");
	assert_string_equal(book->losses, "lines_bad=2 ");
}

static void notes_say_what_is_not_there(void **state)
{
	const struct py_frame frame = {.code = 1, .offset = 0};

	code(1, "main", 10);
	sample_full(T0 + 1 * MS, 0, NULL, 0, 0, 0, SAMPLE_NO_PYTHON);
	sample_full(T0 + 2 * MS, 0, NULL, 0, 0, 0, 0);
	sample_full(T0 + 3 * MS, 0, &frame, 1, 0, LOSS_PAGE_FAULT, 0);
	sample_full(T0 + 4 * MS, 0, &frame, 1, 0, 0, 0);
	sample_full(T0 + 5 * MS, 0, NULL, 0, LOSS_PROCESS_UNKNOWN, 0, 0);
	sample_full(T0 + 6 * MS, 0, &frame, 1, 0, LOSS_PAGE_FAULT, 0);
	end(T0 + 10 * MS);
	assert_string_equal(book_stack(book, book->samples[0].stack), "(no Python)");
	assert_string_equal(book_stack(book, book->samples[1].stack), "(no Python frame)");
	assert_string_equal(book_stack(book, book->samples[2].stack),
			    "(cut: a page of the target was not resident);main:10");
	assert_string_equal(book_stack(book, book->samples[3].stack), "main:10");
	assert_string_equal(book_stack(book, book->samples[4].stack),
			    "(cut: the process was not identified yet)");
	assert_int_equal(book->samples[5].stack, book->samples[2].stack);
	assert_int_equal(book->ledger.samples, 6);
	assert_int_equal(book->ledger.whole, 3);
	assert_string_equal(book->losses, "process_unknown=1 page_fault=2 ");
}

/* Ticks alone: where a thread waits is told, whoever holds the GIL. */
static void holders_of_the_gil_alone_have_stacks(void **state)
{
	const struct py_frame frame = {.code = 1, .offset = 0};

	restart(&(struct profile_options){.rate = 1000, .gil = true});
	code(1, "main", 10);
	sample_full(T0 + 1 * MS, 1 * MS, &frame, 1, 0, 0, SAMPLE_GIL);
	sample_full(T0 + 2 * MS, 2 * MS, &frame, 1, 0, 0, 0);
	end(T0 + 10 * MS);
	assert_string_equal(book_stack(book, book->samples[0].stack), "main:0");
	assert_int_equal(book->samples[0].class_id, 0); /* there are no native frames */
	assert_string_equal(book_stack(book, book->samples[1].stack), "(without the GIL)");
	assert_string_equal(book->classes[book->samples[1].class_id], "without the GIL");
	assert_int_equal(book->ledger.whole, 2);
}

static void the_ledger_counts_each_loss_once(void **state)
{
	struct sampler_counts sum = {.ticks = 110, .samples = 100};
	unsigned i;

	sum.losses[LOSS_RING_FULL] = 10;
	sum.losses[LOSS_PAGE_FAULT] = 2; /* one of them in a record below */
	sample_full(T0 + MS, 0, NULL, 0, 0, LOSS_PAGE_FAULT, 0);
	for (i = 2; i <= 100; i++) /* 150 ms of CPU, 100 records, 10 more ticks */
		sample(T0 + i * 2 * MS, i == 100 ? 150 * MS : 0);
	profile__counts(profile, &sum);
	profile__loss(profile, LOSS_RECORD_BAD, 3);
	end(T0 + 300 * MS);
	assert_string_equal(book->losses, "tick_missed=40 ring_full=10 record_bad=3 page_fault=2 "
					  "code_uncaptured=198 ");
	assert_int_equal(book->ledger.samples, 100);
}

static void the_newest_name_counts(void **state)
{
	sample(T0 + MS, 0);
	tick(T0 + 200 * MS);
	assert_string_equal(book->threads[0].name, "python3");
	strcpy(task.comm, "compiler");
	sample(T0 + 201 * MS, 0);
	tick(T0 + 1300 * MS);
	assert_string_equal(book->threads[0].name, "compiler");
	assert_int_equal(book->n_threads, 1);
	memcpy(task.comm, "sixteen_bytes_xy", 16);
	sample(T0 + 1301 * MS, 0);
	end(T0 + 1400 * MS);
	assert_string_equal(book->threads[0].name, "sixteen_bytes_xy");
}

static void assert_same_tables(const struct book *a, const struct book *b)
{
	uint32_t i;

	assert_int_equal(a->epoch, b->epoch);
	assert_int_equal(a->n_processes, b->n_processes);
	assert_int_equal(a->n_threads, b->n_threads);
	assert_int_equal(a->n_functions, b->n_functions);
	assert_int_equal(a->n_frames, b->n_frames);
	assert_int_equal(a->n_stacks, b->n_stacks);
	assert_memory_equal(a->process_names, b->process_names, a->n_processes * 32);
	for (i = 0; i < a->n_threads; i++) {
		assert_int_equal(a->threads[i].tid, b->threads[i].tid);
		assert_int_equal(a->threads[i].process, b->threads[i].process);
		assert_int_equal(a->threads[i].ended, b->threads[i].ended);
		assert_string_equal(a->threads[i].name, b->threads[i].name);
	}
	for (i = 0; i < a->n_functions; i++) {
		assert_string_equal(a->functions[i].name, b->functions[i].name);
		assert_int_equal(a->functions[i].line, b->functions[i].line);
	}
	assert_memory_equal(a->frames, b->frames, a->n_frames * sizeof(a->frames[0]));
	assert_memory_equal(a->stacks + 1, b->stacks + 1, a->n_stacks * sizeof(a->stacks[0]));
}

/* One sample of a random thread on a random stack; now and then a thread ends. */
static void random_step(uint32_t i)
{
	struct py_frame frames[8];
	uint32_t n = 1 + rnd(8), f;
	struct record_task t = rec_task(10, 100 + i / 400 + rnd(5), 0, T0 + BOOT, "w");

	for (f = 0; f < n; f++)
		frames[f] = (struct py_frame){.code = 1 + rnd(12), .offset = (int32_t)rnd(20) * 2};
	task = t;
	sample_full(T0 + i * MS / 2, rnd(2) * i * MS / 10, frames, n, 0,
		    rnd(30) ? 0 : LOSS_FRAME_READ, 0);
	if (i >= 400 && i % 400 == 30) { /* no sample is of this thread any more */
		t.tid = 99 + i / 400;
		rec_event(&rec, RECORD_EXIT, T0 + i * MS / 2, &t);
		assert_int_equal(profile__record(profile, (void *)rec.data), 0);
	}
	if (!rnd(100))
		code(1 + rnd(12), "named late", rnd(1000));
	if (i % 40 == 0)
		tick(T0 + i * MS / 2);
}

static void a_late_joiner_sees_what_others_see(void **state)
{
	const struct profile_options options[] = {{.rate = 2000},
						  {.rate = 2000, .stacks_max = 300}};
	struct book *joiner;
	struct wire side;
	unsigned round;
	uint32_t i, joined, at, missed;

	for (round = 0; round < 12; round++) {
		restart(&options[round % 2]);
		joiner = book_new();
		memset(&side, 0, sizeof(side));
		wire_add(&side, 0, &joiner->sink);
		rnd_state = round;
		joined = 1 + rnd(3000);
		for (i = 1; i < joined; i++)
			random_step(i);
		assert_int_equal(profile__replay(profile, &side.sink), 0);
		missed = book->n_samples;
		/* The decoder of the replay goes on with the live events. */
		wire.to[1] = &joiner->sink;
		wire.decoders[1] = side.decoders[0];
		side.decoders[0] = NULL;
		wire_free(&side);
		for (i = joined; i < joined + 1000; i++)
			random_step(i);
		assert_int_equal(profile__end(profile, T0 + i * MS, "duration", ""), 0);
		assert_same_tables(book, joiner);
		assert_int_equal(book->n_samples - missed, joiner->n_samples);
		for (at = 0; at < joiner->n_samples; at++)
			assert_memory_equal(&joiner->samples[at], &book->samples[missed + at],
					    sizeof(joiner->samples[0]));
		/* Its time lines close: begin + times = end. */
		for (at = 0; at < joiner->n_times; at++) {
			const struct book_time *t = &joiner->times[at];

			if (t->begin == t->end && !t->samples)
				continue;
			assert_int_equal(t->begin + t->wall + t->tail_wall, t->end);
		}
		free(joiner);
	}
}

static void memory_is_flat(void **state)
{
	struct profile_totals early, late;
	uint32_t i;

	rnd_state = 5;
	for (i = 1; i <= 20000; i++) {
		const struct py_frame frames[] = {{.code = 1 + rnd(20), .offset = 2}, {.code = 30}};

		task.tid = 10 + rnd(3);
		sample_full(T0 + i * MS / 10, i * MS / 30, frames, 2, 0, 0, 0);
		if (i % 200 == 0)
			tick(T0 + i * MS / 10);
		if (i == 4000)
			profile__totals(profile, &early);
	}
	profile__totals(profile, &late);
	assert_int_equal(early.bytes, late.bytes);
	assert_int_equal(early.stacks, late.stacks);
	end(T0 + 3000 * MS);
	assert_int_equal(book->n_samples, 20000);
}

static void a_hostile_target_stays_within_bounds(void **state)
{
	static struct py_frame frames[RECORD_PY_FRAMES_MAX];
	const struct profile_options options = {.rate = 1000};
	struct profile_totals totals;
	uint32_t i, f;

	restart(&options);
	book->sink.event = NULL; /* its tables are for small things */
	wire.to[0] = NULL;
	rnd_state = 3;
	for (i = 1; i <= 200; i++) {
		for (f = 0; f < RECORD_PY_FRAMES_MAX; f++)
			frames[f] = (struct py_frame){.code = (uint64_t)rnd(1u << 24) << 20,
						      .offset = (int32_t)rnd(1u << 24)};
		task.tid = 10 + i;
		sample_full(T0 + i * MS, i, frames, RECORD_PY_FRAMES_MAX, 0, 0, 0);
		if (i % 20 == 0)
			tick(T0 + i * MS);
		profile__totals(profile, &totals);
		assert_true(totals.bytes < 24u << 20);
	}
	assert_true(totals.epoch > 3);
	assert_int_equal(profile__end(profile, T0 + 3000 * MS, "stopped", ""), 0);
}

static void an_error_of_the_sink_is_handed_up(void **state)
{
	sample(T0 + MS, 0);
	book->fail = -ENOSPC;
	assert_int_equal(profile__tick(profile, T0 + 500 * MS), -ENOSPC);
	assert_int_equal(profile__end(profile, T0 + 600 * MS, "failed", ""), -ENOSPC);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_code_that_comes_a_tick_later_is_named),
		TEST(code_objects_that_come_again_are_kept),
		TEST(a_code_that_does_not_come_is_unknown),
		TEST(a_partial_line_table_gives_line_0),
		TEST(an_offset_beyond_the_table_has_no_line),
		TEST(notes_say_what_is_not_there),
		TEST(holders_of_the_gil_alone_have_stacks),
		TEST(the_ledger_counts_each_loss_once),
		TEST(the_newest_name_counts),
		TEST(a_late_joiner_sees_what_others_see),
		TEST(memory_is_flat),
		TEST(a_hostile_target_stays_within_bounds),
		TEST(an_error_of_the_sink_is_handed_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
