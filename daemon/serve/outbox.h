/* SPDX-License-Identifier: MIT */
/* Outbox: what waits to be written to one client. A chunk is encoded once and shared by the outboxes of all clients, by
 * a count of references; or it is a range of a file (a spool). The outbox has no bound of its own: its owner checks
 * `bytes` before it adds. Threading: one thread. Errors: -errno. */
#pragma once

#include "base/buf.h"

struct chunk;
/* Lines (of `events` events): copied, or the buffer's own memory (empty then; left as it is on error). */
int chunk__new(const char *data, size_t len, unsigned events, struct chunk **ret);
int chunk__take(struct buf *lines, unsigned events, struct chunk **ret);
/* `len` bytes of a file from `from`; the fd is duplicated. */
int chunk__new_file(int fd, uint64_t from, uint64_t len, struct chunk **ret);
struct chunk *chunk__ref(struct chunk *chunk);
struct chunk *chunk__unref(struct chunk *chunk); /* NULL */
size_t chunk__len(const struct chunk *chunk);
const char *chunk__data(const struct chunk *chunk); /* of a memory chunk */
unsigned chunk__events(const struct chunk *chunk);
uint64_t chunk__memory(void); /* of all chunks of the process */

/* What waits for one client, in order. All zero is empty. */
struct outbox {
	struct outbox_item {
		struct chunk *chunk;
		uint64_t done;     /* bytes of it that were written */
	} *items;              /* a ring */
	size_t first, n, capacity;
	uint64_t bytes;        /* memory chunks' bytes that wait */
};

/* Takes a reference of its own. */
int outbox__add(struct outbox *outbox, struct chunk *chunk);
/* Writes what `fd`, a socket, takes now. 0: empty now; -EAGAIN: the rest waits; -EPIPE and others:
 * the client is gone. */
int outbox__write(struct outbox *outbox, int fd);
void outbox__free(struct outbox *outbox); /* leaves it empty */
