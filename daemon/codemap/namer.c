/* SPDX-License-Identifier: MIT */
/* The namer's thread: one loop (work()) that takes the most urgent job, does it without the lock, and publishes the
 * result under it. Order of urgency: where the eval loop lies, symbols, downloads, lines. Beside it: namer_lines.c,
 * lines; namer_ask.c, the loop's side.
 *
 * The thread has no right to open files: open_debug() asks the engine's loop, which asks the broker. So the loop
 * must never wait for this thread, or both would wait for ever. */
#include <errno.h>
#include <malloc.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/schedule.h"
#include "base/thread.h"
#include "codemap/namer.h"
#include "symbols/relocate.h"

static struct timespec after(uint64_t ns)
{
	return clock__until(clock__now() + ns);
}

void namer__notify(struct namer *namer)
{
	__atomic_store_n(&namer->answered_some, true, __ATOMIC_RELEASE);
}

/* --- files that only the broker can open --- */

static bool is_absent(const struct namer *namer, int32_t pid, const char *path, size_t len)
{
	for (uint32_t i = 0; i < namer->n_absent; i++)
		if (namer->absent[i].pid == pid && strlen(namer->absent[i].branch) == len &&
		    !memcmp(namer->absent[i].branch, path, len))
			return true;
	return false;
}

/* In the thread: asks the loop, and waits. One question at a time. A question that is not answered in time may be
 * answered later; as that answer could not be distinguished from the next one's, no more questions are asked then. */
static int ask(struct namer *namer, int32_t pid, const char *path)
{
	struct timespec until = after(SCHEDULE_ANSWER_NS);
	uint64_t one = 1;
	int fd;

	pthread_mutex_lock(&namer->lock);
	if (namer->stop || namer->question_lost) {
		pthread_mutex_unlock(&namer->lock);
		return -ECANCELED;
	}
	namer->question_pid = pid;
	snprintf(namer->question, sizeof(namer->question), "%s", path);
	namer->question_state = QUESTION_NEW;
	if (write(namer->event, &one, sizeof(one)) != sizeof(one))
		namer->question_lost = true; /* cannot be: an eventfd that is read takes it */
	while (!namer->stop && namer->question_state != QUESTION_ANSWERED)
		if (pthread_cond_timedwait(&namer->answered, &namer->lock, &until))
			break;
	fd = namer->question_state == QUESTION_ANSWERED ? namer->answer : -ETIMEDOUT;
	/* A late answer would be taken for that of the next question. */
	namer->question_lost |= namer->question_state != QUESTION_ANSWERED;
	namer->question_state = QUESTION_NONE;
	namer->answer = -ENOENT;
	pthread_mutex_unlock(&namer->lock);
	return fd;
}

/* The opener that symbols/ calls for debug files. Whether "/usr/lib/debug/.build-id/" exists at all is remembered
 * for each process: most systems have no debug files, and each question is a round trip through two processes. */
static int open_debug(void *context, const char *path)
{
	static const char root[] = "/usr/lib/debug/";
	struct names *names = context;
	struct namer *namer = names->namer;
	size_t len;
	int fd;

	if (strncmp(path, root, sizeof(root) - 1) || strlen(path) >= sizeof(namer->question))
		return -ENOENT;
	path += sizeof(root) - 1;
	path += strspn(path, "/");
	len = strcspn(path, "/");
	if (len >= sizeof(namer->absent[0].branch) || is_absent(namer, names->pid, path, len))
		return -ENOENT;
	fd = ask(namer, names->pid, path);
	if (fd == -ENODEV && namer->n_absent < ABSENT_MAX) {
		namer->absent[namer->n_absent].pid = names->pid;
		memcpy(namer->absent[namer->n_absent++].branch, path, len);
	}
	return fd;
}

void names__watch(struct names *names)
{
	names->opener = (struct symbol_opener){open_debug, names, names->namer->folder};
}

/* --- a module --- */

