/* SPDX-License-Identifier: MIT */
/* Which file this is, as far as the kernel tells: what was made of its bytes may be kept from session to session under this
 * key. Who writes to the file moves its change time; nothing is kept of FUSE, where a program of some user says what it is.
 * Threads: any. */
#ifndef CPROFD_FILE_IDENTITY_H
#define CPROFD_FILE_IDENTITY_H

#include <stdint.h>

struct file_identity {
	uint64_t device, inode, size;
	uint64_t modified, changed; /* ns since the epoch */
};

int file_identity__of(int fd, struct file_identity *ret); /* -EPERM: of FUSE; -errno */

#endif
