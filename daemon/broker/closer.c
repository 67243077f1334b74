/* SPDX-License-Identifier: MIT */
/* A stack of descriptors and some threads that close them. They are started when needed, and end when nothing is
 * left: a broker that serves well-behaved clients has none. */
#include "broker/closer.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include "base/array.h"
#include "base/thread.h"

/* Until one of them is free again, further connections stay open. */
#define THREADS_MAX 64u

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int *waiting;
static uint32_t n_waiting, capacity;
static unsigned n_threads;

/* The one that came last: those before it may be what others are held by. -1: there is none, and the thread ends. */
static int take(void)
{
	int fd = -1;

	pthread_mutex_lock(&lock);
	if (n_waiting)
		fd = waiting[--n_waiting];
	else
		n_threads--;
	pthread_mutex_unlock(&lock);
	return fd;
}

static void *run(void *context)
{
	int fd;

	while ((fd = take()) >= 0)
		close(fd);
	return NULL;
}

void closer__close(int fd)
{
	bool kept, more;

	pthread_mutex_lock(&lock);
	kept = !array__reserve((void **)&waiting, sizeof(*waiting), n_waiting, &capacity);
	if (kept)
		waiting[n_waiting++] = fd;
	more = kept && n_threads < THREADS_MAX;
	n_threads += more;
	pthread_mutex_unlock(&lock);
	if (!kept)
		close(fd);
	if (!more || !thread__start_detached(run, NULL))
		return;
	/* No thread is to be had: it is closed with the next one. */
	pthread_mutex_lock(&lock);
	n_threads--;
	pthread_mutex_unlock(&lock);
}
