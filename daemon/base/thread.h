/* SPDX-License-Identifier: MIT */
/* Starts threads with all signals blocked: signals go to the thread of the main loop.
 *
 * Errors: -errno. */
#ifndef CPROFD_BASE_THREAD_H
#define CPROFD_BASE_THREAD_H

#include <pthread.h>

int thread__start(pthread_t *ret, void *(*fn)(void *context), void *context);
int thread__start_detached(void *(*fn)(void *context), void *context);

#endif
