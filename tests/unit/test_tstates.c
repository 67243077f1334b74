/* SPDX-License-Identifier: MIT */
/* Finding the thread states of a thread: lists of a synthetic interpreter, intact and damaged. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <errno.h>
#include <string.h>

#include <cmocka.h>

#include "dump/dump.h"
#include "cprofd/loss.h"

#define BASE 0x7f0000000000ull
#define STATE_BYTES 512u
#define STATES 40u
#define NEXT 8u
#define ID 64u
#define INTERP_NEXT 0u
#define THREADS_HEAD 16u

/* The runtime in front, two interpreters, then thread states. */
struct memory {
	struct host_reader reader;
	uint8_t bytes[(STATES + 3) * STATE_BYTES];
	unsigned reads, faulty;         /* the first so many reads of the last state fail */
};

#define RUNTIME BASE
#define INTERP(i) (BASE + (1 + (i)) * STATE_BYTES)
#define STATE(i) (BASE + (3ull + (i)) * STATE_BYTES)

static const struct image image = {.runtime = RUNTIME,
				   .layout = {.interp_next = INTERP_NEXT,
					      .threads_head = THREADS_HEAD,
					      .tstate_next = NEXT,
					      .tstate_thread_id = ID}};

static int read_memory(struct host_reader *self, void *dst, size_t size, uint64_t address)
{
	struct memory *m = (struct memory *)self;

	if (address < BASE || address - BASE > sizeof(m->bytes) || size > sizeof(m->bytes) - (address - BASE))
		return -EFAULT;
	m->reads++;
	if (address == STATE(STATES - 1) && m->faulty && m->faulty--)
		return -EFAULT;
	memcpy(dst, m->bytes + (address - BASE), size);
	return 0;
}

static void put(struct memory *m, uint64_t address, uint64_t value)
{
	memcpy(m->bytes + (address - BASE), &value, sizeof(value));
}

/* State i is thread 100 + i's; the newest comes first. */
static void fill(struct memory *m)
{
	*m = (struct memory){.reader = {.read = read_memory}};
	put(m, RUNTIME, INTERP(0));
	put(m, INTERP(0) + THREADS_HEAD, STATE(STATES - 1));
	for (unsigned i = 0; i < STATES; i++) {
		put(m, STATE(i) + NEXT, i ? STATE(i - 1) : 0);
		put(m, STATE(i) + ID, 100 + i);
	}
}

static void all_are_found(void **state)
{
	struct python_tstates all;
	struct memory m;
	uint32_t n;

	fill(&m);
	assert_int_equal(python_tstates__read(&m.reader, &image, &all), 0);
	assert_int_equal(all.n, STATES);
	assert_int_equal(all.loss, 0);
	for (unsigned i = 0; i < STATES; i++) {
		const struct python_tstate *of = python_tstates__find(&all, 100 + i, &n);

		assert_int_equal(n, 1);
		assert_int_equal(of->address, STATE(i));
	}
	assert_null(python_tstates__find(&all, 99, &n));
	assert_null(python_tstates__find(&all, 100 + STATES, &n));
	assert_int_equal(n, 0);
	/* Each state was read once, and not again for each thread. */
	assert_true(m.reads < 2 * STATES);
	python_tstates__free(&all);
}

static void inner_interpreter_comes_first(void **state)
{
	struct python_tstates all;
	struct memory m;
	uint32_t n;
	const struct python_tstate *of;

	fill(&m); /* the newest interpreter is first in the list, and runs thread 105 too */
	put(&m, RUNTIME, INTERP(1));
	put(&m, INTERP(1) + INTERP_NEXT, INTERP(0));
	put(&m, INTERP(1) + THREADS_HEAD, STATE(STATES - 1));
	put(&m, INTERP(0) + THREADS_HEAD, STATE(STATES - 2));
	put(&m, STATE(STATES - 1) + NEXT, 0);
	put(&m, STATE(STATES - 1) + ID, 105);
	assert_int_equal(python_tstates__read(&m.reader, &image, &all), 0);
	assert_int_equal(all.n, STATES);
	of = python_tstates__find(&all, 105, &n);
	assert_int_equal(n, 2);
	assert_int_equal(of[0].address, STATE(STATES - 1));
	assert_int_equal(of[1].address, STATE(5));
	python_tstates__free(&all);
}

/* A thread ended while its list was followed: it is followed again. */
static void gone_astray_once(void **state)
{
	struct python_tstates all;
	struct memory m;

	fill(&m);
	m.faulty = 1;
	assert_int_equal(python_tstates__read(&m.reader, &image, &all), 0);
	assert_int_equal(all.n, STATES);
	assert_int_equal(all.loss, 0);
	python_tstates__free(&all);
}

static void unreadable(void **state)
{
	struct python_tstates all;
	struct memory m;

	fill(&m);
	put(&m, STATE(10) + NEXT, 0x10);
	assert_int_equal(python_tstates__read(&m.reader, &image, &all), 0);
	assert_int_equal(all.loss, LOSS_TSTATE_READ);
	assert_int_equal(all.n, STATES - 10);
	python_tstates__free(&all);
}

/* A list that is a ring, of each length, is left after a few turns. */
static void ring(void **state)
{
	struct python_tstates all;
	struct memory m;

	for (unsigned end = 0; end < STATES; end++)
		for (unsigned back = end; back < STATES; back++) {
			fill(&m);
			put(&m, STATE(end) + NEXT, STATE(back));
			assert_int_equal(python_tstates__read(&m.reader, &image, &all), 0);
			assert_int_equal(all.loss, LOSS_TSTATE_SEARCH);
			assert_true(m.reads <= 4 * STATES);
			python_tstates__free(&all);
		}
}

static void no_python(void **state)
{
	const struct image none = {};
	struct python_tstates all;
	struct memory m;

	fill(&m);
	assert_int_equal(python_tstates__read(&m.reader, &none, &all), 0);
	assert_int_equal(all.n, 0);
	assert_int_equal(m.reads, 0);
	python_tstates__free(&all);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_are_found), cmocka_unit_test(inner_interpreter_comes_first), cmocka_unit_test(gone_astray_once),
		cmocka_unit_test(unreadable),	 cmocka_unit_test(ring),			  cmocka_unit_test(no_python),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
