/* SPDX-License-Identifier: MIT */
/* The loop's side of the namer: its modules, and which of their tables can be searched by now. Every function here
 * returns at once: -EAGAIN means that the thread was asked, and that a later call may know. namer__tick() takes what
 * the thread has finished. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/blocking.h"
#include "base/thread.h"
#include "codemap/internal.h"

/* --- life --- */

/* libdebuginfod keeps what it downloaded in the home of its user, which an engine may not have. */
static bool downloads_on(void)
{
	const char *urls = getenv("DEBUGINFOD_URLS"), *home = getenv("HOME");
	char path[64];
	struct stat stat;

	if (!urls || !*urls)
		return false;
	if (getenv("DEBUGINFOD_CACHE_PATH") || getenv("XDG_CACHE_HOME") || (home && !access(home, W_OK)))
		return true;
	snprintf(path, sizeof(path), "/tmp/cprofd-debuginfod-%u", (unsigned)geteuid());
	/* Anybody may have made it, or a link in its place. */
	if ((mkdir(path, 0700) && errno != EEXIST) || lstat(path, &stat) || !S_ISDIR(stat.st_mode) ||
	    stat.st_uid != geteuid() || stat.st_mode & 0077)
		return false;
	return !setenv("DEBUGINFOD_CACHE_PATH", path, 1);
}

int namer__new(int folder, struct namer **ret)
{
	struct namer *namer = calloc(1, sizeof(*namer));
	int err;

	if (!namer)
		return -ENOMEM;
	pthread_mutex_init(&namer->lock, NULL);
	thread__init_condition(&namer->wake);
	thread__init_condition(&namer->answered);
	namer->answer = -ENOENT;
	namer->folder = folder;
	namer->downloads_on = downloads_on(); /* before there is another thread */
	namer->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	err = namer->event < 0 ? -errno : hash_seed__draw(&namer->seed);
	if (err)
		namer__free(namer, NULL);
	else
		*ret = namer;
	return err;
}

static void free_jobs(struct line_job *job)
{
	while (job) {
		struct line_job *next = job->next;

		free(job->file);
		free(job);
		job = next;
	}
}

static void free_names(struct names *names)
{
	debuginfod_job__free(names->download);
	if (names->work)
		kept_names__store(&names->kept, names->work, names->namer->folder, &names->namer->known, names->module);
	kept_names__free(&names->kept);
	if (names->file != names->work)
		symbol_file__free(names->file);
	symbol_file__free(names->work);
	eval_ranges__free(&names->eval);
	callables__free(&names->callables);
	free_jobs(names->asked);
	free_jobs(names->done);
	if (names->fd >= 0)
		close(names->fd);
	free(names->path);
	free(names->image);
	free(names);
}

/* Runs on a thread of its own (blocking__later()), as joining the namer's may take as long as its file blocks. */
static void destroy(void *context)
{
	struct namer *namer = context;
	struct names *names;

	if (namer->started)
		pthread_join(namer->thread, NULL);
	while ((names = namer->all)) {
		namer->all = names->next;
		free_names(names);
	}
	if (namer->answer >= 0)
		close(namer->answer);
	if (namer->event >= 0)
		close(namer->event);
	line_rows__free(namer);
	known_names__free(&namer->known);
	pthread_cond_destroy(&namer->wake);
	pthread_cond_destroy(&namer->answered);
	pthread_mutex_destroy(&namer->lock);
	free(namer);
}

struct namer *namer__free(struct namer *namer, struct known_names *known)
{
	if (!namer)
		return NULL;
	if (known) {
		namer->known = *known;
		*known = (struct known_names){};
	}
	if (namer->started) {
		pthread_mutex_lock(&namer->lock);
		namer->stop = true;
		pthread_cond_signal(&namer->wake);
		pthread_cond_signal(&namer->answered);
		pthread_mutex_unlock(&namer->lock);
	}
	blocking__later(destroy, namer);
	return NULL;
}

/* --- modules --- */

/* Takes what `given` points to. */
static struct names *add(struct namer *namer, const struct names *given)
{
	struct names *names = malloc(sizeof(*names));

	if (!names || (given->kind == NAMES_FILE && !given->path) || (given->kind == NAMES_IMAGE && !given->image)) {
		if (given->fd >= 0)
			blocking__close(given->fd);
		free(given->path);
		free(given->image);
		free(names);
		return NULL;
	}
	*names = *given;
	names->namer = namer;
	names->number = namer->n_names++;
	names__watch(names);
	pthread_mutex_lock(&namer->lock);
	names->next = namer->all;
	namer->all = names;
	namer->reads = true;
	namer__kick(namer);
	pthread_mutex_unlock(&namer->lock);
	return names;
}

struct names *namer__add_file(struct namer *namer, int fd, const char *path, int32_t pid, uint32_t module)
{
	struct stat stat;

	return add(namer, &(struct names){.kind = NAMES_FILE,
					  .small = !blocking__fstat(fd, &stat) && stat.st_size < NAMER_SMALL_BYTES,
					  .fd = fcntl(fd, F_DUPFD_CLOEXEC, 3),
					  .path = strdup(path),
					  .pid = pid,
					  .module = module});
}

