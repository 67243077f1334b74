/* SPDX-License-Identifier: MIT */
/* The index of address ranges, against a linear search. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "jit/spans.h"

#define N 5000u

static struct span all[N];
static uint8_t met[N];

static bool meet(void *ctx, const struct span *span)
{
	assert_true(span->seq < N);
	assert_int_equal(met[span->seq], 0);
	assert_int_equal(span->start, all[span->seq].start);
	met[span->seq] = 1;
	return true;
}

static bool keep_even(void *ctx, const struct span *span, const struct span *next)
{
	if (next)
		assert_true(span->start <= next->start);
	return span->seq % 2 == 0;
}

static void check(const struct spans *spans, uint64_t lo, uint64_t hi, unsigned n, unsigned step)
{
	unsigned i;

	memset(met, 0, sizeof(met));
	spans__each(spans, lo, hi, meet, NULL);
	for (i = 0; i < n; i++)
		assert_int_equal(met[i], i % step == 0 && all[i].start < hi &&
						 all[i].start + all[i].size > lo);
}

static void like_a_list(void **state)
{
	struct spans spans = {};
	unsigned seed = 1, i, k;

	for (i = 0; i < N; i++) {
		all[i] = (struct span){.start = (uint64_t)(rand_r(&seed) % 100000),
				       .size = 1 + (uint32_t)rand_r(&seed) % (i % 97 ? 50 : 50000),
				       .seq = i};
		assert_int_equal(spans__add(&spans, &all[i]), 0);
		if (i % 50 == 0)
			for (k = 0; k < 10; k++) {
				uint64_t lo = (uint64_t)(rand_r(&seed) % 110000);

				check(&spans, lo, lo + 1 + (k > 5 ? rand_r(&seed) % 1000 : 0), i + 1, 1);
			}
	}
	assert_int_equal(spans__retain(&spans, keep_even, NULL), 0);
	assert_int_equal(spans.total, N / 2);
	for (k = 0; k < 1000; k++)
		check(&spans, k * 100, k * 100 + 1, N, 2);
	check(&spans, 0, UINT64_MAX, N, 2);
	spans__free(&spans);
	check(&spans, 0, UINT64_MAX, 0, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(like_a_list)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
