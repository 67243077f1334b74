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

/* A folder of `uid` in which `forbidden` bits are not set; made if it is not there. */
static int enter(int parent, const char *name, mode_t mode, uid_t uid, gid_t gid, mode_t forbidden)
{
	_cleanup_close_ int fd = -1;
	struct stat stat;

	if (mkdirat(parent, name, mode) && errno != EEXIST)
		return -errno;
	fd = openat(parent, name, DIRECTORY);
	if (fd < 0 || fstat(fd, &stat))
		return -errno;
	/* Still root's: it is new. */
	if (stat.st_uid == geteuid() && uid != geteuid() && fchown(fd, uid, gid))
		return -errno;
	if (fstat(fd, &stat))
		return -errno;
	return stat.st_uid == uid && !(stat.st_mode & forbidden) ? take_fd(&fd) : -EPERM;
}

int cache__open(uid_t client, uid_t engine, gid_t group)
{
	const char *given = getenv("CACHE_DIRECTORY"); /* systemd's */
	_cleanup_close_ int place = -1, own = -1;
	char name[32];

	if (geteuid())
		return -EPERM;
	place = enter(AT_FDCWD, given && *given == '/' ? given : PLACE, 0755, 0, 0, 022);
	if (place < 0)
		return place;
	snprintf(name, sizeof(name), "%u", (unsigned)client);
	own = enter(place, name, 0700, 0, 0, 077);
	/* Root's engine may be another user than it was. */
	snprintf(name, sizeof(name), client == engine ? "tables" : "tables-%u", (unsigned)engine);
	return own < 0 ? own : enter(own, name, 0700, engine, group, 077);
}
