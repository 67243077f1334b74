/* SPDX-License-Identifier: MIT */
/* Line tables. The examples are derived by hand from CPython's documents, none from our output; tests/live/lines.sh
 * compares with the interpreters themselves. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "name/lines.h"

struct lookup {
	int err;
	struct position position;
};

/* Through a block of exactly `len` bytes, so that ASan sees one too far. */
static struct lookup look_up(enum py_lines format, const void *table, size_t len, uint32_t first,
			     int32_t offset)
{
	struct lookup lookup;
	uint8_t *copy = malloc(len ? len : 1);

	assert_non_null(copy);
	if (len)
		memcpy(copy, table, len);
	memset(&lookup.position, 0xa5, sizeof lookup.position);
	lookup.err =
		lines__position(format, len ? copy : NULL, len, first, offset, &lookup.position);
	free(copy);
	return lookup;
}

#define LOOK_UP(format, first, offset, ...)                                                        \
	look_up(format, (const uint8_t[]){__VA_ARGS__}, sizeof((const uint8_t[]){__VA_ARGS__}),    \
		first, offset)

static void assert_position(struct lookup lookup, uint32_t line, uint32_t end_line, uint32_t column,
			    uint32_t end_column)
{
	assert_int_equal(lookup.err, 0);
	assert_int_equal(lookup.position.line, line);
	assert_int_equal(lookup.position.end_line, end_line);
	assert_int_equal(lookup.position.column, column);
	assert_int_equal(lookup.position.end_column, end_column);
}

static void assert_line(struct lookup lookup, uint32_t line)
{
	assert_position(lookup, line, line, 0, 0);
}

static void assert_refused(struct lookup lookup, int err)
{
	static const struct position none;

	assert_int_equal(lookup.err, err);
	assert_memory_equal(&lookup.position, &none, sizeof none);
}

static const enum py_lines formats[] = {
	PY_LINES_LNOTAB,
	PY_LINES_LINETABLE,
	PY_LINES_LOCATIONS,
};

static void test_before_the_first_instruction(void **state)
{
	for (size_t i = 0; i < 3; i++) {
		assert_line(look_up(formats[i], "", 0, 77, -1), 77);
		assert_line(look_up(formats[i], "\xff\xff", 2, 77, INT32_MIN), 77);
	}
}

static void test_empty_table(void **state)
{
	/* co_lnotab's last line, here its first, has no end. */
	assert_line(look_up(PY_LINES_LNOTAB, "", 0, 9, 0), 9);
	assert_line(look_up(PY_LINES_LNOTAB, "", 0, 9, INT32_MAX), 9);
	assert_refused(look_up(PY_LINES_LINETABLE, "", 0, 9, 0), -ERANGE);
	assert_refused(look_up(PY_LINES_LOCATIONS, "", 0, 9, 0), -ERANGE);
}

static void test_unknown_format(void **state)
{
	assert_refused(look_up((enum py_lines)0, "\x80", 1, 9, 0), -EBADMSG);
	assert_refused(look_up((enum py_lines)4, "\x80", 1, 9, 0), -EBADMSG);
}

/* The example of Objects/lnotab_notes.txt, 3.8. */
static void test_lnotab_notes_of_3_8(void **state)
{
	static const struct {
		int32_t offset;
		uint32_t line;
	} rows[] = {
		{0, 1},	  {5, 1},     {6, 2},	  {49, 2},    {50, 7},
		{349, 7}, {350, 207}, {360, 207}, {361, 208}, {100000, 208},
	};

	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
		assert_line(LOOK_UP(PY_LINES_LNOTAB, 1, rows[i].offset, 6, 1, 44, 5, 255, 0, 45,
				    127, 0, 73, 11, 1),
			    rows[i].line);
}

static void test_lnotab_lines_go_back(void **state)
{
	assert_line(LOOK_UP(PY_LINES_LNOTAB, 300, 3, 4, 0x80, 0, 0xff), 300);
	assert_line(LOOK_UP(PY_LINES_LNOTAB, 300, 4, 4, 0x80, 0, 0xff), 300 - 128 - 1);
}