struct names *namer__add_image(struct namer *namer, const void *image, size_t size)
{
	void *copy = malloc(size ? size : 1);

	if (copy)
		memcpy(copy, image, size);
	return add(namer, &(struct names){.kind = NAMES_IMAGE, .fd = -1, .image = copy, .image_size = size});
}

struct names *namer__add_object(struct namer *namer, int mem, uint64_t address, uint64_t size)
{
	/* Of too large a one nothing is read. */
	return add(namer, &(struct names){.kind = NAMES_OBJECT,
					  .fd = fcntl(mem, F_DUPFD_CLOEXEC, 3),
					  .address = address,
					  .image_size = size <= NAMER_IMAGE_MAX ? size : 0});
}

struct names *namer__add_kernel(struct namer *namer)
{
	return add(namer, &(struct names){.kind = NAMES_KERNEL, .fd = -1});
}

/* --- tables --- */

/* Symbols are `names->file` once they are read; until then -EAGAIN. */
const struct symbol_file *names__file(const struct names *names, int *ret_error)
{
	const struct symbol_file *file = NULL;

	pthread_mutex_lock(&names->namer->lock);
	if (names->state == NAMES_READ)
		file = names->file;
	*ret_error = names->state == NAMES_READ ? names->error : -EAGAIN;
	pthread_mutex_unlock(&names->namer->lock);
	return file;
}

/* Small files are read here, by the loop: the namer may be busy with a large file's debug information for seconds,
 * and an extension takes a millisecond. */
const struct callables *names__callables(struct names *names)
{
	int err = 0;

	if (names->small && !names->small_read) {
		names->small_read = true;
		names__read_callables(names);
	} else if (!names->small) {
		names__file(names, &err);
	}
	return err == -EAGAIN ? NULL : &names->callables;
}

int names__eval(struct names *names, const struct eval_ranges **ret)
{
	struct namer *namer = names->namer;
	int err = -EAGAIN;

	*ret = NULL;
	pthread_mutex_lock(&namer->lock);
	if (names->eval_state == EVAL_NONE) {
		names->eval_state = EVAL_WANTED;
		namer__kick(namer);
	}
	if (names->eval_state == EVAL_READ)
		err = names->eval.n ? 0 : -ENOENT;
	pthread_mutex_unlock(&namer->lock);
	if (!err)
		*ret = &names->eval;
	return err;
}

/* Most ticks find nothing and cost one atomic exchange. The thread sets the flag after it has published, and the
 * exchange pairs with that store, so nothing that was published is missed. */
void namer__tick(struct namer *namer)
{
	struct symbol_file *old;
	struct line_job *done, *job;

	if (!__atomic_exchange_n(&namer->answered_some, false, __ATOMIC_ACQUIRE))
		return;
	namer->reads = false;
	for (struct names *names = namer->all; names; names = names->next) { /* which the loop alone changes */
		pthread_mutex_lock(&namer->lock);
		namer->reads |= names->state == NAMES_WAITS;
		done = names->done;
		names->done = NULL;
		old = names->fresh ? names->file : NULL;
		if (names->fresh) {
			names->file = names->fresh;
			names->fresh = NULL;
			names->kept.n = 0;
			namer->news++;
			namer->renewed++;
		}
		namer->changes = namer->news;
		names->lineless = names->no_lines;
		names->settled = names->lines_sought;
		pthread_mutex_unlock(&namer->lock);
		symbol_file__free(old);
		for (job = done; job; job = job->next) {
			line_rows__take(namer, names, job);
			namer->waiting--;
			namer->lines_taken++;
		}
		free_jobs(done);
	}
}

void codemap__hurry(struct codemap *self)
{
	struct namer *namer = self ? self->namer : NULL;

	if (!namer)
		return;
	pthread_mutex_lock(&namer->lock);
	if (!namer->hurry && namer->started) {
		namer->hurry = true;
		namer__kick(namer);
	}
	pthread_mutex_unlock(&namer->lock);
}

/* --- files --- */

bool codemap__question(struct codemap *self, int32_t *ret_pid, const char **ret_path)
{
	struct namer *namer = self->namer;
	uint64_t count;
	bool asked;

	(void)!read(namer->event, &count, sizeof(count));
	pthread_mutex_lock(&namer->lock);
	asked = namer->question_state == QUESTION_NEW;
	if (asked)
		namer->question_state = QUESTION_GIVEN;
	pthread_mutex_unlock(&namer->lock);
	*ret_pid = namer->question_pid;
	*ret_path = namer->question;
	return asked;
}

void codemap__answer(struct codemap *self, int fd)
{
	struct namer *namer = self->namer;

	pthread_mutex_lock(&namer->lock);
	if (namer->question_state == QUESTION_GIVEN) {
		namer->answer = fd;
		namer->question_state = QUESTION_ANSWERED;
		pthread_cond_signal(&namer->answered);
		fd = -1;
	}
	pthread_mutex_unlock(&namer->lock);
	if (fd >= 0)
		blocking__close(fd);
}