static int open_file(struct names *names)
{
	int fd = fcntl(names->fd, F_DUPFD_CLOEXEC, 3), err;

	if (fd < 0)
		return -errno;
	err = symbol_file__open(fd, names->path, &names->opener, &names->work);
	if (err)
		close(fd);
	return err;
}

static int open_object(struct names *names)
{
	_cleanup_free_ uint8_t *image = malloc(names->image_size + 1);
	ssize_t got;
	int err;

	if (!image || !names->image_size)
		return image ? -EFBIG : -ENOMEM;
	got = pread(names->fd, image, names->image_size, (off_t)names->address);
	close(names->fd);
	names->fd = -1;
	if (got != (ssize_t)names->image_size)
		return -ENOENT;
	err = elf_relocate_debug(image, names->image_size);
	return err ? err : symbol_file__open_memory(image, names->image_size, &names->work);
}

static int open_kernel(struct names *names)
{
	_cleanup_close_ int fd = ask(names->namer, 0, NAMER_KALLSYMS);

	return fd < 0 ? fd : symbol_file__open_kallsyms(fd, &names->work);
}

static int open_symbols(struct names *names)
{
	switch (names->kind) {
	case NAMES_FILE:
		return open_file(names);
	case NAMES_IMAGE:
		return symbol_file__open_memory(names->image, names->image_size, &names->work);
	case NAMES_OBJECT:
		return open_object(names);
	case NAMES_KERNEL:
		return open_kernel(names);
	}
	return -ENOENT;
}

void names__read_callables(struct names *names)
{
	if (names->kind == NAMES_FILE)
		callables__open(names->fd, names->namer->folder, &names->callables);
}

/* Opens it, and hands it to the loop. */
static void read_symbols(struct namer *namer, struct names *names)
{
	int err = open_symbols(names);

	if (!err && names->kind == NAMES_FILE) {
		kept_names__open(names->work, namer->folder, &names->kept);
		download__want(names, false);
	}
	if (!names->small)
		names__read_callables(names);
	pthread_mutex_lock(&namer->lock);
	names->file = err ? NULL : names->work;
	names->error = err == -EAGAIN ? -EIO : err;
	names->state = NAMES_READ;
	namer->news++;
	namer__notify(namer);
	pthread_mutex_unlock(&namer->lock);
}

static void read_eval(struct namer *namer, struct names *names)
{
	struct eval_ranges eval = {};

	if (names->work && names->kind == NAMES_FILE)
		eval_ranges__open(names->fd, names->work, namer->folder, &eval);
	pthread_mutex_lock(&namer->lock);
	names->eval = eval;
	names->eval_state = EVAL_READ;
	namer->news++;
	namer__notify(namer);
	pthread_mutex_unlock(&namer->lock);
}

/* --- downloads --- */

void download__want(struct names *names, bool lines)
{
	struct namer *namer = names->namer;
	struct symbol_stats stats;

	if (!namer->downloads_on || names->download_state != DOWNLOAD_NONE)
		return;
	symbol_file__stats(names->work, &stats);
	if (lines || (!stats.symbols[SYMBOL_FROM_SYMTAB] && !stats.symbols[SYMBOL_FROM_DEBUG_FILE]))
		names->download_state = DOWNLOAD_WANTED;
}

/* A debug file came from debuginfod. The loop may be searching the old symbols, so a second symbol_file is opened
 * with it, and takes the old one's place at the loop's next tick, which frees the old one. */
static void install(struct namer *namer, struct names *names, int fd)
{
	struct symbol_file *old = names->work;
	int err = open_file(names);

	err = err ?: symbol_file__add_debug_file(names->work, fd);
	if (err) {
		close(fd);
		if (names->work != old)
			symbol_file__free(names->work);
		names->work = old;
		return;
	}
	pthread_mutex_lock(&namer->lock);
	names->fresh = names->work; /* the loop may be looking into the old one */
	namer__notify(namer);
	pthread_mutex_unlock(&namer->lock);
}

