/* SPDX-License-Identifier: MIT */
/* The identity of a file as the kernel reports it: the key of caches of what was made from its bytes. Writing to the
 * file changes its change time (ctime), which users cannot set. Files on FUSE are never cached: there a user's program
 * chooses all of this. Threads: any. */
#pragma once

#include <stdint.h>

struct file_identity {
	uint64_t device, inode, size;
	uint64_t modified, changed; /* ns since the epoch */
};

int file_identity__of(int fd, struct file_identity *ret); /* -EPERM: on FUSE; -errno */
