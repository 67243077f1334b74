/* SPDX-License-Identifier: MIT */
/* A buffer that fails to grow keeps its contents and remembers the failure. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"

/* malloc's own answer to what is too big; read by AddressSanitizer. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
	return "allocator_may_return_null=1";
}

static void test_grows(void **state)
{
	struct buf buf = {};

	for (int i = 0; i < 1000; i++)
		assert_int_equal(buf__printf(&buf, "%03d ", i), 0);
	assert_int_equal(buf.len, 4000);
	assert_memory_equal(buf.data + 3996, "999 ", 4);
	buf__consume(&buf, 3996);
	assert_int_equal(buf.len, 4);
	assert_memory_equal(buf.data, "999 ", 4);
	assert_false(buf.failed);
	buf__free(&buf);
}

static void test_impossible(void **state)
{
	/* Beyond what a size can say, and beyond what malloc gives. */
	const size_t sizes[] = {SIZE_MAX, SIZE_MAX / 4 + 1, SIZE_MAX / 8};

	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		struct buf buf = {};

		assert_int_equal(buf__puts(&buf, "kept"), 0);
		assert_int_equal(buf__reserve(&buf, sizes[i]), -ENOMEM);
		assert_true(buf.failed);
		assert_int_equal(buf.len, 4);
		assert_memory_equal(buf.data, "kept", 4);
		assert_int_equal(buf__puts(&buf, "!"), 0);
		assert_true(buf.failed); /* there is a hole in what was said */
		buf__clear(&buf);
		assert_false(buf.failed);
		buf__free(&buf);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_grows),
		cmocka_unit_test(test_impossible),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
