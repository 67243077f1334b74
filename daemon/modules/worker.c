#include "modules/worker.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>

#include "jit/jit.h"

struct worker {
	pthread_t thread;
	bool started, stop;
	pthread_mutex_t lock;
	pthread_cond_t wake;
	struct job *waiting, **last;
	struct job *done;
};

/* --- one job --- */

static void *allot(struct unwind_sink *sink, size_t size)
{
	return calloc(1, size);
}

struct file_reader {
	struct host_reader reader;
	struct unwind_source *source;
};

static int read_source(struct host_reader *self, void *dst, size_t size, uint64_t address)
{
	struct unwind_source *source = ((struct file_reader *)self)->source;

	return source->read(source, dst, size, address);
}

static void run(struct job *job)
{
	struct unwind_sink sink = {.allot = allot};
	struct unwind_file file = {.fd = -1};
	struct unwind_memory memory;
	struct unwind_source *source = &file.source;
	struct file_reader reader = {.reader.read = read_source};

	if (job->bytes) {
		unwind_memory__init(&memory, job->bytes, job->size);
		source = &memory.source;
	} else {
		job->error = unwind_file__init(&file, job->fd);
	}
	if (!job->error && !job->object) /* which has no segments: it was never linked */
		job->error = segments__read(source, &job->segments);
	if (job->error)
		return;
	table__identify(source, &job->identity);
	if (job->descriptor) {
		reader.source = source;
		jit_descriptor__find(&reader.reader, 0, &job->descriptor_at);
	}
	if (job->tables)
		job->error = table__compile(source, &sink, &job->table);
}

static uint64_t thread_time(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void *work(void *arg)
{
	struct worker *worker = arg;
	struct job *job;

	pthread_mutex_lock(&worker->lock);
	while (!worker->stop) {
		job = worker->waiting;
		if (!job) {
			pthread_cond_wait(&worker->wake, &worker->lock);
			continue;
		}
		worker->waiting = job->next;
		if (!worker->waiting)
			worker->last = &worker->waiting;
		pthread_mutex_unlock(&worker->lock);
		job->ns = thread_time();
		run(job);
		job->ns = thread_time() - job->ns;
		pthread_mutex_lock(&worker->lock);
		job->next = worker->done;
		worker->done = job;
	}
	pthread_mutex_unlock(&worker->lock);
	return NULL;
}

/* --- its owner's side --- */

int worker__new(struct worker **ret)
{
	struct worker *worker = calloc(1, sizeof(*worker));

	if (!worker)
		return -ENOMEM;
	pthread_mutex_init(&worker->lock, NULL);
	pthread_cond_init(&worker->wake, NULL);
	worker->last = &worker->waiting;
	*ret = worker;
	return 0;
}

/* Signals are for the thread of the loop. */
static int start(struct worker *worker)
{
	sigset_t all, before;
	int err;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	err = pthread_create(&worker->thread, NULL, work, worker);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	worker->started = !err;
	return -err;
}

int worker__give(struct worker *worker, struct job *job)
{
	int err = worker->started ? 0 : start(worker);

	if (err)
		return err;
	pthread_mutex_lock(&worker->lock);
	job->next = job->urgent ? worker->waiting : NULL;
	if (!job->next)
		*worker->last = job;
	if (job->next)
		worker->waiting = job;
	else
		worker->last = &job->next;
	pthread_cond_signal(&worker->wake);
	pthread_mutex_unlock(&worker->lock);
	return 0;
}

struct job *worker__take(struct worker *worker)
{
	struct job *job;

	if (!worker->started)
		return NULL;
	pthread_mutex_lock(&worker->lock);
	job = worker->done;
	if (job)
		worker->done = job->next;
	pthread_mutex_unlock(&worker->lock);
	return job;
}

void job__free(struct job *job)
{
	if (!job)
		return;
	free(job->bytes);
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

struct worker *worker__free(struct worker *worker)
{
	if (!worker)
		return NULL;
	if (worker->started) {
		pthread_mutex_lock(&worker->lock);
		worker->stop = true;
		pthread_cond_signal(&worker->wake);
		pthread_mutex_unlock(&worker->lock);
		pthread_join(worker->thread, NULL);
	}
	free_all(worker->waiting);
	free_all(worker->done);
	pthread_cond_destroy(&worker->wake);
	pthread_mutex_destroy(&worker->lock);
	free(worker);
	return NULL;
}
