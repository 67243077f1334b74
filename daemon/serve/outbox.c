/* SPDX-License-Identifier: MIT */
/* Each client has an outbox: a ring of references to chunks and how much of the first one was written. One
 * session's events are encoded once, however many clients follow it. Nothing here waits: who does not read gets no
 * further, and its holder ends it when `bytes` is too much. Chunks of memory go out by writev(2), those of a spool
 * by sendfile(2). */
#include "serve/outbox.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/uio.h>
#include <unistd.h>

/* Chunks in one writev(). */
#define IOV 32
/* Bytes written to one client before the others have their turn. */
#define TURN (4u << 20)

struct chunk {
	unsigned refs, events;
	/* -1: the bytes are in data. Else `len` bytes of this file (owned) from `from`. */
	int fd;
	uint64_t from, len;
	/* Of the block `data`, which may be larger than len when it was used before (spare). */
	size_t size;
	char *data;
};

/* Sum over all chunks of the process, for SERVE_MEMORY_MAX. Engines have one loop, so no lock. */
static uint64_t memory;

/* Memory of the chunk that went out last, for the next one: fresh memory costs a fault a page. */
#define SPARE_MAX (256u << 10)
static char *spare;
static size_t spare_size;

/* Around `data`, a block of `size` bytes that it owns then; on error it stays the caller's. */
static int chunk__of(char *data, size_t size, size_t len, unsigned events, struct chunk **ret)
{
	struct chunk *chunk = malloc(sizeof(*chunk));

	if (!chunk)
		return -ENOMEM;
	*chunk = (struct chunk){.refs = 1, .events = events, .fd = -1, .len = len, .size = size, .data = data};
	memory += sizeof(*chunk) + len;
	*ret = chunk;
	return 0;
}

/* Shrinks the buffer to its contents, as a chunk may wait for long. */
int chunk__take(struct buf *lines, unsigned events, struct chunk **ret)
{
	int err = chunk__of(lines->data, lines->len, lines->len, events, ret);
	char *fit;

	if (err)
		return err;
	fit = realloc(lines->data, lines->len ? lines->len : 1);
	if (fit)
		(*ret)->data = fit;
	*lines = (struct buf){};
	return 0;
}

int chunk__new(const char *data, size_t len, unsigned events, struct chunk **ret)
{
	bool fits = spare && spare_size >= len;
	size_t size = fits ? spare_size : len;
	char *copy = fits ? spare : malloc(len ? len : 1);
	int err = copy ? chunk__of(copy, size, len, events, ret) : -ENOMEM;

	if (err) {
		if (!fits)
			free(copy);
		return err;
	}
	if (fits) {
		spare = NULL;
		spare_size = 0;
	}
	if (len)
		memcpy(copy, data, len);
	return 0;
}

int chunk__new_file(int fd, uint64_t from, uint64_t len, struct chunk **ret)
{
	struct chunk *chunk = malloc(sizeof(*chunk));
	int copy = dup(fd);

	if (!chunk || copy < 0) {
		int err = chunk ? -errno : -ENOMEM;

		if (copy >= 0)
			close(copy);
		free(chunk);
		return err;
	}
	*chunk = (struct chunk){.refs = 1, .fd = copy, .from = from, .len = len};
	memory += sizeof(*chunk);
	*ret = chunk;
	return 0;
}

struct chunk *chunk__ref(struct chunk *chunk)
{
	chunk->refs++;
	return chunk;
}

struct chunk *chunk__unref(struct chunk *chunk)
{
	if (!chunk || --chunk->refs)
		return NULL;
	memory -= sizeof(*chunk);
	if (chunk->fd >= 0)
		close(chunk->fd);
	else
		memory -= chunk->len;
	if (chunk->size > spare_size && chunk->size <= SPARE_MAX) {
		free(spare);
		spare = chunk->data;
		spare_size = chunk->size;
	} else {
		free(chunk->data);
	}
	free(chunk);
	return NULL;
}

size_t chunk__len(const struct chunk *chunk)
{
	return chunk->len;
}

