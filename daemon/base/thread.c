/* SPDX-License-Identifier: MIT */
/* A new thread blocks all signals: they are the main thread's. Time that is set back makes no thread wait longer. */
#include "base/thread.h"

#include <signal.h>
#include <time.h>

static int start(pthread_t *ret, const pthread_attr_t *attr, void *(*fn)(void *), void *context)
{
	sigset_t all, before;
	int err;

	/* A new thread inherits the signal mask. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	err = pthread_create(ret, attr, fn, context);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return -err;
}

int thread__start(pthread_t *ret, void *(*fn)(void *context), void *context)
{
	return start(ret, NULL, fn, context);
}

int thread__start_detached(void *(*fn)(void *context), void *context)
{
	pthread_attr_t attr;
	pthread_t thread;
	int err;

	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	err = start(&thread, &attr, fn, context);
	pthread_attr_destroy(&attr);
	return err;
}

void thread__init_condition(pthread_cond_t *ret)
{
	pthread_condattr_t attr;

	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(ret, &attr);
	pthread_condattr_destroy(&attr);
}
