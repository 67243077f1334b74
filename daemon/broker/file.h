/* SPDX-License-Identifier: MIT */
/* Files that lie on anybody's file system. A FUSE server, or an overlay on one, may
 * let an open() wait for ever, where no signal reaches it; nothing tells before. So
 * a process of its own opens the file, and who asked waits only so long. */
#ifndef CPROFD_BROKER_FILE_H
#define CPROFD_BROKER_FILE_H

#include <stdint.h>
#include <sys/types.h>

#include "broker/authorise.h"
#include "broker/process.h"

#define FILE_OPEN_MS 500

/* Processes that open file after file for one engine: their sockets, -1: none yet. */
struct openers {
	int mapped, debug;
	pid_t root; /* the process in whose root `debug` looks, and when that was started */
	uint64_t root_started;
};
#define OPENERS_NONE ((struct openers){.mapped = -1, .debug = -1})
void openers__leave(struct openers *openers);

/* process__open_file() within FILE_OPEN_MS, or -ETIMEDOUT; an opener is started when it has to be. What still waits then holds
 * nothing of the caller's, is nobody's child here, and ends when the file system answers. */
int file__open_mapped(struct openers *openers, pid_t pid, uint64_t start, uint64_t end, int *ret_fd);

/* A regular file below /usr/lib/debug in the root of a process that was started then (any clock's time of it), with no more rights than `client`'s (nobody's, for
 * uid 0): who made that root may have put anything there. Links may not lead out of that folder. Within
 * FILE_OPEN_MS likewise. -ENODEV: there is no such folder, or it lacks what `path` begins with. */
int file__open_debug(struct openers *openers, pid_t pid, uint64_t started, const struct identity *client, const char *path, int *ret_fd);

/* /tmp/perf-PID.map in the root of a process, by its own number, with no more rights than its own: a regular file
 * that belongs to its user, is no link, and was written to since the process began. Within FILE_OPEN_MS likewise. */
int file__open_perf_map(pid_t pid, const struct process_own *own, int *ret_fd);

#endif
