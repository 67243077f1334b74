/* SPDX-License-Identifier: MIT */
/* fork(), a socketpair, and a table of those that run. A late helper hangs in the kernel, where SIGKILL does not
 * reach it; it stays in the table until it can be reaped, and counts against the user who caused it. */
#include "broker/helper.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "broker/coroutine.h"

#define END_MS 50 /* a killed process that does not hang is gone by then */

/* An engine has one request at a time, a request one helper, and an engine three openers (file.h). So there is room
 * for all running helpers, however many hang. */
#define RUNNING_MAX 4096u
/* All helpers that were not reaped yet. late: killed, but it did not end. */
static struct running {
	pid_t pid;
	uid_t payer;
	bool late;
} running[RUNNING_MAX];
static unsigned n_running;

static void remove_pid(pid_t pid)
{
	unsigned i = n_running;

	while (i-- > 0)
		if (running[i].pid == pid)
			running[i] = running[--n_running];
}

/* Those that were late, and have ended since. */
static void reap_late(void)
{
	unsigned i = n_running;

	while (i-- > 0)
		if (running[i].late && waitpid(running[i].pid, NULL, WNOHANG))
			running[i] = running[--n_running];
}

/* False: too many helpers of this user hang. */
static bool has_room(uid_t payer)
{
	unsigned i, all = 0, own = 0;

	reap_late();
	for (i = 0; i < n_running; i++) {
		all += running[i].late;
		own += running[i].late && running[i].payer == payer;
	}
	return own < (all < HELPER_LATE_MAX ? HELPER_LATE_USER_MAX : 1) && n_running < RUNNING_MAX;
}

/* In the child: the socket becomes descriptor 0, the kept ones 1, 2 ...; all others are closed. */
static int keep_alone(int socket, int *keep, unsigned n)
{
	/* First out of the way of the numbers 0 to n, which any of them may have. */
	socket = fcntl(socket, F_DUPFD, 64);
	for (unsigned i = 0; i < n; i++)
		keep[i] = fcntl(keep[i], F_DUPFD, 64);
	if (socket < 0 || dup2(socket, 0) < 0)
		return -1;
	for (unsigned i = 0; i < n; i++) {
		if (keep[i] < 0 || dup2(keep[i], 1 + (int)i) < 0)
			return -1;
		keep[i] = 1 + (int)i;
	}
	return close_range(1 + n, ~0u, 0);
}

/* fork() without exec: the work is a function of the broker, with its arguments. The child's copy of the broker's
 * memory is used for nothing else, and _exit() runs no handlers. */
int helper__begin(struct helper *helper, uid_t payer, helper_work *work, void *context, int *keep, unsigned n)
{
	int pair[2];

	*helper = (struct helper){.socket = -1, .payer = payer};
	if (n > HELPER_FDS_MAX || !has_room(payer))
		return -EBUSY;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
		return -errno;
	helper->pid = fork();
	if (!helper->pid) {
		coroutine__forked();
		if (!keep_alone(pair[1], keep, n))
			work(context, 0);
		else /* it has no descriptor for that, as the broker has none */
			broker__send(pair[1], &(struct broker_message){.error_errno = EMFILE}, NULL, 0);
		_exit(0);
	}
	close(pair[1]);
	if (helper->pid < 0) {
		int err = -errno;

		close(pair[0]);
		helper->pid = 0;
		return err;
	}
	running[n_running++] = (struct running){.pid = helper->pid, .payer = payer};
	helper->socket = pair[0];
	helper->until = clock__now() + HELPER_MS * 1000000ull;
	return 0;
}

int helper__take(struct helper *helper, struct broker_message *ret, int fds[BROKER_FDS_MAX], unsigned *ret_n)
{
	int err = coroutine__wait(helper->socket, POLLIN, helper->until);

	return err ? err : broker__receive(helper->socket, ret, fds, ret_n);
}

/* A killed process that does not hang is gone at once. */
static bool is_gone(pid_t pid)
{
	int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);

	if (pidfd >= 0) {
		coroutine__wait(pidfd, POLLIN, clock__now() + END_MS * 1000000ull);
		close(pidfd);
	}
	return waitpid(pid, NULL, WNOHANG);
}

/* From now on it counts against its user. */
static void set_late(pid_t pid)
{
	for (unsigned i = 0; i < n_running; i++)
		if (running[i].pid == pid)
			running[i].late = true;
}

bool helper__hangs(pid_t pid)
{
	bool hangs = false;

	reap_late();
	for (unsigned i = 0; i < n_running; i++)
		hangs = hangs || (running[i].pid == pid && running[i].late);
	return hangs;
}

void helper__end(struct helper *helper)
{
	if (helper->socket >= 0)
		close(helper->socket);
	if (helper->pid > 0) {
		kill(helper->pid, SIGKILL);
		if (is_gone(helper->pid))
			remove_pid(helper->pid);
		else
			set_late(helper->pid);
	}
	*helper = HELPER_NONE;
}
