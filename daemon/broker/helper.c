#include "broker/helper.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"

#define END_MS 50 /* a process that was killed, and waits for nothing, is gone by then */

static struct late {
	pid_t pid;
	uid_t payer;
} late[HELPER_LATE_MAX];
static unsigned n_late;

/* False: one more of this user could be one too many. */
static bool has_room(uid_t payer)
{
	unsigned i = n_late, own = 0;

	while (i-- > 0)
		if (waitpid(late[i].pid, NULL, WNOHANG))
			late[i] = late[--n_late];
	for (i = 0; i < n_late; i++)
		own += late[i].payer == payer;
	return n_late < HELPER_LATE_MAX && own < HELPER_LATE_USER_MAX;
}

/* The socket becomes 0, what is kept 1 and so on; all else is closed. */
static int keep_alone(int socket, int *keep, unsigned n)
{
	unsigned i;

	socket = fcntl(socket, F_DUPFD, 64);
	for (i = 0; i < n; i++)
		keep[i] = fcntl(keep[i], F_DUPFD, 64);
	if (socket < 0 || dup2(socket, 0) < 0)
		return -1;
	for (i = 0; i < n; i++) {
		if (keep[i] < 0 || dup2(keep[i], 1 + (int)i) < 0)
			return -1;
		keep[i] = 1 + (int)i;
	}
	return close_range(1 + n, ~0u, 0);
}

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
		if (!keep_alone(pair[1], keep, n))
			work(context, 0);
		_exit(0);
	}
	close(pair[1]);
	if (helper->pid < 0) {
		int err = -errno;

		close(pair[0]);
		helper->pid = 0;
		return err;
	}
	helper->socket = pair[0];
	helper->until = clock__now() + HELPER_MS * 1000000ull;
	return 0;
}

int helper__take(struct helper *helper, struct broker_message *ret, int fds[BROKER_FDS_MAX], unsigned *ret_n)
{
	struct pollfd answered = {.fd = helper->socket, .events = POLLIN};
	uint64_t now = clock__now();
	int ready;

	ready = poll(&answered, 1, now < helper->until ? (int)((helper->until - now + 999999) / 1000000) : 0);
	if (ready <= 0)
		return -ETIMEDOUT;
	return broker__receive(helper->socket, ret, fds, ret_n);
}

void helper__end(struct helper *helper)
{
	struct pollfd ended = {.events = POLLIN};

	if (helper->socket >= 0)
		close(helper->socket);
	if (helper->pid > 0) {
		kill(helper->pid, SIGKILL);
		ended.fd = (int)syscall(SYS_pidfd_open, helper->pid, 0);
		if (ended.fd >= 0) {
			poll(&ended, 1, END_MS);
			close(ended.fd);
		}
		if (!waitpid(helper->pid, NULL, WNOHANG))
			late[n_late++] = (struct late){helper->pid, helper->payer};
	}
	*helper = HELPER_NONE;
}
