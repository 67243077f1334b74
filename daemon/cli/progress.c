/* SPDX-License-Identifier: MIT */
/* How far a recording was read, for who waits at a terminal:
 *
 *     svd.cprof: 42 % read
 *     svd.cprof: 7 % read, pass 2        some formats take several
 *     svd.cprof: read; writing
 *
 * A thread looks at the file's position, so that none of those who read know of it. */
#include "cli/progress.h"

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/cli.h"

#define FIRST_NS 1000000000ull /* what is over by then shows nothing */
#define EACH_NS 300000000ull

static void print(struct progress *progress)
{
	off_t at = lseek(progress->fd, 0, SEEK_CUR);
	int share = (int)(100 * at / progress->size);

	progress->pass += at < progress->last;
	progress->last = at;
	if (at < progress->size && progress->pass > 1)
		say__progress("%s: %d %% read, pass %u", progress->name, share, progress->pass);
	else if (at < progress->size)
		say__progress("%s: %d %% read", progress->name, share);
	else
		say__progress("%s: read; writing", progress->name);
}

static void *show(void *of)
{
	struct progress *progress = of;
	uint64_t next = progress->begun + FIRST_NS;

	pthread_mutex_lock(&progress->lock);
	while (!progress->ended) {
		const struct timespec until = {(time_t)(next / 1000000000), (long)(next % 1000000000)};

		if (!pthread_cond_clockwait(&progress->end, &progress->lock, CLOCK_MONOTONIC, &until))
			continue;
		print(progress);
		next += EACH_NS;
	}
	pthread_mutex_unlock(&progress->lock);
	return NULL;
}

void progress__begin(struct progress *progress, int fd, const char *path)
{
	struct stat status;

	*progress = (struct progress){.fd = fd, .name = basename(path), .begun = clock__now(), .pass = 1, .lock = PTHREAD_MUTEX_INITIALIZER, .end = PTHREAD_COND_INITIALIZER};
	if (!say__shows_progress() || fstat(fd, &status) || !S_ISREG(status.st_mode) || !status.st_size)
		return;
	progress->size = status.st_size;
	progress->shown = !pthread_create(&progress->thread, NULL, show, progress);
}

void progress__end(struct progress *progress)
{
	if (!progress->shown)
		return;
	pthread_mutex_lock(&progress->lock);
	progress->ended = true;
	pthread_cond_signal(&progress->end);
	pthread_mutex_unlock(&progress->lock);
	pthread_join(progress->thread, NULL);
	say__clear_progress();
}
