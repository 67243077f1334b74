/* SPDX-License-Identifier: MIT */
/* Limits per user: parsing of the option, who is charged, which user a uid belongs to; and the memory that a sampler
 * takes on larger machines. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "broker/broker.h"
#include "broker/load.h"
#include "broker/owner.h"
#include "broker/quota.h"

static void option(void **state)
{
	static const struct {
		const char *text;
		enum broker_limit limit;
		uint64_t user, all;
	} good[] = {
		{"sessions=3", LIMIT_SESSIONS, 3, 128},	      {"sessions=100", LIMIT_SESSIONS, 100, 200},
		{"sessions=5/10", LIMIT_SESSIONS, 5, 10},     {"maps=10/30", LIMIT_MAPS, 10 * LIMIT_MB, 30 * LIMIT_MB},
		{"memory=64", LIMIT_MEMORY, 64 * LIMIT_MB, 0}, {"engines=none", LIMIT_ENGINES, 0, 0},
	};
	static const char *const bad[] = {"", "sessions", "sessions=", "sessions=0", "sessions=-1", "sessions=1x", "sessions=1/", "sessions=5/9", "sessions=1/2/3",
					  "sessions= 1", "sessions=99999999999999999999", "memory=1/2", "memory=63", "session=1", "=1", "Sessions=1", "sessions=none/2"};
	struct broker_limits limits;
	size_t i;

	for (i = 0; i < sizeof(good) / sizeof(*good); i++) {
		limits__default(&limits);
		assert_null(limits__set(&limits, good[i].text));
		assert_int_equal(limits.user[good[i].limit], good[i].user);
		assert_int_equal(limits.all[good[i].limit], good[i].all);
	}
	for (i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		struct broker_limits before;

		limits__default(&limits);
		before = limits;
		assert_non_null(limits__set(&limits, bad[i]));
		assert_memory_equal(&limits, &before, sizeof(limits));
	}
}

/* Whoever they are, one user leaves half to others. */
static void defaults(void **state)
{
	struct broker_limits limits;
	int i;

	limits__default(&limits);
	for (i = 0; i < LIMIT_COUNT; i++) {
		assert_true(limits.user[i]);
		assert_true(!limits.all[i] || limits.user[i] <= limits.all[i] / 2);
	}
	assert_true(limits.user[LIMIT_SAMPLES] >= BROKER_RATE_MAX);
	assert_true(limits.user[LIMIT_SESSIONS] <= BROKER_SESSIONS_MAX);
}

static void words(void **state)
{
#define NAME(id, name, user, all, what, hint) name,
	static const char *const names[] = {BROKER_LIMITS(NAME)};
#undef NAME
	const struct limit_reached reached = {.limit = LIMIT_MAPS, .most = 64 * LIMIT_MB, .used = 63 * LIMIT_MB + 1};
	const struct limit_reached all = {.limit = LIMIT_ENGINES, .all = true, .most = 3, .used = 3};
	struct broker_message message = {};
	struct limit_reached got;
	char text[256];

	limit__sentence(&reached, text, sizeof(text));
	assert_string_equal(text, "a user may have 64 MB of maps for samples and unwind tables, and you have 64 now (limit maps)");
	limit__hint(&reached, text, 160);
	assert_string_equal(text, "end a session; an administrator may allow more: cprofd serve --limit=maps=N");
	for (int i = 0; i < LIMIT_COUNT; i++) { /* a refusal's fields hold them */
		const struct limit_reached largest = {.limit = i, .all = true, .most = UINT64_MAX, .used = UINT64_MAX - LIMIT_MB};

		limit__sentence(&largest, text, sizeof(text));
		assert_non_null(strstr(text, names[i]));
		assert_true(strchr(text, ')') && strlen(text) < sizeof(text) - 1);
		limit__hint(&(struct limit_reached){.limit = i}, text, 160);
		assert_non_null(strstr(text, "=N"));
	}
	assert_false(broker_message__limit(&message, &got));
	broker_message__set_limit(&message, &all);
	assert_int_equal(message.error, BROKER_ERROR_LIMIT);
	assert_true(broker_message__limit(&message, &got));
	assert_true(got.limit == all.limit && got.all && got.most == all.most && got.used == all.used);
	message.limit = LIMIT_COUNT + 1;
	assert_false(broker_message__limit(&message, &got));
}

