/* SPDX-License-Identifier: MIT */
/* serve/match.c: which processes of a host are recorded. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "serve/match.h"

static const char arguments[] = "/usr/bin/python3\0-m\0gunicorn\0/srv/app/worker.py";
static const struct match_facts facts = {
	.comm = "app: master",
	.arguments = arguments,
	.n = sizeof(arguments),
	.cgroups = "4:memory:/old/place\n0::/system.slice/ci.service/job-7\n",
	.uid_known = true,
	.uid = 1000,
};

static void test_patterns(void **state)
{
	static const struct {
		const char *text;
		bool in;
	} cases[] = {
		{"", true},
		{"\n\n", true},
		{"name=python3", true},
		{"name=gunicorn", true},
		{"name=worker.py", true},
		{"name=/srv/app/*", true},
		{"name=app: m*", true},
		{"name=unicorn", false},
		{"name=worker", false},
		{"cgroup=ci.service", true},
		{"cgroup=/system.slice", true},
		{"cgroup=/system.slice/ci.service", true},
		{"cgroup=job-?", true},
		{"cgroup=/ci.service", false},
		{"cgroup=ci", false},
		{"cgroup=/old/place", true},
		{"user=1000", true},
		{"user=100", false},
		{"name=none\nuser=1000", true},
		{"!user=1000", false},
		{"!user=0", true},
		{"!name=none\nname=other", false},
		{"name=python3\n!name=worker.py\n", false},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const char *why, *at;
		struct match *match;

		assert_int_equal(match__new(cases[i].text, &match, &why, &at), 0);
		if (match__lets_in(match, &facts) != cases[i].in)
			fail_msg("%s", cases[i].text);
		match__free(match);
	}
	assert_true(match__lets_in(NULL, &facts));
}

static void test_nothing_known(void **state)
{
	const struct match_facts none = {.comm = "", .arguments = "", .cgroups = ""};
	static const char *const texts[] = {"name=?*", "cgroup=?*", "user=0", "!user=0"};

	for (size_t i = 0; i < 4; i++) {
		const char *why, *at;
		struct match *match;

		assert_int_equal(match__new(texts[i], &match, &why, &at), 0);
		assert_false(match__lets_in(match, &none));
		match__free(match);
	}
}

/* No NUL at the end of the last argument, lines without colons, a path that is too long. */
static void test_odd_facts(void **state)
{
	static char cgroups[6000];
	struct match_facts odd = {.comm = "x", .arguments = "a\0b", .n = 4, .cgroups = cgroups};
	const char *why, *at;
	struct match *match;

	assert_int_equal(match__new("cgroup=b", &match, &why, &at), 0);
	strcpy(cgroups, "nothing");
	assert_false(match__lets_in(match, &odd));
	memset(cgroups, 'a', sizeof(cgroups) - 1);
	memcpy(cgroups, "0::/", 4);
	assert_false(match__lets_in(match, &odd));
	strcpy(cgroups, "0::/a/b");
	assert_true(match__lets_in(match, &odd));
	match__free(match);
}

static void test_refused(void **state)
{
	static const char *const texts[] = {"python", "name=", "!", "user=alice", "user=99999999999999999999", "user=4294967296", "!user=4294967295", "user=-1", "name=a\npid=3"};
	char many[64 * 8 + 16] = "";
	const char *why, *at;
	struct match *match;

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		assert_int_equal(match__new(texts[i], &match, &why, &at), -EINVAL);
		assert_null(match);
		assert_true(*why && at >= texts[i] && at <= texts[i] + strlen(texts[i]));
	}
	for (unsigned i = 0; i <= MATCH_MAX; i++)
		strcat(many, "name=a\n");
	assert_int_equal(match__new(many, &match, &why, &at), -EINVAL);
	many[MATCH_MAX * 7] = '\0';
	assert_int_equal(match__new(many, &match, &why, &at), 0);
	match__free(match);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_patterns),
		cmocka_unit_test(test_nothing_known),
		cmocka_unit_test(test_odd_facts),
		cmocka_unit_test(test_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
