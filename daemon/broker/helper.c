#include "broker/helper.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"

#define SOCKET 0
#define KEPT 1                 /* the first of the fds that its work needs */
#define BATCH 200u             /* fds of one datagram: the kernel takes 253 */

struct task {
	int (*run)(const struct task *task);
	pid_t pid;
	const struct identity *client;
	const struct process_stat *stat;
	const struct perf_options *perf;
	int kept[3];
	unsigned n_kept;
};

struct answer {
	int32_t err;
	bool more;
	uint32_t n;
	struct process_stat stat;
	pid_t tids[BATCH];
};

union control {
	struct cmsghdr align;
	char bytes[CMSG_SPACE(sizeof(int) * BATCH)];
};

static pid_t late[HELPER_LATE_MAX];
static unsigned n_late;

void helper__reap(void)
{
	unsigned i = n_late;

	while (i-- > 0)
		if (waitpid(late[i], NULL, WNOHANG))
			late[i] = late[--n_late];
}

/* --- in the helper --- */

static int answer(const struct answer *answer, const int *fds, unsigned n)
{
	struct iovec iov = {.iov_base = (void *)answer, .iov_len = sizeof(*answer)};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
	union control control = {};
	struct cmsghdr *c;

	if (n) {
		msg.msg_control = control.bytes;
		msg.msg_controllen = CMSG_SPACE(sizeof(int) * n);
		c = CMSG_FIRSTHDR(&msg);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int) * n);
		memcpy(CMSG_DATA(c), fds, sizeof(int) * n);
	}
	return sendmsg(SOCKET, &msg, MSG_NOSIGNAL) < 0 ? -errno : 0;
}

static int open_process(const struct task *task)
{
	struct process_fds fds = PROCESS_FDS_NONE;
	struct authorisation authorisation;
	struct answer out = {};

	out.err = process__open(task->pid, &fds, &out.stat);
	if (!out.err && task->client) {
		out.err = authorise__begin(task->client, task->pid, &authorisation);
		if (!out.err)
			out.err = authorise__finish(&authorisation);
		if (!out.err)
			out.err = process__unchanged(task->pid, &fds, &out.stat);
	}
	return answer(&out, (int[]){fds.pidfd, fds.mem, fds.maps}, out.err ? 0 : 3);
}

static int check_unchanged(const struct task *task)
{
	const struct process_fds fds = {.pidfd = KEPT, .mem = KEPT + 1, .maps = KEPT + 2};
	struct answer out = {.err = process__unchanged(task->pid, &fds, task->stat)};

	return answer(&out, NULL, 0);
}

static int open_events(const struct task *task)
{
	struct perf_options options = *task->perf;
	struct perf_events events = {};
	struct answer out = {};
	int fds[BATCH], err = 0;
	unsigned n = 0;

	options.program = KEPT;
	out.err = perf_events__open(&events, task->pid, &options);
	for (size_t i = 0; i < events.n && !out.err && !err; i++) {
		if (events.threads[i].fd < 0)
			continue;
		out.tids[n] = events.threads[i].tid;
		fds[n++] = events.threads[i].fd;
		if (n < BATCH)
			continue;
		out.n = n;
		out.more = true;
		err = answer(&out, fds, n);
		n = 0;
	}
	out.n = n;
	out.more = false;
	return err ? err : answer(&out, fds, n);
}

static void __attribute__((noreturn)) work(int socket, const struct task *task)
{
	int moved[4] = {socket};
	unsigned i;

	/* Out of the way of where they go. */
	memcpy(moved + 1, task->kept, sizeof(task->kept));
	for (i = 0; i <= task->n_kept; i++) {
		moved[i] = fcntl(moved[i], F_DUPFD, 16);
		if (moved[i] < 0)
			_exit(1);
	}
	for (i = 0; i <= task->n_kept; i++)
		if (dup2(moved[i], (int)(SOCKET + i)) < 0)
			_exit(1);
	if (close_range(task->n_kept + 1, ~0u, 0))
		_exit(1);
	_exit(task->run(task) ? 1 : 0);
}

/* --- in the broker --- */

