/* SPDX-License-Identifier: MIT */
/* The cache of names: returns what was stored, until it is full or the file is another one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "codemap/known_names.h"
#include "weave/weave.h"

static void name_of(uint32_t module, uint64_t start, char ret[300])
{
	memset(ret, 'x', 200);
	snprintf(ret + 200, 100, "f%u+%llu", module, (unsigned long long)start);
}

static const char *keep(struct known_names *known, uint64_t files, uint32_t module, uint64_t start, const char *name)
{
	const struct known_name row = {.start = start, .module = module, .role = start % FRAME_ROLES, .name = name};

	return known_names__keep(known, files, &row);
}

static const char *find(struct known_names *known, uint64_t files, uint32_t module, uint64_t start)
{
	const struct known_name *found = known_names__find(known, files, module, start);

	if (found)
		assert_int_equal(found->role, start % FRAME_ROLES);
	return found ? found->name : NULL;
}

/* What was given to an epoch stays as it was to its end. */
static void names(void **state)
{
	static const char *given[40000];
	struct known_names known = {};
	char name[300];
	uint32_t i, n = 0;

	assert_int_equal(hash_seed__draw(&known.seed), 0);
	assert_null(find(&known, 0, 1, 16));
	for (i = 0; i < 40000; i++) { /* more than there is room for */
		name_of(i % 3, i * 16, name);
		given[i] = keep(&known, 7, i % 3, i * 16, name);
		assert_ptr_equal(find(&known, 7, i % 3, i * 16), given[i]);
		assert_true(known.text.bytes <= KNOWN_NAMES_BYTES + ARENA_CHUNK + 100);
	}
	keep(&known, 8, 0, 0, "g");
	for (i = 0; i < 40000; i++) {
		name_of(i % 3, i * 16, name);
		if (given[i])
			assert_string_equal(given[i], name);
		n += given[i] != NULL;
	}
	assert_true(n > 20000 && n < 35000);
	known_names__free(&known);
}

static void epochs(void **state)
{
	struct known_names known = {};
	char name[300];
	uint32_t i;

	assert_int_equal(hash_seed__draw(&known.seed), 0);
	for (i = 0; i < 10000; i++) {
		name_of(i % 3, i * 16, name);
		keep(&known, 7, i % 3, i * 16, name);
	}
	known_names__new_epoch(&known);
	for (i = 0; i < 10000; i++) { /* they were few */
		name_of(i % 3, i * 16, name);
		assert_string_equal(find(&known, 7, i % 3, i * 16), name);
		assert_null(find(&known, 7, (i + 1) % 3, i * 16));
		assert_null(find(&known, 8, i % 3, i * 16));
	}
	for (; i < 25000; i++)
		keep(&known, 7, 0, i * 16, name);
	known_names__new_epoch(&known); /* too many, but all were used */
	for (i = 0; i < 10000; i += 2) {
		name_of(i % 3, i * 16, name);
		assert_string_equal(find(&known, 7, i % 3, i * 16), name);
	}
	known_names__new_epoch(&known);
	assert_true(known.text.bytes < KNOWN_NAMES_EPOCH / 2);
	for (i = 0; i < 10000; i++) {
		name_of(i % 3, i * 16, name);
		if (i % 2)
			assert_null(find(&known, 7, i % 3, i * 16));
		else
			assert_string_equal(find(&known, 7, i % 3, i * 16), name);
	}
	/* Another file tells the names. */
	keep(&known, 7, 0, 16, "f");
	keep(&known, 8, 0, 16, "g");
	assert_null(find(&known, 7, 0, 16));
	assert_string_equal(find(&known, 8, 0, 16), "g");
	known_names__new_epoch(&known);
	assert_true(known.text.bytes <= ARENA_CHUNK + 100);
	assert_null(find(&known, 8, 0, 0));
	assert_string_equal(find(&known, 8, 0, 16), "g");
	known_names__free(&known);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(names), cmocka_unit_test(epochs)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
