/* SPDX-License-Identifier: MIT */
/* Why the kernel refuses even root a process's memory. Asked by trying: an open of the same files, here, with
 * the caller's own rights. The answer is for a message only; nothing is decided by it. */
#include "cli/forbidden.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
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

/* NOT_YOURS usually means a foreign process. From root's engine it can only mean that the kernel said no. */
bool forbidden__answered(pid_t pid, const char *code, int number, char *ret, size_t size, const char **ret_hint)
{
	char what[64];

	if (!user__calling()->root || !code || strcmp(code, "NOT_YOURS") || (number != EACCES && number != EPERM))
		return false;
	snprintf(what, sizeof(what), "the memory of %d", pid);
	explain(what, number, ret, size, ret_hint);
	return true;
}

bool forbidden__to_root(pid_t pid, char *ret, size_t size, const char **ret_hint)
{
	static const char *const files[] = {"mem", "maps"};
	char path[64];
	size_t i;
	int err;

	/* For anyone but root the usual answer fits: the process belongs to somebody else. */
	if (geteuid())
		return false;
	for (i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		snprintf(path, sizeof(path), "/proc/%d/%s", pid, files[i]);
		err = open_errno(path);
		if (err != EACCES && err != EPERM)
			continue;
		explain(path, err, ret, size, ret_hint);
		return true;
	}
	return false;
}
