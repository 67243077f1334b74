#include "broker/file.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "broker/broker.h"
#include "broker/process.h"

/* The opener: alone with its socket, so that no event, program or channel of the
 * broker lives on in one that waits. */
static void __attribute__((noreturn))
open_and_send(int socket, pid_t pid, uint64_t start, uint64_t end)
{
	struct broker_message message = {.kind = BROKER_FILE};
	int fd = -1, err;

	if (dup2(socket, 0) < 0 || close_range(1, ~0u, 0))
		_exit(1);
	err = process__open_file(pid, start, end, &fd);
	message.error_errno = -err;
	_exit(broker__send(0, &message, &fd, err ? 0 : 1) ? 1 : 0);
}

/* Forks twice: the opener is not the caller's to wait for. */
static int start_opener(int socket, pid_t pid, uint64_t start, uint64_t end)
{
	pid_t between = fork(), opener;
	int status;

	if (between < 0)
		return -errno;
	if (!between) {
		opener = fork();
		if (!opener)
			open_and_send(socket, pid, start, end);
		_exit(opener < 0 ? errno : 0);
	}
	while (waitpid(between, &status, 0) < 0)
		if (errno != EINTR)
			return -errno;
	return !WIFEXITED(status) ? -ECHILD : -WEXITSTATUS(status);
}

int file__open_mapped(pid_t pid, uint64_t start, uint64_t end, int *ret_fd)
{
	_cleanup_close_ int ours = -1;
	struct broker_message answer;
	int pair[2], fds[BROKER_FDS_MAX], err;
	struct pollfd answered = {.events = POLLIN};
	unsigned n;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
		return -errno;
	ours = answered.fd = pair[0];
	err = start_opener(pair[1], pid, start, end);
	close(pair[1]);
	if (err)
		return err;
	if (poll(&answered, 1, FILE_OPEN_MS) <= 0)
		return -ETIMEDOUT;
	err = broker__receive(ours, &answer, fds, &n);
	if (err)
		return err == -EPIPE ? -EIO : err;
	if (answer.error_errno || n != 1) {
		while (n)
			close(fds[--n]);
		return answer.error_errno ? -answer.error_errno : -EIO;
	}
	*ret_fd = fds[0];
	return 0;
}
