/* SPDX-License-Identifier: MIT */
/* Readers of /proc/PID/{stat,status,task,map_files}. What holds a pid to one process is a pidfd that was opened
 * before anything else was read; what holds it to one image, where that has its data and its arguments: an exec
 * moves them, or at least closes `mem`. */
#include "broker/process.h"

#include <dirent.h>
#include <linux/stat.h>
#include <poll.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/file.h"

#define KTHREAD_FLAG 0x00200000u /* PF_KTHREAD, linux/sched.h */

int process__stat(pid_t pid, struct process_stat *ret)
{
	char path[64], text[1024], *field, *save = NULL;
	ssize_t len;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	len = file__text(path, text, sizeof(text));
	if (len <= 0) /* one that ends between open() and read() reads as nothing */
		return !len || len == -ENOENT ? -ESRCH : (int)len;
	*ret = (struct process_stat){};
	/* The name, in parentheses, may contain anything, also parentheses: begin after the last one. */
	field = strrchr(text, ')');
	if (!field)
		return -EPROTO;
	field = strtok_r(field + 1, " \n", &save);
	for (unsigned number = 3; field; number++, field = strtok_r(NULL, " \n", &save)) {
		switch (number) { /* proc(5) */
		case 3:
			ret->state = *field;
			break;
		case 4:
			ret->parent = atoi(field);
			break;
		case 9:
			ret->kernel_thread = strtoul(field, NULL, 10) & KTHREAD_FLAG;
			break;
		case 14: /* utime, stime */
		case 15:
			ret->ran_ticks += strtoull(field, NULL, 10);
			break;
		case 16: /* cutime, cstime */
		case 17:
			ret->waited_ticks += strtoull(field, NULL, 10);
			break;
		case 22:
			ret->start_ticks = strtoull(field, NULL, 10);
			break;
		case 45:
			ret->start_data = strtoull(field, NULL, 10);
			break;
		case 48:
			ret->arg_start = strtoull(field, NULL, 10);
			return 0;
		}
	}
	return -EPROTO;
}

/* Lines of /proc/PID/status: "Uid:\t1000\t1000\t1000\t1000" (real, effective, saved, file system), "NStgid:\t4242\t7"
 * (its pid in each of its PID namespaces). */
int process__own(pid_t pid, uint64_t start_ticks, struct process_own *ret)
{
	_cleanup_fclose_ FILE *file = NULL;
	_cleanup_free_ char *line = NULL;
	size_t capacity = 0;
	unsigned found = 0;
	char path[64];
	char *last;

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	file = fopen(path, "re");
	if (!file)
		return errno == ENOENT ? -ESRCH : -errno;
	ret->began = clock__read(CLOCK_REALTIME) - clock__read(CLOCK_BOOTTIME) + start_ticks * NS_PER_TICK;
	/* Names cannot fake a line here: the kernel escapes newlines. */
	while (getline(&line, &capacity, file) > 0) {
		if (sscanf(line, "Uid:\t%*u\t%u", &ret->uid) == 1) /* real, effective, .. */
			found |= 1;
		else if (sscanf(line, "Gid:\t%*u\t%u", &ret->gid) == 1)
			found |= 2;
		else if (!strncmp(line, "NStgid:", 7) && (last = strrchr(line, '\t')) && (ret->pid = atoi(last + 1)) > 0)
			found |= 4; /* the innermost is the last */
	}
	return found == 7 ? 0 : -ESRCH;
}

/* A descriptor of /proc/PID/NAME, with the broker's rights. */
static int open_of(pid_t pid, const char *name, int *ret_fd)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/%s", pid, name);
	*ret_fd = open(path, O_RDONLY | O_CLOEXEC);
	if (*ret_fd >= 0)
		return 0;
	return errno == ENOENT ? -ESRCH : -errno;
}

/* The pidfd is first: while it has not ended, the pid is this process's, so what is read in between belongs to it. */
int process__open(pid_t pid, struct process_fds *ret, struct process_stat *ret_stat)
{
	struct process_fds fds = PROCESS_FDS_NONE;
	int err;

	if (pid <= 0)
		return -ESRCH;
	fds.pidfd = syscall(SYS_pidfd_open, pid, 0);
	if (fds.pidfd < 0) /* EINVAL, ENOENT: the tid of a thread */
		return errno == EINVAL || errno == ENOENT ? -ESRCH : -errno;
	err = process__stat(pid, ret_stat);
	if (!err && ret_stat->kernel_thread)
		err = -ENXIO;
	/* A zombie has no memory any more. */
	if (!err && (ret_stat->state == 'Z' || ret_stat->state == 'X'))
		err = -ESRCH;
	err = err ?: open_of(pid, "mem", &fds.mem);
	err = err ?: open_of(pid, "maps", &fds.maps);
	if (err) {
		process__close(&fds);
		return err;
	}
	*ret = fds;
	return 0;
}

int process__unchanged(pid_t pid, const struct process_fds *fds, const struct process_stat *stat)
{
	struct pollfd ended = {.fd = fds->pidfd, .events = POLLIN};
	struct process_stat now;
	char byte;
	int err = process__stat(pid, &now);

	if (err)
		return err;
	/* The pidfd has not ended, so the pid was this process's while its stat was read. */
	if (poll(&ended, 1, 0) != 0)
		return -ESRCH;
	if (now.arg_start != stat->arg_start || now.start_data != stat->start_data)
		return -ESTALE;
	/* /proc/PID/mem refers to the image it was opened for: after an exec it reads nothing. */
	if (pread(fds->mem, &byte, 1, (off_t)stat->arg_start) != 1)
		return -ESTALE;
	return 0;
}

