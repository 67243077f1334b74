/* SPDX-License-Identifier: MIT */
/* Where unwind tables are kept from session to session: what the broker made for this engine; of a
 * broker that is not root, whose engine runs as the same user, $XDG_CACHE_HOME or ~/.cache (XDG
 * Base Directory Specification). It has to be a folder that this user alone may write to. */
#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "broker/privileges.h"
#include "serve/engine.h"

#define DIRECTORY (O_RDONLY | O_DIRECTORY | O_CLOEXEC)

static bool is_own(int fd)
{
	struct stat stat;

	return fd >= 0 && !fstat(fd, &stat) && S_ISDIR(stat.st_mode) && stat.st_uid == geteuid() &&
	       !(stat.st_mode & 022);
}

/* A folder of ours in `directory`, made if it is not there. */
static int enter(int directory, const char *name)
{
	_cleanup_close_ int fd = -1;

	if (directory < 0 || (mkdirat(directory, name, 0700) && errno != EEXIST))
		return -1;
	fd = openat(directory, name, DIRECTORY | O_NOFOLLOW);
	return is_own(fd) ? take_fd(&fd) : -1;
}

static int open_home(void)
{
	const char *given = getenv("XDG_CACHE_HOME");
	const struct passwd *entry = getpwuid(geteuid());
	_cleanup_close_ int home = -1;

	if (given && *given == '/') {
		home = open(given, DIRECTORY);
		return is_own(home) ? take_fd(&home) : -1;
	}
	home = entry ? open(entry->pw_dir, DIRECTORY) : -1;
	return is_own(home) ? enter(home, ".cache") : -1;
}

static int open_cache(void)
{
	_cleanup_close_ int home = -1;

	if (is_own(BROKER_CACHE_FD))
		return fcntl(BROKER_CACHE_FD, F_DUPFD_CLOEXEC, 3);
	if (geteuid() == PRIVILEGES_NOBODY || geteuid() == privileges__engine_of_root())
		return -1;
	home = open_home();
	return enter(home, "cprofd");
}

int cache_dir__fd(void)
{
	static bool polled;
	static int fd = -1;

	if (!polled)
		fd = open_cache();
	polled = true;
	return fd;
}
