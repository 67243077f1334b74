/* SPDX-License-Identifier: MIT */
/* The registry of captured code objects: identity by key, pieces in any order, hostile lengths, bounded memory. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "name/codes.h"
#include "records.h"

static struct codes *codes;
static struct rec rec;
static struct record_task task;

static int set_up(void **state)
{
	task = rec_task(1, 1, 0, 5000, "python3");
	return codes__new(&codes);
}

static int tear_down(void **state)
{
	codes = codes__free(codes);
	return 0;
}

static uint32_t add(bool news)
{
	uint32_t serial;
	bool got;

	assert_int_equal(codes__add(codes, (struct record_code *)rec.data, PY_LINES_LINETABLE,
				    &serial, &got),
			 0);
	assert_int_equal(got, news);
	return serial;
}

static int line_at(uint32_t serial, int32_t offset, uint32_t *ret_line)
{
	struct position position;
	int err = codes__position(codes, serial, offset, &position);

	*ret_line = position.line;
	return err;
}

static void a_code_object_is_known_by_its_key(void **state)
{
	uint32_t serial, line;

	assert_int_equal(codes__find(codes, 7), CODE_NONE);
	rec_code_whole(&rec, 1, &task, 7, "f", "a.py", 10);
	serial = add(true);
	assert_int_equal(add(false), serial);
	rec_code_whole(&rec, 1, &task, 8, "g", "a.py", 20);
	assert_int_not_equal(add(true), serial);
	assert_int_equal(codes__find(codes, 7), serial);
	assert_string_equal(codes__get(codes, serial)->name, "f");
	assert_string_equal(codes__get(codes, serial)->file, "a.py");
	/* One copy of the file's name. */
	assert_ptr_equal(codes__get(codes, 0)->file, codes__get(codes, 1)->file);
	assert_int_equal(line_at(serial, 0, &line), 0);
	assert_int_equal(line, 10);
	assert_int_equal(line_at(serial, 6, &line), 0);
	assert_int_equal(line, 13);
	assert_int_equal(line_at(serial, -1, &line), 0);
	assert_int_equal(line, 10);
	assert_int_equal(line_at(serial, 2 * REC_LINES, &line), -ERANGE);
	assert_int_equal(line, 0);
}

static void names_are_utf8(void **state)
{
	static const uint8_t latin[] = {'a', 0xe9};
	static const uint16_t two[] = {0x3bb, 'x'};
	static const uint32_t four[] = {0x1f600};

	rec_code(&rec, 1, &task, 1, 1, 0);
	rec_string_raw(&rec, PART_NAME, latin, 2, 1, 0, 2);
	rec_string_raw(&rec, PART_QUALNAME, two, 2, 2, 0, 4);
	rec_string_raw(&rec, PART_FILE, four, 1, 4, 0, 4);
	add(true);
	assert_string_equal(codes__get(codes, 0)->name, "\u03bbx"); /* qualified first */
	assert_string_equal(codes__get(codes, 0)->file, "\U0001f600");
	rec_code(&rec, 1, &task, 2, 1, 0);
	rec_string_raw(&rec, PART_NAME, latin, 2, 1, 0, 2);
	rec_string(&rec, PART_FILE, "");
	add(true);
	assert_string_equal(codes__get(codes, 1)->name, "a\u00e9");
	assert_string_equal(codes__get(codes, 1)->file, "");
	assert_true(codes__get(codes, 1)->named);
}

static void a_cut_name_says_so(void **state)
{
	rec_code(&rec, 1, &task, 1, 1, 0);
	rec_string_raw(&rec, PART_NAME, "abcdefgh", 5000, 1, 1, 8);
	rec_string_raw(&rec, PART_FILE, "a\0b", 3, 1, 1, 3);
	add(true);
	assert_string_equal(codes__get(codes, 0)->name, "abcdefgh\u2026");
	assert_int_equal(strlen(codes__get(codes, 0)->file), 3);
}

static void a_name_may_come_later(void **state)
{
	rec_code(&rec, 1, &task, 1, 1, 0);
	rec_string(&rec, PART_NAME, "f");
	assert_int_equal(add(true), 0); /* its file could not be read */
	assert_false(codes__get(codes, 0)->named);
	rec_code_whole(&rec, 1, &task, 1, "f", "f.py", 1);
	assert_int_equal(add(true), 0);
	assert_true(codes__get(codes, 0)->named);
	assert_true(codes__get(codes, 0)->lines_whole);
}

