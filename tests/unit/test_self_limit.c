/* SPDX-License-Identifier: MIT */
/* --self-limit over hours, of a program whose cost is made here: a part of it at any rate, and a part for each sample. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "cli/self_limit.h"

#define MS 1000000ull

struct program {
	struct self_limit limit;
	double fixed, sample; /* of a CPU; s */
	uint64_t now, cpu;    /* ns */
	unsigned changes;
};

static void run(struct program *program, unsigned minutes)
{
	for (unsigned i = 0; i < minutes * 60; i++) {
		program->now += 1000 * MS;
		program->cpu += (uint64_t)(1000 * MS * (program->fixed + program->sample * program->limit.rate));
		if (self_limit__is_due(&program->limit, program->now / MS))
			program->changes += self_limit__measured(&program->limit, program->now, program->cpu);
	}
}

static struct program begin(double share, uint32_t rate, double fixed, double sample)
{
	return (struct program){.limit = {.share = share, .asked = rate, .rate = rate}, .fixed = fixed, .sample = sample, .now = 5000000 * MS};
}

static void below_it_nothing_changes(void **state)
{
	struct program program = begin(0.01, 999, 0.001, 8e-6);

	run(&program, 600);
	assert_int_equal(program.changes, 0);
	assert_int_equal(program.limit.rate, 999);
}

static void no_limit_is_never_due(void **state)
{
	struct program program = begin(0, 999, 0.9, 0);

	run(&program, 60);
	assert_int_equal(program.changes, 0);
	assert_false(self_limit__is_due(&program.limit, UINT64_MAX));
}

static void above_it_the_rate_falls_below_and_stays(void **state)
{
	struct program program = begin(0.01, 9999, 0.003, 6e-6);
	uint32_t rate;

	run(&program, 10);
	rate = program.limit.rate;
	assert_true(program.fixed + program.sample * rate <= 0.01);
	assert_true(program.fixed + program.sample * rate >= 0.005);
	run(&program, 600);
	assert_int_equal(program.limit.rate, rate);
}

static void the_lowest_rate_is_said_once(void **state)
{
	struct program program = begin(0.01, 99, 0.02, 1e-5);
	unsigned changes;

	run(&program, 10);
	changes = program.changes;
	assert_int_equal(program.limit.rate, 1);
	assert_true(program.limit.least);
	run(&program, 600);
	assert_int_equal(program.changes, changes);
}

static void it_rises_when_it_is_calm(void **state)
{
	struct program program = begin(0.01, 999, 0.001, 5e-5);

	run(&program, 10);
	assert_true(program.limit.rate < 200);
	program.sample = 1e-6;
	run(&program, 4);
	assert_true(program.limit.rate < 200);
	run(&program, 60);
	assert_int_equal(program.limit.rate, 999);
}

static void another_engine_counts_anew(void **state)
{
	struct program program = begin(0.01, 999, 0.001, 1e-6);

	program.cpu = 1000000 * MS;
	run(&program, 10);
	program.cpu = 0;
	run(&program, 10);
	assert_int_equal(program.changes, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(below_it_nothing_changes),
		cmocka_unit_test(no_limit_is_never_due),
		cmocka_unit_test(above_it_the_rate_falls_below_and_stays),
		cmocka_unit_test(the_lowest_rate_is_said_once),
		cmocka_unit_test(it_rises_when_it_is_calm),
		cmocka_unit_test(another_engine_counts_anew),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