static void charges(void **state)
{
	struct broker_limits limits;
	struct charge engine, session, other, third;
	uint64_t memory;

	limits__default(&limits);
	assert_null(limits__set(&limits, "sessions=2/4"));
	assert_null(limits__set(&limits, "memory=100"));
	quota__set(&limits);
	assert_int_equal(charge__begin(&engine, 1000), 0);
	charge__begin_like(&session, &engine);
	assert_int_equal(charge__begin(&other, 1001), 0);
	assert_int_equal(charge__begin(&third, 1002), 0);

	assert_int_equal(charge__take(&session, LIMIT_SESSIONS, 2), 0);
	assert_int_equal(charge__take(&engine, LIMIT_SESSIONS, 1), -EDQUOT);
	assert_true(engine.refused && engine.reached.limit == LIMIT_SESSIONS && !engine.reached.all && engine.reached.most == 2 && engine.reached.used == 2);
	assert_int_equal(charge__take(&engine, LIMIT_SESSIONS, UINT64_MAX), -EDQUOT);
	assert_int_equal(charge__take(&other, LIMIT_SESSIONS, 2), 0);
	assert_int_equal(charge__take(&third, LIMIT_SESSIONS, 1), -EDQUOT);
	assert_true(third.reached.all && third.reached.most == 4 && third.reached.used == 4);
	charge__give(&session, LIMIT_SESSIONS, 1);
	assert_int_equal(charge__take(&third, LIMIT_SESSIONS, 1), 0);
	charge__end(&session); /* and so is what it still has */
	assert_int_equal(charge__take(&engine, LIMIT_SESSIONS, 1), 0);

	/* Engines of one user have less and less, and all of them no more than the user. */
	assert_int_equal(charge__take_half(&engine, LIMIT_MEMORY, 20 * LIMIT_MB, &memory), 0);
	assert_int_equal(memory, 50 * LIMIT_MB);
	assert_int_equal(charge__take_half(&engine, LIMIT_MEMORY, 20 * LIMIT_MB, &memory), 0);
	assert_int_equal(memory, 25 * LIMIT_MB);
	assert_int_equal(charge__take_half(&engine, LIMIT_MEMORY, 20 * LIMIT_MB, &memory), -EDQUOT);

	charge__end(&engine);
	charge__end(&engine);
	charge__end(&other);
	charge__end(&third);
	quota__set(NULL);
	assert_int_equal(charge__begin(&engine, 1000), 0);
	assert_int_equal(charge__take(&engine, LIMIT_SESSIONS, 1000), 0);
	charge__end(&engine);
}

static int uid_of(const char *name, uid_t *ret)
{
	*ret = 1000;
	return strcmp(name, "alice") ? -ENOENT : 0;
}

static void owners(void **state)
{
	static const char text[] = "alice:100000:65536\nbob:200000:10\n# alice:1:1\n\n1003:300000:5\n:1:1\nx:1\ny:1:2:3\nz:-1:4\nalice:400000:0\n"
				   "alice:4294967290:5\nw:1:99999999999\nalice:500000:7";
	static const struct {
		uid_t uid, owner;
	} rows[] = {{0, 0},	       {1, 1},		      {1000, 1000},	    {99999, 99999},   {100000, 1000},  {165535, 1000}, {165536, 165536},
		    {200000, 200000}, {200009, 200000}, {200010, 200010}, {300004, 1003}, {400000, 400000}, {500006, 1000}, {500007, 500007},
		    {4294967290u, 1000}, {4294967295u, 4294967295u}};
	struct owner_range ranges[16];
	size_t n = owner__parse(text, sizeof(text) - 1, uid_of, ranges, 16), i;

	assert_int_equal(n, 5);
	for (i = 0; i < sizeof(rows) / sizeof(*rows); i++)
		assert_int_equal(owner__in(ranges, n, rows[i].uid), rows[i].owner);
	assert_int_equal(owner__parse(text, sizeof(text) - 1, uid_of, ranges, 2), 2);
	assert_int_equal(owner__parse(text, 0, uid_of, ranges, 2), 0);
}

/* A session takes some MB, and 2 MB more for each CPU at most; what all of a user take has one bound on every machine. */
static void sizes(void **state)
{
	static const int cpus[] = {1, 2, 16, 128, 1024};
	struct broker_limits limits;
	size_t i;

	limits__default(&limits);
	quota__set(&limits);
	for (i = 0; i < sizeof(cpus) / sizeof(*cpus); i++) {
		const struct load_options options = {.ring_bytes = 4u << 20, .native = BROKER_NATIVE_FULL, .wall = true};
		uint64_t bytes = sampler__bytes(&options, cpus[i]);
		struct charge charge;
		unsigned sessions = 0;

		assert_true(bytes > 5 * LIMIT_MB && bytes <= 16 * LIMIT_MB + 2 * LIMIT_MB * (uint64_t)cpus[i]);
		assert_int_equal(charge__begin(&charge, 1000), 0);
		while (!charge__take(&charge, LIMIT_MAPS, bytes))
			sessions++;
		assert_true(sessions * bytes <= limits.user[LIMIT_MAPS]);
		print_message("%d CPUs: %.1f MB a session, %u sessions\n", cpus[i], (double)bytes / 1e6, sessions);
		assert_true(cpus[i] > 128 || sessions >= 4);
		charge__end(&charge);
	}
	quota__set(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(option), cmocka_unit_test(defaults), cmocka_unit_test(words), cmocka_unit_test(charges), cmocka_unit_test(owners), cmocka_unit_test(sizes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
