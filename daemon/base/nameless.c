/* SPDX-License-Identifier: MIT */
#include "base/nameless.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/cleanup.h"

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

int temporary__open(int *ret_fd)
{
	const char *const folders[] = {getenv("TMPDIR"), "/var/tmp", "/tmp"};
	int err = -ENOENT;

	for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++) {
		_cleanup_close_ int folder = folders[i] && *folders[i] ? open(folders[i], O_PATH | O_DIRECTORY | O_CLOEXEC) : -1;

		if (folder < 0)
			continue;
		*ret_fd = err = nameless__open(folder);
		if (err >= 0)
			return 0;
	}
	return err;
}
