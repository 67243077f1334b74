/* SPDX-License-Identifier: MIT */
/* Kept files: a cache on disk, from session to session, in a directory to which only this process may write. Files are
 * written under a temporary name and renamed, so that a reader finds a complete file or none. They are read, never
 * mapped, and used if size and checksum are right; that protects from damage, not from forgery. Names end in
 * KEPT_SUFFIX; unwind/cache.c trims the directory.
 *
 * Errors: -errno; -EBADMSG: the file was damaged and is removed. Threads: any. */
#pragma once

#include <sys/uio.h>

#include "base/buf.h"
#include "base/file_identity.h"

#define KEPT_SUFFIX ".kept"

/* For a format of its own: a descriptor to read from; what to do when it was read with this result, which is returned
 * (damaged: removed; else it was used now); the file anew, of two parts. */
int kept__open(int folder, const char *name);
int kept__was_read(int folder, const char *name, int fd, int err);
int kept__write(int folder, const char *name, const struct iovec parts[2]);
/* The same for a file that is made part by part: it is appended to `fd`. The end closes it; the file gets its name if
 * `err` is 0, or else is removed. Returns err, or why it has no name. */
struct kept_new {
	int fd;
	char name[40]; /* until it is complete */
};
int kept__begin(int folder, struct kept_new *ret);
int kept__append(int fd, const void *data, size_t len);
int kept__end(int folder, struct kept_new *file, const char *name, int err);

/* --- data made from the bytes of one file, or of two --- */

struct kept_key {
	struct file_identity file, other; /* other: zeros if there is none */
};
int kept_key__of(int fd, int other, struct kept_key *ret); /* other < 0: none. As file_identity__of() */
#define KEPT_NAME_MAX 64u
void kept__name(const char *kind, const struct kept_key *key, char name[KEPT_NAME_MAX]);

struct kept_data {
	void *bytes; /* the caller's */
	const char *data;
	size_t len;
};
/* The file name is `kind` and a hash of the key. The file contains the key, so a collision of hashes does no harm.
 * folder < 0: -ENOENT. */
int kept__find(int folder, const char *kind, const struct kept_key *key, size_t max, struct kept_data *ret);
/* The same, then calls `unpack` on the data; after an error *ret may be half filled. */
typedef int kept_unpack(void *ret, const char *data, size_t len);
int kept__unpack(int folder, const char *kind, const struct kept_key *key, size_t max, kept_unpack *unpack, void *ret);
int kept__put(int folder, const char *kind, const struct kept_key *key, const struct buf *data);
