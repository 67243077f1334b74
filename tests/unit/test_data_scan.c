/* SPDX-License-Identifier: MIT */
/* Finding the runtime of a Python without symbols in its data: on a synthetic heap. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "target/version.h"

#define BASE 0x5500000000ull
#define WORDS 64u

struct memory {
	struct host_reader reader;
	uint64_t words[WORDS];
};

static int read_memory(struct host_reader *self, void *dst, size_t size, uint64_t address)
{
	struct memory *m = (struct memory *)self;

	if (address < BASE || address - BASE > sizeof(m->words) ||
	    size > sizeof(m->words) - (address - BASE))
		return -EFAULT;
	memcpy(dst, (char *)m->words + (address - BASE), size);
	return 0;
}

#define ADDRESS(i) (BASE + (i) * 8ull)
#define AREA(m) ((struct data_area){.bytes = (char *)(m).words, .len = sizeof((m).words), .address = BASE})

/* An object with a GIL: refcnt, ob_type, ob_size, tp_name. */
static void put_type(struct memory *m, size_t at, uint64_t type, size_t name_at, const char *name)
{
	m->words[at] = 1;
	m->words[at + 1] = type;
	m->words[at + 3] = ADDRESS(name_at);
	memcpy(&m->words[name_at], name, strlen(name) + 1);
}

static void fill(struct memory *m)
{
	*m = (struct memory){.reader = {.read = read_memory}};
	m->words[0] = ADDRESS(0) - 8; /* noise that looks like a type for a moment */
	m->words[2] = ADDRESS(1);     /* points to itself as a type does, but has another name */
	put_type(m, 8, ADDRESS(12), 40, "int");
	put_type(m, 12, ADDRESS(12), 42, "type");
	put_type(m, 20, ADDRESS(12), 44, "code");
	put_type(m, 24, ADDRESS(8), 46, "code"); /* of another type */
}

static void type_found(void **state)
{
	struct memory m;

	fill(&m);
	assert_int_equal(data_scan__type(&AREA(m), &m.reader, 8, 24, "code"), ADDRESS(20));
	assert_int_equal(data_scan__type(&AREA(m), &m.reader, 8, 24, "int"), ADDRESS(8));
	assert_int_equal(data_scan__type(&AREA(m), &m.reader, 8, 24, "cod"), 0);
	assert_int_equal(data_scan__type(&AREA(m), &m.reader, 8, 24, "coder"), 0);
	m.words[15] = 1; /* the name of `type` is nowhere */
	assert_int_equal(data_scan__type(&AREA(m), &m.reader, 8, 24, "code"), 0);
}

static void type_bounds(void **state)
{
	struct memory m;
	size_t len;

	fill(&m);
	for (len = 0; len <= sizeof(m.words); len++) {
		char *copy = malloc(len ? len : 1);
		struct data_area area = {.bytes = copy, .len = len, .address = BASE};

		memcpy(copy, m.words, len);
		assert_int_equal(data_scan__type(&area, &m.reader, 8, 24, "code"),
				 len >= 24 * 8 ? ADDRESS(20) : 0);
		data_scan__runtime(&area);
		free(copy);
	}
	assert_int_equal(data_scan__type(&AREA(m), &m.reader, 0xffff, 15, "code"), 0);
	assert_int_equal(data_scan__type(&AREA(m), &m.reader, 8, UINT32_MAX, "code"), 0);
	assert_int_equal(data_scan__type(&AREA(m), &m.reader, 24, 8, "code"), 0);
	assert_int_equal(data_scan__type(&AREA(m), &m.reader, 9, 25, "code"), 0);
}

static void runtime(void **state)
{
	struct memory m;

	fill(&m);
	assert_int_equal(data_scan__runtime(&AREA(m)), 0);
	memcpy(&m.words[30], "xdebugpy", 8);
	assert_int_equal(data_scan__runtime(&AREA(m)), 0); /* the word alone, as in this program */
	m.words[31] = 0x030c00f0;
	assert_int_equal(data_scan__runtime(&AREA(m)), 0); /* 3.12 has no mark */
	memcpy(&m.words[50], "xdebugpy", 8);
	m.words[51] = 0x030d00f0;
	assert_int_equal(data_scan__runtime(&AREA(m)), ADDRESS(50));
	m.words[51] = 0x1030d00f0;
	assert_int_equal(data_scan__runtime(&AREA(m)), 0);
	memcpy(&m.words[WORDS - 1], "xdebugpy", 8);
	assert_int_equal(data_scan__runtime(&AREA(m)), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(type_found),
		cmocka_unit_test(type_bounds),
		cmocka_unit_test(runtime),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
