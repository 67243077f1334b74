/* SPDX-License-Identifier: MIT */
/* Profile: processes and threads that start, fork, exec and end. */
#include "profile_session.h"

static void processes_fork_exec_and_exit(void **state)
{
	struct record_task child = rec_task(30, 30, 0, T0 + BOOT + 50 * MS, "python3");
	struct record_task image = child;

	code(1, "main", 10);
	sample(T0 + 10 * MS, 0);
	rec_fork(&rec, T0 + 50 * MS, &child, 10, 0);
	assert_int_equal(profile__record(profile, (void *)rec.data), 0);
	task = child;
	sample(T0 + 60 * MS, 0);
	sample(T0 + 70 * MS, 8 * MS);
	image.exec = 1;
	strcpy(image.comm, "cc1");
	rec_event(&rec, RECORD_EXEC, T0 + 80 * MS, &image)->old_tid = 30;
	assert_int_equal(profile__record(profile, (void *)rec.data), 0);
	task = image;
	sample(T0 + 100 * MS, 20 * MS);
	tick(T0 + 140 * MS);
	rec_event(&rec, RECORD_EXIT, T0 + 150 * MS, &image)->cpu_time = 50 * MS;
	((struct record_event *)rec.data)->group_dead = 1;
	assert_int_equal(profile__record(profile, (void *)rec.data), 0);
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
	assert_string_equal(book->losses, "tick_missed=45 code_uncaptured=5 thread_ended=1 ");
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
	assert_int_equal(profile__record(profile, (void *)rec.data), 0);
	sample(T0 + 60 * MS, 0);
	tick(T0 + 100 * MS);
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
	assert_int_equal(profile__record(profile, (void *)rec.data), 0);
	assert_int_equal(profile__process_gone(profile, 10, task.process_start, T0 + 20 * MS), 0);
	for (i = 0; i < 2; i++) { /* ending, ended */
		task.tid++;
		rec_event(&rec, RECORD_EXEC, T0 + 30 * MS, &task);
		assert_int_equal(profile__record(profile, (void *)rec.data), 0);
		task.tid++;
		rec_event(&rec, RECORD_CLONE, T0 + 30 * MS, &task);
		assert_int_equal(profile__record(profile, (void *)rec.data), 0);
		tick(T0 + (i + 1) * 300 * MS);
	}
	assert_true(book->process_ended[0] && book->process_ended[1]);
	assert_int_equal(profile__rotate(profile, now), 0);
	assert_int_equal(book->n_processes, 0);
	assert_int_equal(book->n_threads, 0);
	end(T0 + 1000 * MS);
}

/* Of what the client was not authorised for nothing is told, and what was told before ends with the exec. */
static void an_image_of_somebody_else_is_withheld(void **state)
{
	sample(T0 + 10 * MS, 0);
	sample(T0 + 20 * MS, 10 * MS);
	task.exec = 1;
	strcpy(task.comm, "sudo");
	rec_event(&rec, RECORD_EXEC, T0 + 30 * MS, &task)->old_tid = 10;
	((struct record_event *)rec.data)->cpu_time = 20 * MS;
	((struct record_event *)rec.data)->flags = EVENT_LOST;
	assert_int_equal(profile__record(profile, (void *)rec.data), 0);
	tick(T0 + 140 * MS);
	tick(T0 + 250 * MS);
	assert_int_equal(book->n_processes, 1);
	assert_true(book->process_ended[0]);
	assert_int_equal(book->times[0].wall + book->times[0].tail_wall, 30 * MS);
	task.exec = 2; /* and back */
	strcpy(task.comm, "python3");
	rec_event(&rec, RECORD_EXEC, T0 + 300 * MS, &task)->old_tid = 10;
	assert_int_equal(profile__record(profile, (void *)rec.data), 0);
	sample(T0 + 310 * MS, 30 * MS);
	end(T0 + 400 * MS);
	assert_int_equal(book->n_processes, 2);
	assert_int_equal(book->n_threads, 2);
	assert_int_equal(book->times[1].begin, T0 + 300 * MS);
}

/* Ticks in the middle of the exec that began it, and of the one that ends it, have other rights than the image: the first may come
 * before the exec's record or after it. */
