/* SPDX-License-Identifier: MIT */
/* Whose limits does a process count for? A user can have many uids: with `unshare -r` or a rootless container their
 * processes run as uids of a range that /etc/subuid gives them, or in a user namespace of their own. Without this, each
 * such uid would have limits of its own.
 *
 *    /etc/subuid:   ann:100000:65536      uids 100000 to 165535 count for ann
 *
 * The file is parsed again when it has changed. Names in it are looked up in /etc/passwd alone: a directory service
 * might not answer, and the broker waits for nobody. */
#include "broker/owner.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/nsfs.h>
#include <pwd.h>
#include <stdbool.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

#include "base/cleanup.h"

#define SUBUID "/etc/subuid"
#define SUBUID_BYTES_MAX (4u << 20)
#define NAME_MAX_BYTES 64u
#define NESTED_MAX 32 /* as in the kernel (create_user_ns) */

/* --- /etc/subuid --- */

/* Digits up to `stop`, or to the end of the line if that is '\n'. False: no number, or above 2^32 - 1. */
static bool next_number(const char **at, const char *end, char stop, uint32_t *ret)
{
	uint64_t number = 0;
	const char *begin = *at;

	while (*at < end && isdigit((unsigned char)**at) && number <= UINT32_MAX)
		number = number * 10 + (uint64_t)(*(*at)++ - '0');
	if (*at == begin || number > UINT32_MAX || (*at < end ? **at != stop : stop != '\n'))
		return false;
	*at += *at < end;
	*ret = (uint32_t)number;
	return true;
}

/* "name:first:count"; the name may be a uid. */
static bool parse_line(const char *line, const char *end, int (*uid_of)(const char *name, uid_t *ret), struct owner_range *ret)
{
	const char *colon = memchr(line, ':', (size_t)(end - line)), *at = line;
	char name[NAME_MAX_BYTES];
	uint32_t uid;

	if (*line == '#' || !colon || colon == line || (size_t)(colon - line) >= sizeof(name))
		return false;
	memcpy(name, line, (size_t)(colon - line));
	name[colon - line] = 0;
	at = colon + 1;
	if (!next_number(&at, end, ':', &ret->first) || !next_number(&at, end, '\n', &ret->n) || !ret->n)
		return false;
	at = line;
	if (next_number(&at, end, ':', &uid))
		ret->owner = uid;
	else if (uid_of(name, &ret->owner))
		ret->owner = ret->first;
	return true;
}

size_t owner__parse(const char *text, size_t len, int (*uid_of)(const char *name, uid_t *ret), struct owner_range *ret, size_t max)
{
	const char *end = text + len, *line = text, *stop;
	size_t n = 0;

	for (; line < end && n < max; line = stop + 1) {
		stop = memchr(line, '\n', (size_t)(end - line)) ?: end;
		n += parse_line(line, stop, uid_of, &ret[n]);
	}
	return n;
}

uid_t owner__in(const struct owner_range *ranges, size_t n, uid_t uid)
{
	for (size_t i = 0; i < n; i++)
		if (uid >= ranges[i].first && uid - ranges[i].first < ranges[i].n)
			return ranges[i].owner;
	return uid;
}

/* Looks up a name in /etc/passwd only: a remote user directory may hang. */
static int local_uid(const char *name, uid_t *ret)
{
	_cleanup_fclose_ FILE *file = fopen("/etc/passwd", "re");
	struct passwd entry, *found;
	char line[1024];

	while (file && !fgetpwent_r(file, &entry, line, sizeof(line), &found)) {
		if (!strcmp(entry.pw_name, name)) {
			*ret = entry.pw_uid;
			return 0;
		}
	}
	return -ENOENT;
}

/* What /etc/subuid had, and the file's state by which a change is noticed. */
static struct {
	struct stat status;
	struct owner_range *ranges;
	size_t n;
} subuid;

static bool is_same(const struct stat *a, const struct stat *b)
{
	return a->st_ino == b->st_ino && a->st_size == b->st_size && a->st_mtim.tv_sec == b->st_mtim.tv_sec &&
	       a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

/* A file above SUBUID_BYTES_MAX is ignored, as one that cannot be read: uids count for themselves then. */
static void read_ranges(int fd)
{
	size_t size = (size_t)subuid.status.st_size, max = size / sizeof("a:1:1") + 1;
	_cleanup_free_ char *text = size <= SUBUID_BYTES_MAX ? malloc(size + 1) : NULL;
	ssize_t n = text ? read(fd, text, size) : -1;

	free(subuid.ranges);
	subuid.ranges = n > 0 ? calloc(max, sizeof(*subuid.ranges)) : NULL;
	subuid.n = subuid.ranges ? owner__parse(text, (size_t)n, local_uid, subuid.ranges, max) : 0;
}

static uid_t owner_of_uid(uid_t uid)
{
	_cleanup_close_ int fd = open(SUBUID, O_RDONLY | O_CLOEXEC);
	struct stat now;

	if (fd < 0 || fstat(fd, &now) || !S_ISREG(now.st_mode))
		return uid;
	if (!is_same(&now, &subuid.status)) {
		subuid.status = now;
		read_ranges(fd);
	}
	return owner__in(subuid.ranges, subuid.n, uid);
}

/* --- user namespaces --- */

static bool is_own(int namespace)
{
	struct stat own, its;

	return !stat("/proc/self/ns/user", &own) && !fstat(namespace, &its) && own.st_ino == its.st_ino && own.st_dev == its.st_dev;
}

/* The creator of the process's outermost user namespace below ours. -ENOENT: it is in our namespace. */
static int namespace_owner(pid_t pid, uid_t *ret)
{
	int namespace, outer, depth;
	char path[64];
	int err = -EPERM;

	snprintf(path, sizeof(path), "/proc/%d/ns/user", pid);
	namespace = open(path, O_RDONLY | O_CLOEXEC);
	if (namespace < 0)
		return -errno;
	if (is_own(namespace)) {
		close(namespace);
		return -ENOENT;
	}
	/* Upwards from the process's namespace, until the parent is ours: then this one is the outermost. NS_GET_PARENT
	 * fails at a namespace that is not below ours. */
	for (depth = 0; depth <= NESTED_MAX && err; depth++) {
		outer = ioctl(namespace, NS_GET_PARENT);
		if (outer < 0)
			break;
		if (is_own(outer))
			err = ioctl(namespace, NS_GET_OWNER_UID, ret) ? -errno : 0;
		close(namespace);
		namespace = outer;
	}
	close(namespace);
	return err;
}

uid_t owner__of(pid_t pid, uid_t uid)
{
	uid_t owner;

	if (pid > 0 && !namespace_owner(pid, &owner) && owner)
		uid = owner;
	return owner_of_uid(uid);
}
