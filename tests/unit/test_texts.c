/* SPDX-License-Identifier: MIT */
/* base/texts.h: equal texts have one address, for as long as they are kept. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/texts.h"

static void each_text_is_there_once(void **state)
{
	struct texts texts = {};
	const char *kept[1000];
	char text[16];
	uint32_t i;

	(void)state;
	for (i = 0; i < 1000; i++) {
		snprintf(text, sizeof(text), "text %u", i);
		kept[i] = texts__keep(&texts, text);
		assert_string_equal(kept[i], text);
	}
	for (i = 0; i < 1000; i++) {
		snprintf(text, sizeof(text), "text %u", i);
		assert_ptr_equal(texts__keep(&texts, text), kept[i]);
		assert_string_equal(kept[i], text);
	}
	assert_int_equal(texts.n, 1000);
	assert_int_equal(texts__id(&texts, "text 9 and more", 6), 10);
	assert_ptr_equal(texts__get(&texts, 10), kept[9]);
	assert_string_equal(texts__get(&texts, 0), "");
	assert_string_equal(texts__keep(&texts, ""), "");
	assert_true(texts__bytes(&texts) > 1000 * sizeof("text 0"));
	texts__free(&texts);
	assert_int_equal(texts__bytes(&texts), 0);
	assert_string_equal(texts__keep(&texts, "again"), "again");
	texts__free(&texts);
}

static void there_is_a_limit(void **state)
{
	struct texts texts = {.most = 100};
	uint32_t i;

	(void)state;
	assert_int_equal(texts__id(&texts, "first", 5), 1);
	for (i = 0; i < 2; i++) { /* one chunk of the arena is more than the limit */
		assert_int_equal(texts__id(&texts, "second", 6), 0);
		assert_null(texts__keep(&texts, "third"));
		assert_int_equal(texts__id(&texts, "first", 5), 1);
	}
	texts__free(&texts);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(each_text_is_there_once), cmocka_unit_test(there_is_a_limit)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
