/* SPDX-License-Identifier: MIT */
/* Each folder on the way is opened below the one before it (openat, no link is followed) and checked by its
 * descriptor, so that nobody can put another in its place between check and use. */
#include "broker/cache.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"

#define DIRECTORY (O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW)
#define PLACE "/var/cache/cprofd"

/* A folder of `uid` in which `forbidden` bits are not set. */
static int open_own(int parent, const char *name, uid_t uid, mode_t forbidden)
{
	_cleanup_close_ int fd = openat(parent, name, DIRECTORY);
	struct stat stat;

	if (fd < 0 || fstat(fd, &stat))
		return -errno;
	return stat.st_uid == uid && !(stat.st_mode & forbidden) ? take_fd(&fd) : -EPERM;
}

/* ... of root's; made if it is not there. */
static int enter(int parent, const char *name, mode_t mode, mode_t forbidden)
{
	return mkdirat(parent, name, mode) && errno != EEXIST ? -errno : open_own(parent, name, 0, forbidden);
}

/* Makes it as its owner, which takes no CAP_CHOWN. `parent` is root's, and the group root may write there meanwhile. */
static void make_as(int parent, const char *name, uid_t uid)
{
	if (!faccessat(parent, name, F_OK, 0) || fchmod(parent, 0730))
		return;
	if (!seteuid(uid)) {
		mkdirat(parent, name, 0700);
		/* Real and saved uid are root's still. */
		if (seteuid(0))
			_exit(126);
	}
	fchmod(parent, 0700);
}

int cache__open(uid_t client, uid_t engine)
{
	const char *given = getenv("CACHE_DIRECTORY"); /* systemd's */
	_cleanup_close_ int place = -1, own = -1;
	char name[32];

	if (geteuid())
		return -EPERM;
	place = enter(AT_FDCWD, given && *given == '/' ? given : PLACE, 0755, 022);
	if (place < 0)
		return place;
	snprintf(name, sizeof(name), "%u", (unsigned)client);
	own = enter(place, name, 0700, 007); /* make_as() may have been killed */
	/* Root's engine may be another user than it was. */
	snprintf(name, sizeof(name), client == engine ? "tables" : "tables-%u", (unsigned)engine);
	if (own < 0)
		return own;
	make_as(own, name, engine);
	return open_own(own, name, engine, 077);
}
