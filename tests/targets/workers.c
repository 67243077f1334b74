/* SPDX-License-Identifier: MIT */
/* Pools of threads without Python, for tests/targets/workers.py: each job notes who ran it, when, and for whom. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define JOBS 4096

struct job {
	struct job *next;
	long us, owner;
	int *left, *parts;      /* of the call; of the jobs that it makes */
	struct pool *below;     /* it hands on to these, and waits */
};
struct pool {
	pthread_mutex_t lock;
	pthread_cond_t work, done;
	struct job *first, **end;
};

struct note {
	int64_t begin, end, worker, owner;
};
struct note notes[JOBS];
int n_notes;

static int64_t now(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return t.tv_sec * 1000000000ll + t.tv_nsec;
}

static void burn(long us)
{
	int64_t end = now(CLOCK_THREAD_CPUTIME_ID) + us * 1000;

	while (now(CLOCK_THREAD_CPUTIME_ID) < end)
		;
}

static void put(struct pool *pool, struct job *job)
{
	job->next = NULL;
	*pool->end = job;
	pool->end = &job->next;
	pthread_cond_signal(&pool->work);
}

/* Until all of `n` jobs of `us` each are done. */
static void call(struct pool *pool, int n, long us, long owner, struct pool *below)
{
	struct job *jobs = calloc(n, sizeof(*jobs));
	int left = n, i;

	pthread_mutex_lock(&pool->lock);
	for (i = 0; i < n; i++) {
		jobs[i] = (struct job){.us = us, .owner = owner, .left = &left, .below = below};
		put(pool, &jobs[i]);
	}
	while (left)
		pthread_cond_wait(&pool->done, &pool->lock);
	pthread_mutex_unlock(&pool->lock);
	free(jobs);
}

void pool_call(struct pool *pool, int n, long us, struct pool *below)
{
	call(pool, n, us, gettid(), below);
}

/* Nobody waits for it. */
void pool_leave(struct pool *pool, long us)
{
	struct job *job = calloc(1, sizeof(*job));

	*job = (struct job){.us = us};
	pthread_mutex_lock(&pool->lock);
	put(pool, job);
	pthread_mutex_unlock(&pool->lock);
}

static void *work(void *arg)
{
	struct pool *pool = arg;
	struct job *job;
	int at;

	pthread_mutex_lock(&pool->lock);
	for (;;) {
		while (!pool->first)
			pthread_cond_wait(&pool->work, &pool->lock);
		job = pool->first;
		pool->first = job->next;
		if (!pool->first)
			pool->end = &pool->first;
		pthread_mutex_unlock(&pool->lock);
		at = __atomic_fetch_add(&n_notes, 1, __ATOMIC_RELAXED) % JOBS;
		notes[at] = (struct note){now(CLOCK_MONOTONIC), 0, gettid(), job->owner};
		burn(job->us);
		if (job->below)
			call(job->below, 2, job->us, job->owner, NULL);
		notes[at].end = now(CLOCK_MONOTONIC);
		pthread_mutex_lock(&pool->lock);
		if (job->left && !--*job->left)
			pthread_cond_broadcast(&pool->done);
	}
	return NULL;
}

struct pool *pool_new(int threads)
{
	struct pool *pool = calloc(1, sizeof(*pool));
	pthread_t thread;

	pthread_mutex_init(&pool->lock, NULL);
	pthread_cond_init(&pool->work, NULL);
	pthread_cond_init(&pool->done, NULL);
	pool->end = &pool->first;
	while (threads--)
		pthread_create(&thread, NULL, work, pool);
	return pool;
}
