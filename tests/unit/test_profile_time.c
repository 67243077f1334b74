/* SPDX-License-Identifier: MIT */
/* Profile: CPU and wall time of samples add up to those of the threads. */
#include "profile_session.h"

static void a_sample_becomes_a_named_stack(void **state)
{
	code(1, "main", 10);
	code(2, "work", 20);
	sample(T0 + 1 * MS, 100);
	sample(T0 + 2 * MS, 100);
	end(T0 + 10 * MS);
	assert_int_equal(book->n_samples, 2);
	assert_string_equal(book_stack(book, book->samples[0].stack), "main:11;work:22");
	assert_int_equal(book->samples[0].stack, book->samples[1].stack);
	assert_int_equal(book->n_stacks, 2);
	assert_int_equal(book->n_functions, 2);
	assert_int_equal(book->functions[0].line, 10);
	assert_string_equal(book->functions[0].file, "x.py");
	assert_string_equal(book->process_names[0], "python3 x.py");
	assert_string_equal(book->pythons[0], "3.10.2");
	assert_string_equal(book->threads[0].name, "python3");
	assert_true(book->threads[0].ended && book->process_ended[0]);
	assert_string_equal(book->end_reason, "duration");
	assert_int_equal(book->ledger.samples, 2);
	assert_int_equal(book->ledger.whole, 2);
	assert_string_equal(book->losses, "");
}

static void cpu_time_is_shared_between_two_advances(void **state)
{
	unsigned i;

	/* 1,000 Hz on a thread that is always on; the scheduler looks each 4 ms. */
	for (i = 0; i < 40; i++)
		sample(T0 + (i + 1) * MS, 50 * MS + (i + 1) / 4 * 4 * MS);
	end(T0 + 40 * MS);
	assert_int_equal(book->n_samples, 40);
	for (i = 0; i < 40; i++)
		assert_int_equal(book->samples[i].wall, MS);
	for (i = 3; i < 35; i++)
		assert_int_equal(book->samples[i].cpu, MS);
	assert_int_equal(book_tid(book, 10)->cpu, 40 * MS);
	assert_int_equal(book_tid(book, 10)->over, 0);
}

static void an_uneven_advance_is_shared_to_the_nanosecond(void **state)
{
	sample(T0 + 1 * MS, 7);
	sample(T0 + 2 * MS, 7);
	sample(T0 + 3 * MS, 7);
	sample(T0 + 4 * MS, 7 + 11); /* 4 + 4 + 3 */
	end(T0 + 4 * MS);
	assert_int_equal(book->samples[0].cpu, 4);
	assert_int_equal(book->samples[1].cpu, 4);
	assert_int_equal(book->samples[2].cpu, 3);
	assert_int_equal(book->samples[3].cpu, 0);
}

static void no_sample_has_more_cpu_than_wall(void **state)
{
	sample(T0 + 1 * MS, 0);
	sample(T0 + 1 * MS + 10, 0);
	sample(T0 + 9 * MS, 3 * MS); /* 2 samples with room for 1 ms and 10 ns */
	end(T0 + 10 * MS);
	assert_int_equal(book->samples[0].cpu, MS);
	assert_int_equal(book->samples[1].cpu, 10);
	assert_int_equal(book->samples[2].cpu + book_tid(book, 10)->tail_cpu, 2 * MS - 10);
}

/* Bursts of 3 ms each 100 ms: the samples of a burst share its time, although the
 * next advance is seen only as the next burst begins. */
static void a_burst_keeps_its_own_time(void **state)
{
	uint64_t t = T0, cpu = 0;
	unsigned burst, i;

	for (burst = 0; burst < 10; burst++, t += 100 * MS) {
		for (i = 1; i <= 3; i++)
			sample(t + i * MS, cpu);
		cpu += 3 * MS + MS / 2; /* at the switch */
		tick(t + 20 * MS);
		tick(t + 80 * MS);
	}
	sample(t + MS, cpu);
	end(t + MS);
	for (i = 3; i < 30; i++)
		assert_in_range(book->samples[i].cpu, MS, MS + MS / 2);
	assert_int_equal(book_tid(book, 10)->cpu + book_tid(book, 10)->tail_cpu, cpu);
}

