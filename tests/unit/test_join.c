/* SPDX-License-Identifier: MIT */
/* Recordings of several processes joined into one: sums of functions, threads and losses against those of their
 * generators. */
#include <errno.h>
#include <unistd.h>

#include "export/join.h"
#include "export_util.h"

#define PROCESSES 3u

/* As another process has it, which was attached to a moment later. */
struct other {
	struct event_sink sink;
	struct event_sink *to;
	uint32_t number;
	bool no_end;
};

static int other_event(struct event_sink *self, const struct event *event)
{
	struct other *other = (struct other *)self;
	struct event own = *event;

	switch (event->kind) {
	case EVENT_SESSION:
		own.session.pid += (int32_t)other->number;
		own.session.monotonic += other->number;
		break;
	case EVENT_PROCESS:
		own.process.pid += (int32_t)other->number;
		break;
	case EVENT_THREAD:
		own.thread.tid += (int32_t)other->number * 1000;
		break;
	case EVENT_END:
		if (other->no_end)
			return 0;
		break;
	default:
		break;
	}
	return other->to->event(other->to, &own);
}

static int made_as(struct synthetic *s, uint32_t number, bool no_end)
{
	struct memory memory;
	struct other other = {.sink = {other_event}, .to = &memory.sink, .number = number, .no_end = no_end};

	memory_open(&memory);
	s->sink = &other.sink;
	synthetic_run(s);
	return memory_close(&memory);
}

static void functions_add_up(const struct synthetic s[PROCESSES], json_t *json)
{
	json_t *rows = json_object_get(json_array_get(json_object_get(json, "tables"), 0), "rows"), *row;
	uint64_t truth[SYNTHETIC_FUNCTIONS] = {};
	uint32_t i, t, f, n = 0;
	size_t at;

	for (i = 0; i < PROCESSES; i++)
		for (t = 0; t < s[i].threads; t++)
			for (f = 0; f < SYNTHETIC_FUNCTIONS; f++)
				truth[f] += s[i].truth[t].self[f];
	json_array_foreach(rows, at, row)
	{
		const char *number = strrchr(text_of(row, "name"), '_');

		if (!number || sscanf(number, "_%u", &f) != 1)
			continue;
		assert_int_equal(number_of(row, "exclusive_ns"), truth[f]);
		truth[f] = 0;
		n++;
	}
	for (f = 0; f < SYNTHETIC_FUNCTIONS; f++)
		assert_int_equal(truth[f], 0);
	assert_true(n > 100);
}

static void check(uint32_t epoch_seconds, bool no_end)
{
	const struct report_options options = {.tables = 1u << REPORT_FUNCTION, .native_frames = true};
	struct synthetic s[PROCESSES];
	int in[PROCESSES], whole = memfd_create("whole", MFD_CLOEXEC);
	uint64_t samples = 0, cpu = 0, threads = 0;
	json_t *json, *file;
	uint32_t i, t;
	bool cut;

	for (i = 0; i < PROCESSES; i++) {
		s[i] = (struct synthetic){.threads = 1 + i, .rate = 999, .seconds = 3 + i, .depth = 20, .seed = 40 + i, .epoch_seconds = epoch_seconds};
		in[i] = made_as(&s[i], i, no_end && i == 1);
		for (t = 0; t < s[i].threads; t++) {
			samples += s[i].truth[t].samples;
			cpu += s[i].truth[t].cpu;
		}
		threads += s[i].threads;
	}
	assert_int_equal(recordings__join(in, PROCESSES, NULL, 0, whole, true, &cut), 0);
	assert_int_equal(cut, no_end);
	assert_int_equal(lseek(whole, 0, SEEK_SET), 0);
	json = report_of(whole, &options);
	file = json_array_get(json_object_get(json, "recordings"), 0);
	functions_add_up(s, json);
	assert_int_equal(number_of(file, "samples"), samples);
	assert_int_equal(number_of(file, "whole"), samples - PROCESSES);
	assert_int_equal(number_of(file, "cpu_ns"), cpu);
	assert_int_equal(number_of(file, "threads"), threads);
	assert_int_equal(number_of(file, "span_ns"), (2 + PROCESSES) * 1000000000ull);
	assert_int_equal(number_of(json_object_get(file, "losses"), "tick_missed"), 3 * PROCESSES);
	assert_int_equal(number_of(json_object_get(file, "losses"), "frame_half"), PROCESSES);
	assert_true(json_is_true(json_object_get(file, "cut")) == no_end);
	json_decref(json);
	for (i = 0; i < PROCESSES; i++) {
		close(in[i]);
		synthetic_free(&s[i]);
	}
	close(whole);
}

static void adds_up(void **state)
{
	check(0, false);
}

static void over_epochs(void **state)
{
	check(1, false);
}

static void one_is_cut(void **state)
{
	check(0, true);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(adds_up),
		cmocka_unit_test(over_epochs),
		cmocka_unit_test(one_is_cut),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
