/* SPDX-License-Identifier: MIT */
/* Starts threads that no signal reaches: signals are for the thread of the loop.
 *
 * Errors: -errno. */
#ifndef CPROFD_BASE_THREAD_H
#define CPROFD_BASE_THREAD_H

#include <pthread.h>

int thread__start(pthread_t *ret, void *(*fn)(void *context), void *context);
int thread__start_detached(void *(*fn)(void *context), void *context);

#endif
