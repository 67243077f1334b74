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

/* The opener: a process with nothing but its socket, so that no event, program or channel of the broker lives on
 * in one that waits for a file that does not open. It opens one after the other: 80 files by a fork each would
 * be 100 ms, while walks wait for their tables. Who does not answer in time is left alone, and ends when its
 * file does. */
static int opener = -1;

static void __attribute__((noreturn)) serve(int socket)
{
	struct pollfd asked = {.events = POLLIN};
	struct broker_message message;
	int fds[BROKER_FDS_MAX], fd, err;
	unsigned n;

	if (dup2(socket, 0) < 0 || close_range(1, ~0u, 0))
		_exit(1);
	for (;;) {
		if (poll(&asked, 1, -1) != 1 || broker__receive(0, &message, fds, &n) || n)
			_exit(0); /* the broker is gone */
		fd = -1;
		err = process__open_file(message.pid, message.start, message.end, &fd);
		message = (struct broker_message){.kind = BROKER_FILE, .error_errno = -err};
		if (broker__send(0, &message, &fd, err ? 0 : 1))
			_exit(0);
		if (fd >= 0)
			close(fd);
	}
}

/* Forks twice: the opener is not the caller's to wait for. */
static int start_opener(int socket)
{
	pid_t between = fork(), second;
	int status;

	if (between < 0)
		return -errno;
	if (!between) {
		second = fork();
		if (!second)
			serve(socket);
		_exit(second < 0 ? errno : 0);
	}
	while (waitpid(between, &status, 0) < 0)
		if (errno != EINTR)
			return -errno;
	return !WIFEXITED(status) ? -ECHILD : -WEXITSTATUS(status);
}

static int need_opener(void)
{
	int pair[2], err;

	if (opener >= 0)
		return 0;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
		return -errno;
	err = start_opener(pair[1]);
	close(pair[1]);
	if (err)
		close(pair[0]);
	else
		opener = pair[0];
	return err;
}

static void leave_opener(void)
{
	close(opener);
	opener = -1;
}

int file__open_mapped(pid_t pid, uint64_t start, uint64_t end, int *ret_fd)
{
	struct broker_message message = {.kind = BROKER_OPEN_FILE, .pid = pid, .start = start, .end = end};
	struct pollfd answered = {.events = POLLIN};
	int fds[BROKER_FDS_MAX], err;
	unsigned n;

	err = need_opener();
	if (err)
		return err;
	err = broker__send(opener, &message, NULL, 0);
	if (err) { /* it was killed */
		leave_opener();
		err = need_opener();
		if (!err)
			err = broker__send(opener, &message, NULL, 0);
	}
	answered.fd = opener;
	if (!err && poll(&answered, 1, FILE_OPEN_MS) <= 0)
		err = -ETIMEDOUT;
	if (!err)
		err = broker__receive(opener, &message, fds, &n);
	if (err) {
		if (opener >= 0)
			leave_opener();
		return err == -EPIPE ? -EIO : err;
	}
	if (message.error_errno || n != 1) {
		while (n)
			close(fds[--n]);
		return message.error_errno ? -message.error_errno : -EIO;
	}
	*ret_fd = fds[0];
	return 0;
}
