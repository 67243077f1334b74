/* Where JIT code ever lay: against a list of every byte's page. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "jit/reach.h"

static void near_ones_are_one(void **state)
{
	struct jit_reach reach = {};

	assert_false(reach__has(&reach, 0));
	reach__add(&reach, 0x7f0000000000, 0x7f0000001000);
	reach__add(&reach, 0x7f0000003000, 0x7f0000004000);
	assert_int_equal(reach.n, 1);
	reach__add(&reach, 0x7e0000000000, 0x7e0000001000);
	assert_int_equal(reach.n, 2);
	assert_true(reach__has(&reach, 0x7e0000000800) && reach__has(&reach, 0x7e0000001000));
	assert_false(reach__has(&reach, 0x7e0000001001) || reach__has(&reach, 0x7e8000000000));
	assert_true(reach__has(&reach, 0x7f0000002000)); /* between two that are near */
	reach__add(&reach, 0, UINT64_MAX);
	assert_int_equal(reach.n, 1);
	assert_true(reach__has(&reach, 0) && reach__has(&reach, UINT64_MAX));
	reach__add(&reach, 5, 5); /* nothing */
	assert_int_equal(reach.n, 1);
}

/* Whatever came in whatever order is found, stretches stay in order, and there are never too many. */
static void all_is_found(void **state)
{
	uint64_t starts[400];
	uint32_t round, i, k;

	srand(7);
	for (round = 0; round < 50; round++) {
		struct jit_reach reach = {};

		for (i = 0; i < 400; i++) {
			starts[i] = (uint64_t)(rand() % (round < 25 ? 5000 : 12)) * 0x40000;
			reach__add(&reach, starts[i], starts[i] + 1 + (uint32_t)rand() % 0x30000);
			assert_true(reach.n && reach.n <= REACH_STRETCHES);
			for (k = 0; k < reach.n; k++)
				assert_true(reach.start[k] < reach.end[k] && (!k || reach.end[k - 1] < reach.start[k]));
		}
		for (i = 0; i < 400; i++)
			assert_true(reach__has(&reach, starts[i]));
	}
}

/* Far apart, and few: what lies between is none of it. */
static void what_lies_between_is_not(void **state)
{
	struct jit_reach reach = {};
	uint32_t i;

	for (i = REACH_STRETCHES; i-- > 0;)
		reach__add(&reach, (i + 1) * 0x1000000ull, (i + 1) * 0x1000000ull + 0x1000);
	assert_int_equal(reach.n, REACH_STRETCHES);
	for (i = 0; i < REACH_STRETCHES; i++) {
		assert_true(reach__has(&reach, (i + 1) * 0x1000000ull + 0x10));
		assert_false(reach__has(&reach, (i + 1) * 0x1000000ull + 0x800000));
	}
	reach__add(&reach, 0x800000, 0x800010); /* the two that are closest: this one and the next, or two of those */
	assert_int_equal(reach.n, REACH_STRETCHES);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(near_ones_are_one),
		cmocka_unit_test(all_is_found),
		cmocka_unit_test(what_lies_between_is_not),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