/* Starts and ends downloads. True: some run. */
static bool poll_downloads(struct namer *namer, struct names *names)
{
	unsigned running = 0;
	const uint8_t *id;
	size_t len;
	int fd;

	if (!namer->downloads_on)
		return false;
	for (struct names *n = names; n; n = n->next) {
		if (n->download_state != DOWNLOAD_RUNS)
			continue;
		fd = debuginfod_job__take(n->download);
		if (fd == -EAGAIN) {
			running++;
			continue;
		}
		n->download = debuginfod_job__free(n->download);
		n->download_state = DOWNLOAD_OVER;
		if (fd >= 0)
			install(namer, n, fd);
	}
	for (struct names *n = names; n && running < NAMER_DOWNLOADS; n = n->next) {
		if (n->download_state != DOWNLOAD_WANTED)
			continue;
		len = symbol_file__build_id(n->work, &id);
		n->download_state = DOWNLOAD_OVER;
		if (!len || debuginfod_job__start(id, len, &n->download))
			continue;
		n->download_state = DOWNLOAD_RUNS;
		running++;
	}
	return running;
}

/* --- the loop of the thread --- */

/* An interpreter first: without it no stack can be woven. Oldest first otherwise. */
static struct names *next_names(struct namer *namer, bool *ret_eval)
{
	struct names *names, *found = NULL;

	*ret_eval = false;
	for (names = namer->all; names; names = names->next) {
		if (names->eval_state == EVAL_WANTED) {
			*ret_eval = names->state == NAMES_READ;
			return names;
		}
		if (names->state == NAMES_WAITS)
			found = names;
	}
	return found;
}

/* With the lock held: waits for work, or until `again` (CLOCK_MONOTONIC ns; UINT64_MAX: there is
 * none). */
static void rest(struct namer *namer, uint64_t again)
{
	uint64_t now = clock__now();
	uint64_t ns = again == UINT64_MAX ? SCHEDULE_REST_NS : again > now ? again - now : 0;
	struct timespec until = after(ns < SCHEDULE_REST_NS ? ns : SCHEDULE_REST_NS);

	if (!namer->rested && now - namer->trimmed >= SCHEDULE_TRIM_NS) {
		namer->rested = true;
		namer->trimmed = now;
		pthread_mutex_unlock(&namer->lock);
		malloc_trim(0); /* what symbols and lines took meanwhile */
		pthread_mutex_lock(&namer->lock);
		if (namer->kick || namer->stop)
			return;
	}
	if (again != UINT64_MAX || !namer->rested)
		pthread_cond_timedwait(&namer->wake, &namer->lock, &until);
	else
		pthread_cond_wait(&namer->wake, &namer->lock);
}

/* `kick` says that something was asked for since the list was read; it is checked under the lock before sleeping, so
 * no request is missed. */
static void *work(void *argument)
{
	struct namer *namer = argument;
	uint64_t again;
	bool eval, busy;
	struct names *names, *all;

	pthread_mutex_lock(&namer->lock);
	while (!namer->stop) {
		namer->kick = false;
		all = namer->all; /* new ones come in front, none goes */
		names = next_names(namer, &eval);
		pthread_mutex_unlock(&namer->lock);
		if (names)
			eval ? read_eval(namer, names) : read_symbols(namer, names);
		again = poll_downloads(namer, all) ? clock__now() + SCHEDULE_DOWNLOAD_NS : UINT64_MAX;
		busy = names || lines__work(namer, all, &again);
		pthread_mutex_lock(&namer->lock);
		namer->rested &= !busy;
		if (!busy && !namer->kick && !namer->stop)
			rest(namer, again);
	}
	pthread_mutex_unlock(&namer->lock);
	return NULL;
}

static int start(struct namer *namer)
{
	int err = thread__start(&namer->thread, work, namer);

	namer->started = !err;
	return err;
}

void namer__kick(struct namer *namer)
{
	if (!namer->started && start(namer))
		return; /* nothing will be known: as if all were slow */
	namer->kick = true;
	pthread_cond_signal(&namer->wake);
}
