/* For whose call a worker works: scenes of threads that are met, wake and are woken. The tree of stacks: node n was called by parents[n]. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "credit/credit.h"

#define MS 1000000ull

/* main (1) calls compile (2), which calls back (3); main calls run (4) from another line; a second thread: (5), (6). */
static const uint32_t parents[] = {0, 0, 1, 2, 1, 0, 5};

struct scene {
	struct credit_group group;
	struct credit_thread callers[2], workers[3];
};

static struct credit_thread *next(struct credit_group *self, struct credit_thread *before)
{
	struct scene *scene = (struct scene *)self;
	size_t at = before ? (size_t)(before - scene->callers) + 1 : 0;

	return at < 2 ? &scene->callers[at] : NULL;
}

static bool inside(struct credit_group *self, uint32_t inner, uint32_t outer)
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

static void meet(struct credit_thread *thread, uint64_t time, uint32_t call, enum credit_state state, bool outside)
{
	thread->seen = (struct credit_seen){.time = time, .stack = call, .call = call, .outside = outside, .state = (uint8_t)state};
}

static void expect(struct scene *scene, int worker, uint64_t time, int caller, enum credit_how how)
{
	struct credit credit = credit__of(&scene->group, &scene->workers[worker], time);

	assert_int_equal(credit.how, how);
	assert_ptr_equal(credit.caller, caller < 0 ? NULL : &scene->callers[caller]);
}

static void test_woken(void **state)
{
	struct scene scene = begin();

	(void)state;
	/* Two callers wait; each has woken a worker, the first one's woke another. */
	meet(&scene.callers[0], 1 * MS, 2, CREDIT_RUNS, true);
	meet(&scene.callers[1], 1 * MS, 6, CREDIT_RUNS, true);
	credit__woken(&scene.workers[0], &scene.callers[0], 2 * MS);
	credit__woken(&scene.workers[1], &scene.callers[1], 2 * MS);
	credit__woken(&scene.workers[2], &scene.workers[0], 3 * MS);
	meet(&scene.callers[0], 3 * MS, 2, CREDIT_WAITS, true);
	meet(&scene.callers[1], 3 * MS, 6, CREDIT_WAITS, true);
	expect(&scene, 0, 4 * MS, 0, CREDIT_WOKEN);
	expect(&scene, 1, 4 * MS, 1, CREDIT_WOKEN);
	expect(&scene, 2, 4 * MS, 0, CREDIT_WOKEN);
	/* Woken by one of which it was known only later whose work that did; and by a thread that turned out to have Python. */
	scene.workers[1].n_leads = scene.workers[2].n_leads = 0;
	credit__woken(&scene.workers[2], &scene.workers[1], 4 * MS);
	credit__woken(&scene.workers[1], &scene.callers[1], 3 * MS);
	expect(&scene, 2, 5 * MS, 1, CREDIT_WOKEN);
	scene.callers[0].python = false;
	credit__woken(&scene.workers[2], &scene.callers[0], 5 * MS);
	scene.callers[0].python = true;
	meet(&scene.callers[0], 5 * MS, 2, CREDIT_WAITS, true);
	expect(&scene, 2, 5 * MS, 0, CREDIT_WOKEN);
	/* Its call calls back into Python: it goes on. */
	meet(&scene.callers[0], 5 * MS, 3, CREDIT_RUNS, false);
	expect(&scene, 0, 6 * MS, 0, CREDIT_WOKEN);
	/* The call is over, its thread is in another one: what works on is not for that. */
	meet(&scene.callers[0], 7 * MS, 4, CREDIT_RUNS, true);
	expect(&scene, 0, 8 * MS, 1, CREDIT_ONLY);
	meet(&scene.callers[0], 9 * MS, 4, CREDIT_WAITS, true);
	expect(&scene, 2, 9 * MS, -1, CREDIT_UNKNOWN);
}

static void test_not_awaited(void **state)
{
	struct scene scene = begin();

	(void)state;
	/* It gives work away, and goes on in Python. */
	meet(&scene.callers[0], 1 * MS, 2, CREDIT_RUNS, true);
	credit__woken(&scene.workers[0], &scene.callers[0], 2 * MS);
	meet(&scene.callers[0], 3 * MS, 1, CREDIT_RUNS, false);
	expect(&scene, 0, 4 * MS, -1, CREDIT_UNKNOWN);
	meet(&scene.callers[0], 5 * MS, 2, CREDIT_RUNS, true);
	expect(&scene, 0, 6 * MS, -1, CREDIT_UNKNOWN);
	/* A lock of Python's is no wait for it. */
	meet(&scene.callers[0], 7 * MS, 2, CREDIT_WAITS, false);
	expect(&scene, 0, 8 * MS, -1, CREDIT_UNKNOWN);
	meet(&scene.callers[0], 9 * MS, 2, CREDIT_AWAY, true);
	expect(&scene, 0, 20 * MS, -1, CREDIT_UNKNOWN);
}

