/* SPDX-License-Identifier: MIT */
#include "base/nameless.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/random.h>
#include <unistd.h>

/* Where O_TMPFILE is not supported (overlay, NFS), it is made with a random name, exclusively, and unlinked at once. */
int nameless__open(int folder)
{
	int fd = openat(folder, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600), attempt;
	char name[64];

	if (fd >= 0)
		return fd;
	if (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL)
		return -errno;
	for (attempt = 0; attempt < 16; attempt++) {
		uint64_t random;

		if (getrandom(&random, sizeof(random), 0) != sizeof(random))
			return -errno;
		snprintf(name, sizeof(name), "cprofd-%016" PRIx64, random);
		fd = openat(folder, name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
		if (fd >= 0)
			unlinkat(folder, name, 0);
		if (fd >= 0 || errno != EEXIST)
			return fd < 0 ? -errno : fd;
	}
	return -EEXIST;
}
