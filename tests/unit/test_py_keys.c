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
		   .unicode_length = 16, .unicode_hash = 24, .unicode_state = 32, .unicode_ascii_data = 40, .unicode_compact_data = 56,
		   .state_kind_shift = 2, .state_ascii_shift = 6},
};

#define INTERNED 1u
#define ASCII (1u << 2 | 1u << 6)
#define LATIN1 (1u << 2)

static void put(uint32_t at, uint64_t word)
{
	memcpy(memory + at, &word, sizeof(word));
}

static void put_string(uint32_t at, const char *text, uint32_t state)
{
	put(at + 16, strlen(text));
	put(at + 24, ~0ull); /* its hash: not computed */
	put(at + 32, state);
	memcpy(memory + at + (state & 1u << 6 ? 40 : 56), text, strlen(text));
}

/* A function of this name, which is at `memory` then. */
static void make(const char *name, uint32_t version)
{
	memset(memory, 0, sizeof(memory));
	put(CODE, 1);
	put(CODE + 8, CODE_TYPE);
	put(CODE + 16, 30);
	put(CODE + 24, version | 7ull << 32);
	put(CODE + 40, AT + NAME);
	put(CODE + 48, AT + FILENAME);
	put(CODE + 56, AT + LINES);
	put_string(NAME, name, ASCII);
}

static uint64_t key(bool several)
{
	static struct py_walk walk;

	host_reader_current = &reader;
	walk.several = several;
	walk.loss = 0;
	return py_code_prove(&walk, &image, AT + CODE, 0);
}

/* Once in a process of one interpreter and once with several. */
static uint64_t key_of(const char *name, uint32_t version, bool several)
{
	make(name, version);
	return key(several);
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

/* A string's neighbour in memory, its hash and its cached UTF-8 come and go while the code object lives. */
static void what_changes_is_not_in_it(void **state)
{
	static const struct {
		uint32_t at, state;
		const char *text;
	} strings[] = {{NAME, ASCII, "f"}, {NAME, ASCII, "Pass.run"}, {NAME, ASCII, "a name of more than the 24 bytes that are read"}, {NAME, LATIN1, "caf\xe9"},
		       {NAME, LATIN1, "g\xe9n\xe9rateur.<locals>.suivant"}, {FILENAME, ASCII, "<string>"}, {FILENAME, LATIN1, "/tmp/caf\xe9/a.py"},
		       {FILENAME, LATIN1, "\xe9"}};
	uint64_t before;
	uint32_t i, end;

	for (i = 0; i < sizeof(strings) / sizeof(strings[0]); i++) {
		make("f", 5);
		memset(memory + strings[i].at, 0, 256);
		put_string(strings[i].at, strings[i].text, strings[i].state);
		before = key(true);
		put(strings[i].at + 24, 0x1234); /* somebody asked for its hash */
		if (strings[i].state == LATIN1) {
			put(strings[i].at + 40, strlen(strings[i].text)); /* and for its UTF-8 */
			put(strings[i].at + 48, 0x7f0000002000ull);
		}
		end = strings[i].at + (strings[i].state == ASCII ? 40 : 56) + (uint32_t)strlen(strings[i].text) + 1;
		memset(memory + (end + 7) / 8 * 8, 0xaa, 24); /* another object lies behind it */
		assert_true(before != 0);
		assert_int_equal(key(true), before);
	}
}

static void texts_are_in_it(void **state)
{
	static const char *const texts[] = {"f", "g", "ff", "Pass.run", "Fail.run", "a name that goes on <a>", "a name that goes on <b>"};
	enum { N = sizeof(texts) / sizeof(texts[0]) };
	uint64_t keys[2][N];
	uint32_t i, j;

	for (i = 0; i < N; i++) {
		keys[0][i] = key_of(texts[i], 5, true);
		put_string(FILENAME, texts[i], LATIN1);
		keys[1][i] = key(true);
		for (j = 0; j < i; j++) {
			assert_int_not_equal(keys[0][i], keys[0][j]);
			assert_int_not_equal(keys[1][i], keys[1][j]);
		}
	}
	/* Of an interned one, all of it by its hash. */
	make("", 5);
	put(NAME + 32, ASCII | INTERNED);
	put(NAME + 24, 1);
	keys[0][0] = key(true);
	put(NAME + 24, 2);
	assert_int_not_equal(key(true), keys[0][0]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(what_changes_is_not_in_it), cmocka_unit_test(texts_are_in_it), cmocka_unit_test(versions_of_one_interpreter), cmocka_unit_test(versions_of_several)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