static void test_lnotab_cut(void **state)
{
	/* The odd byte may have begun a change at any offset. */
	assert_line(LOOK_UP(PY_LINES_LNOTAB, 1, 3, 4, 1, 2), 1);
	assert_refused(LOOK_UP(PY_LINES_LNOTAB, 1, 4, 4, 1, 2), -EBADMSG);
	assert_refused(LOOK_UP(PY_LINES_LNOTAB, 1, 0, 4), -EBADMSG);
}

/* The example of Objects/lnotab_notes.txt, 3.10; the first line delta is +1. */
static void test_linetable_notes_of_3_10(void **state)
{
	static const struct {
		int32_t offset;
		uint32_t line;
	} rows[] = {
		{0, 1},	  {5, 1},   {6, 2},   {49, 2},	{50, 7},  {303, 7},   {304, 7},
		{349, 7}, {350, 0}, {359, 0}, {360, 8}, {375, 8}, {376, 208}, {379, 208},
	};
	static const uint8_t table[] = {6, 1, 44, 1, 254, 5, 46, 0, 10, 0x80, 16, 1, 0, 127, 4, 73};

	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
		assert_line(look_up(PY_LINES_LINETABLE, table, sizeof table, 0, rows[i].offset),
			    rows[i].line);
	assert_refused(look_up(PY_LINES_LINETABLE, table, sizeof table, 0, 380), -ERANGE);
	assert_refused(look_up(PY_LINES_LINETABLE, table, sizeof table, 0, INT32_MAX), -ERANGE);
}

static void test_linetable_cut(void **state)
{
	assert_line(LOOK_UP(PY_LINES_LINETABLE, 5, 3, 4, 1, 2), 6);
	assert_refused(LOOK_UP(PY_LINES_LINETABLE, 5, 4, 4, 1, 2), -EBADMSG);
	assert_refused(LOOK_UP(PY_LINES_LINETABLE, 5, 0, 4), -EBADMSG);
}

static void test_line_below_zero_is_no_line(void **state)
{
	assert_line(LOOK_UP(PY_LINES_LNOTAB, 1, 0, 0, 0xf0), 0);
	assert_line(LOOK_UP(PY_LINES_LINETABLE, 1, 0, 2, 0xf0), 0);
	assert_line(LOOK_UP(PY_LINES_LINETABLE, 1, 2, 2, 0xf0, 2, 0x20), 17);
	/* svarint -16 = 33; a column would be of no use without its line. */
	assert_line(LOOK_UP(PY_LINES_LOCATIONS, 1, 0, 0xe8, 33), 0);
	assert_position(LOOK_UP(PY_LINES_LOCATIONS, 1, 0, 0xf0, 33, 0, 1, 1), 0, 0, 0, 0);
	/* ... and back: svarint +32 = 64 = 0x40 0x01. */
	assert_line(LOOK_UP(PY_LINES_LOCATIONS, 1, 2, 0xe8, 33, 0xe8, 0x40, 1), 17);
}

