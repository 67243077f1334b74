/* SPDX-License-Identifier: MIT */
/* A session's recording in a compressed file without a name: it is gone with its last descriptor, even if the engine is
 * killed. It holds the lines of the stream (docs/protocol.md, Recordings) in zstd frames; a snapshot is a copy of its
 * beginning. */
#include "serve/spool.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/nameless.h"
#include "serve/engine.h"

struct spool {
	int fd;
	int error;
	uint64_t flushed;
	struct recording_writer *writer;
};

/* The first directory that this user may write in; NULL: none. access() checks the real uid, which an engine has in
 * common with its effective one. */
static const char *folder(void)
{
	const char *folders[] = {getenv("XDG_RUNTIME_DIR"), getenv("TMPDIR"), "/var/tmp", "/tmp"};

	for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++)
		if (folders[i] && folders[i][0] == '/' && !access(folders[i], W_OK | X_OK))
			return folders[i];
	return NULL;
}

int spool__directory(void)
{
	const char *path = folder();

	return path ? open(path, O_PATH | O_DIRECTORY | O_CLOEXEC) : -1;
}

/* Where none of them may be written (a daemon whose service gives it no /tmp of its own): beside the unwind tables. */
static int open_file(void)
{
	static int chosen = -1;

	/* Chosen once. The environment does not change, so it is the directory that the sandbox allows (engine.c,
	 * limit()). */
	if (chosen < 0)
		chosen = spool__directory();
	if (chosen >= 0)
		return nameless__open(chosen);
	return cache_dir__fd() >= 0 ? nameless__open(cache_dir__fd()) : -EROFS;
}

int spool__new(struct spool **ret)
{
	_cleanup_free_ struct spool *spool = calloc(1, sizeof(*spool));
	int err;

	if (!spool)
		return -ENOMEM;
	spool->fd = open_file();
	if (spool->fd < 0)
		return spool->fd;
	err = recording_writer__new(spool->fd, true, &spool->writer);
	if (err) {
		close(spool->fd);
		return err;
	}
	*ret = take_ptr(spool);
	return 0;
}

void spool__free(struct spool *spool)
{
	if (!spool)
		return;
	recording_writer__free(spool->writer);
	close(spool->fd);
	free(spool);
}

int spool__lines(struct spool *spool, const char *lines, size_t len)
{
	if (!spool->error)
		spool->error = recording_writer__lines(spool->writer, lines, len);
	return spool->error;
}

/* On an error *ret_len is the length at the last good flush: up to there whole frames were written. */
int spool__flush(struct spool *spool, uint64_t *ret_len)
{
	struct stat stat;

	if (!spool->error)
		spool->error = recording_writer__flush(spool->writer);
	if (!spool->error && fstat(spool->fd, &stat) < 0)
		spool->error = -errno;
	if (!spool->error)
		spool->flushed = (uint64_t)stat.st_size;
	*ret_len = spool->flushed;
	return spool->error;
}

int spool__fd(const struct spool *spool)
{
	return spool->fd;
}

int spool__error(const struct spool *spool)
{
	return spool->error;
}
