/* SPDX-License-Identifier: MIT */
/* The summing that report, top and the summary share: what exclusive and inclusive time are. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "aggregate/rows.h"
#include "aggregate/sums.h"
#include "cli/tally.h"

static const struct times tick = {.cpu = 3, .wall = 5};

static uint32_t row_of(struct rows *rows, char name)
{
	uint32_t row;

	assert_int_equal(rows__row(rows, &name, 1, &row), 0);
	return row;
}

/* A stack, innermost first. */
static void add_stack(struct rows *rows, const char *stack, uint32_t column)
{
	size_t i;

	rows__stack(rows);
	for (i = 0; stack[i]; i++) {
		uint32_t row = row_of(rows, stack[i]);

		if (!i)
			rows__exclusive(rows, row, column, &tick);
		rows__inclusive(rows, row, column, &tick);
	}
}

static void recursion_counts_once(void **state)
{
	struct rows rows = {.columns = 1};

	add_stack(&rows, "abaab", 0);
	add_stack(&rows, "ba", 0);
	assert_int_equal(rows__n(&rows), 2);
	assert_int_equal(rows__times(&rows, row_of(&rows, 'a'), 0)->exclusive.cpu, 3);
	assert_int_equal(rows__times(&rows, row_of(&rows, 'a'), 0)->inclusive.cpu, 6);
	assert_int_equal(rows__times(&rows, row_of(&rows, 'b'), 0)->exclusive.wall, 5);
	assert_int_equal(rows__times(&rows, row_of(&rows, 'b'), 0)->inclusive.wall, 10);
	rows__free(&rows);
}

static void stamps_wrap(void **state)
{
	struct rows rows = {.columns = 1};

	add_stack(&rows, "a", 0); /* its mark is 1 */
	rows.stamp = UINT32_MAX;
	add_stack(&rows, "a", 0); /* so is this stack's stamp */
	assert_int_equal(rows.stamp, 1);
	assert_int_equal(rows__times(&rows, 0, 0)->inclusive.cpu, 6);
	rows__free(&rows);
}

static void columns_are_apart(void **state)
{
	struct rows rows = {.columns = 3};
	uint32_t *known;

	add_stack(&rows, "ab", 0);
	add_stack(&rows, "cb", 2);
	assert_int_equal(rows__times(&rows, row_of(&rows, 'b'), 0)->inclusive.cpu, 3);
	assert_int_equal(rows__times(&rows, row_of(&rows, 'b'), 1)->inclusive.cpu, 0);
	assert_int_equal(rows__times(&rows, row_of(&rows, 'b'), 2)->inclusive.cpu, 3);
	assert_int_equal(rows__times(&rows, row_of(&rows, 'c'), 0)->inclusive.cpu, 0);
	known = rows__of_frame(&rows, 1000);
	assert_int_equal(*known, 0);
	*known = 2;
	assert_int_equal(*rows__of_frame(&rows, 1000), 2);
	rows__clear_frames(&rows);
	assert_int_equal(*rows__of_frame(&rows, 1000), 0);
	rows__free(&rows);
}

static void sums_by_key(void **state)
{
	const uint32_t keys[][2] = {{1, 2}, {2, 1}, {1, 2}};
	struct sums sums = {};
	size_t i;

	for (i = 0; i < 3; i++)
		assert_int_equal(sums__add(&sums, keys[i], sizeof(keys[i]), &tick), 0);
	assert_int_equal(sums__n(&sums), 2);
	assert_memory_equal(sums__key(&sums, 1), keys[1], sizeof(keys[1]));
	assert_int_equal(sums__times(&sums, 0)->cpu, 6);
	assert_int_equal(sums__times(&sums, 1)->wall, 5);
	sums__free(&sums);
	assert_int_equal(sums__n(&sums), 0);
}

/* Threads come again with each epoch; a target may have had very many. */
static void threads_count_once(void **state)
{
	enum { N = 200000 };
	struct tally_result result;
	struct tally *tally;
	int i;

	assert_int_equal(tally__new(false, NULL, &tally), 0);
	for (i = 0; i < 2 * N; i++) {
		const struct event event = {.kind = EVENT_THREAD, .thread = {.tid = i % N, .start = 1000000000u, .name = "x"}};

		assert_int_equal(tally__sink(tally)->event(tally__sink(tally), &event), 0);
	}
	assert_int_equal(tally__finish(tally, &result), 0);
	assert_int_equal(result.threads, N);
	assert_int_equal(result.processes, 0);
	tally__free(tally);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(recursion_counts_once),
		cmocka_unit_test(stamps_wrap),
		cmocka_unit_test(columns_are_apart),
		cmocka_unit_test(sums_by_key),
		cmocka_unit_test(threads_count_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
