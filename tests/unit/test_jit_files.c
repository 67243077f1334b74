/* SPDX-License-Identifier: MIT */
/* perf maps and jitdumps, read in pieces of each size; which function is found at which time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "jit/internal.h"
#include "jitdump_make.h"

static uint64_t clock_now;
static uint64_t test_clock(void) { return clock_now; }

static struct jit *fresh(void)
{
	struct jit *jit;

	clock_now = 1000;
	assert_int_equal(jit__new(test_clock, &jit), 0);
	return jit;
}

static void is(const struct jit *jit, uint64_t pc, uint64_t time, const char *name)
{
	struct jit_found found;
	int err = jit__find(jit, pc, time, &found);

	if (!name) {
		assert_int_equal(err, -ENOENT);
		return;
	}
	assert_int_equal(err, 0);
	assert_string_equal(found.name, name);
	assert_true(found.start <= pc && pc - found.start < found.size);
}

typedef int feed(struct jit *jit, const void *bytes, size_t len);

static int in_pieces(struct jit *jit, feed *fn, const char *bytes, size_t len, size_t piece)
{
	size_t at, n;
	int err = 0;

	for (at = 0; at < len && !err; at += n) {
		char *copy; /* of its own, so that a byte too far is seen */

		n = len - at < piece ? len - at : piece;
		copy = malloc(n);
		memcpy(copy, bytes + at, n);
		err = fn(jit, copy, n);
		free(copy);
	}
	return err;
}

static void perf_map_lines(void **state)
{
	static const char text[] = "1000 20 first\n"
				   "0x1020 0x10 with spaces and\ttabs  \n"
				   "\n"
				   "nothing\n"
				   "1100 0 empty\n"
				   "1100 zz bad\n"
				   "11112222333344445 1 too large\n"
				   "2000 40 py::Class.method:/a b/c.py\r\n"
				   "ffffffffffffffff 2 wraps\n"
				   "1010 20 later wins\n"
				   "3000 10 half";
	struct jit_found found;
	size_t piece;

	for (piece = 1; piece < sizeof(text); piece += piece < 20 ? 1 : 19) {
		struct jit *jit = fresh();

		assert_int_equal(in_pieces(jit, jit__perf_map, text, sizeof(text) - 1, piece), 0);
		is(jit, 0x1000, 2000, "first");
		is(jit, 0x100f, 2000, "first");
		is(jit, 0x1010, 2000, "later wins");
		is(jit, 0x102f, 2000, "later wins");
		is(jit, 0x1030, 2000, NULL);
		is(jit, 0x1100, 2000, NULL);
		is(jit, 0x3000, 2000, NULL); /* its line has no end yet */
		assert_int_equal(jit->counts.bad_lines, 5);
		assert_int_equal(jit__find(jit, 0x2001, 2000, &found), 0);
		assert_int_equal(found.kind, JIT_KIND_PY_TRAMPOLINE);
		assert_string_equal(found.name, "py::Class.method:/a b/c.py");
		assert_int_equal(found.source, JIT_SOURCE_PERF_MAP);
		assert_int_equal(jit__perf_map(jit, " done\n", 6), 0);
		is(jit, 0x300f, 2000, "half done");
		jit__free(jit);
	}
}

static void perf_map_times(void **state)
{
	struct jit *jit = fresh();
	struct jit_found found;

	clock_now = 1000;
	jit__perf_map(jit, "1000 20 a\n", 10);
	is(jit, 0x1000, 10, "a");
	jit__file_ended(jit, JIT_SOURCE_PERF_MAP, 1000);
	clock_now = 2000;
	jit__perf_map(jit, "1000 20 b\n", 10);
	is(jit, 0x1000, 3000, "b");
	is(jit, 0x1000, 1000, "a");
	is(jit, 0x1000, 10, "a"); /* it was written after the code ran */
	assert_int_equal(jit__find(jit, 0x1000, 1500, &found), 0);
	assert_true(found.doubtful);
	assert_int_equal(jit__find(jit, 0x1000, 2000, &found), 0);
	assert_false(found.doubtful);
	jit__free(jit);
}

