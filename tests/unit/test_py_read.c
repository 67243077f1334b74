/* SPDX-License-Identifier: MIT */
/* Objects at the end of a mapping that are shorter than a usual read of their type. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "cprofd/pywalk.h"

#define PAGE 0x7f0000003000ull /* the only one */

static int read_page(struct host_reader *self, void *dst, size_t size, uint64_t address)
{
	uint64_t i;

	memset(dst, 0xee, size);
	for (i = 0; i < size; i++) {
		if (address + i - PAGE >= 4096)
			return -EFAULT;
		((uint8_t *)dst)[i] = (uint8_t)(address + i);
	}
	return 0;
}

static struct host_reader reader = {read_page};

/* Bytes before `end` are the object's, and what follows is 0. */
static void expect(uint64_t address, uint32_t size, uint64_t end)
{
	uint8_t bytes[PY_RAW_CODE];
	uint32_t i;

	assert_int_equal(py_read_object(bytes, size, address), 0);
	for (i = 0; i < size; i++)
		assert_int_equal(bytes[i], address + i < end ? (uint8_t)(address + i) : 0);
}

static void the_last_of_an_arena(void **state)
{
	uint8_t bytes[PY_RAW_CODE];

	host_reader_current = &reader;
	expect(PAGE, PY_RAW_CODE, PAGE + 4096);
	expect(PAGE + 4096 - PY_RAW_CODE, PY_RAW_CODE, PAGE + 4096);
	expect(PAGE + 4096 - 176, PY_RAW_CODE, PAGE + 4096); /* a code object of 3.8 */
	expect(PAGE + 4096 - 32, 64, PAGE + 4096);
	expect(PAGE + 4096 - 1, 64, PAGE + 4096);
	assert_true(py_read_object(bytes, 64, PAGE + 4096));
	assert_true(py_read_object(bytes, 64, PAGE - 1));
	assert_true(py_read_object(bytes, 64, PAGE - 64));
	assert_true(py_read_object(bytes, 64, UINT64_MAX));
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(the_last_of_an_arena)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
