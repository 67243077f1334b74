/* SPDX-License-Identifier: MIT */
/* Calls that may never return: the loop continues without an answer that is late, and tries again once it has
 * arrived. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/blocking.h"
#include "base/clock.h"
#include "cprofd/host.h"

#define MS 1000000ull
#define MUST(condition) \
	do { \
		if (!(condition)) { \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
			_exit(1); \
		} \
	} while (0)

/* The loop ends its process: each is a child's. */
static void in_loop(void (*main)(void *))
{
	pid_t child = fork();
	int status;

	if (!child)
		blocking__loop(main, NULL);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

static void make_pipe(int ends[2])
{
	MUST(!pipe2(ends, O_CLOEXEC));
}

static void passes_on(void *context)
{
	char bytes[200000], text[] = "of the pipe";
	struct stat stat;
	int ends[2], waiting = 0;

	make_pipe(ends);
	MUST(blocking__write(ends[1], text, sizeof(text)) == sizeof(text));
	MUST(!blocking__ioctl(ends[0], FIONREAD, &waiting, sizeof(waiting)) && waiting == sizeof(text));
	MUST(blocking__read(ends[0], bytes, sizeof(bytes)) == sizeof(text) && !strcmp(bytes, text));
	MUST(blocking__pread(ends[0], bytes, 1, 0) == -ESPIPE);
	MUST(!blocking__fstat(ends[0], &stat) && S_ISFIFO(stat.st_mode));
	blocking__close(ends[0]);
	MUST(blocking__fstat(ends[0], &stat) == -EBADF);
	ends[0] = open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
	memset(bytes, 1, sizeof(bytes));
	bytes[sizeof(bytes) - 1] = 2;
	{
		char *copy = malloc(sizeof(bytes));

		MUST(blocking__pread(ends[0], copy, sizeof(bytes), (uint64_t)(uintptr_t)bytes) == sizeof(bytes));
		MUST(!memcmp(copy, bytes, sizeof(bytes)));
		free(copy);
	}
	MUST(blocking__pread(ends[0], bytes, 8, 0) == -EIO);
	_exit(0);
}

static void test_passes_on(void **state)
{
	in_loop(passes_on);
}

static void is_late(void *context)
{
	struct host_reader reader;
	uint64_t begin = clock__now();
	int mute[2], other[2];
	char byte = 'x';

	make_pipe(mute);
	make_pipe(other);
	blocking__owner(7);
	host_reader_current = &reader;
	MUST(blocking__read(mute[0], &byte, 1) == -ETIMEDOUT);
	MUST(clock__now() - begin < 2000 * MS);
	MUST(host_reader_current == &reader); /* of a thread: it goes along */
	begin = clock__now();
	MUST(blocking__read(mute[0], &byte, 1) == -ETIMEDOUT);
	MUST(clock__now() - begin < 50 * MS); /* it is not even tried */
	MUST(blocking__missed(7) == 2 && blocking__missed(7) == 0 && blocking__missed(8) == 0);
	MUST(blocking__write(other[1], "o", 1) == 1);
	MUST(blocking__read(other[0], &byte, 1) == 1 && byte == 'o');
	/* It answers at last, into nobody's memory; and may be asked again after a while. */
	byte = 'y';
	MUST(write(mute[1], "late", 4) == 4);
	usleep(20000);
	MUST(byte == 'y');
	MUST(blocking__read(mute[0], &byte, 1) == -ETIMEDOUT);
	begin = clock__now();
	do
		usleep(50000);
	while (blocking__read(mute[0], &byte, 1) == -ETIMEDOUT && clock__now() - begin < 20000 * MS);
	MUST(byte == 'a');
	_exit(0);
}

static void test_is_late(void **state)
{
	in_loop(is_late);
}

/* Others are read while one has as many late calls as it may. */
static void has_owners(void *context)
{
	int mute[4][2], other[2], i;
	uint64_t begin;
	char byte;

	make_pipe(other);
	MUST(write(other[1], "ab", 2) == 2);
	blocking__owner(1);
	for (i = 0; i < 4; i++)
		make_pipe(mute[i]);
	for (i = 0; i < 3; i++)
		MUST(blocking__read(mute[i][0], &byte, 1) == -ETIMEDOUT);
	begin = clock__now();
	MUST(blocking__read(mute[3][0], &byte, 1) == -ETIMEDOUT);
	MUST(blocking__read(other[0], &byte, 1) == -ETIMEDOUT);
	MUST(clock__now() - begin < 50 * MS);
	blocking__owner(2);
	MUST(blocking__read(other[0], &byte, 1) == 1);
	_exit(0);
}

static void test_has_owners(void **state)
{
	in_loop(has_owners);
}

/* One that answers again and again, in a while, is as bad as one that never does. */
static void *drips(void *context)
{
	for (;;) {
		usleep(40000);
		if (write(*(int *)context, "d", 1) != 1)
			return NULL;
	}
}

static void is_dripped_on(void *context)
{
	uint64_t begin = clock__now();
	pthread_t thread;
	ssize_t n = 1;
	int ends[2];
	char byte;

	make_pipe(ends);
	MUST(!pthread_create(&thread, NULL, drips, &ends[1]));
	while (n == 1)
		n = blocking__read(ends[0], &byte, 1);
	MUST(n == -ETIMEDOUT && clock__now() - begin < 5000 * MS);
	_exit(0);
}

static void test_is_dripped_on(void **state)
{
	in_loop(is_dripped_on);
}

static void set(void *context)
{
	usleep(100000);
	*(volatile int *)context = 1;
}

static void waits_for_later(void *context)
{
	volatile int done = 0;

	blocking__later(set, (void *)&done);
	MUST(!done);
	blocking__wait_for_later();
	MUST(done);
	_exit(0);
}

static void test_later(void **state)
{
	volatile int done = 0;

	in_loop(waits_for_later);
	blocking__later(set, (void *)&done); /* no loop: at once */
	assert_true(done);
}

static void test_without_a_loop(void **state)
{
	int ends[2];
	char byte;

	assert_int_equal(pipe(ends), 0);
	assert_int_equal(blocking__write(ends[1], "w", 1), 1);
	assert_int_equal(blocking__read(ends[0], &byte, 1), 1);
	assert_int_equal(byte, 'w');
	assert_int_equal(blocking__pread(ends[0], &byte, 1, 0), -ESPIPE);
	blocking__close(ends[0]);
	blocking__close(ends[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_passes_on),   cmocka_unit_test(test_is_late), cmocka_unit_test(test_has_owners),
		cmocka_unit_test(test_is_dripped_on), cmocka_unit_test(test_later),   cmocka_unit_test(test_without_a_loop),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