static void wall_begins_with_the_session_or_the_thread(void **state)
{
	sample(T0 + 30 * MS, 0);
	task = rec_task(10, 12, 0, task.process_start, "late");
	task.thread_start = T0 + BOOT + 20 * MS;
	sample(T0 + 31 * MS, 5 * MS);
	end(T0 + 50 * MS);
	assert_int_equal(book->samples[0].wall, 30 * MS);
	assert_int_equal(book_tid(book, 10)->begin, T0);
	assert_int_equal(book->samples[1].wall, 11 * MS);
	assert_int_equal(book_tid(book, 12)->begin, T0 + 20 * MS);
	assert_int_equal(book_tid(book, 12)->tail_wall, 19 * MS);
	/* Its CPU time counts from 0; that of a thread which was there before does not. */
	assert_int_equal(book_tid(book, 12)->cpu + book_tid(book, 12)->tail_cpu, 5 * MS);
	assert_int_equal(book_tid(book, 10)->cpu + book_tid(book, 10)->tail_cpu, 0);
}

static void a_listed_thread_appears_without_a_sample(void **state)
{
	struct profile_thread thread = {
		.tgid = 10,
		.tid = 13,
		.process_start = task.process_start / (10 * MS) * (10 * MS),
		.thread_start = T0 + BOOT - 50 * MS,
		.cpu_time = 70 * MS,
		.cpu_known = true,
		.name = "sleeper",
		.time = T0 + MS,
	};

	assert_int_equal(profile__thread_listed(profile, &thread), 0);
	assert_int_equal(profile__thread_listed(profile, &thread), 0);
	thread.tid = 10;
	thread.name = "python3";
	thread.thread_start = thread.process_start;
	assert_int_equal(profile__thread_listed(profile, &thread), 0);
	tick(T0 + 200 * MS);
	assert_int_equal(book->n_threads, 2);
	assert_string_equal(book->threads[0].name, "sleeper");
	/* A record of it, whose start is finer, is the same thread. */
	sample(T0 + 300 * MS, 80 * MS);
	thread.cpu_time = 95 * MS;
	assert_int_equal(profile__thread_cpu(profile, &thread), 0);
	end(T0 + 400 * MS);
	assert_int_equal(book->n_threads, 2);
	assert_int_equal(book_tid(book, 13)->tail_wall, 400 * MS);
	assert_int_equal(book_tid(book, 13)->tail_cpu, 0);
	assert_int_equal(book_tid(book, 10)->wall + book_tid(book, 10)->tail_wall, 400 * MS);
	/* Its clock has a tick in two periods of CPU time: 8 of the first 10 ms were before there was a clock. */
	assert_int_equal(book_tid(book, 10)->cpu + book_tid(book, 10)->tail_cpu, (2 + 15) * MS);
}

static void a_stale_baseline_makes_no_time(void **state)
{
	struct profile_thread thread = {
		.tgid = 10,
		.tid = 10,
		.process_start = task.process_start,
		.thread_start = task.thread_start,
		.cpu_time = 100 * MS, /* was 103 in truth */
		.cpu_known = true,
	};
	unsigned i;

	assert_int_equal(profile__thread_listed(profile, &thread), 0);
	for (i = 1; i <= 20; i++)
		sample(T0 + i * MS, 100 * MS + (i + 3) / 4 * 4 * MS);
	end(T0 + 20 * MS);
	assert_true(book_tid(book, 10)->cpu + book_tid(book, 10)->tail_cpu <= 20 * MS);
	assert_true(book_tid(book, 10)->tail_cpu == 0);
}

/* --- a model of the scheduler, and what the sampler sees of it --- */

struct model {
	struct record_task task;
	uint64_t cpu, shown; /* true CPU time; sum_exec_runtime */
	uint64_t next_tick;  /* of the sampler, in CPU time */
	uint64_t run_until, sleep_until;
	unsigned samples;
	bool runs;
};

#define STEP 50000ull /* 50 us */
#define MODELS 5

