/* SPDX-License-Identifier: MIT */
/* Why the kernel refuses a process's memory: to root by trying, an open of the same files; to a user by what /proc says
 * of the process to everybody. Both here, with the caller's own rights: no more is said than these can see. The answer is
 * for a message only; nothing is decided by it. */
#include "cli/cli.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <inttypes.h>
#include <pwd.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "broker/policy.h"
#include "cli/user.h"

/* What the kernel checks besides the owner: ptrace(2), "Ptrace access mode checking". */
#define HINT "a security module may forbid that (dmesg, the audit log), another user namespace, or that the process is " \
	     "not dumpable and CAP_SYS_PTRACE is missing (containers)"

/* An open of /proc/PID/mem runs the kernel's ptrace access check (proc_mem_open(), fs/proc/base.c), and reads
 * nothing. */
static int open_errno(const char *path)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);

	return fd < 0 ? errno : 0;
}

static void explain(const char *what, int err, char *ret, size_t size, const char **ret_hint)
{
	snprintf(ret, size, "the kernel refuses %s, even to root: %s (%s)", what, strerror(err), err == EACCES ? "EACCES" : "EPERM");
	*ret_hint = HINT;
}

/* --- to a user --- */

/* What the kernel compares with the caller's: real, effective and saved ids, and capabilities. */
struct rights {
	uid_t uids[3], gids[3];
	uint64_t capabilities;
};

/* Everybody may read /proc/PID/status, unless /proc is mounted with hidepid. */
static bool read_rights(pid_t pid, struct rights *ret)
{
	_cleanup_fclose_ FILE *file = NULL;
	char path[64], line[256];
	int found = 0;

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	file = fopen(path, "re");
	while (file && fgets(line, sizeof(line), file)) {
		found += sscanf(line, "Uid: %u %u %u", &ret->uids[0], &ret->uids[1], &ret->uids[2]) == 3;
		found += sscanf(line, "Gid: %u %u %u", &ret->gids[0], &ret->gids[1], &ret->gids[2]) == 3;
		found += sscanf(line, "CapPrm: %" SCNx64, &ret->capabilities) == 1;
	}
	return found == 3;
}

/* "alice (uid 1000)" */
static const char *user_name(uid_t uid, char *ret, size_t size)
{
	const struct passwd *entry = getpwuid(uid);

	snprintf(ret, size, entry ? "%s (uid %u)" : "%suid %u", entry ? entry->pw_name : "", uid);
	return ret;
}

static const char *group_name(gid_t gid, char *ret, size_t size)
{
	const struct group *entry = getgrgid(gid);

	snprintf(ret, size, entry ? "%s (gid %u)" : "%sgid %u", entry ? entry->gr_name : "", gid);
	return ret;
}

/* The first of three ids that is not `own`, or `own`. */
static unsigned other_of(const unsigned ids[3], unsigned own)
{
	return ids[0] != own ? ids[0] : ids[1] != own ? ids[1] : ids[2];
}

/* What __ptrace_may_access() in kernel/ptrace.c asks. Who holds capabilities by its program file is not dumpable, too: the
 * capabilities are the cause. */
bool forbidden__to_user(pid_t pid, char *ret, size_t size, const char **ret_hint)
{
	const uid_t uid = geteuid();
	const gid_t gid = getegid();
	struct rights rights;
	struct stat file;
	char path[64], name[64];

	/* Files there belong to root if the process is not dumpable; the folder itself does not. */
	snprintf(path, sizeof(path), "/proc/%d/auxv", pid);
	if (!uid || !read_rights(pid, &rights) || stat(path, &file))
		return false;
	*ret_hint = "run it with sudo";
	if (rights.uids[0] != uid) {
		snprintf(ret, size, "process %d belongs to %s", pid, user_name(rights.uids[0], name, sizeof(name)));
		*ret_hint = broker_error__hint(BROKER_ERROR_NOT_YOURS);
	} else if (other_of(rights.uids, uid) != uid) {
		snprintf(ret, size, "process %d runs a setuid program, with the rights of %s", pid, user_name(other_of(rights.uids, uid), name, sizeof(name)));
	} else if (other_of(rights.gids, gid) != gid) {
		snprintf(ret, size, "process %d runs with the rights of another group than you do: %s", pid, group_name(other_of(rights.gids, gid), name, sizeof(name)));
		*ret_hint = "run it with sudo, or from a shell of that group (newgrp)";
	} else if (rights.capabilities) {
		snprintf(ret, size, "process %d is yours, but holds capabilities, which you do not", pid);
	} else if (file.st_uid != uid) {
		snprintf(ret, size, "process %d is yours, but lets nobody read its memory: it is not dumpable (prctl(2), PR_SET_DUMPABLE)", pid);
		*ret_hint = "run it with sudo; programs that keep secrets do that (ssh-agent), and those whose file their user may not read";
	} else if (policy__ptrace_scope()) {
		snprintf(ret, size, "process %d is yours, but kernel.yama.ptrace_scope keeps you from looking into it", pid);
		*ret_hint = broker_error__hint(BROKER_ERROR_PTRACE_SCOPE);
	} else {
		snprintf(ret, size, "process %d is yours, but the kernel refuses its memory", pid);
		*ret_hint = "a security module may forbid that (dmesg, the audit log), or it is in another user namespace; run it with sudo";
	}
	return true;
}

/* NOT_YOURS usually means a foreign process. From root's engine it can only mean that the kernel said no. */
bool forbidden__answered(pid_t pid, const char *code, int number, char *ret, size_t size, const char **ret_hint)
{
	char what[64];

	if (!code || strcmp(code, "NOT_YOURS") || (number != EACCES && number != EPERM))
		return false;
	if (!user__calling()->root)
		return forbidden__to_user(pid, ret, size, ret_hint);
	snprintf(what, sizeof(what), "the memory of %d", pid);
	explain(what, number, ret, size, ret_hint);
	return true;
}

bool forbidden__to_root(pid_t pid, char *ret, size_t size, const char **ret_hint)
{
	static const char *const files[] = {"mem", "maps"};
	char path[64];
	int err;

	/* For anyone but root the usual answer fits: the process belongs to somebody else. */
	if (geteuid())
		return false;
	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		snprintf(path, sizeof(path), "/proc/%d/%s", pid, files[i]);
		err = open_errno(path);
		if (err != EACCES && err != EPERM)
			continue;
		explain(path, err, ret, size, ret_hint);
		return true;
	}
	return false;
}
