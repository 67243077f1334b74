/* SPDX-License-Identifier: MIT */
/* A search path of three candidates, each checked by its open descriptor (owner, mode), never by its name again:
 * execveat(2) runs what was checked. */
#include "broker/program.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "base/cleanup.h"

#define SELF "/proc/self/exe"
#define PROGRAM_FD_MIN 16 /* above the descriptors that an engine starts with */

/* O_NOFOLLOW and the check of the mode: nobody but root or this program's owner can have put it there. */
static int try_open(const char *folder, const char *place, const struct stat *own)
{
	_cleanup_close_ int fd = -1;
	char path[PATH_MAX];
	struct stat found;

	if (snprintf(path, sizeof(path), "%s/%s" PROGRAM_ENGINE, folder, place) >= (int)sizeof(path))
		return -ENAMETOOLONG;
	fd = open(path, O_PATH | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0 || fstat(fd, &found))
		return -errno;
	if (!S_ISREG(found.st_mode) || (found.st_uid && found.st_uid != own->st_uid) || found.st_mode & 022)
		return -EPERM;
	return take_fd(&fd);
}

/* A test, or a build tree, has no engine beside it: then this program is it, under the other name. */
int program__open(int *ret)
{
	_cleanup_close_ int self = open(SELF, O_PATH | O_CLOEXEC);
	char folder[PATH_MAX], *slash;
	struct stat own;
	ssize_t len;
	int fd = -ENOENT;

	if (self < 0 || fstat(self, &own))
		return -errno;
	len = readlink(SELF, folder, sizeof(folder) - 1);
	folder[len > 0 ? len : 0] = 0;
	slash = strrchr(folder, '/');
	if (slash) {
		*slash = 0;
		fd = try_open(folder, "", &own);
		if (fd < 0)
			fd = try_open(folder, "../libexec/cprofd/", &own);
	}
	if (fd < 0)
		fd = take_fd(&self);
	/* Move it away from the descriptors that an engine starts with. */
	*ret = fcntl(fd, F_DUPFD_CLOEXEC, PROGRAM_FD_MIN);
	close(fd);
	return *ret < 0 ? -errno : 0;
}

int program__execute(int fd)
{
	char *arguments[] = {PROGRAM_ENGINE, CPROFD_VERSION, NULL};

	syscall(SYS_execveat, fd, "", arguments, environ, AT_EMPTY_PATH);
	return -errno;
}
