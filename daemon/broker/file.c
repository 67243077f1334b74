#include "broker/file.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "broker/broker.h"
#include "broker/privileges.h"
#include "broker/process.h"

#define DEBUG_ROOT "usr/lib/debug"

/* What is to be opened: a mapping's file, or with a path a debug file. */
struct wanted {
	pid_t pid;
	uint64_t start, end;
	const struct identity *client;
	const char *path;
};

static int open_below(int folder, const char *path, uint64_t flags, uint64_t resolve)
{
	struct open_how how = {.flags = flags | O_PATH | O_CLOEXEC, .resolve = resolve | RESOLVE_NO_MAGICLINKS};
	int fd = (int)syscall(SYS_openat2, folder, path, &how, sizeof(how));

	return fd < 0 ? -errno : fd;
}

/* Whether `path`'s first part is in the folder. */
static bool has_branch(int folder, const char *path)
{
	char branch[BROKER_DEBUG_PATH_MAX];
	struct stat stat;

	snprintf(branch, sizeof(branch), "%.*s", (int)strcspn(path, "/"), path);
	return !fstatat(folder, branch, &stat, AT_SYMLINK_NOFOLLOW);
}

/* In the opener, which gives its rights away. */
static int open_debug(const struct wanted *wanted, int *ret_fd)
{
	const struct identity *client = wanted->client;
	int root, folder, handle, err;
	struct stat stat;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/root", wanted->pid);
	root = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (root < 0)
		return -errno;
	if (client->uid)
		err = privileges__become(client->uid, client->gid, client->groups, client->n_groups);
	else
		err = privileges__become(PRIVILEGES_NOBODY, PRIVILEGES_NOBODY, NULL, 0);
	if (err)
		return err;
	folder = open_below(root, DEBUG_ROOT, O_DIRECTORY, RESOLVE_IN_ROOT);
	if (folder < 0)
		return folder == -ENOENT ? -ENODEV : folder;
	handle = open_below(folder, wanted->path, 0, RESOLVE_BENEATH);
	if (handle < 0)
		return handle == -ENOENT && !has_branch(folder, wanted->path) ? -ENODEV : handle;
	/* As in process__open_file(). */
	if (fstat(handle, &stat))
		return -errno;
	if (!S_ISREG(stat.st_mode))
		return -EINVAL;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", handle);
	*ret_fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	return *ret_fd < 0 ? -errno : 0;
}

/* The opener: alone with its socket, so that no event, program or channel of the
 * broker lives on in one that waits. */
static void __attribute__((noreturn))
open_and_send(int socket, const struct wanted *wanted)
{
	struct broker_message message = {.kind = BROKER_FILE};
	int fd = -1, err;

	if (dup2(socket, 0) < 0 || close_range(1, ~0u, 0))
		_exit(1);
	err = wanted->path ? open_debug(wanted, &fd)
			   : process__open_file(wanted->pid, wanted->start, wanted->end, &fd);
	message.error_errno = -err;
	_exit(broker__send(0, &message, &fd, err ? 0 : 1) ? 1 : 0);
}

/* Forks twice: the opener is not the caller's to wait for. */
static int start_opener(int socket, const struct wanted *wanted)
{
	pid_t between = fork(), opener;
	int status;

	if (between < 0)
		return -errno;
	if (!between) {
		opener = fork();
		if (!opener)
			open_and_send(socket, wanted);
		_exit(opener < 0 ? errno : 0);
	}
	while (waitpid(between, &status, 0) < 0)
		if (errno != EINTR)
			return -errno;
	return !WIFEXITED(status) ? -ECHILD : -WEXITSTATUS(status);
}

static int open_elsewhere(const struct wanted *wanted, int *ret_fd)
{
	_cleanup_close_ int ours = -1;
	struct broker_message answer;
	int pair[2], fds[BROKER_FDS_MAX], err;
	struct pollfd answered = {.events = POLLIN};
	unsigned n;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
		return -errno;
	ours = answered.fd = pair[0];
	err = start_opener(pair[1], wanted);
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

int file__open_mapped(pid_t pid, uint64_t start, uint64_t end, int *ret_fd)
{
	return open_elsewhere(&(struct wanted){.pid = pid, .start = start, .end = end}, ret_fd);
}

int file__open_debug(pid_t pid, const struct identity *client, const char *path, int *ret_fd)
{
	return open_elsewhere(&(struct wanted){.pid = pid, .client = client, .path = path}, ret_fd);
}
