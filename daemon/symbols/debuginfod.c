/* SPDX-License-Identifier: MIT */
/* libdebuginfod is loaded when a download is asked for, and only if the user named
 * servers: it links with curl and TLS, which nobody else here needs.
 *
 * One job is one thread and one build-id. Who started it polls debuginfod_job__take(). `done` is written last by the
 * thread, so that `result` is complete when the other side sees it. */
#include "symbols/symbols.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/thread.h"
#include "elf/elf.h"

/* elfutils/debuginfod.h; the library's ABI 1. */
typedef void *begin_fn(void);
typedef void end_fn(void *client);
typedef int find_fn(void *client, const unsigned char *id, int len, char **path);
typedef int progress_fn(void *client, long a, long b);
typedef void set_progress_fn(void *client, progress_fn *progress);

/* Owned by who started it. The thread writes `result` and `done`, the owner `stop`. */
struct debuginfod_job {
	pthread_t thread;
	void *library;
	begin_fn *begin;
	end_fn *end;
	find_fn *find;
	set_progress_fn *set_progress;
	uint8_t id[ELF_BUILD_ID_MAX];
	size_t id_len;
	int result; /* an fd or -errno, when done */
	atomic_bool done, stop;
};

/* The job of this thread. */
static _Thread_local struct debuginfod_job *mine;

/* Called every now and then during a download; not 0: stop. */
static int progress(void *client, long a, long b)
{
	return mine && atomic_load(&mine->stop);
}

static void *run(void *argument)
{
	struct debuginfod_job *job = argument;
	void *client = job->begin();

	mine = job;
	job->result = -ENOMEM;
	if (client) {
		job->set_progress(client, progress);
		job->result = job->find(client, job->id, (int)job->id_len, NULL);
		job->end(client);
	}
	atomic_store(&job->done, true);
	return NULL;
}

static int load(struct debuginfod_job *job)
{
	job->library = dlopen("libdebuginfod.so.1", RTLD_NOW | RTLD_LOCAL);
	if (!job->library)
		return -ENOTSUP;
	job->begin = (begin_fn *)dlsym(job->library, "debuginfod_begin");
	job->end = (end_fn *)dlsym(job->library, "debuginfod_end");
	job->find = (find_fn *)dlsym(job->library, "debuginfod_find_debuginfo");
	job->set_progress = (set_progress_fn *)dlsym(job->library, "debuginfod_set_progressfn");
	return job->begin && job->end && job->find && job->set_progress ? 0 : -ENOTSUP;
}

int debuginfod_job__start(const uint8_t *build_id, size_t len, struct debuginfod_job **ret)
{
	const char *urls = getenv("DEBUGINFOD_URLS");
	struct debuginfod_job *job;
	int err;

	if (!urls || !*urls)
		return -ENOTSUP;
	if (!len || len > ELF_BUILD_ID_MAX)
		return -EINVAL;
	job = calloc(1, sizeof(*job));
	if (!job)
		return -ENOMEM;
	memcpy(job->id, build_id, len);
	job->id_len = len;
	err = load(job);
	err = err ?: thread__start(&job->thread, run, job);
	if (err) {
		free(job);
		return err;
	}
	*ret = job;
	return 0;
}

int debuginfod_job__take(struct debuginfod_job *job)
{
	int fd;

	if (!atomic_load(&job->done))
		return -EAGAIN;
	fd = job->result;
	if (fd >= 0)
		job->result = -ENOENT;
	return fd;
}

struct debuginfod_job *debuginfod_job__free(struct debuginfod_job *job)
{
	if (!job)
		return NULL;
	atomic_store(&job->stop, true);
	pthread_join(job->thread, NULL);
	if (job->result >= 0)
		close(job->result);
	/* The library stays loaded: curl leaves threads and state behind. */
	free(job);
	return NULL;
}