/* One step of 50 us; a sample when the sampler's clock says so. */
static void model_step(struct model *model, uint64_t time, uint64_t period)
{
	if (model->runs && time >= model->run_until) {
		model->runs = false;
		model->shown = model->cpu;
		model->sleep_until = time + rnd(3) * rnd(3000) * STEP / 10;
	} else if (!model->runs && time >= model->sleep_until) {
		model->runs = true;
		model->run_until = time + (1 + rnd(40) * rnd(40)) * STEP;
	}
	if (!model->runs)
		return;
	model->cpu += STEP;
	if (time % (4 * MS) < STEP)
		model->shown = model->cpu;
	if (model->cpu >= model->next_tick) {
		model->next_tick += period;
		task = model->task;
		sample(time + STEP - rnd(STEP), model->shown);
		model->samples++;
	}
}

static void run_model(uint64_t period, uint64_t length, unsigned seed)
{
	struct model models[MODELS] = {};
	uint64_t time;
	unsigned i;

	rnd_state = seed;
	for (i = 0; i < MODELS; i++) {
		models[i].task = rec_task(10, 20 + i, 0, T0 + BOOT - 100 * MS, "worker");
		models[i].task.thread_start = T0 + BOOT + i * MS;
		models[i].next_tick = period;
	}
	for (time = T0; time < T0 + length; time += STEP) {
		for (i = 0; i < MODELS; i++)
			if (time >= T0 + i * MS)
				model_step(&models[i], time, period);
		if (time % (20 * MS) < STEP)
			tick(time + STEP);
	}
	for (i = 0; i < MODELS; i++) {
		rec_event(&rec, RECORD_EXIT, time, &models[i].task)->cpu_time = models[i].cpu;
		assert_int_equal(profile__record(profile, (void *)rec.data), 0);
	}
	end(time + 100 * MS);
	for (i = 0; i < MODELS; i++) {
		struct book_time *t = book_tid(book, (int32_t)(20 + i));

		assert_non_null(t);
		assert_int_equal(t->samples, models[i].samples);
		assert_int_equal(t->cpu + t->tail_cpu, models[i].cpu);
		assert_int_equal(t->wall + t->tail_wall, time - (T0 + i * MS));
		assert_int_equal(t->over, 0);
		assert_int_equal(t->ends, 1);
		assert_int_equal(t->begin, T0 + i * MS);
		assert_int_equal(t->end, time);
	}
}

static void sums_are_exact(void **state)
{
	const uint64_t periods[] = {10 * MS, MS, 100000};
	const struct profile_options options[] = {
		{.rate = 100}, {.rate = 1000}, {.rate = 10000}, {.rate = 1000, .pending_max = 8}};
	unsigned i, seed;

	for (seed = 1; seed <= 4; seed++)
		for (i = 0; i < 3; i++) {
			restart(&options[i]);
			run_model(periods[i], 1000 * MS, seed);
		}
	restart(&options[3]);
	run_model(MS, 1000 * MS, 9);
}

static void sums_are_exact_over_epochs(void **state)
{
	const struct profile_options options = {.rate = 1000, .stacks_max = 40};
	uint32_t i;

	restart(&options);
	for (i = 1; i <= 2000; i++) {
		const struct py_frame frames[] = {{.code = i}, {.code = i / 10 + 5000}};

		sample_full(T0 + i * MS, i / 4 * 4 * MS, frames, 2, 0, 0, 0);
		if (i % 20 == 0)
			tick(T0 + i * MS);
	}
	rec_event(&rec, RECORD_EXIT, T0 + 2001 * MS, &task)->cpu_time = 2001 * MS;
	assert_int_equal(profile__record(profile, (void *)rec.data), 0);
	end(T0 + 2100 * MS);
	assert_true(book->epochs > 40);
	assert_int_equal(book_tid(book, 10)->samples, 2000);
	assert_int_equal(book_tid(book, 10)->cpu + book_tid(book, 10)->tail_cpu, 2001 * MS);
	assert_int_equal(book_tid(book, 10)->wall + book_tid(book, 10)->tail_wall, 2001 * MS);
	assert_int_equal(book_tid(book, 10)->ends, 1);
}