static void ticks_within_execs_show_nothing(void **state)
{
	const struct profile_options options = {.rate = 1000};

	for (unsigned late = 0; late < 2; late++) {
		task = rec_task(10, 10, 0, task.process_start, "python3");
		restart(&options);
		sample(T0 + 10 * MS, 0);
		sample(T0 + 20 * MS, 10 * MS);
		task.exec = 1;
		if (!late)
			sample(T0 + 29 * MS, 19 * MS);
		rec_event(&rec, RECORD_EXEC, T0 + 30 * MS, &task)->old_tid = 10;
		((struct record_event *)rec.data)->cpu_time = 20 * MS;
		((struct record_event *)rec.data)->flags = EVENT_LOST;
		assert_int_equal(profile__record(profile, (void *)rec.data), 0);
		if (late)
			sample(T0 + 29 * MS, 19 * MS);
		sample(T0 + 299 * MS, 150 * MS);
		task.exec = 2;
		rec_event(&rec, RECORD_EXEC, T0 + 300 * MS, &task)->old_tid = 10;
		((struct record_event *)rec.data)->cpu_time = 151 * MS;
		assert_int_equal(profile__record(profile, (void *)rec.data), 0);
		sample(T0 + 310 * MS, 160 * MS);
		end(T0 + 400 * MS);
		for (uint32_t i = 0; i < book->n_samples; i++)
			assert_true(book->samples[i].time <= T0 + 30 * MS || book->samples[i].time - book->samples[i].wall >= T0 + 300 * MS);
		for (uint32_t i = 0; i < book->n_threads; i++)
			assert_true(book->times[i].begin >= T0 + 300 * MS || book->times[i].begin + book->times[i].wall + book->times[i].tail_wall <= T0 + 30 * MS);
		assert_int_equal(book->n_threads, 3 - late); /* what was shown once ends */
		assert_true(book->process_ended[0] && (late || book->process_ended[1]));
	}
}

/* The broker authorised the client for the new image after all: it begins with the first record since then. */
static void an_image_is_shown_when_it_is_authorised(void **state)
{
	sample(T0 + 10 * MS, 0);
	task.exec = 1;
	rec_event(&rec, RECORD_EXEC, T0 + 30 * MS, &task)->flags = EVENT_LOST;
	assert_int_equal(profile__record(profile, (void *)rec.data), 0);
	sample(T0 + 40 * MS, 10 * MS);
	tick(T0 + 200 * MS);
	profile__authorised(profile, 10, task.process_start, 1);
	sample(T0 + 210 * MS, 180 * MS);
	sample(T0 + 220 * MS, 190 * MS);
	end(T0 + 300 * MS);
	assert_int_equal(book->n_processes, 2);
	assert_int_equal(book->times[1].begin, T0 + 210 * MS);
	assert_true(book->times[1].cpu + book->times[1].tail_cpu <= 10 * MS);
}

/* Its rights are others since some time after its last sample; nothing of its end is told. */
static void a_thread_that_was_lost_ends_where_it_was_met(void **state)
{
	sample(T0 + 10 * MS, 0);
	sample(T0 + 20 * MS, 10 * MS);
	rec_event(&rec, RECORD_LOST, T0 + 100 * MS, &task);
	assert_int_equal(profile__record(profile, (void *)rec.data), 0);
	rec_event(&rec, RECORD_EXIT, T0 + 200 * MS, &task)->flags = EVENT_LOST;
	((struct record_event *)rec.data)->group_dead = 1;
	assert_int_equal(profile__record(profile, (void *)rec.data), 0);
	end(T0 + 600 * MS);
	assert_int_equal(book->times[0].wall + book->times[0].tail_wall, 20 * MS);
	assert_true(book->process_ended[0]);
}

