/* SPDX-License-Identifier: MIT */
/* Who the calling user is (SUDO_UID, or the owner of this process), and acting with that user's rights:
 * opening files, starting commands, and giving up root for good.
 *
 * Under sudo, this process has three stages:
 *
 *     root, acting as the user for single calls     user__enter() ... user__leave()
 *     root, to connect and request                  the broker sees a client of root's
 *     the user for good                             user__drop(), before the first byte of an answer is parsed
 *
 * A user could set SUDO_UID only before sudo, which overwrites it; whoever is root without sudo may claim to
 * be anyone, and gains nothing by it. */
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <linux/capability.h>
#include <pwd.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "broker/privileges.h"
#include "cli/user.h"

/* A uid or gid that sudo put into the environment; false if it is not a number. */
static bool id_of(const char *variable, unsigned *ret)
{
	const char *text = getenv(variable);
	unsigned long id;
	char *end;

	if (!text || *text < '0' || *text > '9')
		return false;
	errno = 0;
	id = strtoul(text, &end, 10);
	if (errno || *end || id >= UINT_MAX)
		return false;
	*ret = (unsigned)id;
	return true;
}

const struct user *user__calling(void)
{
	static struct user user;
	static bool known;
	const struct passwd *entry;
	unsigned uid, gid;

	if (known)
		return &user;
	known = true;
	/* Now, as it may change later: a parent that ends is replaced by init. */
	user.parent = getppid();
	user.root = geteuid() == 0;
	user.uid = geteuid();
	user.gid = getegid();
	if (!user.uid && id_of("SUDO_UID", &uid) && id_of("SUDO_GID", &gid)) {
		user.uid = uid;
		user.gid = gid;
		user.other = uid != 0;
	}
	entry = getpwuid(user.uid);
	user.name = entry ? strdup(entry->pw_name) : "";
	user.home = entry ? strdup(entry->pw_dir) : "";
	user.shell = entry ? strdup(entry->pw_shell) : "";
	/* In: the capacity; getgrouplist() sets it to the number found. Of a user with more groups than that,
	 * only the primary one is used. */
	user.n_groups = sizeof(user.groups) / sizeof(user.groups[0]);
	if (!user.other || !entry ||
	    getgrouplist(entry->pw_name, user.gid, user.groups, &user.n_groups) < 0) {
		user.groups[0] = user.gid;
		user.n_groups = 1;
	}
	return &user;
}

/* Set by user__enter() and user__drop(). */
static gid_t own_groups[256];
static int n_own_groups;
static bool dropped;
static uint64_t kept; /* capabilities that user__drop() keeps, 1 << CAP_* */

/* Groups first: without root's effective uid they could no longer be set. Only effective ids change: files
 * are opened as the user, and root can be taken back. */
int user__enter(const struct user *user)
{
	if (!user->other || dropped)
		return 0;
	n_own_groups = getgroups(sizeof(own_groups) / sizeof(own_groups[0]), own_groups);
	if (n_own_groups < 0 || setgroups((size_t)user->n_groups, user->groups) < 0 ||
	    setegid(user->gid) < 0 || seteuid(user->uid) < 0) {
		int err = -errno;

		user__leave(user);
		return err;
	}
	return 0;
}

void user__leave(const struct user *user)
{
	if (!user->other || dropped)
		return;
	/* Continuing with a mixture of identities would be worse than ending. */
	if (seteuid(0) < 0 || setegid(0) < 0 ||
	    (n_own_groups >= 0 && setgroups((size_t)n_own_groups, own_groups) < 0))
		abort();
}

/* The environment that the user's sudo was called with; sudo gives its command a cleaned one. -ENOENT if our parent
 * is no sudo. */
static int read_sudo_environment(pid_t sudo, struct buf *ret)
{
	char path[64], exe[PATH_MAX], chunk[4096];
	_cleanup_close_ int fd = -1;
	const char *base;
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%d/exe", sudo);
	n = readlink(path, exe, sizeof(exe) - 1);
	if (n < 0)
		return -errno;
	exe[n] = '\0';
	/* "/usr/bin/sudo". A "sudo" with another name (doas, pkexec) sets no SUDO_UID either. */
	base = strrchr(exe, '/');
	if (!base || strcmp(base, "/sudo"))
		return -ENOENT;
	snprintf(path, sizeof(path), "/proc/%d/environ", sudo);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	while ((n = read(fd, chunk, sizeof(chunk))) > 0)
		if (buf__append(ret, chunk, (size_t)n))
			return -ENOMEM;
	/* A NUL at the end, so that the last string ends within the buffer. */
	return n < 0 ? -errno : ret->len ? buf__append(ret, "", 1) : -ENOENT;
}