const char *chunk__data(const struct chunk *chunk)
{
	return chunk->data;
}

unsigned chunk__events(const struct chunk *chunk)
{
	return chunk->events;
}

uint64_t chunk__memory(void)
{
	return memory;
}

/* The i-th that waits; the ring begins at `first`. */
static struct outbox_item *item(struct outbox *outbox, size_t i)
{
	return &outbox->items[(outbox->first + i) % outbox->capacity];
}

/* Unrolls the ring: items are copied in order. */
static int grow(struct outbox *outbox)
{
	size_t capacity = outbox->capacity ? outbox->capacity * 2 : 16;
	struct outbox_item *items = calloc(capacity, sizeof(*items));

	if (!items)
		return -ENOMEM;
	for (size_t i = 0; i < outbox->n; i++)
		items[i] = *item(outbox, i);
	free(outbox->items);
	outbox->items = items;
	outbox->capacity = capacity;
	outbox->first = 0;
	return 0;
}

int outbox__add(struct outbox *outbox, struct chunk *chunk)
{
	int err = outbox->n == outbox->capacity ? grow(outbox) : 0;

	if (err)
		return err;
	*item(outbox, outbox->n++) = (struct outbox_item){.chunk = chunk__ref(chunk)};
	if (chunk->fd < 0)
		outbox->bytes += chunk->len;
	return 0;
}

static void drop_first(struct outbox *outbox)
{
	chunk__unref(item(outbox, 0)->chunk);
	outbox->first = (outbox->first + 1) % outbox->capacity;
	outbox->n--;
}

/* `n` bytes of memory chunks at the front went out. */
static void advance(struct outbox *outbox, size_t n)
{
	outbox->bytes -= n;
	while (n) {
		struct outbox_item *at = item(outbox, 0);
		size_t left = at->chunk->len - at->done;

		if (n < left) {
			at->done += n;
			return;
		}
		n -= left;
		drop_first(outbox);
	}
}

/* Not sendmsg(): the sandbox refuses it, as descriptors can be sent with it. As many memory chunks as lie in front of
 * the next file chunk, in one call. */
static ssize_t write_memory(struct outbox *outbox, int fd)
{
	struct iovec iov[IOV];
	int count = 0;
	ssize_t n;

	for (size_t i = 0; i < outbox->n && count < IOV; i++) {
		struct outbox_item *at = item(outbox, i);

		if (at->chunk->fd >= 0)
			break;
		iov[count++] = (struct iovec){at->chunk->data + at->done, at->chunk->len - at->done};
	}
	n = writev(fd, iov, count);
	if (n > 0)
		advance(outbox, (size_t)n);
	return n;
}

static ssize_t write_file(struct outbox *outbox, int fd)
{
	struct outbox_item *at = item(outbox, 0);
	off_t offset = (off_t)(at->chunk->from + at->done);
	ssize_t n = sendfile(fd, at->chunk->fd, &offset, at->chunk->len - at->done);

	if (n == 0) { /* shorter than it was: promised bytes are missing, the stream cannot go on */
		errno = EIO;
		return -1;
	}
	if (n > 0) {
		at->done += (uint64_t)n;
		if (at->done == at->chunk->len)
			drop_first(outbox);
	}
	return n;
}

/* Stops after TURN bytes even if the socket takes more, as a reader that is as fast as we are would keep the loop here.
 * -EAGAIN makes the caller wait for EPOLLOUT, which comes at once in that case. */
int outbox__write(struct outbox *outbox, int fd)
{
	size_t written = 0;

	while (outbox->n) {
		ssize_t n;

		if (item(outbox, 0)->chunk->len == item(outbox, 0)->done) {
			drop_first(outbox);
			continue;
		}
		n = item(outbox, 0)->chunk->fd >= 0 ? write_file(outbox, fd) : write_memory(outbox, fd);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		written += (size_t)n;
		if (written >= TURN)
			return -EAGAIN;
	}
	return 0;
}

void outbox__free(struct outbox *outbox)
{
	while (outbox->n)
		drop_first(outbox);
	free(outbox->items);
	*outbox = (struct outbox){};
}
