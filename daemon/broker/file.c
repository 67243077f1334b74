/* SPDX-License-Identifier: MIT */
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
#include "base/clock.h"
#include "broker/broker.h"
#include "broker/coroutine.h"
#include "broker/privileges.h"
#include "broker/process.h"

#define DEBUG_ROOT "usr/lib/debug"

#define DEBUG_IDLE_MS 5000 /* files are asked for when a session begins, and seldom later */

/* What an opener is for: nothing of this, for mapped files. */
struct purpose {
	pid_t pid;                     /* in whose root */
	const struct identity *client; /* debug files, with this one's rights */
	const struct process_own *own; /* a perf map, with its own rights */
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

static int open_root(pid_t pid)
{
	char path[64];
	int root;

	snprintf(path, sizeof(path), "/proc/%d/root", pid);
	root = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	return root < 0 ? -errno : root;
}

/* A file has the time of the last clock interrupt, which is as coarse as a tick at most. */
static bool is_older(const struct stat *stat, uint64_t time)
{
	const uint64_t least = time - NS_PER_TICK;
	const time_t seconds = (time_t)(least / 1000000000u);

	return stat->st_mtim.tv_sec == seconds ? (uint64_t)stat->st_mtim.tv_nsec < least % 1000000000u
					       : stat->st_mtim.tv_sec < seconds;
}

/* As in process__open_file(). `own`: it has to be this process's, and written since that began; NULL: anybody's. */
static int open_regular(int handle, const struct process_own *own, int *ret_fd)
{
	struct stat stat;
	char path[64];

	if (fstat(handle, &stat))
		return -errno;
	if (!S_ISREG(stat.st_mode))
		return -EINVAL;
	if (own && stat.st_uid != own->uid)
		return -EPERM;
	if (own && is_older(&stat, own->began)) /* of one that had this pid before */
		return -ESTALE;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", handle);
	*ret_fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	return *ret_fd < 0 ? -errno : 0;
}

/* In a process of its own, which gave its rights away. */
static int open_debug(int root, const char *path, int *ret_fd)
{
	_cleanup_close_ int folder = open_below(root, DEBUG_ROOT, O_DIRECTORY, RESOLVE_IN_ROOT);
	_cleanup_close_ int handle = -1;

	if (folder < 0)
		return folder == -ENOENT ? -ENODEV : folder;
	handle = open_below(folder, path, 0, RESOLVE_BENEATH);
	if (handle < 0)
		return handle == -ENOENT && !has_branch(folder, path) ? -ENODEV : handle;
	return open_regular(handle, NULL, ret_fd);
}

static int become_client(const struct identity *client)
{
	if (client->uid)
		return privileges__become(client->uid, client->gid, client->groups, client->n_groups);
	return privileges__become(privileges__engine_of_root(), PRIVILEGES_NOBODY, NULL, 0);
}

/* Likewise. /tmp may be a link to another folder; the file may not. */
static int open_perf_map(const struct purpose *purpose, int *ret_fd)
{
	const struct process_own *own = purpose->own;
	int root = open_root(purpose->pid), folder, handle, err;
	char name[32];

	if (root < 0)
		return root;
	err = privileges__become(own->uid, own->gid, NULL, 0);
	if (err)
		return err;
	folder = open_below(root, "tmp", O_DIRECTORY, RESOLVE_IN_ROOT);
	if (folder < 0)
		return folder;
	snprintf(name, sizeof(name), "perf-%d.map", own->pid);
	handle = open_below(folder, name, O_NOFOLLOW, RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS);
	return handle < 0 ? handle : open_regular(handle, own, ret_fd);
}

/* The opener: a process with nothing but its socket, so that no event, program or channel of the broker lives on
 * in one that waits for a file that does not open. It opens one after the other: 80 files by a fork each would
 * be 100 ms, while walks wait for their tables. Who does not answer in time is left alone, and ends when its
 * file does. */

static void answer(int err, int fd)
{
	struct broker_message message = {.kind = BROKER_FILE, .error_errno = -err};

	if (broker__send(0, &message, &fd, err ? 0 : 1))
		_exit(0);
	if (fd >= 0)
		close(fd);
}

static void __attribute__((noreturn)) serve_mapped(void)
{
	struct pollfd asked = {.events = POLLIN};
	struct broker_message message;
	int fds[BROKER_FDS_MAX], fd, err;
	unsigned n;

	for (;;) {
		if (poll(&asked, 1, -1) != 1 || broker__receive(0, &message, fds, &n) || n)
			_exit(0); /* the broker is gone */
		fd = -1;
		err = process__open_file(message.pid, message.start, message.end, &fd);
		answer(err, fd);
	}
}

/* With the rights of somebody else alone, from the first one on. It ends when nothing was asked for a while. */
static void __attribute__((noreturn)) serve_debug(const struct purpose *purpose)
{
	int root = open_root(purpose->pid), refused = root < 0 ? root : become_client(purpose->client);
	struct pollfd asked = {.events = POLLIN};
	struct broker_message message;
	int fds[BROKER_FDS_MAX], fd, err;
	unsigned n;

	for (;;) {
		if (poll(&asked, 1, DEBUG_IDLE_MS) != 1 || broker__receive(0, &message, fds, &n) || n)
			_exit(0);
		fd = -1;
		err = refused ? refused : open_debug(root, message.debug_path, &fd);
		answer(err, fd);
	}
}

static void __attribute__((noreturn)) serve(int socket, const struct purpose *purpose)
{
	int fd = -1, err;

	if (dup2(socket, 0) < 0 || close_range(1, ~0u, 0))
		_exit(1);
	if (!purpose)
		serve_mapped();
	if (purpose->client)
		serve_debug(purpose);
	err = open_perf_map(purpose, &fd);
	answer(err, fd);
	_exit(0);
}

/* Forks twice: the opener is not the caller's to wait for. */
static int start_opener(int socket, const struct purpose *purpose)
{
	pid_t between = fork(), second;
	int status;

	if (between < 0)
		return -errno;
	if (!between) {
		coroutine__forked();
		second = fork();
		if (!second)
			serve(socket, purpose);
		_exit(second < 0 ? errno : 0);
	}
	while (waitpid(between, &status, 0) < 0)
		if (errno != EINTR)
			return -errno;
	return !WIFEXITED(status) ? -ECHILD : -WEXITSTATUS(status);
}

/* Its socket, or -errno. */
static int new_opener(const struct purpose *purpose)
{
	int pair[2], err;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
		return -errno;
	err = start_opener(pair[1], purpose);
	close(pair[1]);
	if (err)
		close(pair[0]);
	return err ? err : pair[0];
}

/* What an opener answers. *ret_answered: it did, if with an error. */
static int take_file(int socket, bool *ret_answered, int *ret_fd)
{
	int err = coroutine__wait(socket, POLLIN, clock__now() + FILE_OPEN_MS * 1000000ull);
	struct broker_message message;
	int fds[BROKER_FDS_MAX];
	unsigned n;

	*ret_answered = false;
	if (err)
		return err;
	err = broker__receive(socket, &message, fds, &n);
	if (err)
		return err == -EPIPE ? -EIO : err;
	*ret_answered = true;
	if (message.error_errno || n != 1) {
		while (n)
			close(fds[--n]);
		return message.error_errno ? -message.error_errno : -EIO;
	}
	*ret_fd = fds[0];
	return 0;
}

static void leave(int *opener)
{
	if (*opener >= 0)
		close(*opener);
	*opener = -1;
}

void openers__leave(struct openers *openers)
{
	leave(&openers->mapped);
	leave(&openers->debug);
}

/* One that was killed, or has ended meanwhile, is asked anew. */
static int ask(int *opener, const struct purpose *purpose, const struct broker_message *message, int *ret_fd)
{
	bool answered = false;
	int err = 0, tries;

	for (tries = 0; tries < 2 && !answered && err != -ETIMEDOUT; tries++) {
		if (*opener < 0)
			*opener = new_opener(purpose);
		if (*opener < 0)
			return *opener;
		err = broker__send(*opener, message, NULL, 0);
		if (!err)
			err = take_file(*opener, &answered, ret_fd);
		if (!answered)
			leave(opener);
	}
	return err;
}

int file__open_mapped(struct openers *openers, pid_t pid, uint64_t start, uint64_t end, int *ret_fd)
{
	const struct broker_message message = {.kind = BROKER_OPEN_FILE, .pid = pid, .start = start, .end = end};

	return ask(&openers->mapped, NULL, &message, ret_fd);
}

int file__open_debug(struct openers *openers, pid_t pid, uint64_t started, const struct identity *client, const char *path, int *ret_fd)
{
	const struct purpose purpose = {.pid = pid, .client = client};
	struct broker_message message = {.kind = BROKER_OPEN_DEBUG};

	if (openers->root != pid || openers->root_started != started)
		leave(&openers->debug);
	openers->root = pid;
	openers->root_started = started;
	snprintf(message.debug_path, sizeof(message.debug_path), "%s", path);
	return ask(&openers->debug, &purpose, &message, ret_fd);
}

int file__open_perf_map(pid_t pid, const struct process_own *own, int *ret_fd)
{
	const struct purpose purpose = {.pid = pid, .own = own};
	_cleanup_close_ int socket = new_opener(&purpose);
	bool answered;

	return socket < 0 ? socket : take_file(socket, &answered, ret_fd);
}
