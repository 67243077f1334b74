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

static void start(const struct profile_options *options)
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

static void restart(const struct profile_options *options)
{
	profile__free(profile);
	free(book);
	wire_free(&wire);
	memset(&wire, 0, sizeof(wire));
	book = book_new();
	wire_add(&wire, 0, &book->sink);
	start(options);
}

static int set_up(void **state)
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

static int tear_down(void **state)
{
	profile = profile__free(profile);
	wire_free(&wire);
	free(book);
	return 0;
}

static void code(uint64_t key, const char *name, uint32_t line)
{
	rec_code_whole(&rec, now, &task, key, name, "x.py", line);
	assert_int_equal(profile__code(profile, (void *)rec.data), 0);
}

/* A sample of `task`; frames innermost first. */
static void sample_full(uint64_t time, uint64_t cpu, const struct py_frame *frames, uint32_t n,
			uint16_t loss, uint16_t part_loss, uint32_t flags)
{
	struct record_sample *sample = rec_sample(&rec, time, &task, cpu);

	sample->loss = loss;
	sample->flags = flags;
	rec_frames(&rec, part_loss, frames, n);
	assert_int_equal(profile__sample(profile, (void *)rec.data), 0);
}

static void sample(uint64_t time, uint64_t cpu)
{
	const struct py_frame frames[] = {{.code = 2, .offset = 4}, {.code = 1, .offset = 2}};

	sample_full(time, cpu, frames, 2, 0, 0, 0);
}

static void tick(uint64_t time)
{
	now = time;
	assert_int_equal(profile__tick(profile, time), 0);
}

static void end(uint64_t time)
{
	assert_int_equal(profile__end(profile, time, "duration", "done"), 0);
	assert_int_equal(book->ends, 1);
}

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
	assert_int_equal(book_tid(book, 10)->cpu + book_tid(book, 10)->tail_cpu, 25 * MS);
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

static uint32_t rnd_state;
static uint32_t rnd(uint32_t n)
{
	rnd_state = rnd_state * 1664525u + 1013904223u;
	return (uint32_t)((uint64_t)(rnd_state >> 8) * n >> 24);
}

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
		assert_int_equal(profile__exit(profile, (void *)rec.data), 0);
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
	assert_int_equal(profile__exit(profile, (void *)rec.data), 0);
	end(T0 + 2100 * MS);
	assert_true(book->epochs > 40);
	assert_int_equal(book_tid(book, 10)->samples, 2000);
	assert_int_equal(book_tid(book, 10)->cpu + book_tid(book, 10)->tail_cpu, 2001 * MS);
	assert_int_equal(book_tid(book, 10)->wall + book_tid(book, 10)->tail_wall, 2001 * MS);
	assert_int_equal(book_tid(book, 10)->ends, 1);
}

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

static void processes_fork_exec_and_exit(void **state)
{
	struct record_task child = rec_task(30, 30, 0, T0 + BOOT + 50 * MS, "python3");
	struct record_task image = child;

	code(1, "main", 10);
	sample(T0 + 10 * MS, 0);
	rec_fork(&rec, T0 + 50 * MS, &child, 10, 0);
	assert_int_equal(profile__fork(profile, (void *)rec.data), 0);
	task = child;
	sample(T0 + 60 * MS, 0);
	sample(T0 + 70 * MS, 8 * MS);
	image.exec = 1;
	strcpy(image.comm, "cc1");
	rec_event(&rec, RECORD_EXEC, T0 + 80 * MS, &image)->old_tid = 30;
	assert_int_equal(profile__exec(profile, (void *)rec.data), 0);
	task = image;
	sample(T0 + 100 * MS, 20 * MS);
	tick(T0 + 140 * MS);
	rec_event(&rec, RECORD_EXIT, T0 + 150 * MS, &image)->cpu_time = 50 * MS;
	((struct record_event *)rec.data)->group_dead = 1;
	assert_int_equal(profile__exit(profile, (void *)rec.data), 0);
	/* It was on its way as the thread ended. */
	sample(T0 + 149 * MS, 45 * MS);
	tick(T0 + 300 * MS);
	assert_int_equal(book->n_processes, 3);
	assert_int_equal(book->processes[1].parent, 10);
	assert_int_equal(book->processes[1].exec, 0);
	assert_string_equal(book->pythons[1], "3.10.2");
	assert_string_equal(book->process_names[1], "python3 x.py");
	assert_int_equal(book->processes[2].exec, 1);
	assert_int_equal(book->processes[2].parent, 10);
	assert_string_equal(book->process_names[2], "cc1");
	assert_string_equal(book->pythons[2], "");
	assert_false(book->process_ended[0]);
	assert_true(book->process_ended[1] && book->process_ended[2]);
	{
		struct book_time *before = book_time(book, 30, child.thread_start, 0);
		struct book_time *after = book_time(book, 30, child.thread_start, 1);

		assert_int_equal(before->wall + before->tail_wall, 30 * MS);
		assert_int_equal(after->wall + after->tail_wall, 70 * MS);
		assert_int_equal(after->begin, T0 + 80 * MS);
		assert_int_equal(before->cpu + before->tail_cpu + after->cpu + after->tail_cpu,
				 50 * MS);
	}
	/* Too late: its end was told. */
	sample(T0 + 151 * MS, 50 * MS);
	end(T0 + 400 * MS);
	assert_int_equal(book->n_threads, 3);
	assert_string_equal(book->losses, "tick_missed=46 code_uncaptured=5 thread_ended=1 ");
}