static void an_epoch_is_ended(void **state)
{
	const struct profile_options options = {.rate = 1000};
	const struct py_frame frame = {.code = 7};
	uint32_t i, before;

	restart(&options);
	before = book->epochs;
	for (i = 1; i <= 100; i++) {
		sample_full(T0 + i * MS, i * MS, &frame, 1, 0, 0, 0);
		if (i == 50)
			profile__end_epoch(profile);
		if (i % 20 == 0)
			tick(T0 + i * MS);
	}
	end(T0 + 100 * MS);
	assert_int_equal(book->epochs, before + 1);
	assert_int_equal(book_tid(book, 10)->samples, 100);
	/* What it ran before its first sample is not known. */
	assert_int_equal(book_tid(book, 10)->cpu + book_tid(book, 10)->tail_cpu, 99 * MS);
}

/* What a tick of a CPU's clock met stands for a period, in the long run: it gives away what is more, and takes what others gave or ran unseen, never
 * more than that. */
static void a_tick_of_a_cpu_stands_for_a_period(void **state)
{
	const struct profile_options options = {.rate = 1000, .ended_max = 100};
	const struct py_frame frames[] = {{.code = 1, .offset = 2}};
	uint64_t time = T0 + MS, others = 0, given = 0;
	uint32_t i;

	restart(&options);
	code(1, "main", 10);
	for (i = 0; i < 60; i++) {
		time += i % 3 ? MS / 2 : 2 * MS; /* a period on average */
		sample_full(time, time - T0, frames, 1, 0, 0, SAMPLE_OF_CPU);
	}
	end(time + MS);
	for (i = 0; i < 60; i++) {
		const struct book_sample *row = &book->samples[i];

		others += row->others;
		given += row->given;
		assert_true(others <= given);
		assert_true(row->given <= row->cpu);
		assert_true(!row->given || !row->others);
		if (i > 30)
			assert_in_range(row->cpu + row->others - row->given, MS / 2, MS * 5 / 4);
	}
	assert_true(given > 0);
}

/* A thread that compiles leaves its CPU in "wait": mode cpu. `values`: in a function of a rule. */
static void leaves(uint64_t time, bool values)
{
	const struct py_frame frames[] = {{.code = 3, .offset = 4}, {.code = 1, .offset = 2}};
	struct record_sample *record = rec_sample(&rec, time, &task, 0);
	struct part_wait *wait;
	struct sample parsed;

	record->flags = SAMPLE_OFF_CPU | SAMPLE_IN_KERNEL;
	rec_frames(&rec, 0, frames, 2);
	if (values)
		rec_part(&rec, PART_VALUES, 0, sizeof(struct part_values), 0);
	wait = rec_part(&rec, PART_WAIT, 0, sizeof(*wait), 0);
	wait->key = WAIT_KEY_ASLEEP;
	wait->syscall = -1;
	wait->state = 1;
	assert_int_equal(record__check(rec.data, rec.size), 0);
	record__parse((void *)rec.data, &parsed);
	assert_int_equal(profile__sample(profile, &parsed), 0);
}

static void is_back_after(uint64_t time, uint64_t waited)
{
	struct record_wait wait = {.key = WAIT_KEY_ASLEEP, .waited = waited, .count = 1, .syscall = -1, .state = 1};

	wait.header = (struct record_header){.size = sizeof(wait), .kind = RECORD_WAIT, .time = time, .task = task};
	assert_int_equal(profile__record(profile, &wait.header), 0);
}

static void is_back(uint64_t time)
{
	is_back_after(time, 0);
}

static void is_row(uint32_t i, uint64_t time, uint64_t wall, const char *stack)
{
	assert_true(i < book->n_samples);
	assert_int_equal(book->samples[i].time, time);
	assert_int_equal(book->samples[i].wall, wall);
	assert_string_equal(book_stack(book, book->samples[i].stack), stack);
}

