/* SPDX-License-Identifier: MIT */
/* The address ranges where JIT code ever was: the bounds must include all of it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "jit/reach.h"

static void edges(void **state)
{
	struct jit_reach reach = {};

	assert_false(reach__has(&reach, 0) || reach__has(&reach, UINT64_MAX));
	reach__add(&reach, 0x7f0000000000, 0x7f0000010000);
	assert_true(reach__has(&reach, 0x7f0000000000) && reach__has(&reach, 0x7f000000ffff));
	assert_true(reach__has(&reach, 0x7f0000010000)); /* the byte behind it */
	assert_false(reach__has(&reach, 0x7effffffffff) || reach__has(&reach, 0x7f0000020000));
	reach__add(&reach, 0x7e0012340000, 0x7e0012340000); /* nothing */
	reach__add(&reach, 0x7e0012340005, 0x7e0012340004);
	assert_false(reach__has(&reach, 0x7e0012340004));
	reach__add(&reach, 0, UINT64_MAX);
	assert_true(reach__has(&reach, 0) && reach__has(&reach, UINT64_MAX) && reach__has(&reach, 0x7f8012345678));
}

static void all_is_found(void **state)
{
	uint64_t starts[400], ends[400];
	uint32_t round, i;

	srand(7);
	for (round = 0; round < 50; round++) {
		struct jit_reach reach = {};

		for (i = 0; i < 400; i++) {
			starts[i] = 0x7f0000000000 + (uint64_t)(rand() % 5000) * 0x40000 + (uint32_t)rand() % 0x10000;
			ends[i] = starts[i] + 1 + (uint32_t)rand() % 0x300000;
			reach__add(&reach, starts[i], ends[i]);
		}
		for (i = 0; i < 400; i++)
			assert_true(reach__has(&reach, starts[i]) && reach__has(&reach, starts[i] + (ends[i] - starts[i]) / 2) &&
				    reach__has(&reach, ends[i]));
	}
}

/* What lies between objects is none of it, however many there are. */
static void what_lies_between_is_not(void **state)
{
	struct jit_reach reach = {};
	uint32_t i;

	for (i = 0; i < 1000; i++)
		reach__add(&reach, (i + 1) * 0x100000ull, (i + 1) * 0x100000ull + 0x1000);
	for (i = 0; i < 1000; i++) {
		assert_true(reach__has(&reach, (i + 1) * 0x100000ull + 0x10));
		assert_false(reach__has(&reach, (i + 1) * 0x100000ull + 0x80000));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(edges),
		cmocka_unit_test(all_is_found),
		cmocka_unit_test(what_lies_between_is_not),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
