/* SPDX-License-Identifier: MIT */
/* Objects at the end of a mapping that are shorter than a usual read of their type; paths of attributes. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "cprofd/pywalk.h"
#include "cprofd/py/path.h"

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

static uint64_t words[32]; /* from PAGE on */

static int read_words(struct host_reader *self, void *dst, size_t size, uint64_t address)
{
	address -= PAGE;
	if (address >= sizeof(words) || size > sizeof(words) - address)
		return -EFAULT;
	memcpy(dst, (char *)words + address, size);
	return 0;
}

#define AT(i) (PAGE + 8ull * (i))

/* An object of type 8 at 0, whose attribute is the object at 20: by its values, at 10, whose keys are at 12, and those of the type, too. */
static void paths_of_attributes(void **state)
{
	struct host_reader other = {read_words};
	static struct locals_captures captured;
	static struct image image;
	struct py_path path = {.n = 5, .steps = {{.offset = 8, .value = AT(8), .flags = PY_PATH_CHECK | PY_PATH_TO_B},
						 {.offset = 16, .flags = PY_PATH_FROM_B | PY_PATH_TO_B},
						 {.offset = 8, .value = 0x55, .shift = 32, .flags = PY_PATH_CHECK | PY_PATH_FROM_B},
						 {.offset = -8, .tag = 7},
						 {.offset = 9}}};

	host_reader_current = &other;
	words[1] = AT(10) - 1;
	words[3] = AT(8);
	words[10] = AT(12);
	words[13] = 0x7700000055ull;
	words[11] = AT(20);
	assert_int_equal(py_path_run(&path, AT(2)), AT(20));
	words[1]++; /* a dictionary is there now */
	assert_int_equal(py_path_run(&path, AT(2)), 0);
	words[1]--;
	words[13] = 0x56; /* another name */
	assert_int_equal(py_path_run(&path, AT(2)), 0);
	words[13] = 0x55;
	words[11] = 0; /* unset */
	assert_int_equal(py_path_run(&path, AT(2)), 0);
	words[11] = AT(20);
	words[3] = AT(9); /* of another class */
	assert_int_equal(py_path_run(&path, AT(2)), 0);
	words[3] = AT(8);
	words[10] = 8; /* not mapped */
	assert_int_equal(py_path_run(&path, AT(2)), 0);
	words[10] = AT(12);
	path.written = 1;
	assert_int_equal(py_path_run(&path, AT(2)), 0);
	path.written = 2;
	path.n = PY_PATH_STEPS + 5; /* bounded */
	(void)py_path_run(&path, AT(2));
	path.n = 5;

	image.layout.object_type = 8;
	path.key = py_path_key(0x99, 1, AT(8));
	captured.paths[py_path_set(path.key) * PY_PATHS_WAYS] = path;
	captured.paths[py_path_set(path.key) * PY_PATHS_WAYS].steps[4].offset = 8 * 100; /* of objects that are made otherwise */
	captured.paths[py_path_set(path.key) * PY_PATHS_WAYS + 3] = path;
	assert_int_equal(py_path(&image, &captured, 0x99, 1, AT(2)), AT(20));
	assert_int_equal(py_path(&image, &captured, 0x99, 0, AT(2)), 0);
	assert_int_equal(py_path(&image, &captured, 0x98, 1, AT(2)), 0);
	assert_int_equal(py_path(&image, &captured, 0x99, 1, AT(9)), 0);
	assert_int_equal(py_path(&image, &captured, 0x99, 1, 0), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(the_last_of_an_arena), cmocka_unit_test(paths_of_attributes)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