/* Head byte: 0x80 | code << 3 | units - 1. */
static void test_location_forms(void **state)
{
	/* Code 2: column 2 * 8 + 3, 6 bytes; columns count from 1. */
	assert_position(LOOK_UP(PY_LINES_LOCATIONS, 5, 0, 0x90, 0x36), 5, 5, 20, 26);
	/* Code 9, the last short form: 72 + 7, 15 bytes. */
	assert_position(LOOK_UP(PY_LINES_LOCATIONS, 5, 0, 0xc8, 0x7f), 5, 5, 80, 95);
	/* Codes 10 to 12: 0 to 2 lines further. */
	assert_position(LOOK_UP(PY_LINES_LOCATIONS, 5, 0, 0xd0, 1, 127), 5, 5, 2, 128);
	assert_position(LOOK_UP(PY_LINES_LOCATIONS, 5, 0, 0xd8, 0, 0), 6, 6, 1, 1);
	assert_position(LOOK_UP(PY_LINES_LOCATIONS, 5, 0, 0xe0, 3, 4), 7, 7, 4, 5);
	/* Code 13: svarint -3 = 7. */
	assert_line(LOOK_UP(PY_LINES_LOCATIONS, 5, 0, 0xe8, 7), 2);
	/* Code 14: +100 = 200 (the document's 0x48 0x03), 63 lines, columns 199 and none. */
	assert_position(LOOK_UP(PY_LINES_LOCATIONS, 5, 0, 0xf0, 0x48, 3, 0x3f, 0x48, 3, 0), 105,
			168, 200, 0);
	assert_line(LOOK_UP(PY_LINES_LOCATIONS, 5, 0, 0xf8), 0);
	/* -0 */
	assert_line(LOOK_UP(PY_LINES_LOCATIONS, 5, 0, 0xe8, 1), 5);
}

/* A module's RESUME has line 0, and a position all the same. */
static void test_location_line_zero(void **state)
{
	assert_position(LOOK_UP(PY_LINES_LOCATIONS, 1, 0, 0xf0, 3, 1, 1, 1), 0, 1, 1, 1);
}

/* Code 15 is for its own units alone, and does not touch the line kept. */
static void test_location_none_is_local(void **state)
{
	static const uint8_t table[] = {0xd9, 4, 9, 0xff, 0x80, 0x12, 0xd8, 0, 1};

	for (int32_t offset = 0; offset < 4; offset++)
		assert_position(look_up(PY_LINES_LOCATIONS, table, sizeof table, 40, offset), 41,
				41, 5, 10);
	for (int32_t offset = 4; offset < 20; offset++)
		assert_line(look_up(PY_LINES_LOCATIONS, table, sizeof table, 40, offset), 0);
	assert_position(look_up(PY_LINES_LOCATIONS, table, sizeof table, 40, 20), 41, 41, 2, 4);
	assert_position(look_up(PY_LINES_LOCATIONS, table, sizeof table, 40, 23), 42, 42, 1, 2);
	assert_refused(look_up(PY_LINES_LOCATIONS, table, sizeof table, 40, 24), -ERANGE);
	assert_refused(look_up(PY_LINES_LOCATIONS, table, sizeof table, 40, INT32_MAX), -ERANGE);
}

static void test_location_cut_anywhere(void **state)
{
	static const uint8_t table[] = {0xf0, 0x48, 3, 0x3f, 0x48, 3, 0x41, 1};

	assert_position(look_up(PY_LINES_LOCATIONS, table, sizeof table, 5, 0), 105, 168, 200, 65);
	for (size_t len = 1; len < sizeof table; len++)
		assert_refused(look_up(PY_LINES_LOCATIONS, table, len, 5, 0), -EBADMSG);
	assert_refused(LOOK_UP(PY_LINES_LOCATIONS, 5, 0, 0xd0), -EBADMSG);
	assert_refused(LOOK_UP(PY_LINES_LOCATIONS, 5, 0, 0xd0, 1), -EBADMSG);
	assert_refused(LOOK_UP(PY_LINES_LOCATIONS, 5, 0, 0x80), -EBADMSG);
	assert_refused(LOOK_UP(PY_LINES_LOCATIONS, 5, 0, 0xe8), -EBADMSG);
}

