/* SPDX-License-Identifier: MIT */
/* The division of a wait among those who worked meanwhile. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "units/shares.h"

#define MS 1000000ull

static void by_what_they_ran(void **state)
{
	struct shares shares = {};
	const struct share *share;
	uint32_t n;

	assert_null(shares__divide(&shares, 5, 10 * MS, &n));
	assert_int_equal(n, 0);
	shares__add(&shares, 1, 'A', 20 * MS);
	shares__add(&shares, 1, 'B', 10 * MS);
	shares__add(&shares, 2, 'A', 1 * MS);
	shares__add(&shares, 1, 'A', 10 * MS);
	share = shares__divide(&shares, 1, 10 * MS, &n);
	assert_int_equal(n, 2);
	assert_int_equal(share[0].of, 'A');
	assert_int_equal(share[0].cpu, 7500000);
	assert_int_equal(share[1].cpu, 2500000);
	assert_null(shares__divide(&shares, 1, 10 * MS, &n));
	/* It waited for longer than its worker ran: the rest is its own. */
	share = shares__divide(&shares, 2, 10 * MS, &n);
	assert_int_equal(n, 1);
	assert_int_equal(share[0].cpu, 1 * MS);
	assert_int_equal(shares.n, 0);
	shares__free(&shares);
}

/* More workers in turn than rows are searched: each has its part, to the nanosecond in all. */
static void of_many_in_turn(void **state)
{
	uint64_t parts[40] = {}, sum = 0, i;
	struct shares shares = {};
	const struct share *share;
	uint32_t n;

	for (i = 0; i < 4000; i++)
		assert_int_equal(shares__add(&shares, 3, i % 40, (i % 40 + 1) * 1000), 0);
	share = shares__divide(&shares, 3, 12345000, &n);
	for (i = 0; i < n; i++) {
		parts[share[i].of] += share[i].cpu;
		sum += share[i].cpu;
	}
	assert_int_equal(sum, 12345000);
	for (i = 0; i < 40; i++)
		assert_in_range(parts[i] * 820, (i + 1) * 12345000 - 820 * 100, (i + 1) * 12345000 + 820 * 100);
	shares__free(&shares);
}

/* What comes when all is full has no part, also not in place of something else; afterwards there is room again. */
static void no_room(void **state)
{
	struct shares shares = {};
	const struct share *share;
	uint32_t n, i;

	for (i = 0; i < SHARES_MAX; i++)
		assert_int_equal(shares__add(&shares, i & 1, i, 1), 0);
	assert_int_equal(shares__add(&shares, 1, 'X', 1000), 0);
	assert_int_equal(shares__add(&shares, 7, 'X', 1000), 0);
	assert_null(shares__divide(&shares, 7, 1000, &n));
	share = shares__divide(&shares, 1, SHARES_MAX, &n);
	assert_int_equal(n, SHARES_MAX / 2);
	for (i = 0; i < n; i++)
		assert_int_equal(share[i].cpu, 1);
	assert_int_equal(shares__add(&shares, 7, 'X', 1000), 0);
	share = shares__divide(&shares, 7, 1000, &n);
	assert_int_equal(n, 1);
	assert_int_equal(share[0].cpu, 1000);
	shares__free(&shares);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(by_what_they_ran),
		cmocka_unit_test(of_many_in_turn),
		cmocka_unit_test(no_room),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