static void not_a_string_is_no_name(void **state)
{
	static const uint32_t beyond[] = {0x110000};

	rec_code(&rec, 1, &task, 1, 1, 0);
	rec_string_raw(&rec, PART_NAME, beyond, 1, 4, 0, 4);
	rec_string(&rec, PART_FILE, "f.py");
	add(true);
	assert_false(codes__get(codes, 0)->named);
}

/* Each order of pieces of any cut gives the same table, whole with the last one. */
static void pieces_come_in_any_order(void **state)
{
	unsigned round;

	srand(1);
	for (round = 0; round < 500; round++) {
		uint8_t come[sizeof(rec_table)] = {};
		unsigned missing = sizeof(come), i;
		uint32_t serial, line;

		while (missing) {
			uint32_t from = (uint32_t)rand() % sizeof(come);
			uint32_t len = 1 + (uint32_t)rand() % 24;

			if (from + len > sizeof(come))
				len = sizeof(come) - from;
			rec_code(&rec, 1, &task, round + 1, 100, sizeof(rec_table));
			rec_lines(&rec, rec_table, from, len);
			for (i = from; i < from + len; i++) {
				missing -= !come[i];
				come[i] = 1;
			}
			serial = add(true);
			assert_int_equal(codes__get(codes, serial)->lines_whole, !missing);
			assert_int_equal(line_at(serial, 4, &line), missing ? -EAGAIN : 0);
			assert_int_equal(line, missing ? 0 : 102);
		}
		assert_memory_equal(codes__get(codes, serial)->lines, rec_table, sizeof(rec_table));
	}
}

static void a_table_that_was_not_readable_may_come_later(void **state)
{
	uint32_t line;

	rec_code(&rec, 1, &task, 1, 5, 0);
	rec_string(&rec, PART_NAME, "f");
	rec_string(&rec, PART_FILE, "f.py");
	rec_lines(&rec, rec_table, 0, 0);
	add(true);
	assert_int_equal(line_at(0, 4, &line), -EAGAIN);
	rec_code_whole(&rec, 1, &task, 1, "f", "f.py", 5);
	add(true);
	assert_int_equal(line_at(0, 4, &line), 0);
	assert_int_equal(line, 7);
}

static void keys_do_not_collide_into_one(void **state)
{
	uint32_t i;

	for (i = 0; i < 8000; i++) {
		rec_code(&rec, 1, &task, (uint64_t)i << 20, i, 0);
		assert_int_equal(add(true), i);
	}
	for (i = 0; i < 8000; i++) {
		assert_int_equal(codes__find(codes, (uint64_t)i << 20), i);
		assert_int_equal(codes__find(codes, ((uint64_t)i << 20) + 1), CODE_NONE);
		assert_int_equal(codes__get(codes, i)->first_line, i);
	}
}

static void a_hostile_length_takes_no_memory(void **state)
{
	size_t before;
	uint32_t line;

	rec_code_whole(&rec, 1, &task, 1, "f", "f.py", 5);
	add(true);
	before = codes__bytes(codes);
	rec_code(&rec, 1, &task, 2, 5, UINT32_MAX);
	rec_lines(&rec, rec_table, 0, 16);
	add(true);
	assert_int_equal(codes__bytes(codes), before);
	assert_int_equal(line_at(1, 0, &line), -EAGAIN);
	/* Another total for a key that is known is not believed. */
	rec_code(&rec, 1, &task, 3, 5, 32);
	rec_lines(&rec, rec_table, 0, 16);
	add(true);
	rec_code(&rec, 1, &task, 3, 5, 64);
	rec_lines(&rec, rec_table, 0, 64);
	add(true);
	assert_false(codes__get(codes, 2)->lines_whole);
}