/* The engine reads an image's name before the record of its exec was handed on. */
static void an_image_may_be_told_before_its_exec(void **state)
{
	struct profile_process told = {
		.tgid = 10,
		.process_start = task.process_start,
		.exec = 1,
		.exec_known = true,
		.lines = PY_LINES_LOCATIONS,
		.name = "python3 y.py",
		.python = "3.12.1",
		.time = T0 + 50 * MS,
	};

	sample(T0 + 10 * MS, 0);
	tick(T0 + 20 * MS);
	assert_int_equal(profile__process(profile, &told), 0);
	sample(T0 + 40 * MS, 0);
	task.exec = 1;
	rec_event(&rec, RECORD_EXEC, T0 + 45 * MS, &task)->old_tid = 10;
	assert_int_equal(profile__exec(profile, (void *)rec.data), 0);
	sample(T0 + 60 * MS, 0);
	tick(T0 + 200 * MS);
	assert_int_equal(book->n_processes, 2);
	assert_true(book->process_ended[0]);
	assert_string_equal(book->process_names[0], "python3 x.py");
	assert_string_equal(book->process_names[1], "python3 y.py");
	assert_int_equal(profile__process_gone(profile, 10, task.process_start, T0 + 210 * MS), 0);
	tick(T0 + 400 * MS);
	assert_true(book->process_ended[1]);
	end(T0 + 500 * MS);
	assert_int_equal(book->n_threads, 2);
	assert_int_equal(book->samples[2].wall, 15 * MS);
}

/* No thread outlives its process, whatever comes late: the fuzzer found one that did. */
static void a_record_for_an_ended_image_changes_nothing(void **state)
{
	unsigned i;

	task.exec = 1;
	rec_event(&rec, RECORD_EXEC, T0 + 10 * MS, &task);
	assert_int_equal(profile__exec(profile, (void *)rec.data), 0);
	assert_int_equal(profile__process_gone(profile, 10, task.process_start, T0 + 20 * MS), 0);
	for (i = 0; i < 2; i++) { /* ending, ended */
		task.tid++;
		rec_event(&rec, RECORD_EXEC, T0 + 30 * MS, &task);
		assert_int_equal(profile__exec(profile, (void *)rec.data), 0);
		task.tid++;
		rec_event(&rec, RECORD_CLONE, T0 + 30 * MS, &task);
		assert_int_equal(profile__clone(profile, (void *)rec.data), 0);
		tick(T0 + (i + 1) * 300 * MS);
	}
	assert_true(book->process_ended[0] && book->process_ended[1]);
	assert_int_equal(profile__rotate(profile, now), 0);
	assert_int_equal(book->n_processes, 0);
	assert_int_equal(book->n_threads, 0);
	end(T0 + 1000 * MS);
}

static void threads_come_and_go(void **state)
{
	struct record_task t = rec_task(10, 0, 0, task.process_start, "w");
	uint32_t i;
	const struct profile_options options = {.rate = 1000, .ended_max = 100};

	restart(&options);
	for (i = 0; i < 1000; i++) {
		t.tid = 100 + i;
		t.thread_start = T0 + BOOT + i * MS;
		rec_event(&rec, RECORD_CLONE, T0 + i * MS, &t);
		assert_int_equal(profile__clone(profile, (void *)rec.data), 0);
		rec_event(&rec, RECORD_EXIT, T0 + (i + 1) * MS, &t)->cpu_time = MS / 4;
		assert_int_equal(profile__exit(profile, (void *)rec.data), 0);
		if (i % 20 == 0)
			tick(T0 + i * MS);
	}
	end(T0 + 1100 * MS);
	assert_true(book->epochs > 3);
	assert_int_equal(book->n_times, 1000);
	for (i = 0; i < 1000; i++) {
		assert_int_equal(book->times[i].ends, 1);
		assert_int_equal(book->times[i].tail_wall, MS);
		assert_int_equal(book->times[i].tail_cpu, MS / 4);
	}
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
		assert_int_equal(profile__exit(profile, (void *)rec.data), 0);
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

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, set_up, tear_down)

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
		TEST(a_code_that_comes_a_tick_later_is_named),
		TEST(a_code_that_does_not_come_is_unknown),
		TEST(a_partial_line_table_gives_line_0),
		TEST(an_offset_beyond_the_table_has_no_line),
		TEST(notes_say_what_is_not_there),
		TEST(the_ledger_counts_each_loss_once),
		TEST(the_newest_name_counts),
		TEST(processes_fork_exec_and_exit),
		TEST(an_image_may_be_told_before_its_exec),
		TEST(a_record_for_an_ended_image_changes_nothing),
		TEST(threads_come_and_go),
		TEST(a_late_joiner_sees_what_others_see),
		TEST(memory_is_flat),
		TEST(a_hostile_target_stays_within_bounds),
		TEST(an_error_of_the_sink_is_handed_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
