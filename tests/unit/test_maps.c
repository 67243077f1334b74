/* SPDX-License-Identifier: MIT */
/* Parsing /proc/PID/maps, valid and malformed. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"
#include "target/maps.h"

static struct maps parse(const char *text)
{
	struct maps maps;

	assert_int_equal(maps__parse(text, strlen(text), &maps), 0);
	return maps;
}

static void assert_path(const struct mapping *m, const char *path)
{
	assert_int_equal(m->path_len, strlen(path));
	assert_memory_equal(m->path, path, m->path_len);
}

static void usual_lines(void **state)
{
	struct maps maps = parse("00400000-0067b000 r--p 00001000 fe:01 1048602    /usr/bin/python3.11\n"
				 "0067b000-00680000 rw-p 00000000 00:00 0 \n"
				 "7f00-7f10 r-xs 00000000 00:1f 7       /opt/a b/lib.so (deleted)\n"
				 "7ffc00000000-7ffc00021000 rw-p 00000000 00:00 0          [stack]\n"
				 "ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0  [vsyscall]\n");
	const struct mapping *m = maps.items;
	const char *name;
	size_t len;

	assert_int_equal(maps.n, 4); /* 7f00 is below what went before */
	assert_int_equal(maps.bad, 1);
	assert_false(maps.truncated);
	assert_int_equal(m->start, 0x400000);
	assert_int_equal(m->end, 0x67b000);
	assert_int_equal(m->offset, 0x1000);
	assert_int_equal(m->inode, 1048602);
	assert_int_equal(m->major, 0xfe);
	assert_int_equal(m->minor, 1);
	assert_int_equal(m->flags, MAPPING_READ);
	assert_path(m, "/usr/bin/python3.11");
	name = mapping__name(m, &len);
	assert_int_equal(len, 10);
	assert_memory_equal(name, "python3.11", 10);
	assert_int_equal(m[1].path_len, 0);
	assert_int_equal(m[1].flags, MAPPING_READ | MAPPING_WRITE);
	assert_path(&m[2], "[stack]");
	assert_int_equal(m[3].flags, MAPPING_EXEC);
	maps__free(&maps);
}

static void deleted_and_spaces(void **state)
{
	struct maps maps = parse("7f00-7f10 r-xs 00000000 00:1f 7       /opt/a b/lib.so (deleted)\n");

	assert_int_equal(maps.n, 1);
	assert_path(maps.items, "/opt/a b/lib.so");
	assert_int_equal(maps.items->flags,
			 MAPPING_READ | MAPPING_EXEC | MAPPING_SHARED | MAPPING_DELETED);
	maps__free(&maps);
}

/* A file name with a newline comes escaped from the kernel; should it come bare,
 * its second half must not become a mapping unless it has the form of one. */
static void newline_in_path(void **state)
{
	struct maps maps = parse("1000-2000 r--p 00000000 00:01 5 /tmp/a\\012b\n"
				 "2000-3000 r--p 00000000 00:01 5 /tmp/a\nlib.so\n");

	assert_int_equal(maps.n, 2);
	assert_int_equal(maps.bad, 1);
	assert_path(maps.items, "/tmp/a\\012b");
	maps__free(&maps);
}

static void hostile_lines(void **state)
{
	static const char *const lines[] = {
		"", " ", "-", "1000", "1000-", "1000-2000", "1000-2000 ", "1000-2000 r--p",
		"1000-2000 r--p 0 00:01", "1000-2000 r--p 0 00:01 ", "2000-1000 r--p 0 00:01 5 /x",
		"1000-1000 r--p 0 00:01 5 /x", "1000-2000 rwx? 0 00:01 5 /x", "1000-2000 xxxx 0 0:1 5 /x",
		"10000000000000000-20000000000000000 r--p 0 00:01 5 /x", "1000-2000 r--p 0 00:01 5/x",
		"1000-2000 r--p 0 00:01 99999999999999999999 /x", "1000-2000 r--p 0 100000000:01 5 /x",
		"0x1000-0x2000 r--p 0 00:01 5 /x", "1000-2000 r--p -1 00:01 5 /x",
	};
	size_t i;

	for (i = 0; i < sizeof(lines) / sizeof(*lines); i++) {
		char text[128];
		struct maps maps;

		snprintf(text, sizeof(text), "%s\n", lines[i]);
		maps = parse(text);
		assert_int_equal(maps.n, 0);
		assert_int_equal(maps.bad, 1);
		maps__free(&maps);
	}
}

