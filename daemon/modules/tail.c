/* SPDX-License-Identifier: MIT */
/* One thread, one read at a time. The caller waits for it on a condition, with a time limit; a result that comes too
 * late is kept, and returned when the same read is requested again. */
#include "modules/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/thread.h"

struct tail {
	pthread_mutex_t lock;
	pthread_cond_t asked, answered;
	bool busy, left; /* left: nobody waits any more, and the thread frees all */
	/* The answer (or what will be one) was not fetched by tail__read() yet. */
	bool untaken;
	/* A copy, closed by the thread: the caller may close its own while a read hangs. */
	int fd;
	uint64_t key, offset;
	struct tail_piece piece;
	int error;
	char bytes[TAIL_PIECE];
};

static void destroy(struct tail *tail)
{
	pthread_cond_destroy(&tail->asked);
	pthread_cond_destroy(&tail->answered);
	pthread_mutex_destroy(&tail->lock);
	free(tail);
}

/* Runs in the thread, without the lock: fstat() and pread() may never return. */
static int read_piece(struct tail *tail)
{
	uint64_t begun = clock__now();
	struct stat stat;
	ssize_t n;

	if (fstat(tail->fd, &stat))
		return -errno;
	tail->piece = (struct tail_piece){.bytes = tail->bytes,
					  .begun = begun,
					  .size = (uint64_t)stat.st_size,
					  .links = stat.st_nlink};
	if (tail->offset >= tail->piece.size)
		return 0;
	n = pread(tail->fd, tail->bytes, sizeof(tail->bytes), (off_t)tail->offset);
	if (n < 0)
		return -errno;
	tail->piece.n = (size_t)n;
	return 0;
}

/* The lock is not held while it reads. */
static void *work(void *arg)
{
	struct tail *tail = arg;
	int err;

	pthread_mutex_lock(&tail->lock);
	while (!tail->left) {
		if (!tail->busy) {
			pthread_cond_wait(&tail->asked, &tail->lock);
			continue;
		}
		pthread_mutex_unlock(&tail->lock);
		err = read_piece(tail);
		close(tail->fd);
		pthread_mutex_lock(&tail->lock);
		tail->error = err;
		tail->busy = false;
		pthread_cond_signal(&tail->answered);
	}
	pthread_mutex_unlock(&tail->lock);
	destroy(tail);
	return NULL;
}

int tail__new(struct tail **ret)
{
	struct tail *tail = calloc(1, sizeof(*tail));
	int err;

	if (!tail)
		return -ENOMEM;
	pthread_mutex_init(&tail->lock, NULL);
	pthread_cond_init(&tail->asked, NULL);
	thread__init_condition(&tail->answered);
	err = thread__start_detached(work, tail);
	if (err) {
		destroy(tail);
		return err;
	}
	*ret = tail;
	return 0;
}

/* The thread frees everything, whenever its read returns; nobody waits for it. */
void tail__free(struct tail *tail)
{
	if (!tail)
		return;
	pthread_mutex_lock(&tail->lock);
	tail->left = true;
	pthread_cond_signal(&tail->asked);
	pthread_mutex_unlock(&tail->lock);
}

/* 0 when it is answered. With the lock. */
static int ask(struct tail *tail, uint64_t key, int fd, uint64_t offset)
{
	struct timespec until;
	int err = 0;

	tail->fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	if (tail->fd < 0)
		return -errno;
	tail->key = key;
	tail->offset = offset;
	tail->busy = tail->untaken = true;
	pthread_cond_signal(&tail->asked);
	until = clock__until(clock__now() + TAIL_WAIT_MS * 1000000ull);
	while (tail->busy && !err)
		err = pthread_cond_timedwait(&tail->answered, &tail->lock, &until);
	return tail->busy ? -EAGAIN : 0;
}

int tail__read(struct tail *tail, uint64_t key, int fd, uint64_t offset, struct tail_piece *ret)
{
	int err = 0;

	pthread_mutex_lock(&tail->lock);
	if (tail->busy)
		err = -EAGAIN;
	else if (!tail->untaken || tail->key != key || tail->offset != offset)
		err = ask(tail, key, fd, offset);
	if (!err) {
		tail->untaken = false;
		*ret = tail->piece;
		err = tail->error;
	}
	pthread_mutex_unlock(&tail->lock);
	return err;
}
