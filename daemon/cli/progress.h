/* SPDX-License-Identifier: MIT */
/* The progress line of a recording that is read. */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct progress {
	int fd;           /* borrowed: it stays open until progress__end() */
	const char *name; /* borrowed */
	off_t size, last;
	uint64_t begun; /* CLOCK_MONOTONIC ns */
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t end;
	unsigned pass; /* from 1 */
	bool shown, ended;
};

/* Shows how far `fd` was read, from a second on; nothing where stderr is no terminal, with --quiet, and for pipes.
 * Nothing may be printed but through say(), nor progress moved, until progress__end(). */
void progress__begin(struct progress *progress, int fd, const char *path);
void progress__end(struct progress *progress);
