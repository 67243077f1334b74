/* SPDX-License-Identifier: MIT */
/* Files that are kept from session to session in a folder that this process alone may write to. Written beside and renamed, so
 * that a reader finds a whole one or none; read, never mapped; believed when size and checksum agree, which guards against
 * damage, not against forgery. Names end in KEPT_SUFFIX; who keeps many trims the folder (unwind/cache.c).
 *
 * Errors: -errno; -EBADMSG: it was damaged, and is gone now. Threads: any. */
#ifndef CPROFD_KEPT_H
#define CPROFD_KEPT_H

#include <stddef.h>

#include "base/buf.h"
#include "base/file_identity.h"

#define KEPT_SUFFIX ".kept"

/* *ret is the caller's. -EFBIG: more than `max` bytes. */
int kept__load(int folder, const char *name, size_t max, void **ret, size_t *ret_len);
int kept__store(int folder, const char *name, const void *data, size_t len);

/* --- what was made of the bytes of one file, or of two --- */

struct kept_key {
	struct file_identity file, other; /* other: zeros where there is none */
};
int kept_key__of(int fd, int other, struct kept_key *ret); /* other < 0: none. As file_identity__of() */

struct kept_data {
	void *bytes; /* the caller's */
	const char *data;
	size_t len;
};
/* `kind` begins the name. The key is in what is kept, so that a name that two share does no harm. folder < 0: -ENOENT. */
int kept__find(int folder, const char *kind, const struct kept_key *key, size_t max, struct kept_data *ret);
/* Likewise, and what `unpack` makes of it in `ret`, which may be left half made by an error. */
typedef int kept_unpack(void *ret, const char *data, size_t len);
int kept__unpack(int folder, const char *kind, const struct kept_key *key, size_t max, kept_unpack *unpack, void *ret);
int kept__put(int folder, const char *kind, const struct kept_key *key, const struct buf *data);

#endif
