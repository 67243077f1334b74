/* Files that are kept from session to session in a folder that this process alone may write to. Written beside and renamed, so
 * that a reader finds a whole one or none; read, never mapped; believed when size and checksum agree, which guards against
 * damage, not against forgery. Names end in KEPT_SUFFIX; who keeps many trims the folder (unwind/cache.c).
 *
 * Errors: -errno; -EBADMSG: it was damaged, and is gone now. Threads: any. */
#ifndef CPROFD_KEPT_H
#define CPROFD_KEPT_H

#include <stddef.h>

#define KEPT_SUFFIX ".kept"

/* *ret is the caller's. -EFBIG: more than `max` bytes. */
int kept__load(int folder, const char *name, size_t max, void **ret, size_t *ret_len);
int kept__store(int folder, const char *name, const void *data, size_t len);

#endif
