/* SPDX-License-Identifier: MIT */
/* Which call a worker thread works for: scenarios of threads that are sampled, wake others and are woken. The tree
 * of stacks: node n was called by parents[n]. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "attribution/attribution.h"

#define MS 1000000ull

/* main (1) calls compile (2), which calls back (3); main calls run (4) from another line; a second thread: (5), (6). */
static const uint32_t parents[] = {0, 0, 1, 2, 1, 0, 5};

struct scene {
	struct attribution_group group;
	struct attribution_thread callers[2], workers[3];
};

static struct attribution_thread *next(struct attribution_group *self, struct attribution_thread *before)
{
	struct scene *scene = (struct scene *)self;
	size_t at = before ? (size_t)(before - scene->callers) + 1 : 0;

	return at < 2 ? &scene->callers[at] : NULL;
}

static bool inside(struct attribution_group *self, uint32_t inner, uint32_t outer)
{
	(void)self;
	while (inner > outer)
		inner = parents[inner];
	return inner == outer;
}

static struct scene begin(void)
{
	return (struct scene){.group = {.next = next, .inside = inside, .quiet = 2 * MS}, .callers = {{.python = true}, {.python = true}}};
}

static void meet(struct attribution_thread *thread, uint64_t time, uint32_t call, enum attribution_state state, bool outside)
{
	thread->seen = (struct attribution_seen){.time = time, .stack = call, .call = call, .outside = outside, .state = (uint8_t)state};
}

static void expect(struct scene *scene, int worker, uint64_t time, int caller, enum attribution_how how)
{
	struct attribution attribution = attribution__of(&scene->group, &scene->workers[worker], time);

	assert_int_equal(attribution.how, how);
	assert_ptr_equal(attribution.caller, caller < 0 ? NULL : &scene->callers[caller]);
}

static void test_woken(void **state)
{
	struct scene scene = begin();

	(void)state;
	/* Two callers wait; each has woken a worker, the first one's woke another. */
	meet(&scene.callers[0], 1 * MS, 2, ATTRIBUTION_RUNS, true);
	meet(&scene.callers[1], 1 * MS, 6, ATTRIBUTION_RUNS, true);
	attribution__woken(&scene.workers[0], &scene.callers[0], 2 * MS);
	attribution__woken(&scene.workers[1], &scene.callers[1], 2 * MS);
	attribution__woken(&scene.workers[2], &scene.workers[0], 3 * MS);
	meet(&scene.callers[0], 3 * MS, 2, ATTRIBUTION_WAITS, true);
	meet(&scene.callers[1], 3 * MS, 6, ATTRIBUTION_WAITS, true);
	expect(&scene, 0, 4 * MS, 0, ATTRIBUTION_WOKEN);
	expect(&scene, 1, 4 * MS, 1, ATTRIBUTION_WOKEN);
	expect(&scene, 2, 4 * MS, 0, ATTRIBUTION_WOKEN);
	/* Woken by one of which it was known only later whose work that did; and by a thread that turned out to have Python. */
	scene.workers[1].n_leads = scene.workers[2].n_leads = 0;
	attribution__woken(&scene.workers[2], &scene.workers[1], 4 * MS);
	attribution__woken(&scene.workers[1], &scene.callers[1], 3 * MS);
	expect(&scene, 2, 5 * MS, 1, ATTRIBUTION_WOKEN);
	scene.callers[0].python = false;
	attribution__woken(&scene.workers[2], &scene.callers[0], 5 * MS);
	scene.callers[0].python = true;
	meet(&scene.callers[0], 5 * MS, 2, ATTRIBUTION_WAITS, true);
	expect(&scene, 2, 5 * MS, 0, ATTRIBUTION_WOKEN);
	/* Its call calls back into Python: it goes on. */
	meet(&scene.callers[0], 5 * MS, 3, ATTRIBUTION_RUNS, false);
	expect(&scene, 0, 6 * MS, 0, ATTRIBUTION_WOKEN);
	/* The call is over, its thread is in another one: what works on is not for that. */
	meet(&scene.callers[0], 7 * MS, 4, ATTRIBUTION_RUNS, true);
	expect(&scene, 0, 8 * MS, 1, ATTRIBUTION_ONLY);
	meet(&scene.callers[0], 9 * MS, 4, ATTRIBUTION_WAITS, true);
	expect(&scene, 2, 9 * MS, -1, ATTRIBUTION_UNKNOWN);
}

static void test_not_awaited(void **state)
{
	struct scene scene = begin();

	(void)state;
	/* It gives work away, and goes on in Python. */
	meet(&scene.callers[0], 1 * MS, 2, ATTRIBUTION_RUNS, true);
	attribution__woken(&scene.workers[0], &scene.callers[0], 2 * MS);
	meet(&scene.callers[0], 3 * MS, 1, ATTRIBUTION_RUNS, false);
	expect(&scene, 0, 4 * MS, -1, ATTRIBUTION_UNKNOWN);
	meet(&scene.callers[0], 5 * MS, 2, ATTRIBUTION_RUNS, true);
	expect(&scene, 0, 6 * MS, -1, ATTRIBUTION_UNKNOWN);
	/* A lock of Python's is no wait for it. */
	meet(&scene.callers[0], 7 * MS, 2, ATTRIBUTION_WAITS, false);
	expect(&scene, 0, 8 * MS, -1, ATTRIBUTION_UNKNOWN);
	meet(&scene.callers[0], 9 * MS, 2, ATTRIBUTION_AWAY, true);
	expect(&scene, 0, 20 * MS, -1, ATTRIBUTION_UNKNOWN);
}

