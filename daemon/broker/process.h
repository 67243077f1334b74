/* SPDX-License-Identifier: MIT */
/* A process as the broker sees it: through /proc and a pidfd. Only numbers that the kernel wrote are read here, nothing
 * that lies in the target's memory.
 *
 * All of these run in helpers (helper.h), except process__threads() and process__close(). Whoever reads /proc/PID/stat
 * or status holds the memory of that process meanwhile. If the process ends at that moment, the reader is the last one,
 * and unmaps it: pages that were written to a file's mapping go to its file system, which may never answer. */
#pragma once

#include "broker/broker.h"

#define NS_PER_TICK 10000000ull /* USER_HZ is 100 on every machine */

struct process_stat {
	char state;           /* 'R', 'S', 'Z'... */
	pid_t parent;
	bool kernel_thread;
	uint64_t start_ticks; /* since boot, in units of 1/USER_HZ */
	uint64_t ran_ticks, waited_ticks; /* CPU time: its own; that of ended children that it waited for, and of theirs */
	/* Addresses of the image's data and arguments, which an exec changes (fields 45 and 48 of stat); 0 without the
	 * right to trace the process. */
	uint64_t start_data;
	uint64_t arg_start;
};

/* -ESRCH: no such process. */
int process__stat(pid_t pid, struct process_stat *ret);

/* How the process sees itself: its pid in its innermost PID namespace, and its ids. */
struct process_own {
	pid_t pid;
	uid_t uid;
	gid_t gid;
	uint64_t began; /* when it began, by CLOCK_REALTIME as it is set now, ns; at most a tick too early */
};
int process__own(pid_t pid, uint64_t start_ticks, struct process_own *ret);

/* Descriptors of a process. They refer to one process and one image of it, whatever happens to the pid. */
struct process_fds {
	int pidfd, mem, maps;
};
#define PROCESS_FDS_NONE ((struct process_fds){-1, -1, -1})

/* Opens `pid` with the broker's rights (not the client's). */
int process__open(pid_t pid, struct process_fds *ret, struct process_stat *ret_stat);
/* 0 if the process lives and still runs the image that `fds` and `stat` belong to; else -ESRCH or -ESTALE. Call it
 * after authorisation: then what was authorised is what was opened. */
int process__unchanged(pid_t pid, const struct process_fds *fds, const struct process_stat *stat);
void process__close(struct process_fds *fds);

/* The nearest of `ancestors` that `pid` is, or is below; 0: none. Follows the parents, which the kernel changes when
 * one of them ends: a process is certain, 0 is not. */
pid_t process__nearest(pid_t pid, const pid_t *ancestors, size_t n);
/* All its living descendants (ret: malloc'd). */
int process__descendants(pid_t pid, pid_t **ret, size_t *ret_n);

/* The threads of a process (ret: malloc'd). */
int process__threads(pid_t pid, pid_t **ret, size_t *ret_n);

/* The file of a mapping, read-only. -EINVAL: not a regular file. */
int process__open_file(pid_t pid, uint64_t start, uint64_t end, int *ret_fd);

/* The error for clients that corresponds to -errno of these functions. */
enum broker_error process__error(int err);
