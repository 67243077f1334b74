/* SPDX-License-Identifier: MIT */
/* Stacks and switches of coroutines (base/fiber.h), and what a wait is: suspend() leaves for the loop, which polls for
 * everybody and resumes whom it finds ready. Outside of a coroutine, as in a child of fork() or in a test, a wait is a
 * plain poll(2).
 *
 * Why not threads: a request waits in many places, and between two waits the broker's state must not change.
 * With coroutines, that is so without a lock; and a thread that hangs could not be ended, while a coroutine never hangs
 * itself: helpers do. */
#include "broker/coroutine.h"

#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/fiber.h"

#define STACK_BYTES (1u << 20) /* libbpf loads programs on it; untouched pages use no memory */
#define SHARE_NS 3000000u /* a coroutine that ran this long lets others run */

struct coroutine {
	struct fiber own, loop;
	struct fiber_stack stack, loop_stack;
	int (*main)(void *);
	void *context;
	struct pollfd wants;
	uint64_t until;
	/* When it was resumed last (CLOCK_MONOTONIC ns), for coroutine__share(). */
	uint64_t since;
	/* What its wait returns when it is resumed: 0, -ETIMEDOUT, -ECANCELED. */
	int outcome;
	int result;
	bool ended, cancelled;
};

/* The one that runs; NULL: the loop does. */
static struct coroutine *current;
static char *kept; /* a free stack for the next coroutine */

/* --- stacks --- */

static char *take_stack(void)
{
	char *bytes = kept;

	kept = NULL;
	if (bytes)
		return bytes;
	return fiber__take_stack(STACK_BYTES);
}

static void give_stack(char *bytes)
{
	if (kept)
		munmap(bytes - FIBER_GUARD_BYTES, FIBER_GUARD_BYTES + STACK_BYTES);
	else
		kept = bytes;
}

/* --- switches --- */

/* The first function on a new stack. It gets no arguments: it takes what it needs from `current`. */
static void enter(void)
{
	struct coroutine *coroutine = current;

	fiber__arrive(&coroutine->stack, &coroutine->loop_stack);
	coroutine->result = coroutine->main(coroutine->context);
	coroutine->ended = true;
	fiber__leave_for(&coroutine->loop_stack, NULL);
	fiber__switch(&coroutine->own, &coroutine->loop); /* does not return */
}

/* Runs it until its next wait. True: it has ended. */
static bool run(struct coroutine *coroutine)
{
	struct fiber_stack ignored;

	current = coroutine;
	coroutine->since = clock__now();
	fiber__leave_for(&coroutine->stack, &coroutine->loop_stack);
	fiber__switch(&coroutine->loop, &coroutine->own);
	fiber__arrive(&coroutine->loop_stack, &ignored);
	current = NULL;
	return coroutine->ended;
}

/* Called in the coroutine: returns to the loop until it is resumed. */
static int suspend(struct coroutine *coroutine, struct pollfd wants, uint64_t until)
{
	if (coroutine->cancelled)
		return -ECANCELED;
	coroutine->wants = wants;
	coroutine->until = until;
	fiber__leave_for(&coroutine->loop_stack, &coroutine->stack);
	fiber__switch(&coroutine->own, &coroutine->loop);
	fiber__arrive(&coroutine->stack, &coroutine->loop_stack);
	return coroutine->outcome;
}

static bool finish(struct coroutine *coroutine, int *ret_result)
{
	*ret_result = coroutine->result;
	give_stack(coroutine->stack.bytes);
	free(coroutine);
	return true;
}

bool coroutine__begin(int (*main)(void *context), void *context, struct coroutine **ret, int *ret_result)
{
	struct coroutine *coroutine = calloc(1, sizeof(*coroutine));
	char *bytes = coroutine ? take_stack() : NULL;

	*ret = NULL;
	if (!bytes) {
		free(coroutine);
		*ret_result = -ENOMEM;
		return true;
	}
	coroutine->main = main;
	coroutine->context = context;
	coroutine->stack = (struct fiber_stack){.bytes = bytes, .size = STACK_BYTES};
	fiber__make(&coroutine->own, bytes, STACK_BYTES, enter);
	if (run(coroutine))
		return finish(coroutine, ret_result);
	*ret = coroutine;
	return false;
}

struct pollfd coroutine__wants(const struct coroutine *coroutine, uint64_t *ret_until)
{
	*ret_until = coroutine->until;
	return coroutine->wants;
}

bool coroutine__step(struct coroutine *coroutine, bool ready, int *ret_result)
{
	if (!ready && clock__now() < coroutine->until)
		return false;
	coroutine->outcome = ready ? 0 : -ETIMEDOUT;
	return run(coroutine) && finish(coroutine, ret_result);
}

void coroutine__cancel(struct coroutine *coroutine)
{
	int ignored;

	if (!coroutine)
		return;
	coroutine->cancelled = true;
	coroutine->outcome = -ECANCELED;
	while (!run(coroutine)) /* only once: when cancelled, suspend() returns at once */
		;
	finish(coroutine, &ignored);
}

/* --- waits --- */

static int wait_here(struct pollfd wants, uint64_t until)
{
	int ready;

	do {
		uint64_t now = clock__now();

		ready = poll(&wants, 1, now < until ? (int)((until - now + 999999) / 1000000) : 0);
	} while (ready < 0 && errno == EINTR);
	return ready < 0 ? -errno : ready ? 0 : -ETIMEDOUT;
}

int coroutine__share(void)
{
	int err;

	if (!current || (!current->cancelled && clock__now() - current->since < SHARE_NS))
		return 0;
	err = suspend(current, (struct pollfd){.fd = -1}, 0);
	return err == -ETIMEDOUT ? 0 : err;
}

int coroutine__wait(int fd, short events, uint64_t until)
{
	struct pollfd wants = {.fd = fd, .events = events};
	int err;

	if (!current)
		return wait_here(wants, until);
	err = coroutine__share();
	if (err || (fd >= 0 && poll(&wants, 1, 0) > 0))
		return err;
	return suspend(current, wants, until);
}

void coroutine__forked(void)
{
	current = NULL;
}
