/* SPDX-License-Identifier: MIT */
/* Where unwind tables are kept from session to session. The broker makes a directory for each engine and passes it as
 * descriptor BROKER_CACHE_FD. A broker that is not root makes none: its engine runs as the same user, and uses
 * $XDG_CACHE_HOME/cprofd or ~/.cache/cprofd (XDG Base Directory Specification).
 *
 * A table from there is used without being built again, so nobody else may be able to put one there: the directory has
 * to belong to this user and be writable by this user alone. */
#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "broker/privileges.h"
#include "serve/engine.h"

#define DIRECTORY (O_RDONLY | O_DIRECTORY | O_CLOEXEC)

/* Of an open descriptor, not of a path: what was checked is what is used. */
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

/* A home directory of another user is not used: under sudo, XDG_CACHE_HOME can be the caller's. */
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
	/* Root's engine runs as one of these users. Other programs may run as nobody, so a directory in its home would
	 * prove nothing. */
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