static void memory_is_bounded_and_room_is_made(void **state)
{
	static uint8_t keep[20000];
	uint32_t n = 0, i, line, serial;
	char name[600];
	bool news;
	int err;

	for (;;) {
		snprintf(name, sizeof(name), "%0500u", n);
		rec_code_whole(&rec, 1, &task, n + 1, name, "same.py", n);
		err = codes__add(codes, (void *)rec.data, PY_LINES_LINETABLE, &serial, &news);
		if (err)
			break;
		n++;
	}
	assert_int_equal(err, -ENOSPC);
	assert_true(codes__bytes(codes) <= CODES_BYTES_MAX);
	assert_true(n > 10000);
	/* One that is known is still welcome. */
	rec_code_whole(&rec, 1, &task, 1, "x", "x.py", 0);
	add(false);
	for (i = 0; i < n; i += 3)
		keep[i / 8] |= 1u << i % 8;
	assert_int_equal(codes__retain(codes, keep), 0);
	assert_int_equal(codes__count(codes), (n + 2) / 3);
	for (i = 0; i < n; i++) {
		serial = codes__find(codes, i + 1);
		assert_int_equal(serial, i % 3 ? CODE_NONE : i / 3);
		if (i % 3)
			continue;
		snprintf(name, sizeof(name), "%0500u", i);
		assert_string_equal(codes__get(codes, serial)->name, name);
		assert_string_equal(codes__get(codes, serial)->file, "same.py");
		assert_int_equal(line_at(serial, 2, &line), 0);
		assert_int_equal(line, i + 1);
	}
	rec_code_whole(&rec, 1, &task, 1u << 30, "new", "x.py", 0);
	add(true);
}

static void pieces_survive_retain(void **state)
{
	uint8_t keep[1] = {2};
	uint32_t line;

	rec_code_whole(&rec, 1, &task, 1, "f", "f.py", 5);
	add(true);
	rec_code(&rec, 1, &task, 2, 5, 64);
	rec_lines(&rec, rec_table, 0, 16);
	add(true);
	assert_int_equal(codes__retain(codes, keep), 0);
	rec_code(&rec, 1, &task, 2, 5, 64);
	rec_lines(&rec, rec_table, 16, 48);
	assert_int_equal(add(true), 0);
	assert_int_equal(line_at(0, 4, &line), 0);
	assert_int_equal(line, 7);
}

static void equal_ones_know_their_first(void **state)
{
	uint8_t keep[1] = {6};
	uint32_t i;

	rec_code_whole(&rec, 1, &task, 1, "f", "f.py", 5);
	add(true);
	rec_code(&rec, 1, &task, 2, 5, 64); /* not whole yet */
	rec_lines(&rec, rec_table, 0, 16);
	add(true);
	rec_code_whole(&rec, 1, &task, 3, "f", "f.py", 5);
	add(true);
	rec_code_whole(&rec, 1, &task, 4, "f", "f.py", 6);
	add(true);
	for (i = 0; i < 4; i++)
		assert_int_equal(codes__get(codes, i)->first, i == 2 ? 0 : i);
	assert_int_equal(codes__retain(codes, keep), 0);
	assert_int_equal(codes__get(codes, 1)->key, 3);
	assert_int_equal(codes__get(codes, 1)->first, 1);
	rec_code_whole(&rec, 1, &task, 1, "f", "f.py", 5);
	assert_int_equal(codes__get(codes, add(true))->first, 1);
	for (i = 0; i < 1000; i++) {
		rec_code_whole(&rec, 1, &task, 100 + i, "f", "f.py", i);
		add(true);
	}
	rec_code_whole(&rec, 1, &task, 5000, "f", "f.py", 5);
	assert_int_equal(codes__get(codes, add(true))->first, 1);
}

/* Up to 3.9 a table that could not be read looks like that of a function of one line: the code object is whole twice. */
static void late_tables_take_no_second_slot(void **state)
{
	uint32_t i, lines, serial;
	bool news;

	for (i = 0; i < 700; i++) {
		for (lines = 0; lines <= REC_LINES; lines += REC_LINES) {
			rec_code(&rec, 1, &task, 1 + i, i, lines);
			rec_string(&rec, PART_NAME, "f");
			rec_string(&rec, PART_FILE, "f.py");
			rec_lines(&rec, rec_table, 0, lines);
			assert_int_equal(codes__add(codes, (struct record_code *)rec.data, PY_LINES_LNOTAB, &serial, &news), 0);
			assert_true(news);
		}
		assert_int_equal(codes__get(codes, serial)->first, serial);
	}
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_code_object_is_known_by_its_key),
		TEST(names_are_utf8),
		TEST(a_cut_name_says_so),
		TEST(a_name_may_come_later),
		TEST(not_a_string_is_no_name),
		TEST(pieces_come_in_any_order),
		TEST(a_table_that_was_not_readable_may_come_later),
		TEST(keys_do_not_collide_into_one),
		TEST(a_hostile_length_takes_no_memory),
		TEST(memory_is_bounded_and_room_is_made),
		TEST(pieces_survive_retain),
		TEST(equal_ones_know_their_first),
		TEST(late_tables_take_no_second_slot),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
