/* SPDX-License-Identifier: MIT */
/* Files that are made of what was recorded so far: each by a `cprofd convert` of its own, so that the page's process
 * parses no recording, and goes on meanwhile. */
#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "base/cleanup.h"
#include "base/nameless.h"
#include "web/internal.h"

/* In the child. Its recording is stdin: a program that others gave the name of a file would not be ours. */
static void __attribute__((noreturn)) convert(const struct feed *feed, const char *const *arguments, int out)
{
	sigset_t none;
	int in = -1;

	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	signal(SIGPIPE, SIG_DFL);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (feed && (feed__snapshot(feed, &in) || dup2(in, STDIN_FILENO) < 0))
		_exit(1);
	if (dup2(out, STDOUT_FILENO) < 0)
		_exit(1);
	syscall(SYS_close_range, 3u, ~0u, CLOSE_RANGE_CLOEXEC);
	execv("/proc/self/exe", (char *const *)arguments);
	_exit(1);
}

int save__convert(const struct feed *feed, const char *const *arguments, pid_t *ret_pid, int *ret_fd)
{
	_cleanup_close_ int fd = -1;
	int err = temporary__open(&fd);

	if (err)
		return err;
	fflush(NULL);
	*ret_pid = fork();
	if (*ret_pid < 0)
		return -errno;
	if (!*ret_pid)
		convert(feed, arguments, fd);
	*ret_fd = take_fd(&fd);
	return 0;
}
