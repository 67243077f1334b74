/* SPDX-License-Identifier: MIT */
/* Device, inode, size, times. FUSE may say anything of these, so its files have no identity. */
#include "base/file_identity.h"

#include <errno.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>

static uint64_t nanoseconds(const struct timespec *time)
{
	return (uint64_t)time->tv_sec * 1000000000u + (uint64_t)time->tv_nsec;
}

int file_identity__of(int fd, struct file_identity *ret)
{
	struct statfs system;
	struct stat stat;

	if (fstat(fd, &stat) || fstatfs(fd, &system))
		return -errno;
	if (system.f_type == FUSE_SUPER_MAGIC)
		return -EPERM;
	*ret = (struct file_identity){(uint64_t)stat.st_dev, (uint64_t)stat.st_ino, (uint64_t)stat.st_size,
				      nanoseconds(&stat.st_mtim), nanoseconds(&stat.st_ctim)};
	return 0;
}
