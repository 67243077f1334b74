/* SPDX-License-Identifier: MIT */
/* Starts threads with all signals blocked: signals go to the thread of the main loop. Conditions by the clock of
 * clock.h.
 *
 * Errors: -errno. */
#pragma once

#include <pthread.h>

int thread__start(pthread_t *ret, void *(*fn)(void *context), void *context);
int thread__start_detached(void *(*fn)(void *context), void *context);

/* pthread_cond_timedwait() on it is until a time of CLOCK_MONOTONIC: clock__until(). */
void thread__init_condition(pthread_cond_t *ret);
