/* SPDX-License-Identifier: MIT */
/* Keys of code objects: two that lie at the same address, one after the other, with the same version. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "cprofd/pywalk.h"

#define AT 0x7f0000001000ull
#define CODE_TYPE 0x5000u
enum { CODE = 0, NAME = 256, FILENAME = 512, LINES = 768 };

static uint8_t memory[1024];

static int read_memory(struct host_reader *self, void *dst, size_t size, uint64_t address)
{
	if (address < AT || address + size > AT + sizeof(memory))
		return -EFAULT;
	memcpy(dst, memory + (address - AT), size);
	return 0;
}

static struct host_reader reader = {read_memory};

static const struct image image = {
	.code_type = CODE_TYPE,
	.layout = {.version = 0x030d00f0, .object_refcnt = 0, .object_type = 8, .var_size = 16, .code_version = 24, .code_firstlineno = 28,
		   .code_flags = 32, .code_name = 40, .code_qualname = PY_ABSENT, .code_filename = 48, .code_linetable = 56,
		   .unicode_length = 16, .unicode_ascii_data = 40},
};

static void put(uint32_t at, uint64_t word)
{
	memcpy(memory + at, &word, sizeof(word));
}

/* A function of this name, and its key, once in a process of one interpreter and once with several. */
static uint64_t key_of(const char *name, uint32_t version, bool several)
{
	static struct py_walk walk;

	host_reader_current = &reader;
	memset(memory, 0, sizeof(memory));
	put(CODE, 1);
	put(CODE + 8, CODE_TYPE);
	put(CODE + 16, 30);
	put(CODE + 24, version | 7ull << 32);
	put(CODE + 40, AT + NAME);
	put(CODE + 48, AT + FILENAME);
	put(CODE + 56, AT + LINES);
	put(NAME + 16, strlen(name));
	put(NAME + 24, ~0ull); /* its hash: not computed */
	memcpy(memory + NAME + 40, name, strlen(name));
	walk.several = several;
	walk.loss = 0;
	return py_code_prove(&walk, &image, AT + CODE, 0);
}

static void versions_of_one_interpreter(void **state)
{
	assert_true(key_of("f", 5, false) != 0);
	assert_int_equal(key_of("f", 5, false), key_of("f", 5, false));
	assert_int_not_equal(key_of("f", 5, false), key_of("f", 6, false));
}

/* Each interpreter counts its versions by itself. */
static void versions_of_several(void **state)
{
	assert_true(key_of("f", 5, true) != 0);
	assert_int_equal(key_of("f", 5, true), key_of("f", 5, true));
	assert_int_not_equal(key_of("f", 5, true), key_of("f", 6, true));
	assert_int_not_equal(key_of("f", 5, true), key_of("g", 5, true));
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(versions_of_one_interpreter), cmocka_unit_test(versions_of_several)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
