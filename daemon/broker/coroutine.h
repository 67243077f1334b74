/* SPDX-License-Identifier: MIT */
/* A coroutine: a function with its own stack, which can wait for a descriptor while the broker's loop serves others.
 * The broker stays single-threaded: others run only during a wait, so the code between two waits needs no locks.
 *
 *   the loop                                  the coroutine
 *   coroutine__begin(main, context)     ->    runs until its first wait
 *   poll(coroutine__wants())
 *   coroutine__step(ready)              ->    runs until its next wait, or ends
 *   coroutine__cancel()                 ->    each wait fails with -ECANCELED; it cleans up and ends
 *
 * Errors: -errno. */
#pragma once

#include <poll.h>
#include <stdbool.h>
#include <stdint.h>

struct coroutine;

/* --- in the loop --- */

/* Runs `main` until its first wait. True: it has ended; *ret_result is what it returned, or -ENOMEM: it did not run.
 * False: *ret is waiting; `context` must live as long, or not be used after the first wait. */
bool coroutine__begin(int (*main)(void *context), void *context, struct coroutine **ret, int *ret_result);
/* What it waits for (fd -1: only time), and until when, CLOCK_MONOTONIC ns. */
struct pollfd coroutine__wants(const struct coroutine *coroutine, uint64_t *ret_until);
/* Resumes it if its descriptor is `ready` or its time is up. True: it has ended and was freed. */
bool coroutine__step(struct coroutine *coroutine, bool ready, int *ret_result);
/* Cancels and frees it. NULL is accepted. */
void coroutine__cancel(struct coroutine *coroutine);

/* --- in a coroutine (elsewhere these functions block) --- */

/* 0: the events have occurred on fd. -ETIMEDOUT, -ECANCELED. */
int coroutine__wait(int fd, short events, uint64_t until);
/* For long loops: lets others run if this one ran for some milliseconds. 0 or -ECANCELED. */
int coroutine__share(void);
/* For a child of fork(): from now on waits block, as there is no loop. */
void coroutine__forked(void);