#define ASLEEP "main:11;wait:32;(waiting: asleep)"
static void codes_of_waits(void)
{
	code(1, "main", 10);
	code(2, "work", 20);
	code(3, "wait", 30);
}

/* Where it left is a row at once, so that what others do meanwhile is in its compile; and it lasts until it is back, to
 * the nanosecond, however late that is found. */
static void a_compile_sleeps_until_it_is_back(void **state)
{
	codes_of_waits();
	sample(T0 + 1 * MS, 0);
	leaves(T0 + 1500000, true);
	is_back(T0 + 90 * MS);
	sample(T0 + 90 * MS + 700000, 0);
	end(T0 + 91 * MS);
	assert_int_equal(book->n_samples, 4);
	is_row(0, T0 + 1 * MS, 1 * MS, "main:11;work:22");
	is_row(1, T0 + 1500001, 500001, ASLEEP);
	is_row(2, T0 + 90 * MS, 90 * MS - 1500001, ASLEEP);
	is_row(3, T0 + 90 * MS + 700000, 700000, "main:11;work:22");
}

/* Of a wait that goes on there are rows, too, but not of one outside of compiles. */
static void a_long_sleep_is_seen_while_it_lasts(void **state)
{
	codes_of_waits();
	sample(T0 + 1 * MS, 0);
	leaves(T0 + 2 * MS, true);
	assert_int_equal(profile__sleep(profile, T0 + 300 * MS), 0);
	assert_int_equal(profile__sleep(profile, T0 + 300 * MS), 0);
	is_back(T0 + 500 * MS);
	assert_int_equal(profile__sleep(profile, T0 + 600 * MS), 0);
	leaves(T0 + 601 * MS, false);
	assert_int_equal(profile__sleep(profile, T0 + 700 * MS), 0);
	end(T0 + 800 * MS);
	assert_int_equal(book->n_samples, 5);
	is_row(2, T0 + 300 * MS, 298 * MS - 1, ASLEEP);
	is_row(3, T0 + 500 * MS, 200 * MS, ASLEEP);
	is_row(4, T0 + 601 * MS + 1, 101 * MS + 1, ASLEEP);
}

/* Of many switches in a row not each has a stack; one that is older than a few periods is of somewhere else. */
static void a_sleep_without_a_stack_is_where_the_last_one_was(void **state)
{
	codes_of_waits();
	sample(T0 + 1 * MS, 0);
	leaves(T0 + 2 * MS, true);
	is_back(T0 + 3 * MS);
	is_back_after(T0 + 60 * MS, 56 * MS);
	sample(T0 + 61 * MS, 0);
	is_back_after(T0 + 90 * MS, 20 * MS);
	end(T0 + 91 * MS);
	assert_int_equal(book->n_samples, 5);
	is_row(2, T0 + 3 * MS, 1 * MS - 1, ASLEEP);
	is_row(3, T0 + 60 * MS, 57 * MS, ASLEEP);
	is_row(4, T0 + 61 * MS, 1 * MS, "main:11;work:22");
}

/* A record of its return that is missing, or comes twice. */
static void a_tick_ends_a_sleep_that_no_record_ends(void **state)
{
	codes_of_waits();
	is_back(T0 + 1);
	sample(T0 + 1 * MS, 0);
	leaves(T0 + 2 * MS, true);
	sample(T0 + 9 * MS, 0);
	is_back(T0 + 10 * MS);
	sample(T0 + 11 * MS, 0);
	end(T0 + 12 * MS);
	assert_int_equal(book->n_samples, 5);
	is_row(2, T0 + 9 * MS - MS / 2, 7 * MS - MS / 2 - 1, ASLEEP);
	is_row(3, T0 + 9 * MS, MS / 2, "main:11;work:22");
	is_row(4, T0 + 11 * MS, 2 * MS, "main:11;work:22");
}