static int start(const struct task *task, pid_t *ret_helper, int *ret_socket)
{
	int pair[2];

	helper__reap();
	if (n_late == HELPER_LATE_MAX)
		return -ETIMEDOUT;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
		return -errno;
	*ret_helper = fork();
	if (!*ret_helper)
		work(pair[1], task);
	close(pair[1]);
	if (*ret_helper < 0) {
		int err = -errno;

		close(pair[0]);
		return err;
	}
	*ret_socket = pair[0];
	return 0;
}

static int receive(int socket, int ms, struct answer *ret, int fds[BATCH], unsigned *ret_n)
{
	struct iovec iov = {.iov_base = ret, .iov_len = sizeof(*ret)};
	union control control;
	struct msghdr msg = {
		.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof(control.bytes)};
	struct pollfd in = {.fd = socket, .events = POLLIN};
	struct cmsghdr *c;
	ssize_t got;

	*ret_n = 0;
	if (poll(&in, 1, ms) <= 0)
		return -ETIMEDOUT;
	got = recvmsg(socket, &msg, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
	for (c = CMSG_FIRSTHDR(&msg); got >= 0 && c; c = CMSG_NXTHDR(&msg, c)) {
		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		*ret_n = (unsigned)((c->cmsg_len - CMSG_LEN(0)) / sizeof(int));
		memcpy(fds, CMSG_DATA(c), *ret_n * sizeof(int));
	}
	if (got == sizeof(*ret) && !(msg.msg_flags & MSG_CTRUNC))
		return 0;
	while (*ret_n)
		close(fds[--*ret_n]);
	return msg.msg_flags & MSG_CTRUNC ? -EMFILE : -EIO;
}

/* Its work is done, or it is late: a file system holds it then, and SIGKILL does not reach it before that answers. */
static void leave(pid_t helper, int socket, bool answered)
{
	close(socket);
	if (!answered)
		kill(helper, SIGKILL);
	while (answered && waitpid(helper, NULL, 0) < 0 && errno == EINTR)
		;
	if (!answered && !waitpid(helper, NULL, WNOHANG))
		late[n_late++] = helper;
}

/* One answer, with so many fds unless it is an error. */
static int run(const struct task *task, struct answer *ret, int *ret_fds, unsigned wanted)
{
	int socket, fds[BATCH], err;
	unsigned n;
	pid_t helper;

	err = start(task, &helper, &socket);
	if (err)
		return err;
	err = receive(socket, HELPER_MS, ret, fds, &n);
	leave(helper, socket, !err);
	if (err)
		return err;
	err = ret->err ? ret->err : n == wanted ? 0 : -EIO;
	if (err)
		while (n)
			close(fds[--n]);
	memcpy(ret_fds, fds, n * sizeof(*fds));
	return err;
}

int helper__open(pid_t pid, const struct identity *client, struct process_fds *ret, struct process_stat *ret_stat)
{
	const struct task task = {.run = open_process, .pid = pid, .client = client};
	struct answer out;
	int fds[3], err;

	err = run(&task, &out, fds, 3);
	if (err)
		return err;
	*ret = (struct process_fds){.pidfd = fds[0], .mem = fds[1], .maps = fds[2]};
	*ret_stat = out.stat;
	return 0;
}

int helper__unchanged(pid_t pid, const struct process_fds *fds, const struct process_stat *stat)
{
	const struct task task = {
		.run = check_unchanged, .pid = pid, .stat = stat, .kept = {fds->pidfd, fds->mem, fds->maps}, .n_kept = 3};
	struct answer out;

	return run(&task, &out, NULL, 0);
}

int helper__open_events(struct perf_events *events, pid_t pid, const struct perf_options *options)
{
	const struct task task = {
		.run = open_events, .pid = pid, .perf = options, .kept = {options->program}, .n_kept = 1};
	struct answer out = {.more = true};
	int socket, fds[BATCH], err;
	unsigned n, i;
	pid_t helper;

	err = start(&task, &helper, &socket);
	if (err)
		return err;
	while (!err && out.more) {
		err = receive(socket, HELPER_EVENTS_MS, &out, fds, &n);
		if (err)
			break;
		err = out.err;
		for (i = 0; i < n; i++)
			if (err || i >= out.n || (err = perf_events__take(events, out.tids[i], fds[i])))
				close(fds[i]);
	}
	leave(helper, socket, !err || err == out.err);
	return err;
}