void process__close(struct process_fds *fds)
{
	if (fds->pidfd >= 0)
		close(fds->pidfd);
	if (fds->mem >= 0)
		close(fds->mem);
	if (fds->maps >= 0)
		close(fds->maps);
	*fds = PROCESS_FDS_NONE;
}

static bool is_in(const pid_t *pids, size_t n, pid_t pid)
{
	size_t i = 0;

	while (i < n && pids[i] != pid)
		i++;
	return i < n;
}

/* 4096: a bound on the depth, in case parents change while they are followed. */
pid_t process__nearest(pid_t pid, const pid_t *ancestors, size_t n)
{
	struct process_stat stat;

	for (unsigned depth = 0; depth < 4096 && pid > 0; depth++) {
		if (is_in(ancestors, n, pid))
			return pid;
		if (process__stat(pid, &stat))
			break;
		pid = stat.parent;
	}
	return 0;
}

struct pids {
	pid_t *data;
	uint32_t n, capacity;
};

static int pids__add(struct pids *pids, pid_t pid)
{
	return ARRAY_ADD(pids->data, pids->n, pids->capacity, pid);
}

/* The numbers among the entries of a directory of /proc. */
static int list(const char *path, struct pids *pids)
{
	struct dirent *entry;
	int err = 0;
	DIR *dir;

	dir = opendir(path);
	if (!dir)
		return errno == ENOENT ? -ESRCH : -errno;
	while (!err && (entry = readdir(dir)))
		if (entry->d_name[0] >= '1' && entry->d_name[0] <= '9')
			err = pids__add(pids, atoi(entry->d_name));
	closedir(dir);
	return err;
}

int process__threads(pid_t pid, pid_t **ret, size_t *ret_n)
{
	struct pids pids = {};
	char path[64];
	int err;

	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	err = list(path, &pids);
	if (err) {
		free(pids.data);
		return err;
	}
	*ret = pids.data;
	*ret_n = pids.n;
	return 0;
}

/* Reads every process of the machine: the kernel has no list of children that can be read without CONFIG_PROC_CHILDREN.
 * Parents that end meanwhile hide their children. */
int process__descendants(pid_t pid, pid_t **ret, size_t *ret_n)
{
	_cleanup_free_ pid_t *parents = NULL;
	struct pids all = {}, found = {};
	struct process_stat stat;
	bool *below = NULL, more;
	int err = list("/proc", &all);

	if (err)
		goto out;
	parents = calloc(all.n + 1, sizeof(*parents));
	below = calloc(all.n + 1, sizeof(*below));
	if (!parents || !below) {
		err = -ENOMEM;
		goto out;
	}
	for (size_t i = 0; i < all.n; i++)
		if (!process__stat(all.data[i], &stat) && stat.state != 'Z')
			/* Those that could not be read keep parent 0, and are below nobody. */
			parents[i] = stat.parent;
	/* Children may be listed before their parents: repeat until nothing is added. */
	do {
		more = false;
		for (size_t i = 0; i < all.n && !err; i++) {
			if (below[i] || !parents[i] || (parents[i] != pid && !is_in(found.data, found.n, parents[i])))
				continue;
			below[i] = more = true;
			err = pids__add(&found, all.data[i]);
		}
	} while (more && !err);
	if (!err) {
		*ret = take_ptr(found.data);
		*ret_n = found.n;
	}
out:
	free(below);
	free(all.data);
	free(found.data);
	return err;
}

/* Not by the path in maps: that may be another file by now, or in another mount namespace. map_files is the file that
 * is mapped. */
int process__open_file(pid_t pid, uint64_t start, uint64_t end, int *ret_fd)
{
	_cleanup_close_ int handle = -1;
	struct statx file;
	char path[96];

	snprintf(path, sizeof(path), "/proc/%d/map_files/%llx-%llx", pid, (unsigned long long)start,
		 (unsigned long long)end);
	/* Opening a device can have effects. So check the type first, without asking the file system
	 * (AT_STATX_DONT_SYNC). */
	handle = open(path, O_PATH | O_CLOEXEC);
	if (handle < 0)
		return -errno;
	if (statx(handle, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_TYPE, &file))
		return -errno;
	if (!S_ISREG(file.stx_mode))
		return -EINVAL;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", handle);
	*ret_fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	return *ret_fd < 0 ? -errno : 0;
}

/* One place for the whole broker, so that the same cause reads the same everywhere. */
enum broker_error process__error(int err)
{
	switch (err) {
	case 0:
		return BROKER_ERROR_OK;
	case -ESRCH:
	case -ESTALE:
		return BROKER_ERROR_NO_PROCESS;
	case -ENXIO:
		return BROKER_ERROR_KERNEL_THREAD;
	case -EPERM:
	case -EACCES:
		return BROKER_ERROR_NOT_YOURS;
	case -ENOMEM:
		return BROKER_ERROR_NO_MEMORY;
	case -EMFILE:
	case -ENFILE:
		return BROKER_ERROR_NO_DESCRIPTORS;
	case -EAGAIN: /* fork(2) */
		return BROKER_ERROR_NO_TASKS;
	case -EDQUOT:
	case -E2BIG:
		return BROKER_ERROR_LIMIT;
	case -ETIMEDOUT:
		return BROKER_ERROR_NO_ANSWER;
	case -EBUSY:
		return BROKER_ERROR_HELPERS_HANG;
	default:
		return BROKER_ERROR_INTERNAL;
	}
}
