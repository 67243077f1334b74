/* SPDX-License-Identifier: MIT */
/* Sizes and durations as people type them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/amount.h"

struct row {
	const char *text;
	bool good;
	uint64_t value;
};

static void check(const struct row *row, bool (*parse)(const char *, uint64_t *))
{
	for (; row->text; row++) {
		uint64_t value = 0;

		if (parse(row->text, &value) != row->good || (row->good && value != row->value))
			fail_msg("'%s': %d, %llu", row->text, row->good, (unsigned long long)value);
	}
}

static void sizes(void **state)
{
	static const struct row rows[] = {
		{"0", true, 0},
		{"1000", true, 1000},
		{"64M", true, 64000000},
		{"64MB", true, 64000000},
		{"64MiB", true, 64ull << 20},
		{"64Mi", true, 64ull << 20},
		{"1.5k", true, 1500},
		{"1.5K", true, 1500},
		{".5G", true, 500000000},
		{"2T", true, 2000000000000},
		{"17B", true, 17},
		{"4000000T", true, 4000000000000000000},
		{"5000000T", false, 0},
		{"", false, 0},
		{"B", false, 0},
		{"M", false, 0},
		{"-1M", false, 0},
		{"+1M", false, 0},
		{" 1M", false, 0},
		{"1 M", false, 0},
		{"1m", false, 0},
		{"1MM", false, 0},
		{"1.2.3", false, 0},
		{"0x10", false, 0},
		{"1e3", false, 0},
		{"nan", false, 0},
		{"inf", false, 0},
		{".", false, 0},
		{"9999999999999999999999999999999999999999", false, 0},
		{},
	};

	check(rows, amount__bytes);
}

static void durations(void **state)
{
	static const struct row rows[] = {
		{"2", true, 2000000000},
		{"2s", true, 2000000000},
		{"500ms", true, 500000000},
		{"0.5s", true, 500000000},
		{"10m", true, 600000000000},
		{"1h", true, 3600000000000},
		{"7d", true, 604800000000000},
		{"1.5h", true, 5400000000000},
		{"s", false, 0},
		{"2S", false, 0},
		{"2 s", false, 0},
		{"-2s", false, 0},
		{"2us", false, 0},
		{"1h30m", false, 0},
		{"99999999999d", false, 0},
		{},
	};

	check(rows, amount__ns);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(sizes), cmocka_unit_test(durations)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
