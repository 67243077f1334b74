/* SPDX-License-Identifier: MIT */
/* The threads that read files and make unwind tables: a list of jobs, one of results, a mutex, and an eventfd by which
 * the engine's loop learns of results.
 *
 *    loop    worker__give(job) -> waiting      thread   takes the best -> running -> run() -> done, eventfd
 *    loop    worker__take() <- done
 *
 * Threads are started one by one as jobs come, and stay. A job touches nothing but itself, so the lock is held for the
 * lists only, never during a read. */
#include "modules/worker.h"

#include <errno.h>
#include <malloc.h>
#include <stdlib.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/thread.h"
#include "jit/jit.h"

/* A table of fewer rows is made sooner than it is read. */
#define STORED_ROWS 4096u
/* The heap is trimmed some time after a file, and after so many bytes of JITs' objects: what is given back is
 * taken again. */
#define TRIM_BYTES (8u << 20)
#define TRIM_NS 1000000000ull

struct worker {
	pthread_t threads[WORKER_THREADS_MAX];
	unsigned n_threads, n_max, idle;
	bool stop;
	pthread_mutex_t lock;
	pthread_cond_t wake;
	/* In no order: the best one is searched for when a thread is free. */
	struct job *waiting, *running, *done;
	int event;
	bool notified;		   /* the event is readable */
	struct unwind_cache cache; /* directory < 0: none */
	bool stored, worked;	   /* since the cache, the heap was trimmed */
	uint64_t objects_size;	   /* of objects since then */
	uint64_t trim_due;	   /* if it worked */
};

/* --- one job --- */

/* Tables are made in zeroed memory of the heap, and copied to their place by the loop, which alone gives out room in
 * pools. Of a large one only what is written takes memory. */
static void *allot(struct unwind_sink *sink, size_t size)
{
	return calloc(1, size);
}

/* For a table of the cache whose size was known before: it is read into its place in the pool. */
struct pool_sink {
	struct unwind_sink sink;
	const struct job *job;
};

static void *allot_in_pool(struct unwind_sink *sink, size_t size)
{
	const struct job *job = ((const struct pool_sink *)sink)->job;

	return size == job->wanted ? job->room : NULL;
}

/* From the cache, or else compiled. A table of which only the size was wanted (`to_pool`) is left to the job's second
 * turn. */
static void make_table(const struct unwind_cache *cache, struct job *job,
		       const struct elf_bytes *source)
{
	struct unwind_sink sink = {.allot = allot};
	bool keeps = cache->directory >= 0 && !job->bytes && !identity__from_file(&job->identity, job->fd);

	if (keeps && job->to_pool && !cache__size(cache, &job->identity, &job->wanted))
		return;
	if (keeps) {
		job->cached = !cache__load(cache, &job->identity, &sink, &job->table);
		if (job->cached)
			return;
		free(job->table);
		job->table = NULL;
	}
	job->error = table__compile(source, &sink, &job->table);
	if (job->error) {
		free(job->table);
		job->table = NULL;
	} else if (keeps) {
		job->table->identity = job->identity; /* without a build-id it is the file's */
	}
}

/* Of the cache, into its place; else it is made. */
static void read_table(const struct unwind_cache *cache, struct job *job, const struct elf_bytes *source)
{
	struct pool_sink sink = {{.allot = allot_in_pool}, job};

	job->cached = !cache__load(cache, &job->identity, &sink.sink, &job->table);
	if (job->cached)
		return;
	job->table = NULL;
	make_table(cache, job, source);
}

/* On an error there is no table: the old one stays in use. */
static void follow(struct job *job, const struct elf_bytes *source)
{
	struct unwind_sink sink = {.allot = allot};

	job->error = table__follow(source, job->before, job->vaddrs, job->n_vaddrs, job->last, &sink,
				   &job->table);
	if (!job->error)
		return;
	free(job->table);
	job->table = NULL;
}

/* Three kinds of jobs: to follow code for a table that there is (`before`), to read a table into its place (`room`),
 * and a new file or object. Files are hostile: all that is read of them is checked in elf/ and unwind/. */
