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
#include "codemap/known_names.h"
#include "weave/weave.h"
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
	/* Each word of its head, and then here and there: it is made anew each time. */
	for (size_t at = 0; at < kept.len; at += at < 64 ? 3 : 4999) {
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

#define NAMES 40u

/* Stores names of two modules, of which only the first's functions without a role are kept; then more; then damage. */
static void names_are_the_same(void **state)
{
	static char texts[NAMES * 4][16];
	int folder = open_folder(state), fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	const struct symbol_opener opener = {no_file, NULL, folder};
	struct known_names known = {};
	struct symbol_file *symbols;
	struct kept_names read;
	struct kept_data kept;

	assert_int_equal(symbol_file__open(fd, NULL, &opener, &symbols), 0);
	for (uint32_t i = 0; i < NAMES * 4; i++) { /* two modules, and every third of a function with a role */
		snprintf(texts[i], sizeof(texts[i]), "f(%u)", i);
		known_names__keep(&known, 0, &(struct known_name){.start = 7000 - 16 * i, .module = 1 + i % 2, .role = i % 3 ? WEAVE_CODE : WEAVE_EVAL, .name = texts[i]});
	}
	kept_names__open(symbols, folder, &read);
	assert_int_equal(read.n, 0);
	kept_names__store(&read, symbols, folder, &known, 3); /* nothing is known of it */
	assert_int_equal(kept__find(folder, "names", &read.key, 1u << 20, &kept), -ENOENT);
	kept_names__store(&read, symbols, folder, &known, 1);
	kept_names__free(&read);
	kept_names__open(symbols, folder, &read);
	for (uint32_t i = 0; i < NAMES * 4; i++) {
		const char *name = kept_names__find(&read, 7000 - 16 * i);

		assert_true(i % 2 || !(i % 3) ? !name : !strcmp(name, texts[i]));
		assert_null(kept_names__find(&read, 7001 - 16 * i));
	}
	known_names__free(&known);
	assert_int_equal(kept__find(folder, "names", &read.key, 1u << 20, &kept), 0);
	kept_names__free(&read);
	for (size_t at = 0; at < kept.len; at++) {
		struct buf bytes = {};

		assert_int_equal(buf__append(&bytes, kept.data, at % 2 ? kept.len : at), 0);
		if (bytes.len)
			bytes.data[at < bytes.len ? at : 0] ^= 0x81;
		assert_int_equal(kept__put(folder, "names", &read.key, &bytes), 0);
		buf__free(&bytes);
		kept_names__open(symbols, folder, &read);
		for (uint32_t i = 0; i < NAMES * 4; i++) { /* no bound is broken: AddressSanitizer */
			const char *name = kept_names__find(&read, 7000 - 16 * i);

			assert_true(!name || strlen(name) < kept.len);
		}
		kept_names__free(&read);
	}
	free(kept.bytes);
	symbol_file__free(symbols);
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
		cmocka_unit_test_setup_teardown(names_are_the_same, new_folder, drop_folder),
		cmocka_unit_test_setup_teardown(another_file_is_another_key, new_folder, drop_folder),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
