/* SPDX-License-Identifier: MIT */
/* Caches of files across sessions: reading gives what was written, and inconsistent contents are refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/kept.h"
#include "classes/callables.h"
#include "symbols/symbols.h"
#include "weave/eval_ranges.h"

static const char *const pythons[] = {"/usr/bin/python3", "/usr/local/bin/python3", NULL};

static int new_folder(void **state)
{
	static char folder[] = "/tmp/test-kept-XXXXXX";

	*state = mkdtemp(strcpy(folder, "/tmp/test-kept-XXXXXX"));
	return *state ? 0 : -1;
}

static int drop_folder(void **state)
{
	char command[128];

	snprintf(command, sizeof(command), "rm -rf %s", (const char *)*state);
	return system(command);
}

static int open_folder(void **state)
{
	int fd = open(*state, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	assert_true(fd >= 0);
	return fd;
}

/* An interpreter that has them, or -1. */
static int open_python(void)
{
	int fd = -1;

	for (unsigned i = 0; fd < 0 && pythons[i]; i++)
		fd = open(pythons[i], O_RDONLY | O_CLOEXEC);
	return fd;
}

static bool same_name(const char *a, const char *b)
{
	return a && b ? !strcmp(a, b) : a == b;
}

static void same_callables(const struct callables *a, const struct callables *b)
{
	assert_int_equal(a->n, b->n);
	assert_int_equal(a->n_candidates, b->n_candidates);
	assert_int_equal(a->builtins, b->builtins);
	for (uint32_t i = 0; i < a->n; i++) {
		const struct callable *x = &a->rows[i], *y = &b->rows[i];

		assert_true(x->start == y->start && x->end == y->end && x->kind == y->kind && x->forwards == y->forwards &&
			    x->exported == y->exported && x->shared == y->shared && x->pointed == y->pointed && x->first == y->first && x->n == y->n && same_name(x->name, y->name));
		assert_ptr_equal(y->of, b);
	}
	for (uint32_t i = 0; i < a->n_candidates; i++) {
		const struct candidate *x = &a->candidates[i], *y = &b->candidates[i];

		assert_true(x->start == y->start && x->kind == y->kind && x->deep == y->deep && same_name(x->name, y->name));
		/* One name is one pointer. */
		assert_true(!i || (x->name == a->candidates[i - 1].name) == (y->name == b->candidates[i - 1].name));
	}
}

static void callables_are_the_same(void **state)
{
	int folder = open_folder(state), fd = open_python();
	struct callables alone, made, read;

	if (fd < 0 || callables__open(fd, -1, &alone))
		skip();
	assert_true(alone.n > 500);
	assert_int_equal(callables__open(fd, folder, &made), 0);
	same_callables(&alone, &made);
	assert_int_equal(callables__open(fd, folder, &read), 0);
	same_callables(&alone, &read);
	/* They do come from there. */
	assert_ptr_equal(read.names.chunks->next, NULL);
	callables__free(&alone);
	callables__free(&made);
	callables__free(&read);
	close(fd);
	close(folder);
}

static void damage_makes_callables_anew(void **state)
{
	int folder = open_folder(state), fd = open_python();
	struct callables alone, read;
	struct kept_data kept;
	struct kept_key key;

	if (fd < 0 || callables__open(fd, folder, &alone))
		skip();
	assert_int_equal(kept_key__of(fd, -1, &key), 0);
	assert_int_equal(kept__find(folder, "callables", &key, 1u << 30, &kept), 0);
	for (size_t at = 0; at < kept.len; at += at < 64 ? 1 : 997) {
		struct buf bytes = {};

		assert_int_equal(buf__append(&bytes, kept.data, at < kept.len / 2 ? kept.len : at), 0);
		bytes.data[at < bytes.len ? at : 0] ^= 0x81;
		assert_int_equal(kept__put(folder, "callables", &key, &bytes), 0);
		buf__free(&bytes);
		assert_int_equal(callables__open(fd, folder, &read), 0); /* no bound is broken: AddressSanitizer */
		callables__free(&read);
	}
	free(kept.bytes);
	callables__free(&alone);
	close(fd);
	close(folder);
}

static int no_file(void *context, const char *path)
{
	return -ENOENT;
}

static void eval_ranges_are_the_same(void **state)
{
	int folder = open_folder(state), fd = open_python();
	const struct symbol_opener opener = {no_file, NULL, folder};
	struct eval_ranges alone, read;
	struct symbol_file *symbols;

	if (fd < 0 || symbol_file__open(dup(fd), NULL, &opener, &symbols))
		skip();
	assert_int_equal(eval_ranges__open(fd, symbols, -1, &alone), 0);
	for (int round = 0; round < 2; round++) {
		assert_int_equal(eval_ranges__open(fd, symbols, folder, &read), 0);
		assert_int_equal(read.n, alone.n);
		for (uint32_t i = 0; i < read.n; i++)
			assert_true(read.ranges[i].start == alone.ranges[i].start && read.ranges[i].end == alone.ranges[i].end &&
				    read.ranges[i].role == alone.ranges[i].role && read.ranges[i].by_jumps == alone.ranges[i].by_jumps);
		eval_ranges__free(&read);
	}
	eval_ranges__free(&alone);
	symbol_file__free(symbols);
	close(fd);
	close(folder);
}

static void another_file_is_another_key(void **state)
{
	int folder = open_folder(state), fd = openat(folder, "file", O_RDWR | O_CREAT, 0600);
	const struct buf one = {.data = "one", .len = 3};
	struct kept_data kept;
	struct kept_key key, later;

	assert_int_equal(kept_key__of(fd, -1, &key), 0);
	assert_int_equal(kept__put(folder, "test", &key, &one), 0);
	assert_int_equal(kept__find(folder, "test", &key, 64 << 10, &kept), 0);
	assert_memory_equal(kept.data, "one", kept.len);
	free(kept.bytes);
	assert_int_equal(kept__find(-1, "test", &key, 64 << 10, &kept), -ENOENT);
	assert_int_equal(write(fd, "x", 1), 1);
	assert_int_equal(kept_key__of(fd, -1, &later), 0);
	assert_memory_not_equal(&key, &later, sizeof(key));
	assert_int_equal(kept__find(folder, "test", &later, 64 << 10, &kept), -ENOENT);
	close(fd);
	close(folder);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(callables_are_the_same, new_folder, drop_folder),
		cmocka_unit_test_setup_teardown(damage_makes_callables_anew, new_folder, drop_folder),
		cmocka_unit_test_setup_teardown(eval_ranges_are_the_same, new_folder, drop_folder),
		cmocka_unit_test_setup_teardown(another_file_is_another_key, new_folder, drop_folder),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
