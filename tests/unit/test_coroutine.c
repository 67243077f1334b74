/* SPDX-License-Identifier: MIT */
/* Coroutines: waiting, sharing time, ending, cancelling; outside of a coroutine a wait blocks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "broker/coroutine.h"

#define MS 1000000ull
#define SOON (clock__now() + 5 * MS)
#define LATE (clock__now() + 60000 * MS)

struct journey {
	int fd;
	uint64_t until;
	int waits, undone;
};

static int wait_once(void *context)
{
	const struct journey own = *(struct journey *)context;

	return coroutine__wait(own.fd, POLLIN, own.until);
}

static int wait_often(void *context)
{
	struct journey *own = context;
	char deep[32768];
	int err = 0;

	memset(deep, 1, sizeof(deep)); /* its stack is its own */
	for (own->waits = 0; !err && own->waits < 100; own->waits++)
		err = coroutine__wait(own->fd, POLLIN, own->until);
	own->undone = coroutine__wait(own->fd, POLLIN, own->until) == err;
	return deep[own->waits] == 1 ? err : -EPROTO;
}

static int work_long(void *context)
{
	int *turns = context;
	uint64_t end;

	for (*turns = 0; *turns < 3; ++*turns) {
		for (end = clock__now() + 4 * MS; clock__now() < end;)
			;
		if (coroutine__share())
			return -ECANCELED;
	}
	return 7;
}

static int end_at_once(void *context)
{
	return *(int *)context;
}

static bool is_ready(const struct coroutine *coroutine)
{
	uint64_t until;
	struct pollfd wants = coroutine__wants(coroutine, &until);

	return poll(&wants, 1, 0) > 0;
}

static void ends_at_once(void **state)
{
	struct coroutine *coroutine;
	int result = 0, five = 5;

	assert_true(coroutine__begin(end_at_once, &five, &coroutine, &result));
	assert_null(coroutine);
	assert_int_equal(result, 5);
}

static void is_resumed(void **state)
{
	struct journey journey = {.until = LATE};
	struct coroutine *coroutine;
	uint64_t until;
	int ends[2], result = 1;

	assert_int_equal(pipe(ends), 0);
	journey.fd = ends[0];
	assert_false(coroutine__begin(wait_once, &journey, &coroutine, &result));
	assert_int_equal(coroutine__wants(coroutine, &until).fd, ends[0]);
	assert_int_equal(until, journey.until);
	assert_false(is_ready(coroutine));
	assert_false(coroutine__step(coroutine, false, &result));
	assert_int_equal(write(ends[1], "x", 1), 1);
	assert_true(is_ready(coroutine));
	assert_true(coroutine__step(coroutine, true, &result));
	assert_int_equal(result, 0);
	close(ends[0]);
	close(ends[1]);
}

static void runs_out_of_time(void **state)
{
	struct journey journey = {.fd = -1, .until = SOON};
	struct coroutine *coroutine;
	int result;

	assert_false(coroutine__begin(wait_once, &journey, &coroutine, &result));
	while (!coroutine__step(coroutine, false, &result))
		usleep(500);
	assert_int_equal(result, -ETIMEDOUT);
	assert_true(clock__now() >= journey.until);
}

/* Many at once, each with its stack. */
static void are_many(void **state)
{
	struct coroutine *all[50];
	struct journey journeys[50];
	int ends[2], result, i, turn, waits;

	assert_int_equal(pipe(ends), 0);
	for (i = 0; i < 50; i++) {
		journeys[i] = (struct journey){.fd = ends[0], .until = LATE};
		assert_false(coroutine__begin(wait_often, &journeys[i], &all[i], &result));
	}
	for (turn = 0; turn < 10; turn++)
		for (i = 0; i < 50; i++)
			assert_false(coroutine__step(all[i], true, &result));
	for (i = 0; i < 50; i++) {
		waits = journeys[i].waits;
		assert_in_range(waits, 5, 10); /* a wait that comes late lets others run first */
		coroutine__cancel(all[i]);
		assert_true(journeys[i].undone);
		assert_int_equal(journeys[i].waits, waits + 1);
	}
	coroutine__cancel(NULL);
	close(ends[0]);
	close(ends[1]);
}

static void shares(void **state)
{
	struct coroutine *coroutine;
	int turns, result = 0, resumed = 0;

	assert_false(coroutine__begin(work_long, &turns, &coroutine, &result));
	while (!coroutine__step(coroutine, false, &result))
		resumed++;
	assert_in_range(resumed, 2, 3);
	assert_int_equal(result, 7);
	assert_false(coroutine__begin(work_long, &turns, &coroutine, &result));
	coroutine__cancel(coroutine);
	assert_int_equal(turns, 0);
}

static void waits_elsewhere(void **state)
{
	const uint64_t until = SOON;
	int ends[2];

	assert_int_equal(pipe(ends), 0);
	assert_int_equal(coroutine__wait(ends[0], POLLIN, until), -ETIMEDOUT);
	assert_true(clock__now() >= until);
	assert_int_equal(write(ends[1], "x", 1), 1);
	assert_int_equal(coroutine__wait(ends[0], POLLIN, LATE), 0);
	assert_int_equal(coroutine__share(), 0);
	close(ends[0]);
	close(ends[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ends_at_once), cmocka_unit_test(is_resumed), cmocka_unit_test(runs_out_of_time), cmocka_unit_test(are_many),
		cmocka_unit_test(shares),       cmocka_unit_test(waits_elsewhere),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
