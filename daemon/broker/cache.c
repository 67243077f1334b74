/* SPDX-License-Identifier: MIT */
/* Each folder on the way is opened below the one before it (openat, no link is followed) and checked by its
 * descriptor, so that nobody can put another in its place between check and use. */
#include "broker/cache.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "base/cleanup.h"

#define DIRECTORY (O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW)
#define CACHE_PATH "/var/cache/cprofd"

/* A directory owned by `uid`, with none of the `forbidden` mode bits. */
static int open_own(int parent, const char *name, uid_t uid, mode_t forbidden)
{
	_cleanup_close_ int fd = openat(parent, name, DIRECTORY);
	struct stat stat;

	if (fd < 0 || fstat(fd, &stat))
		return -errno;
	return stat.st_uid == uid && !(stat.st_mode & forbidden) ? take_fd(&fd) : -EPERM;
}

/* The same, owned by root; created if it does not exist. */
static int enter(int parent, const char *name, mode_t mode, mode_t forbidden)
{
	return mkdirat(parent, name, mode) && errno != EEXIST ? -errno : open_own(parent, name, 0, forbidden);
}

/* Creates a directory as its future owner, which needs no CAP_CHOWN. `parent` is root's; for the moment, the group
 * root may write to it. */
static void make_as(int parent, const char *name, uid_t uid)
{
	if (!faccessat(parent, name, F_OK, 0) || fchmod(parent, 0730))
		return;
	if (!seteuid(uid)) {
		mkdirat(parent, name, 0700);
		/* The real and saved uid are still root's. */
		if (seteuid(0))
			_exit(126);
	}
	fchmod(parent, 0700);
}

int cache__open(uid_t client, uid_t engine)
{
	const char *given = getenv("CACHE_DIRECTORY"); /* systemd's */
	_cleanup_close_ int top = -1, own = -1;
	char name[32];

	if (geteuid())
		return -EPERM;
	top = enter(AT_FDCWD, given && *given == '/' ? given : CACHE_PATH, 0755, 022);
	if (top < 0)
		return top;
	snprintf(name, sizeof(name), "%u", (unsigned)client);
	own = enter(top, name, 0700, 007); /* 0730 is accepted: make_as() may have been killed */
	/* The user of root's engine may have changed since. */
	snprintf(name, sizeof(name), client == engine ? "tables" : "tables-%u", (unsigned)engine);
	if (own < 0)
		return own;
	make_as(own, name, engine);
	return open_own(own, name, engine, 077);
}
