/* SPDX-License-Identifier: MIT */
/* Reads and writes that go on until all is done: a pipe gives and takes a part, and a signal interrupts. For files
 * that do not hang (those that may: blocking.h). Errors: -errno. */
#pragma once

#include <errno.h>
#include <fcntl.h>
#include <sys/types.h>

#include "base/cleanup.h"

/* Returns how many bytes were read: fewer than `len` at the end of the file alone. */
static inline ssize_t file__read(int fd, void *data, size_t len)
{
	size_t done = 0;

	while (done < len) {
		ssize_t got = read(fd, (char *)data + done, len - done);

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return got < 0 ? -errno : (ssize_t)done;
		done += (size_t)got;
	}
	return (ssize_t)done;
}

/* From *done on, which goes on with what was written: after an error it says from where to try again. */
static inline int file__write_rest(int fd, const void *data, size_t len, size_t *done)
{
	while (*done < len) {
		ssize_t put = write(fd, (const char *)data + *done, len - *done);

		if (put < 0 && errno == EINTR)
			continue;
		if (put <= 0)
			return put < 0 ? -errno : -EIO;
		*done += (size_t)put;
	}
	return 0;
}

static inline int file__write(int fd, const void *data, size_t len)
{
	size_t done = 0;

	return file__write_rest(fd, data, len, &done);
}

/* What a small file has, as text with a NUL. Returns its length. */
static inline ssize_t file__text(const char *path, char *text, size_t size)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t len = fd < 0 ? -errno : file__read(fd, text, size - 1);

	text[len > 0 ? len : 0] = '\0';
	return len;
}
