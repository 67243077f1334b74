/* SPDX-License-Identifier: MIT */
/* Parsing the version in Py_GetVersion()'s text, and printing versions. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "target/version.h"

static uint32_t find(const char *text, size_t len)
{
	char *copy = malloc(len ? len : 1); /* exact, so that a sanitizer sees a read beyond */
	uint32_t hex = 0;

	memcpy(copy, text, len);
	if (!version__find(copy, len, &hex))
		hex = 0;
	free(copy);
	return hex;
}
#define FIND(text) find(text, sizeof(text) - 1)

static void found(void **state)
{
	assert_int_equal(FIND("3.8.18 (default, May  9 2026, 07:31:10) \n[GCC 12.2.0]"), 0x030812f0);
	assert_int_equal(FIND("\0\0\0003.10.13 (main, x) [GCC 12.2.0]\0"), 0x030a0df0);
	assert_int_equal(FIND("2.7.18 (default, x) \n[GCC 12.2.0]"), 0x020712f0);
	assert_int_equal(FIND("3.9.0rc2+ (heads/3.9:abc, x) \n[Clang 14]"), 0x030900c2);
	assert_int_equal(FIND("1.2\0009.9.9\0003.9.1 (x) [y"), 0x030901f0);
	assert_int_equal(FIND("3.10.0a1 (x) [y"), 0x030a00a1);
}

static void not_found(void **state)
{
	static const char text[] = "3.8.18 (default, x) \n[GCC 12.2.0]";
	size_t cut;

	for (cut = 0; cut <= strlen("3.8.18 (default, x) \n"); cut++)
		assert_int_equal(find(text, cut), 0);
	assert_int_equal(FIND("13.8.18 (default, x) \n[GCC]"), 0);
	assert_int_equal(FIND("3.8 (default, x) \n[GCC]"), 0);
	assert_int_equal(FIND("3.8.1000 (default, x) \n[GCC]"), 0);
	assert_int_equal(FIND("3.8.18rc (default, x) \n[GCC]"), 0);
	assert_int_equal(FIND("3.8.18 default, x) \n[GCC]"), 0);
	assert_int_equal(FIND("3.8.18 (default, x \n[GCC]"), 0);
	assert_int_equal(FIND("....................."), 0);
	assert_int_equal(FIND("3.99999999999999999999.1 (x) ["), 0);
}

static void written(void **state)
{
	char text[32];

	version__format(0x030b02f0, false, text);
	assert_string_equal(text, "3.11.2");
	version__format(0x030e00f0, true, text);
	assert_string_equal(text, "3.14.0t");
	version__format(0x030f00a2, false, text);
	assert_string_equal(text, "3.15.0a2");
	version__format(0x030e00c3, true, text);
	assert_string_equal(text, "3.14.0rc3t");
	version__format(UINT32_MAX, true, text);
	assert_string_equal(text, "255.255.255t");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(found),
		cmocka_unit_test(not_found),
		cmocka_unit_test(written),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
