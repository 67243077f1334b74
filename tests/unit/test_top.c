/* SPDX-License-Identifier: MIT */
/* The live table of `top`: compiles whose name arrives late. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "top/top.h"

#define MS 1000000ull

static struct top *top;

static void send(const struct event *event)
{
	assert_int_equal(top__sink(top)->event(top__sink(top), event), 0);
}

static void send_rows(enum event_kind kind, uint32_t first, uint32_t n, const void *rows)
{
	send(&(struct event){.kind = kind, .rows = {.first = first, .n = n, .rows = rows}});
}

static void begin(void)
{
	static const struct function_row functions[] = {{"main", "/x/main.py", 1, "", FUNCTION_PYTHON}, {"compile", "/x/c.py", 5, "", FUNCTION_PYTHON}};
	static const struct frame_row frames[] = {{0, 4, 7, 0}, {1, 0, 5, 0}};
	static const struct stack_row stacks[] = {{0, 0}, {1, 1}};

	assert_int_equal(top__new(NULL, &top), 0);
	send(&(struct event){.kind = EVENT_SESSION, .session = {.pid = 10, .rate = 1000, .mode = "cpu", .command = "x", .boot_id = ""}});
	send(&(struct event){.kind = EVENT_EPOCH});
	send(&(struct event){.kind = EVENT_PROCESS, .process = {.pid = 10, .name = "x", .python = ""}});
	send(&(struct event){.kind = EVENT_THREAD, .thread = {.tid = 10, .name = "x"}});
	send_rows(EVENT_FUNCTIONS, 0, 2, functions);
	send_rows(EVENT_FRAMES, 0, 2, frames);
	send_rows(EVENT_STACKS, 1, 2, stacks);
	top__turn(top, 1);
}

static void unit(uint32_t id, uint32_t parent, const char *name)
{
	const struct unit_row row = {.parent = parent, .compiler = "C", .name = name, .signature = "", .file = "", .trigger = parent ? 0 : 1};

	send_rows(EVENT_UNITS, id, 1, &row);
}

static void sample(uint64_t time, uint32_t unit)
{
	const struct sample_row row = {.time = time, .wall = MS, .cpu = MS, .stack = 2, .unit = unit};

	send(&(struct event){.kind = EVENT_SAMPLES, .samples = {1, &row}});
}

static const struct top_row *rows(uint32_t n)
{
	const struct top_row *ret;
	uint32_t found;

	top__turn(top, 1000 * MS);
	assert_int_equal(top__rows(top, TOP_UNIT, TOP_OWN, "", &ret, &found), 0);
	assert_int_equal(found, n);
	return ret;
}

/* What goes on when cprofd comes has no name at first: it is told by the line that caused it, and has its time when it is named. */
static void named_late(void **state)
{
	const struct event_unit_end end = {.id = 1, .time = 3 * MS, .name = "f", .signature = "int64", .file = ""};

	begin();
	unit(1, 0, "");
	sample(1 * MS, 1);
	unit(2, 0, "g");
	sample(2 * MS, 2);
	sample(3 * MS, 1);
	assert_string_equal(rows(2)[0].name, "(a compile that main:7 caused, its name is not known yet)");
	assert_int_equal(rows(2)[0].since[0], 2 * MS);
	send(&(struct event){.kind = EVENT_UNIT_END, .unit_end = end});
	assert_string_equal(rows(2)[0].name, "f(int64)");
	assert_int_equal(rows(2)[0].since[0], 2 * MS);
	assert_string_equal(rows(2)[1].name, "g()");
	/* Another compile of it: the same row. */
	unit(3, 0, "");
	sample(4 * MS, 3);
	assert_int_equal(rows(3)[0].since[0], 2 * MS);
	send(&(struct event){.kind = EVENT_UNIT_NAME, .unit_end = {.id = 3, .time = 4 * MS, .name = "f", .signature = "int64", .file = ""}});
	assert_int_equal(rows(2)[0].since[0], 3 * MS);
	send(&(struct event){.kind = EVENT_UNIT_END, .unit_end = {.id = 3, .time = 4 * MS, .name = "f", .signature = "int64", .file = ""}});
	assert_int_equal(rows(2)[0].since[0], 3 * MS);
	top = top__free(top);
}

/* A stream may say anything about a compile that was over before it began: it has no row. */
static void over_before(void **state)
{
	const struct unit_row over = {.kind = UNIT_OVER, .compiler = "", .name = "", .signature = "", .file = ""};
	const struct event_unit_end end = {.id = 1, .time = 2 * MS, .name = "f", .signature = "", .file = ""};
	struct top_head head;

	begin();
	send_rows(EVENT_UNITS, 1, 1, &over);
	sample(1 * MS, 1);
	rows(0);
	unit(2, 1, "g");
	sample(2 * MS, 2);
	assert_string_equal(rows(1)[0].name, "g()");
	send(&(struct event){.kind = EVENT_UNIT_END, .unit_end = end});
	assert_string_equal(rows(1)[0].name, "g()");
	assert_int_equal(rows(1)[0].since[0], 1 * MS);
	top__head(top, &head);
	assert_string_equal(head.unit, "g()");
	top = top__free(top);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(named_late),
		cmocka_unit_test(over_before),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