static void test_only(void **state)
{
	struct scene scene = begin();

	(void)state;
	expect(&scene, 0, 1 * MS, -1, CREDIT_UNKNOWN);
	meet(&scene.callers[0], 2 * MS, 2, CREDIT_WAITS, true);
	expect(&scene, 0, 3 * MS, 0, CREDIT_ONLY);
	/* Another one begins to wait: who worked before works on for the first. */
	meet(&scene.callers[1], 4 * MS, 6, CREDIT_WAITS, true);
	expect(&scene, 0, 5 * MS, 0, CREDIT_ONLY);
	expect(&scene, 1, 5 * MS, -1, CREDIT_UNKNOWN);
	/* Its wait is ended by the worker: whatever that does now is for another. */
	credit__answered(&scene.callers[0], &scene.workers[0], 3 * MS - 1);
	expect(&scene, 0, 5 * MS, 0, CREDIT_ONLY);
	credit__answered(&scene.callers[0], &scene.workers[0], 6 * MS);
	meet(&scene.callers[0], 6 * MS, 2, CREDIT_RUNS, true);
	expect(&scene, 0, 7 * MS, 1, CREDIT_ONLY);
	/* Both wait again, and it has not rested. */
	credit__answered(&scene.callers[1], &scene.workers[0], 7 * MS + 1);
	meet(&scene.callers[0], 7 * MS + 2, 2, CREDIT_WAITS, true);
	meet(&scene.callers[1], 7 * MS + 3, 6, CREDIT_WAITS, true);
	expect(&scene, 0, 8 * MS, 1, CREDIT_LIKELY);
	/* What was before is told as it was then. */
	expect(&scene, 0, 4 * MS, 0, CREDIT_ONLY);
	/* Somebody woke it whom nobody knows. */
	credit__woken(&scene.workers[0], NULL, 8 * MS);
	meet(&scene.callers[0], 8 * MS, 2, CREDIT_WAITS, true);
	expect(&scene, 0, 9 * MS, -1, CREDIT_UNKNOWN);
}

/* Where nobody looks at switches: who has no ticks has no CPU. */
static void test_quiet(void **state)
{
	struct scene scene = begin();

	(void)state;
	meet(&scene.callers[0], 1 * MS, 2, CREDIT_RUNS, true);
	meet(&scene.callers[1], 1 * MS, 5, CREDIT_RUNS, false);
	expect(&scene, 0, 2 * MS, -1, CREDIT_UNKNOWN);
	expect(&scene, 0, 4 * MS, 0, CREDIT_ONLY);
	/* It was away and is back, of which the next tick has not told yet. */
	meet(&scene.callers[0], 5 * MS, 2, CREDIT_AWAY, true);
	scene.callers[0].seen.over = true;
	credit__woken(&scene.workers[0], NULL, 6 * MS);
	expect(&scene, 0, 9 * MS, 0, CREDIT_ONLY);
	/* Where somebody does, it is preempted. */
	scene.group.switches = true;
	credit__woken(&scene.workers[0], NULL, 10 * MS);
	meet(&scene.callers[0], 10 * MS, 2, CREDIT_RUNS, true);
	expect(&scene, 0, 19 * MS, -1, CREDIT_UNKNOWN);
}

static void test_child(void **state)
{
	struct scene scene = begin();
	struct credit credit;

	(void)state;
	credit = credit__of_child(&scene.group, NULL, 1 * MS);
	assert_int_equal(credit.how, CREDIT_UNKNOWN);
	/* The stacks of who made it wait for tables. */
	assert_int_equal(credit__of_child(&scene.group, &scene.callers[0], 1 * MS).how, CREDIT_CHILD);
	meet(&scene.callers[0], 1 * MS, 2, CREDIT_LISTENS, false);
	credit = credit__of_child(&scene.group, &scene.callers[0], 2 * MS);
	assert_int_equal(credit.how, CREDIT_CHILD);
	assert_ptr_equal(credit.caller, &scene.callers[0]);
	/* It has something else to do. */
	meet(&scene.callers[0], 3 * MS, 2, CREDIT_RUNS, false);
	assert_int_equal(credit__of_child(&scene.group, &scene.callers[0], 4 * MS).how, CREDIT_UNKNOWN);
	assert_int_equal(credit__of_child(&scene.group, &scene.callers[0], 9 * MS).how, CREDIT_CHILD);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_woken), cmocka_unit_test(test_not_awaited), cmocka_unit_test(test_only),
		cmocka_unit_test(test_quiet), cmocka_unit_test(test_child),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