/* Cut anywhere: whole lines stay, nothing is read beyond the end. */
static void truncated(void **state)
{
	static const char text[] = "1000-2000 r--p 00000000 00:01 5 /tmp/a (deleted)\n"
				   "2000-3000 r--p 00000000 00:01 5 /tmp/b\n";
	size_t cut, first = strlen("1000-2000 r--p 00000000 00:01 5 /tmp/a (deleted)\n");

	for (cut = 0; cut < sizeof(text); cut++) {
		char *copy = malloc(cut ? cut : 1);
		struct maps maps;

		memcpy(copy, text, cut);
		assert_int_equal(maps__parse(copy, cut, &maps), 0);
		assert_int_equal(maps.n, (cut >= first) + (cut >= sizeof(text) - 1));
		assert_int_equal(maps.bad, cut == sizeof(text)); /* the NUL */
		assert_int_equal(maps.truncated, cut && cut != first && cut != sizeof(text) - 1);
		maps__free(&maps);
		free(copy);
		if (cut == sizeof(text) - 1)
			break;
	}
}

static void many(void **state)
{
	struct buf text = {};
	struct maps maps;
	unsigned i;

	for (i = 0; i < 10000; i++)
		buf__printf(&text, "%x-%x rwxp 00000000 00:00 0 \n", 0x10000 + i * 0x2000,
			    0x10000 + i * 0x2000 + 0x1000);
	assert_int_equal(maps__parse(text.data, text.len, &maps), 0);
	assert_int_equal(maps.n, 10000);
	for (i = 0; i < 10000; i++) {
		uint64_t start = 0x10000 + (uint64_t)i * 0x2000;

		assert_ptr_equal(maps__find(&maps, start), &maps.items[i]);
		assert_ptr_equal(maps__find(&maps, start + 0xfff), &maps.items[i]);
		assert_null(maps__find(&maps, start + 0x1000));
	}
	assert_null(maps__find(&maps, 0));
	assert_null(maps__find(&maps, UINT64_MAX));
	maps__free(&maps);
	buf__free(&text);
}

static void own(void **state)
{
	FILE *file = fopen("/proc/self/maps", "r");
	const struct mapping *m;
	struct maps maps;

	assert_non_null(file);
	assert_int_equal(maps__read(fileno(file), &maps), 0);
	m = maps__find(&maps, (uint64_t)(uintptr_t)own);
	assert_non_null(m);
	assert_true(m->flags & MAPPING_EXEC);
	maps__free(&maps);
	/* The same fd again, from its beginning. */
	assert_int_equal(maps__read(fileno(file), &maps), 0);
	assert_int_equal(maps.bad, 0);
	maps__free(&maps);
	fclose(file);
}

/* What the kernel answers one by one is what its text says. */
static void code_alone(void **state)
{
	FILE *file = fopen("/proc/self/maps", "r");
	struct maps text, code;
	size_t i, n = 0;
	int err;

	assert_non_null(file);
	err = maps__read_code(fileno(file), &code);
	if (err == -ENOTTY) { /* before 6.11 */
		fclose(file);
		skip();
	}
	assert_int_equal(err, 0);
	assert_int_equal(maps__read(fileno(file), &text), 0);
	for (i = 0; i < text.n; i++) {
		const struct mapping *a = &text.items[i], *b = &code.items[n];

		if (!(a->flags & MAPPING_EXEC) || a->start >> 63)
			continue;
		assert_in_range(n++, 0, code.n - 1);
		assert_int_equal(a->start, b->start);
		assert_int_equal(a->end, b->end);
		assert_int_equal(a->offset, b->offset);
		assert_int_equal(a->inode, b->inode);
		assert_int_equal(a->major, b->major);
		assert_int_equal(a->minor, b->minor);
		assert_int_equal(a->flags & ~MAPPING_DELETED, b->flags);
		assert_int_equal(b->path_len, 0);
	}
	assert_int_equal(n, code.n);
	maps__free(&text);
	maps__free(&code);
	fclose(file);
	assert_int_equal(maps__read_code(-1, &code), -EBADF);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(usual_lines),
		cmocka_unit_test(deleted_and_spaces),
		cmocka_unit_test(newline_in_path),
		cmocka_unit_test(hostile_lines),
		cmocka_unit_test(truncated),
		cmocka_unit_test(many),
		cmocka_unit_test(own),
		cmocka_unit_test(code_alone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
