/* SPDX-License-Identifier: MIT */
/* Reads files that somebody else writes. A file system may not answer (FUSE, or an overlay on one), so a thread of its
 * own reads, and the caller waits TAIL_WAIT_MS at most. While such a read hangs, nothing else is read.
 *
 * Owner: the caller of tail__new(). Threads: one caller at a time. Errors: -errno. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define TAIL_WAIT_MS 20
#define TAIL_PIECE (256u << 10)

struct tail;

/* What was read, and of which file: valid until the next call. */
struct tail_piece {
	const char *bytes; /* valid until the next call */
	size_t n;
	uint64_t begun; /* CLOCK_MONOTONIC ns: all that was written by then is seen */
	uint64_t size;  /* of the file, before it was read */
	uint64_t links; /* 0: it was removed */
};

int tail__new(struct tail **ret);
struct tail *tail__free(struct tail *tail); /* NULL. Does not wait for a file */
/* Up to TAIL_PIECE bytes at `offset` of the file that the caller calls `key`. -EAGAIN: it takes longer, or a former one
 * does: ask again, and have what was read meanwhile. */
int tail__read(struct tail *tail, uint64_t key, int fd, uint64_t offset, struct tail_piece *ret);