static void test_only(void **state)
{
	struct scene scene = begin();

	(void)state;
	expect(&scene, 0, 1 * MS, -1, ATTRIBUTION_UNKNOWN);
	meet(&scene.callers[0], 2 * MS, 2, ATTRIBUTION_WAITS, true);
	expect(&scene, 0, 3 * MS, 0, ATTRIBUTION_ONLY);
	/* Another one begins to wait: who worked before works on for the first. */
	meet(&scene.callers[1], 4 * MS, 6, ATTRIBUTION_WAITS, true);
	expect(&scene, 0, 5 * MS, 0, ATTRIBUTION_ONLY);
	expect(&scene, 1, 5 * MS, -1, ATTRIBUTION_UNKNOWN);
	/* Its wait is ended by the worker: whatever that does now is for another. */
	attribution__answered(&scene.callers[0], &scene.workers[0], 3 * MS - 1);
	expect(&scene, 0, 5 * MS, 0, ATTRIBUTION_ONLY);
	attribution__answered(&scene.callers[0], &scene.workers[0], 6 * MS);
	meet(&scene.callers[0], 6 * MS, 2, ATTRIBUTION_RUNS, true);
	expect(&scene, 0, 7 * MS, 1, ATTRIBUTION_ONLY);
	/* Both wait again, and it has not rested. */
	attribution__answered(&scene.callers[1], &scene.workers[0], 7 * MS + 1);
	meet(&scene.callers[0], 7 * MS + 2, 2, ATTRIBUTION_WAITS, true);
	meet(&scene.callers[1], 7 * MS + 3, 6, ATTRIBUTION_WAITS, true);
	expect(&scene, 0, 8 * MS, 1, ATTRIBUTION_LIKELY);
	/* What was before is told as it was then. */
	expect(&scene, 0, 4 * MS, 0, ATTRIBUTION_ONLY);
	/* Somebody woke it whom nobody knows. */
	attribution__woken(&scene.workers[0], NULL, 8 * MS);
	meet(&scene.callers[0], 8 * MS, 2, ATTRIBUTION_WAITS, true);
	expect(&scene, 0, 9 * MS, -1, ATTRIBUTION_UNKNOWN);
}

/* Where nobody looks at switches: who has no ticks has no CPU. */
static void test_quiet(void **state)
{
	struct scene scene = begin();

	(void)state;
	meet(&scene.callers[0], 1 * MS, 2, ATTRIBUTION_RUNS, true);
	meet(&scene.callers[1], 1 * MS, 5, ATTRIBUTION_RUNS, false);
	expect(&scene, 0, 2 * MS, -1, ATTRIBUTION_UNKNOWN);
	expect(&scene, 0, 4 * MS, 0, ATTRIBUTION_ONLY);
	/* It was away and is back, of which the next tick has not told yet. */
	meet(&scene.callers[0], 5 * MS, 2, ATTRIBUTION_AWAY, true);
	scene.callers[0].seen.over = true;
	attribution__woken(&scene.workers[0], NULL, 6 * MS);
	expect(&scene, 0, 9 * MS, 0, ATTRIBUTION_ONLY);
	/* Where somebody does, it is preempted. */
	scene.group.switches = true;
	attribution__woken(&scene.workers[0], NULL, 10 * MS);
	meet(&scene.callers[0], 10 * MS, 2, ATTRIBUTION_RUNS, true);
	expect(&scene, 0, 19 * MS, -1, ATTRIBUTION_UNKNOWN);
}

static void test_child(void **state)
{
	struct scene scene = begin();
	struct attribution attribution;

	(void)state;
	attribution = attribution__of_child(&scene.group, NULL, 1 * MS);
	assert_int_equal(attribution.how, ATTRIBUTION_UNKNOWN);
	/* The stacks of who made it wait for tables. */
	assert_int_equal(attribution__of_child(&scene.group, &scene.callers[0], 1 * MS).how, ATTRIBUTION_CHILD);
	meet(&scene.callers[0], 1 * MS, 2, ATTRIBUTION_LISTENS, false);
	attribution = attribution__of_child(&scene.group, &scene.callers[0], 2 * MS);
	assert_int_equal(attribution.how, ATTRIBUTION_CHILD);
	assert_ptr_equal(attribution.caller, &scene.callers[0]);
	/* It has something else to do. */
	meet(&scene.callers[0], 3 * MS, 2, ATTRIBUTION_RUNS, false);
	assert_int_equal(attribution__of_child(&scene.group, &scene.callers[0], 4 * MS).how, ATTRIBUTION_UNKNOWN);
	assert_int_equal(attribution__of_child(&scene.group, &scene.callers[0], 9 * MS).how, ATTRIBUTION_CHILD);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_woken), cmocka_unit_test(test_not_awaited), cmocka_unit_test(test_only),
		cmocka_unit_test(test_quiet), cmocka_unit_test(test_child),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
