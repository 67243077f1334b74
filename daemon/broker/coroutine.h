/* SPDX-License-Identifier: MIT */
/* A coroutine: a function with a stack of its own, which waits for a descriptor while the broker's loop serves others. The broker stays one
 * thread: others run in a wait alone, so that what lies between two waits needs no lock.
 *
 *   the loop                                  the coroutine
 *   coroutine__begin(main, context)     ->    runs until its first wait
 *   poll(coroutine__wants())
 *   coroutine__step(ready)              ->    runs until its next wait, or ends
 *   coroutine__cancel()                 ->    each wait fails with -ECANCELED: it undoes what it did, and ends
 *
 * Errors: -errno. */
#ifndef CPROFD_BROKER_COROUTINE_H
#define CPROFD_BROKER_COROUTINE_H

#include <poll.h>
#include <stdbool.h>
#include <stdint.h>

struct coroutine;

/* --- in the loop --- */

/* True: it has ended, *ret_result is what `main` returned, or -ENOMEM: it did not run. False: *ret waits; `context` is not used after its first wait
 * unless it lives as long. */
bool coroutine__begin(int (*main)(void *context), void *context, struct coroutine **ret, int *ret_result);
/* What it waits for (fd -1: nothing but time), and until when, CLOCK_MONOTONIC ns. */
struct pollfd coroutine__wants(const struct coroutine *coroutine, uint64_t *ret_until);
/* Goes on with one whose descriptor is `ready`, or whose time is up. True: it has ended and was freed. */
bool coroutine__step(struct coroutine *coroutine, bool ready, int *ret_result);
/* NULL is fine. Frees it. */
void coroutine__cancel(struct coroutine *coroutine);

/* --- in a coroutine; elsewhere whoever calls them waits --- */

/* 0: there are such events on fd. -ETIMEDOUT, -ECANCELED. */
int coroutine__wait(int fd, short events, uint64_t until);
/* In long loops: lets others run when it has run for some milliseconds. 0 or -ECANCELED. */
int coroutine__share(void);
/* In a child of fork(): there is no loop any more that others could run in. */
void coroutine__forked(void);

#endif