/* sudo runs its command with a cleaned environment, but a user who records a program expects it to run as
 * usual: with DISPLAY, PYTHONPATH, a virtual environment. */
static int take_environment(const struct user *user)
{
	struct buf environment = {}; /* not freed: putenv() keeps its strings until exec */
	char *at, *end;

	if (!read_sudo_environment(user->parent, &environment)) {
		if (clearenv())
			return -ENOMEM;
		end = environment.data + environment.len;
		for (at = environment.data; at < end; at += strlen(at) + 1)
			/* Each entry needs a name; what else is in the area is skipped. */
			if (strchr(at, '=') > at)
				putenv(at);
		return 0;
	}
	buf__free(&environment);
	unsetenv("SUDO_UID");
	unsetenv("SUDO_GID");
	unsetenv("SUDO_USER");
	unsetenv("SUDO_COMMAND");
	if (*user->name && (setenv("USER", user->name, 1) || setenv("LOGNAME", user->name, 1) ||
			    setenv("HOME", user->home, 1) || setenv("SHELL", user->shell, 1)))
		return -ENOMEM;
	return 0;
}

int user__become(const struct user *user)
{
	int err;

	if (!user->other)
		return 0;
	err = take_environment(user);
	if (err)
		return err;
	if (!dropped && (setgroups((size_t)user->n_groups, user->groups) < 0 || setresgid(user->gid, user->gid, user->gid) < 0 ||
			 setresuid(user->uid, user->uid, user->uid) < 0))
		return -errno;
	/* setresuid() to a user drops root's capabilities; check that root cannot be regained. */
	return setuid(0) == 0 ? -EPERM : 0;
}

void user__writes_in(int directory)
{
	struct stat status;

	/* The directory's owner may rename and remove without capabilities. */
	if (!fstat(directory, &status) && status.st_uid == geteuid() && status.st_mode & S_IWUSR)
		return;
	/* Root without sudo, in a directory of somebody else's: a rename there takes the rights of its owner. */
	kept |= 1ull << CAP_DAC_OVERRIDE | 1ull << CAP_FOWNER;
}

int user__drop(const struct user *user)
{
	int err = 0;

	if (dropped)
		return 0;
	err = user->other ? privileges__become(user->uid, user->gid, user->groups, (size_t)user->n_groups) : privileges__keep(kept);
	dropped = !err;
	return err;
}

/* Numbers of a line of /proc/PID/status, behind its key; at most `max`, or -E2BIG. */
static int numbers_of(const char *line, unsigned *ret, int max)
{
	char *end;
	int n = 0;

	for (;; line = end) {
		const unsigned long number = strtoul(line, &end, 10);

		if (end == line)
			return n;
		if (n == max)
			return -E2BIG;
		ret[n++] = (unsigned)number;
	}
}

int user__drop_to(pid_t pid)
{
	unsigned uids[4], gids[4], groups[64];
	int n_uids = 0, n_gids = 0, n_groups = 0, err;
	_cleanup_fclose_ FILE *file = NULL;
	char path[32], line[1024];

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	file = fopen(path, "re");
	while (file && fgets(line, sizeof(line), file)) {
		if (!strncmp(line, "Uid:", 4))
			n_uids = numbers_of(line + 4, uids, 4);
		else if (!strncmp(line, "Gid:", 4))
			n_gids = numbers_of(line + 4, gids, 4);
		else if (!strncmp(line, "Groups:", 7))
			n_groups = !strchr(line, '\n') ? -E2BIG : numbers_of(line + 7, groups, 64);
	}
	if (n_uids != 4 || n_gids != 4)
		return -ESRCH;
	if (n_groups < 0)
		return n_groups;
	/* The effective ones. */
	err = privileges__become(uids[1], gids[1], groups, (size_t)n_groups);
	dropped |= !err;
	return err;
}