static void test_location_out_of_step(void **state)
{
	/* No head where one must be; a head where an operand must be. */
	assert_refused(LOOK_UP(PY_LINES_LOCATIONS, 5, 0, 0x10, 0x36), -EBADMSG);
	assert_refused(LOOK_UP(PY_LINES_LOCATIONS, 5, 2, 0x90, 0x36, 0x36), -EBADMSG);
	assert_refused(LOOK_UP(PY_LINES_LOCATIONS, 5, 0, 0xd0, 1, 0x90, 0x36), -EBADMSG);
	assert_refused(LOOK_UP(PY_LINES_LOCATIONS, 5, 0, 0xe8, 0x47, 0x90, 0x36), -EBADMSG);
	/* What lies behind the span asked for is not looked at. */
	assert_position(LOOK_UP(PY_LINES_LOCATIONS, 5, 1, 0x90, 0x36, 0x36), 5, 5, 20, 26);
}

static void test_varint_limits(void **state)
{
	uint8_t endless[4096] = {0xe8};

	memset(endless + 1, 0x7f, sizeof endless - 1);
	assert_refused(look_up(PY_LINES_LOCATIONS, endless, sizeof endless, 5, 0), -EBADMSG);
	memset(endless + 1, 0x40, sizeof endless - 1);
	assert_refused(look_up(PY_LINES_LOCATIONS, endless, sizeof endless, 5, 0), -EBADMSG);
	/* 2^31 - 1 lines forward: 2^32 - 2 in 6 chunks, the last of 2 bits. */
	assert_line(LOOK_UP(PY_LINES_LOCATIONS, 0, 0, 0xe8, 0x7e, 0x7f, 0x7f, 0x7f, 0x7f, 3),
		    INT32_MAX);
	/* ... and beyond what an int holds. */
	assert_line(LOOK_UP(PY_LINES_LOCATIONS, 1, 0, 0xe8, 0x7e, 0x7f, 0x7f, 0x7f, 0x7f, 3), 0);
	assert_refused(LOOK_UP(PY_LINES_LOCATIONS, 0, 0, 0xe8, 0x7e, 0x7f, 0x7f, 0x7f, 0x7f, 4),
		       -EBADMSG);
	/* An end line that does not fit; the line itself does. */
	assert_position(
		LOOK_UP(PY_LINES_LOCATIONS, 7, 0, 0xf0, 0, 0x7f, 0x7f, 0x7f, 0x7f, 0x7f, 1, 2, 3),
		7, 0, 2, 3);
}

static void test_huge_deltas_do_not_overflow(void **state)
{
	enum { ENTRIES = 20000 };
	static uint8_t table[ENTRIES * 7];

	memset(table, 0x7f, sizeof table);
	look_up(PY_LINES_LNOTAB, table, sizeof table, UINT32_MAX, INT32_MAX);
	look_up(PY_LINES_LINETABLE, table, sizeof table, UINT32_MAX, INT32_MAX);
	for (size_t i = 0; i < ENTRIES; i++)
		memcpy(table + i * 7, "\xef\x7e\x7f\x7f\x7f\x7f\x03", 7);
	assert_refused(look_up(PY_LINES_LOCATIONS, table, sizeof table, UINT32_MAX, INT32_MAX),
		       -ERANGE);
	/* Modulo 2^32: two steps of 2^31 - 1 are one of -2. */
	assert_line(look_up(PY_LINES_LOCATIONS, table, sizeof table, 10, 16), 8);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_before_the_first_instruction),
		cmocka_unit_test(test_empty_table),
		cmocka_unit_test(test_unknown_format),
		cmocka_unit_test(test_lnotab_notes_of_3_8),
		cmocka_unit_test(test_lnotab_lines_go_back),
		cmocka_unit_test(test_lnotab_cut),
		cmocka_unit_test(test_linetable_notes_of_3_10),
		cmocka_unit_test(test_linetable_cut),
		cmocka_unit_test(test_line_below_zero_is_no_line),
		cmocka_unit_test(test_location_forms),
		cmocka_unit_test(test_location_line_zero),
		cmocka_unit_test(test_location_none_is_local),
		cmocka_unit_test(test_location_cut_anywhere),
		cmocka_unit_test(test_location_out_of_step),
		cmocka_unit_test(test_varint_limits),
		cmocka_unit_test(test_huge_deltas_do_not_overflow),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
