/* SPDX-License-Identifier: MIT */
/* Names that were read before: the same as they were given, until there is no room or another file tells them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "serve/known_names.h"

static void name_of(uint32_t module, uint64_t start, char ret[300])
{
	memset(ret, 'x', 200);
	snprintf(ret + 200, 100, "f%u+%llu", module, (unsigned long long)start);
}

static void names(void **state)
{
	struct known_names known = {};
	char name[300];
	uint32_t i, n = 0;

	assert_int_equal(hash_seed__draw(&known.seed), 0);
	assert_null(known_names__find(&known, 0, 1, 16));
	for (i = 0; i < 20000; i++) { /* twice what there is room for */
		name_of(i % 3, i * 16, name);
		known_names__keep(&known, 7, i % 3, i * 16, name);
		assert_string_equal(known_names__find(&known, 7, i % 3, i * 16), name);
		assert_true(known.text.bytes <= KNOWN_NAMES_BYTES + ARENA_CHUNK + 100);
	}
	for (i = 0; i < 20000; i++) {
		const char *found = known_names__find(&known, 7, i % 3, i * 16);

		name_of(i % 3, i * 16, name);
		if (found)
			assert_string_equal(found, name);
		n += found != NULL;
		assert_null(known_names__find(&known, 7, (i + 1) % 3, i * 16));
		assert_null(known_names__find(&known, 8, i % 3, i * 16));
	}
	assert_true(n > 100 && n < 20000);
	known_names__keep(&known, 8, 0, 0, "g");
	assert_null(known_names__find(&known, 7, 0, 0));
	assert_string_equal(known_names__find(&known, 8, 0, 0), "g");
	known_names__free(&known);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(names)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