static void run(const struct unwind_cache *cache, struct job *job)
{
	struct elf_bytes bytes = ELF_BYTES_NONE;
	const struct elf_bytes *source = &bytes;

	if (job->bytes)
		elf_bytes__init_memory(&bytes, job->bytes, job->size);
	else
		job->error = elf_bytes__init_fd(&bytes, job->fd);
	if (job->before) {
		if (!job->error)
			follow(job, source);
		return;
	}
	if (job->room) {
		job->to_pool = false; /* not again */
		if (!job->error)
			read_table(cache, job, source);
		return;
	}
	if (!job->error && !job->object) /* which has no segments: it was never linked */
		job->error = segments__read(source, &job->segments);
	if (job->error)
		return;
	table__identify(source, &job->identity);
	if (job->descriptor)
		jit_descriptor__open(source, job->fd, job->bytes ? -1 : cache->directory, &job->descriptor_at);
	if (job->tables)
		make_table(cache, job, source);
}

static uint64_t thread_time(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* --- lists; with the lock --- */

static bool is_before(const struct job *a, const struct job *b)
{
	return a->rank != b->rank ? a->rank < b->rank : a->size < b->size;
}

/* Linear; ranks change while jobs wait (worker__hurry()), so no order would stay valid. */
static struct job *take_next(struct worker *worker)
{
	struct job **best = &worker->waiting, **at, *job;

	for (at = best; *at; at = &(*at)->next)
		if (is_before(*at, *best))
			best = at;
	job = *best;
	if (job)
		*best = job->next;
	return job;
}

static void put(struct job **list, struct job *job)
{
	job->next = *list;
	*list = job;
}

static void drop(struct job **list, const struct job *job)
{
	while (*list != job)
		list = &(*list)->next;
	*list = job->next;
}

/* One write for any number of results, until they were fetched. */
static void notify(struct worker *worker)
{
	uint64_t one = 1;

	if (worker->notified)
		return;
	worker->notified = true;
	(void)!write(worker->event, &one, sizeof(one));
}

/* Nothing is left to do: of the 20 MB that making tables takes most is free by now, but the heap would keep it. */
static void trim(struct worker *worker)
{
	worker->worked = false;
	worker->objects_size = 0;
	pthread_mutex_unlock(&worker->lock);
	malloc_trim(0);
	pthread_mutex_lock(&worker->lock);
}

/* Until there is a job, or the heap is to be trimmed. */
static void wait_for_job(struct worker *worker)
{
	const struct timespec due = clock__until(worker->trim_due);

	worker->idle++;
	if (worker->worked && !worker->running)
		pthread_cond_timedwait(&worker->wake, &worker->lock, &due);
	else
		pthread_cond_wait(&worker->wake, &worker->lock);
	worker->idle--;
}

static void *work(void *arg)
{
	struct worker *worker = arg;
	struct job *job;

	pthread_mutex_lock(&worker->lock);
	while (!worker->stop) {
		job = take_next(worker);
		if (!job) {
			if (worker->worked && !worker->running && clock__now() >= worker->trim_due)
				trim(worker);
			else
				wait_for_job(worker);
			continue;
		}
		put(&worker->running, job);
		pthread_mutex_unlock(&worker->lock);
		if (job->rank == JOB_STORE)
			cache__store(&worker->cache, job->table);
		else
			worker__do(worker, job);
		pthread_mutex_lock(&worker->lock);
		drop(&worker->running, job);
		worker->objects_size += job->object ? job->size : 0;
		if (!worker->worked && (!job->object || worker->objects_size >= TRIM_BYTES)) {
			worker->worked = true;
			worker->trim_due = clock__now() + TRIM_NS;
		}
		if (job->rank != JOB_STORE) {
			put(&worker->done, job);
			notify(worker);
			continue;
		}
		worker->stored = true;
		job__free(job);
	}
	pthread_mutex_unlock(&worker->lock);
	return NULL;
}

/* --- its owner's side --- */

int worker__new(struct worker **ret)
{
	struct worker *worker = calloc(1, sizeof(*worker));
	cpu_set_t cpus;

	if (!worker)
		return -ENOMEM;
	worker->event = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (worker->event < 0) {
		free(worker);
		return -errno;
	}
	worker->n_max = sched_getaffinity(0, sizeof(cpus), &cpus) ? 1 : (unsigned)CPU_COUNT(&cpus);
	if (worker->n_max > WORKER_THREADS_MAX)
		worker->n_max = WORKER_THREADS_MAX;
	pthread_mutex_init(&worker->lock, NULL);
	thread__init_condition(&worker->wake);
	worker->cache.directory = -1;
	*ret = worker;
	return 0;
}

void worker__cache(struct worker *worker, int directory)
{
	worker->cache.directory = directory;
}

int worker__fd(const struct worker *worker)
{
	return worker->event;
}

/* One more thread, if no one is free. */
static int start(struct worker *worker)
{
	int err;

	if (worker->idle || worker->n_threads >= worker->n_max)
		return 0;
	err = thread__start(&worker->threads[worker->n_threads], work, worker);
	worker->n_threads += !err;
	return worker->n_threads ? 0 : err;
}

void worker__do(struct worker *worker, struct job *job)
{
	job->ns = thread_time();
	run(&worker->cache, job);
	job->ns = thread_time() - job->ns;
}

int worker__give(struct worker *worker, struct job *job)
{
	int err;

	pthread_mutex_lock(&worker->lock);
	err = start(worker);
	if (!err) {
		put(&worker->waiting, job);
		pthread_cond_signal(&worker->wake);
	}
	pthread_mutex_unlock(&worker->lock);
	return err;
}

struct job *worker__take(struct worker *worker)
{
	struct job *job;
	uint64_t count;

	pthread_mutex_lock(&worker->lock);
	job = worker->done;
	if (job)
		worker->done = job->next;
	else if (worker->notified)
		(void)!read(worker->event, &count, sizeof(count));
	worker->notified &= job != NULL;
	pthread_mutex_unlock(&worker->lock);
	return job;
}

void worker__store(struct worker *worker, struct job *job)
{
	/* No table is kept without its file's identity. */
	bool keeps = worker->cache.directory >= 0 && job->table && job->table->identity.file.inode && !job->bytes && !job->cached &&
		     (job->keeps || (!job->before && job->table->n_rows >= STORED_ROWS));

	job->rank = JOB_STORE;
	if (!keeps || worker__give(worker, job))
		job__free(job);
}

void worker__hurry(struct worker *worker, uint32_t module)
{
	pthread_mutex_lock(&worker->lock);
	for (struct job *job = worker->waiting; job; job = job->next)
		if (job->module == module && job->rank != JOB_STORE)
			job->rank = JOB_WANTED;
	pthread_mutex_unlock(&worker->lock);
}

static bool has_object(const struct job *job, uint64_t process)
{
	for (; job; job = job->next)
		if (job->object && job->process == process)
			return true;
	return false;
}

/* Also those that are done but were not fetched: their tables are not in a list yet. */
bool worker__has_objects(struct worker *worker, uint64_t process)
{
	bool has;

	pthread_mutex_lock(&worker->lock);
	has = has_object(worker->waiting, process) || has_object(worker->running, process) ||
	      has_object(worker->done, process);
	pthread_mutex_unlock(&worker->lock);
	return has;
}

void job__free(struct job *job)
{
	if (!job)
		return;
	free(job->bytes);
	if (job->table != job->room)
		free(job->table);
	free(job);
}

static void free_all(struct job *job)
{
	while (job) {
		struct job *next = job->next;

		job__free(job);
		job = next;
	}
}

/* Waits for jobs that run: each reads hostile files, but within bounds; only a file system may keep one for ever
 * (modules.c, destroy()). */
struct worker *worker__free(struct worker *worker)
{
	if (!worker)
		return NULL;
	pthread_mutex_lock(&worker->lock);
	worker->stop = true;
	pthread_cond_broadcast(&worker->wake);
	pthread_mutex_unlock(&worker->lock);
	for (unsigned i = 0; i < worker->n_threads; i++)
		pthread_join(worker->threads[i], NULL);
	if (worker->stored)
		cache__trim(&worker->cache, WORKER_CACHE_BYTES);
	if (worker->cache.directory >= 0)
		close(worker->cache.directory);
	free_all(worker->waiting);
	free_all(worker->done);
	close(worker->event);
	pthread_cond_destroy(&worker->wake);
	pthread_mutex_destroy(&worker->lock);
	free(worker);
	return NULL;
}