/* The ledger counts ticks that did not come at the rate of their part. */
static void parts_have_their_rates(void **state)
{
	struct event_session clocks = {.monotonic = T0 + 50 * MS, .boottime = T0 + 50 * MS + BOOT, .rate = 100};

	for (unsigned i = 1; i <= 40; i++)
		sample(T0 + i * MS, i * MS);
	assert_int_equal(profile__part(profile, &clocks), 0);
	assert_int_equal(book->session.rate, 100);
	assert_string_equal(book->losses, "code_uncaptured=80 ");
	for (unsigned i = 10; i <= 30; i++) /* a tick each 10 ms */
		sample(T0 + i * 10 * MS, (i - 6) * 10 * MS);
	clocks.monotonic = T0 + 310 * MS;
	clocks.rate = 1000;
	assert_int_equal(profile__part(profile, &clocks), 0);
	assert_int_equal(book->session.rate, 1000);
	assert_string_equal(book->losses, "code_uncaptured=42 ");
	sample(T0 + 410 * MS, 340 * MS);
	end(T0 + 420 * MS);
	/* Of 39 + 20 + 100 that were due 40 + 21 + 1 came. */
	assert_string_equal(book->losses, "tick_missed=97 code_uncaptured=2 ");
}

/* Samples at both sides of a border, and a thread that sleeps over it. */
static void parts_add_up(void **state)
{
	const struct event_session clocks = {.monotonic = T0 + 50 * MS, .boottime = T0 + 50 * MS + BOOT, .realtime = 77, .rate = 1000};
	const struct profile_thread sleeper = {.tgid = 10, .tid = 13, .process_start = task.process_start, .thread_start = task.process_start, .name = "sleeper"};

	assert_int_equal(profile__thread_listed(profile, &sleeper), 0);
	for (unsigned i = 1; i <= 40; i++)
		sample(T0 + i * MS, i * MS);
	profile__loss(profile, LOSS_PAGE_FAULT, 3);
	assert_int_equal(profile__part(profile, &clocks), 0);
	assert_int_equal(book->ledger.samples, 40);
	assert_string_equal(book->losses, "page_fault=3 code_uncaptured=80 ");
	assert_int_equal(book->parts, 1);
	assert_int_equal(book->sessions, 2);
	assert_int_equal(book->session.monotonic, T0 + 50 * MS);
	assert_int_equal(book->session.realtime, 77);
	assert_int_equal(book_tid(book, 10)->wall + book_tid(book, 10)->tail_wall, 50 * MS);
	assert_int_equal(book_tid(book, 13)->tail_wall, 50 * MS);
	for (unsigned i = 61; i <= 70; i++)
		sample(T0 + i * MS, (i - 20) * MS);
	profile__loss(profile, LOSS_PAGE_FAULT, 1);
	end(T0 + 100 * MS);
	assert_int_equal(book->ledger.samples, 10);
	assert_string_equal(book->losses, "page_fault=1 code_uncaptured=20 ");
	assert_int_equal(book->samples[40].wall, 11 * MS);
	assert_int_equal(book_tid(book, 10)->wall + book_tid(book, 10)->tail_wall, 100 * MS);
	assert_int_equal(book_tid(book, 10)->cpu + book_tid(book, 10)->tail_cpu, 49 * MS);
	assert_int_equal(book_tid(book, 13)->tail_wall, 100 * MS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_sample_becomes_a_named_stack),
		TEST(cpu_time_is_shared_between_two_advances),
		TEST(an_uneven_advance_is_shared_to_the_nanosecond),
		TEST(no_sample_has_more_cpu_than_wall),
		TEST(a_burst_keeps_its_own_time),
		TEST(wall_begins_with_the_session_or_the_thread),
		TEST(a_listed_thread_appears_without_a_sample),
		TEST(a_stale_baseline_makes_no_time),
		TEST(sums_are_exact),
		TEST(sums_are_exact_over_epochs),
		TEST(an_epoch_is_ended),
		TEST(parts_add_up),
		TEST(parts_have_their_rates),
		TEST(a_tick_of_a_cpu_stands_for_a_period),
		TEST(a_compile_sleeps_until_it_is_back),
		TEST(a_long_sleep_is_seen_while_it_lasts),
		TEST(a_sleep_without_a_stack_is_where_the_last_one_was),
		TEST(a_tick_ends_a_sleep_that_no_record_ends),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