/* What was there when the file was read first is as old as the first line, in whatever pieces it came. */
static void perf_map_backlog(void **state)
{
	struct jit *jit = fresh();

	jit__perf_map(jit, "1000 20 a\n", 10);
	clock_now = 2000;
	jit__perf_map(jit, "1000 20 b\n", 10);
	jit__file_ended(jit, JIT_SOURCE_PERF_MAP, 1990);
	is(jit, 0x1000, 10, "b");
	is(jit, 0x1000, 1500, "b");
	jit__free(jit);
}

static void functions_of_files(void **state)
{
	_cleanup_(buf__free) struct buf dump = {};
	struct range replaced[JIT_REPLACED_MAX];
	struct jit_function functions[16];
	struct jit *jit = fresh();
	uint64_t cursor = 0;
	unsigned i;

	jit__perf_map(jit, "1000 20 a\n1020 20 b\n1040 20 c\n", 30);
	jitdump__head(&dump, 0);
	jitdump__load(&dump, 100, "dumped", 0x1080, 0x40, 1);
	jitdump__load(&dump, 100, "large", 0x10000, 1 << 20, 1);
	assert_int_equal(jit__jitdump(jit, dump.data, dump.len - 1000), 0);
	assert_int_equal(jit__jitdump_skip(jit, 100), 100);
	assert_int_equal(jit__jitdump_skip(jit, 10000), 900);
	assert_int_equal(jit__replaced(jit, &cursor, replaced), 0);
	assert_int_equal(jit__functions(jit, 0x1010, 0x2000, functions, 16), 3);
	assert_int_equal(functions[0].start, 0x1020);
	assert_int_equal(functions[2].start, 0x1080);
	assert_int_equal(functions[2].size, 0x40);
	jit__perf_map(jit, "1038 10 over both\n", 18);
	assert_int_equal(jit__replaced(jit, &cursor, replaced), 1);
	assert_int_equal(replaced[0].start, 0x1038);
	assert_int_equal(replaced[0].end, 0x1048);
	assert_int_equal(jit__functions(jit, 0x1000, 0x2000, functions, 16), 3); /* a, over both, dumped */
	assert_int_equal(functions[1].start, 0x1038);
	assert_int_equal(jit__functions(jit, 0x1000, 0x2000, functions, 1), 1);
	for (i = 0; i <= JIT_REPLACED_MAX; i++)
		jit__perf_map(jit, "1000 20 a\n", 10);
	assert_int_equal(jit__replaced(jit, &cursor, replaced), UINT32_MAX);
	assert_int_equal(jit__replaced(jit, &cursor, replaced), 0);
	jit__free(jit);
}

/* A name without an end, and more functions than are kept. */
static void perf_map_bounds(void **state)
{
	struct jit *jit = fresh();
	char *name = malloc(1 << 20), line[100];
	unsigned i;
	struct jit_found found;

	memset(name, 'x', 1 << 20);
	jit__perf_map(jit, "1000 20 ", 8);
	for (i = 0; i < 3; i++)
		jit__perf_map(jit, name, 1 << 20);
	jit__perf_map(jit, "\n2000 20 next\n", 14);
	assert_int_equal(jit__find(jit, 0x1000, 2000, &found), 0);
	assert_int_equal(strlen(found.name), JIT_NAME_MAX);
	is(jit, 0x2000, 2000, "next");
	/* The same address over and over: what is covered goes when its time is over. */
	for (i = 0; i < 1500000; i++) {
		int len = snprintf(line, sizeof(line), "4000 40 version %u\n", i);

		clock_now = 10000 + i;
		assert_int_equal(jit__perf_map(jit, line, (size_t)len), 0);
		if (i % 100000 == 0)
			jit__done(jit, clock_now);
		assert_true(jit__bytes(jit) <= JIT_BYTES_MAX);
	}
	assert_int_equal(jit->counts.no_room, 0);
	is(jit, 0x4000, clock_now, "version 1499999");
	free(name);
	jit__free(jit);
}