/* It has its rights again: what was between is a row that says so. */
static void a_thread_that_was_lost_may_come_back(void **state)
{
	sample(T0 + 10 * MS, 0);
	rec_event(&rec, RECORD_LOST, T0 + 100 * MS, &task);
	assert_int_equal(profile__record(profile, (void *)rec.data), 0);
	sample(T0 + 200 * MS, 150 * MS);
	sample(T0 + 210 * MS, 160 * MS);
	end(T0 + 210 * MS);
	assert_int_equal(book->n_samples, 4);
	assert_int_equal(book->samples[1].wall, 190 * MS);
	assert_int_equal(book->times[0].wall + book->times[0].tail_wall, 210 * MS);
	assert_int_equal(book->times[0].cpu + book->times[0].tail_cpu, 10 * MS);
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
		assert_int_equal(profile__record(profile, (void *)rec.data), 0);
		rec_event(&rec, RECORD_EXIT, T0 + (i + 1) * MS, &t)->cpu_time = MS / 4;
		assert_int_equal(profile__record(profile, (void *)rec.data), 0);
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

/* The end of the image before waits behind samples whose names are being read. */
static void a_child_runs_the_image_that_forked_it(void **state)
{
	struct record_task image = task, child = rec_task(30, 30, 1, T0 + BOOT + 50 * MS, "python3");
	const struct profile_process told = {
		.tgid = 10,
		.process_start = task.process_start,
		.exec = 1,
		.exec_known = true,
		.lines = PY_LINES_LOCATIONS,
		.name = "python3 y.py",
		.python = "3.12.1",
		.time = T0 + 30 * MS,
	};

	image.exec = 1;
	rec_event(&rec, RECORD_EXEC, T0 + 20 * MS, &image)->old_tid = 10;
	assert_int_equal(profile__record(profile, (void *)rec.data), 0);
	assert_int_equal(profile__process(profile, &told), 0);
	rec_fork(&rec, T0 + 50 * MS, &child, 10, 1);
	assert_int_equal(profile__record(profile, (void *)rec.data), 0);
	end(T0 + 100 * MS);
	assert_int_equal(book->n_processes, 3);
	assert_string_equal(book->pythons[0], "3.10.2");
	assert_string_equal(book->pythons[1], "3.12.1");
	assert_int_equal(book->processes[2].pid, 30);
	assert_string_equal(book->pythons[2], "3.12.1");
	assert_string_equal(book->process_names[2], "python3 y.py");
}

/* In a PID namespace the tid that it had is not known (bpf/ids.h): it is the one that has not ended. */
static void exec_is_called_by_a_thread_without_a_name(void **state)
{
	struct record_task image = task, second = task;
	struct book_time *before;

	image.exec = 1;
	second.tid = 11;
	second.thread_start = T0 + BOOT + 5 * MS;
	sample(T0 + 10 * MS, 0);
	task = second;
	sample(T0 + 20 * MS, 4 * MS);
	task.tid = 10;
	task.thread_start = image.thread_start;
	rec_event(&rec, RECORD_EXIT, T0 + 30 * MS, &task)->cpu_time = 3 * MS;
	assert_int_equal(profile__record(profile, (void *)rec.data), 0);
	rec_event(&rec, RECORD_EXEC, T0 + 40 * MS, &image)->cpu_time = 20 * MS;
	assert_int_equal(profile__record(profile, (void *)rec.data), 0);
	task = image;
	sample(T0 + 60 * MS, 25 * MS);
	end(T0 + 400 * MS);
	before = book_time(book, 11, second.thread_start, 0);
	assert_int_equal(before->cpu + before->tail_cpu, 20 * MS);
}

/* A tick in the exec comes before its record, when the scheduler has counted nothing of the fork yet: what ran before the exec is the old image's. */
static void an_exec_is_met_by_a_tick_before_it_is_told(void **state)
{
	struct record_task child = rec_task(30, 30, 0, T0 + BOOT + 50 * MS, "python3"), image = child;
	struct book_time *before, *after;

	code(1, "main", 10);
	rec_fork(&rec, T0 + 50 * MS, &child, 10, 0);
	assert_int_equal(profile__record(profile, (void *)rec.data), 0);
	image.exec = 1;
	task = image;
	sample(T0 + 53 * MS, 0);
	rec_event(&rec, RECORD_EXEC, T0 + 54 * MS, &image)->cpu_time = 3 * MS;
	((struct record_event *)rec.data)->old_tid = 30;
	assert_int_equal(profile__record(profile, (void *)rec.data), 0);
	rec_event(&rec, RECORD_EXIT, T0 + 60 * MS, &image)->cpu_time = 8 * MS;
	((struct record_event *)rec.data)->group_dead = 1;
	assert_int_equal(profile__record(profile, (void *)rec.data), 0);
	end(T0 + 400 * MS);
	before = book_time(book, 30, child.thread_start, 0);
	after = book_time(book, 30, child.thread_start, 1);
	assert_int_equal(before->cpu + before->tail_cpu, 3 * MS);
	assert_int_equal(after->cpu + after->tail_cpu, 5 * MS);
}

/* A program that runs another one which the engine lists at once: a session of a host. */
static struct profile_thread listed(uint64_t start, uint64_t time, uint64_t exec_time, uint64_t exec_cpu)
{
	const struct profile_process told = {.tgid = 30, .process_start = start, .exec = 1, .exec_known = true, .name = "python3 y.py", .time = time};

	assert_int_equal(profile__process(profile, &told), 0);
	return (struct profile_thread){.tgid = 30, .tid = 30, .process_start = start, .thread_start = start, .cpu_time = exec_cpu + 2 * MS,
				       .cpu_known = true, .time = time, .exec_time = exec_time, .exec_cpu = exec_cpu};
}

/* No record tells of its exec: what it ran before that was another's, whether it began in the session or before. */
static void what_was_before_an_exec_is_not_the_images(void **state)
{
	const uint64_t starts[] = {T0 + BOOT + 50 * MS, T0 + BOOT - 50 * MS};
	struct record_task image = rec_task(30, 30, 1, 0, "python3");
	struct profile_thread thread;
	struct book_time *time;

	for (unsigned i = 0; i < 2; i++) {
		const struct profile_options options = {.rate = 1000, .sees_all = true};

		restart(&options);
		image.process_start = image.thread_start = starts[i];
		thread = listed(starts[i], T0 + 405 * MS, T0 + 400 * MS, 300 * MS);
		assert_int_equal(profile__thread_listed(profile, &thread), 0);
		task = image;
		sample(T0 + 420 * MS, 312 * MS);
		sample(T0 + 440 * MS, 330 * MS);
		rec_event(&rec, RECORD_EXIT, T0 + 450 * MS, &image)->cpu_time = 340 * MS;
		((struct record_event *)rec.data)->group_dead = 1;
		assert_int_equal(profile__record(profile, (void *)rec.data), 0);
		end(T0 + 1000 * MS);
		time = book_time(book, 30, starts[i], 1);
		assert_int_equal(time->cpu + time->tail_cpu, 40 * MS);
		assert_int_equal(time->wall + time->tail_wall, 50 * MS);
	}
}

/* A tick in the middle of the exec shows the new image; it is listed, and the record of the exec comes last. */
static void a_tick_in_an_exec_takes_nothing_along(void **state)
{
	struct record_task old = rec_task(30, 30, 0, T0 + BOOT + 50 * MS, "python3"), image = old;
	const struct profile_options options = {.rate = 1000, .sees_all = true};
	struct profile_thread thread;
	struct book_time *before, *after;

	for (unsigned tells = 0; tells < 2; tells++) { /* when the exec was */
		restart(&options);
		task = old;
		image.exec = 1;
		sample(T0 + 300 * MS, 200 * MS);
		thread = listed(old.process_start, T0 + 405 * MS, tells ? T0 + 400 * MS : 0, 300 * MS);
		assert_int_equal(profile__thread_listed(profile, &thread), 0);
		task = image;
		sample(T0 + 400 * MS - MS / 10, 300 * MS - MS / 10);
		rec_event(&rec, RECORD_EXEC, T0 + 400 * MS, &image)->cpu_time = 300 * MS;
		((struct record_event *)rec.data)->old_tid = 30;
		((struct record_event *)rec.data)->flags = EVENT_LOST;
		assert_int_equal(profile__record(profile, (void *)rec.data), 0);
		sample(T0 + 420 * MS, 312 * MS);
		rec_event(&rec, RECORD_EXIT, T0 + 450 * MS, &image)->cpu_time = 340 * MS;
		((struct record_event *)rec.data)->group_dead = 1;
		assert_int_equal(profile__record(profile, (void *)rec.data), 0);
		end(T0 + 1000 * MS);
		before = book_time(book, 30, old.thread_start, 0);
		after = book_time(book, 30, old.thread_start, 1);
		assert_int_equal(before->cpu + before->tail_cpu, 300 * MS);
		assert_int_equal(after->cpu + after->tail_cpu, 40 * MS);
	}
}

/* A process that nobody has waited for yet, and whose last sample waits for what it ran: that is not made up meanwhile. */
static void an_end_waits_for_what_ran(void **state)
{
	struct record_event *exit;

	sample(T0 + 10 * MS, 0);
	sample(T0 + 20 * MS, 8 * MS);
	sample(T0 + 30 * MS, 8 * MS);
	exit = rec_event(&rec, RECORD_EXIT, T0 + 31 * MS, &task);
	exit->cpu_time = 8 * MS;
	exit->flags = EVENT_SETTLES;
	exit->group_dead = 1;
	assert_int_equal(profile__record(profile, (void *)rec.data), 0);
	tick(T0 + 2000 * MS);
	rec_event(&rec, RECORD_FREED, T0 + 2001 * MS, &task)->cpu_time = 8 * MS + MS / 10;
	assert_int_equal(profile__record(profile, (void *)rec.data), 0);
	end(T0 + 2100 * MS);
	assert_int_equal(book->times[0].cpu + book->times[0].tail_cpu, 8 * MS + MS / 10);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(processes_fork_exec_and_exit),
		TEST(an_image_may_be_told_before_its_exec),
		TEST(a_record_for_an_ended_image_changes_nothing),
		TEST(an_image_of_somebody_else_is_withheld),
		TEST(ticks_within_execs_show_nothing),
		TEST(an_image_is_shown_when_it_is_authorised),
		TEST(a_thread_that_was_lost_ends_where_it_was_met),
		TEST(a_thread_that_was_lost_may_come_back),
		TEST(threads_come_and_go),
		TEST(a_child_runs_the_image_that_forked_it),
		TEST(exec_is_called_by_a_thread_without_a_name),
		TEST(an_exec_is_met_by_a_tick_before_it_is_told),
		TEST(what_was_before_an_exec_is_not_the_images),
		TEST(a_tick_in_an_exec_takes_nothing_along),
		TEST(an_end_waits_for_what_ran),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
