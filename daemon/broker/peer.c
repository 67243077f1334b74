/* SPDX-License-Identifier: MIT */
/* What the kernel says of a connection (SO_PEERCRED, SO_PEERPIDFD, getpeername) and what /proc says of the process
 * that made it. Order matters: the pidfd is opened first, and whether the process has ended is asked last, so that
 * what was read from /proc in between was its own. */
#include "broker/peer.h"

#include <errno.h>
#include <linux/capability.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "broker/namespace.h"
#include "broker/owner.h"

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif

/* -ESRCH: the process has ended. Before Linux 6.5 by the pid: which may be that of another process by then; the uid is
 * compared later. */
static int open_pidfd(int fd, pid_t pid, int *ret)
{
	socklen_t len = sizeof(*ret);

	if (!getsockopt(fd, SOL_SOCKET, SO_PEERPIDFD, ret, &len))
		return 0;
	if (errno == ENOPROTOOPT && pid > 0) {
		*ret = (int)syscall(SYS_pidfd_open, pid, 0);
		if (*ret >= 0)
			return 0;
	}
	return errno == EMFILE || errno == ENFILE || errno == ENOMEM ? -errno : -ESRCH;
}

/* Also true if poll() fails: then nothing is known of the process. */
static bool has_ended(int pidfd)
{
	struct pollfd ended = {.fd = pidfd, .events = POLLIN};

	return poll(&ended, 1, 0) != 0;
}

/* The folder in /proc is always the effective uid's (task_dump_owner, fs/proc/base.c). */
static bool has_uid(pid_t pid, uid_t uid)
{
	struct stat folder;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d", pid);
	return !stat(path, &folder) && folder.st_uid == uid;
}

/* Its effective capabilities; 0 unless it has this effective uid before and after they are read, as it may run exec in
 * between. Not from /proc/PID/status: whoever reads that holds its memory (process.h). */
static uint64_t capabilities_of(pid_t pid, uid_t uid)
{
	struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, pid};
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = {};

	if (!has_uid(pid, uid) || syscall(SYS_capget, &header, data) || !has_uid(pid, uid))
		return 0;
	return (uint64_t)data[1].effective << 32 | data[0].effective;
}

/* Capabilities count only in the namespace that they were given in. */
static bool shares_user_namespace(pid_t pid)
{
	struct stat own, its;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/ns/user", pid);
	return !stat("/proc/self/ns/user", &own) && !stat(path, &its) && own.st_ino == its.st_ino && own.st_dev == its.st_dev;
}

/* See "Root" in docs/protocol.md: the address is "\0cprofd\0", a nonce, pids. The nonce keeps two clients from having
 * the same address. */
#define NAME_HEAD "\0cprofd" /* sizeof() counts its NUL */
#define NAME_NONCE 16u
#define NAME_PIDS (sizeof(NAME_HEAD) + NAME_NONCE)
_Static_assert(NAME_PIDS + PEER_NAMED_MAX * sizeof(int32_t) <= sizeof(((struct sockaddr_un *)0)->sun_path), "it fits");

/* The pids are at fixed offsets; an address of another form names none. */
static void read_names(int fd, struct peer *peer)
{
	struct sockaddr_un address = {};
	socklen_t len = sizeof(address);
	size_t size, i;
	int32_t pid;

	if (getpeername(fd, (struct sockaddr *)&address, &len) || len > sizeof(address) ||
	    len < offsetof(struct sockaddr_un, sun_path) + NAME_PIDS || memcmp(address.sun_path, NAME_HEAD, sizeof(NAME_HEAD)))
		return;
	size = len - offsetof(struct sockaddr_un, sun_path) - NAME_PIDS;
	for (i = 0; i < size / sizeof(pid) && i < PEER_NAMED_MAX; i++) {
		memcpy(&pid, address.sun_path + NAME_PIDS + i * sizeof(pid), sizeof(pid));
		if (pid > 0)
			peer->named[peer->n_named++] = pid;
	}
}

int peer__name(int fd, const pid_t *pids, unsigned n)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int32_t pid;

	if (!n || n > PEER_NAMED_MAX)
		return -EINVAL;
	memcpy(address.sun_path, NAME_HEAD, sizeof(NAME_HEAD));
	if (getrandom(address.sun_path + sizeof(NAME_HEAD), NAME_NONCE, 0) != NAME_NONCE)
		return -EIO;
	for (unsigned i = 0; i < n; i++) {
		pid = pids[i];
		memcpy(address.sun_path + NAME_PIDS + i * sizeof(pid), &pid, sizeof(pid));
	}
	return bind(fd, (struct sockaddr *)&address, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + NAME_PIDS + n * sizeof(pid))) ?
		       -errno : 0;
}

int peer__of_socket(int fd, struct peer *ret)
{
	struct ucred cred;
	socklen_t len = sizeof(cred);
	int err;

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len))
		return -errno;
	*ret = (struct peer){.pid = cred.pid, .pidfd = -1};
	read_names(fd, ret);
	err = open_pidfd(fd, cred.pid, &ret->pidfd);
	if (err && err != -ESRCH)
		return err;
	/* A process that changed its uid since it connected keeps the uid, but gets no capabilities. */
	if (!err && cred.pid > 0 && shares_user_namespace(cred.pid))
		ret->capabilities = capabilities_of(cred.pid, cred.uid);
	ret->payer = owner__of(err ? 0 : cred.pid, cred.uid);
	if (!namespace__has_proc())
		ret->unnamed = BROKER_ERROR_NO_PROC;
	else if (namespace__is_other(cred.pid))
		ret->unnamed = BROKER_ERROR_OTHER_NAMESPACE;
	/* Checked last: if it lives now, its pid was its own while all this was read. */
	if (err || has_ended(ret->pidfd)) {
		ret->unnamed = BROKER_ERROR_CLIENT_ENDED;
		ret->capabilities = 0;
	}
	return 0;
}

int peer__of_parent(int fd, struct peer *ret)
{
	*ret = (struct peer){
		.pid = getppid(),
		.payer = getuid(),
		.capabilities = ~0ull, /* its broker has the same rights, so the kernel decides */
		.unnamed = namespace__has_proc() ? BROKER_ERROR_OK : BROKER_ERROR_NO_PROC,
	};
	read_names(fd, ret);
	ret->pidfd = (int)syscall(SYS_pidfd_open, ret->pid, 0);
	return ret->pidfd < 0 ? -errno : 0;
}

void peer__free(struct peer *peer)
{
	if (peer->pidfd >= 0)
		close(peer->pidfd);
	peer->pidfd = -1;
}