static void dump_records(void **state)
{
	_cleanup_(buf__free) struct buf dump = {};
	struct jit_unwind unwind;
	struct jit_found found;
	size_t piece;

	jitdump__head(&dump, 0);
	jitdump__load(&dump, 100, "one", 0x1000, 0x40, 1);
	jitdump__lines(&dump, 150, 0x2000, "a.py", 7);
	jitdump__unwinding(&dump, 150, "0123456789abcdef", 16, 8);
	jitdump__load(&dump, 200, "two", 0x2000, 0x43, 2);
	jitdump__unknown(&dump, 200);
	jitdump__move(&dump, 300, 0x1000, 0x5000, 0x40, 1);
	jitdump__load(&dump, 400, "three", 0x1000, 0x40, 3);
	jitdump__load(&dump, 500, "replaces two", 0x2040, 0x40, 4);
	jitdump__close(&dump, 600);
	jitdump__load(&dump, 700, "after the end", 0x9000, 0x40, 5);
	for (piece = 1; piece < dump.len + 50; piece += 7) {
		struct jit *jit = fresh();

		assert_int_equal(in_pieces(jit, jit__jitdump, dump.data, dump.len, piece), 0);
		is(jit, 0x1000, 99, NULL);
		is(jit, 0x1000, 100, "one");
		is(jit, 0x103f, 299, "one");
		is(jit, 0x1000, 300, NULL);
		is(jit, 0x5000, 299, NULL);
		is(jit, 0x5000, 300, "one");
		is(jit, 0x1000, 400, "three");
		is(jit, 0x2042, 499, "two");
		is(jit, 0x2042, 500, "replaces two");
		is(jit, 0x2000, 500, NULL);
		is(jit, 0x9000, 800, NULL);
		assert_int_equal(jit__find(jit, 0x2000, 300, &found), 0);
		assert_false(found.doubtful);
		assert_true(jit__object(jit, found.object)->has_lines);
		assert_int_equal(jit__take_unwind(jit, found.object, &unwind), 0);
		assert_int_equal(unwind.address, 0x2048);
		assert_int_equal(unwind.len, 8);
		assert_memory_equal(unwind.eh_frame, "01234567", 8);
		free(unwind.eh_frame);
		assert_int_equal(jit__find(jit, 0x1000, 100, &found), 0);
		assert_false(jit__object(jit, found.object)->has_lines);
		assert_int_equal(jit__take_unwind(jit, found.object, &unwind), -ENOENT);
		jit__done(jit, 550);
		is(jit, 0x1000, 200, NULL);
		is(jit, 0x1000, 550, "three");
		jit__free(jit);
	}
}

static void dump_lies(void **state)
{
	static const uint32_t zero[4];
	_cleanup_(buf__free) struct buf dump = {};
	struct jit *jit = fresh();
	uint32_t word;

	assert_int_equal(jit__jitdump(jit, "no jitdump, but long enough to be taken for a head", 50), -EBADMSG);
	assert_int_equal(jit__jitdump(jit, "more", 4), -EBADMSG);
	jit__jitdump_restart(jit);
	jitdump__head(&dump, 0);
	word = 0x4454694a;
	memcpy(dump.data, &word, 4);
	assert_int_equal(jit__jitdump(jit, dump.data, dump.len), -ENOTSUP);
	jit__jitdump_restart(jit);
	buf__clear(&dump);
	jitdump__head(&dump, 1); /* of another clock: the time of reading counts */
	jitdump__load(&dump, 1, "x", 0x1000, 0x40, 1);
	jitdump__load(&dump, 1, "code that is longer than the record", 0x2000, 0x40, 1);
	word = 0x7fffffff;
	memcpy(dump.data + dump.len - 0x40 - 36 - 16, &word, 4); /* code_size */
	jitdump__move(&dump, 1, 0x3333, 0x4444, 0x40, 9);
	buf__append(&dump, zero, 16);
	assert_int_equal(jit__jitdump(jit, dump.data, dump.len), -EBADMSG);
	is(jit, 0x1000, 1000, "x");
	is(jit, 0x2000, 1000, NULL);
	assert_int_equal(jit->counts.bad_records, 2);
	jit__free(jit);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(perf_map_lines),  cmocka_unit_test(perf_map_times),
		cmocka_unit_test(perf_map_backlog), cmocka_unit_test(functions_of_files),
		cmocka_unit_test(perf_map_bounds), cmocka_unit_test(dump_records),
		cmocka_unit_test(dump_lies),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
