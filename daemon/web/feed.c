/* SPDX-License-Identifier: MIT */
/* The lines of a session for pages. All of them are in a recording, compressed; a reader is a position in it:
 *
 *     file   [frame of a second][frame][frame] |           the reader unpacks from `at` on, `skip` bytes of text
 *     tail                                     [text]      ... until it has caught up; then it reads here
 *
 * A flush ends the frame, and empties the tail. A reader that had not read all of the tail goes on in the file. */
#include <zstd.h>

#include "base/buf.h"
#include "base/nameless.h"
#include "base/cleanup.h"
#include "base/file.h"
#include "events/events.h"
#include "web/internal.h"

#define CHUNK (128u << 10)
/* The tail is flushed at this size, whatever the time. */
#define TAIL_MAX (1u << 20)

struct feed {
	int fd;
	struct recording_writer *writer;
	struct buf tail;
	uint64_t flushed; /* bytes of the file that are whole frames */
	struct feed_reader *readers;
	bool ended;
};

struct feed_reader {
	struct feed *feed;
	struct feed_reader *next;
	bool in_file;
	size_t tail_at;        /* in the tail */
	uint64_t at, skip;     /* in the file */
	ZSTD_DCtx *zstd;
	ZSTD_inBuffer in;
	char bytes[CHUNK];
};

int feed__new(int fd, struct feed **ret)
{
	struct feed *feed = calloc(1, sizeof(*feed));
	int err;

	*ret = NULL;
	if (!feed) {
		close(fd);
		return -ENOMEM;
	}
	feed->fd = fd;
	err = recording_writer__new(fd, true, &feed->writer);
	if (err)
		feed__free(feed);
	else
		*ret = feed;
	return err;
}

void feed__free(struct feed *feed)
{
	if (!feed)
		return;
	recording_writer__free(feed->writer);
	buf__free(&feed->tail);
	close(feed->fd);
	free(feed);
}

static void go_to_file(struct feed_reader *reader)
{
	reader->in_file = true;
	reader->at = reader->feed->flushed;
	reader->skip = reader->tail_at;
	reader->in = (ZSTD_inBuffer){.src = reader->bytes};
	ZSTD_DCtx_reset(reader->zstd, ZSTD_reset_session_only);
}

int feed__flush(struct feed *feed)
{
	off_t size;
	int err;

	if (!feed->tail.len)
		return 0;
	err = recording_writer__flush(feed->writer);
	if (err)
		return err;
	size = lseek(feed->fd, 0, SEEK_CUR);
	if (size < 0)
		return -errno;
	for (struct feed_reader *reader = feed->readers; reader; reader = reader->next) {
		if (!reader->in_file && reader->tail_at < feed->tail.len)
			go_to_file(reader);
		reader->tail_at = 0;
	}
	feed->flushed = (uint64_t)size;
	/* One long line must not keep its memory. */
	if (feed->tail.capacity > 2 * TAIL_MAX)
		buf__free(&feed->tail);
	else
		buf__clear(&feed->tail);
	return 0;
}

int feed__lines(struct feed *feed, const char *lines, size_t len)
{
	int err = recording_writer__lines(feed->writer, lines, len) ?: buf__append(&feed->tail, lines, len);

	return err || feed->tail.len < TAIL_MAX ? err : feed__flush(feed);
}

void feed__end(struct feed *feed)
{
	feed->ended = true;
}

/* In chunks: an hour of a busy program has hundreds of megabytes. */
static int copy(int from, int to, uint64_t size)
{
	char bytes[1u << 16];
	uint64_t at = 0;
	int err = 0;

	while (at < size && !err) {
		uint64_t left = size - at;
		ssize_t n = pread(from, bytes, left < sizeof(bytes) ? left : sizeof(bytes), (off_t)at);

		if (n <= 0)
			return n < 0 ? -errno : -EIO;
		err = file__write(to, bytes, (size_t)n);
		at += (uint64_t)n;
	}
	return err;
}

int feed__snapshot(const struct feed *feed, int *ret_fd)
{
	_cleanup_close_ int fd = -1;
	int err = temporary__open(&fd);

	err = err ?: copy(feed->fd, fd, feed->flushed) ?: feed->ended ? err : recording__put_end(fd, "");
	if (!err && lseek(fd, 0, SEEK_SET) < 0)
		err = -errno;
	if (!err)
		*ret_fd = take_fd(&fd);
	return err;
}

/* --- reading --- */

int feed_reader__new(struct feed *feed, struct feed_reader **ret)
{
	struct feed_reader *reader = calloc(1, sizeof(*reader));

	*ret = NULL;
	if (!reader)
		return -ENOMEM;
	reader->zstd = ZSTD_createDCtx();
	if (!reader->zstd) {
		free(reader);
		return -ENOMEM;
	}
	reader->feed = feed;
	reader->in.src = reader->bytes;
	reader->in_file = feed->flushed > 0;
	reader->next = feed->readers;
	feed->readers = reader;
	*ret = reader;
	return 0;
}

void feed_reader__free(struct feed_reader *reader)
{
	struct feed_reader **at;

	if (!reader)
		return;
	for (at = &reader->feed->readers; *at != reader; at = &(*at)->next)
		;
	*at = reader->next;
	ZSTD_freeDCtx(reader->zstd);
	free(reader);
}

static int refill(struct feed_reader *reader)
{
	uint64_t left = reader->feed->flushed - reader->at;
	ssize_t n = pread(reader->feed->fd, reader->bytes, left < CHUNK ? left : CHUNK, (off_t)reader->at);

	if (n <= 0)
		return n < 0 ? -errno : -EIO;
	reader->at += (uint64_t)n;
	reader->in = (ZSTD_inBuffer){.src = reader->bytes, .size = (size_t)n};
	return 0;
}

/* Text of the file; 0 bytes: the reader has caught up, and is in the tail now. */
static int read_file(struct feed_reader *reader, char *text, size_t size, size_t *ret_len)
{
	ZSTD_outBuffer out = {text, size, 0};

	while (!out.pos) {
		const bool last = reader->in.pos == reader->in.size;
		int err = last && reader->at < reader->feed->flushed ? refill(reader) : 0;

		if (err)
			return err;
		if (ZSTD_isError(ZSTD_decompressStream(reader->zstd, &out, &reader->in)))
			return -EIO;
		if (!out.pos && last && reader->at == reader->feed->flushed) {
			reader->in_file = false;
			reader->tail_at = 0;
			break;
		}
		if (reader->skip) {
			size_t dropped = reader->skip < out.pos ? reader->skip : out.pos;

			memmove(text, text + dropped, out.pos - dropped);
			out.pos -= dropped;
			reader->skip -= dropped;
		}
	}
	*ret_len = out.pos;
	return 0;
}

int feed_reader__read(struct feed_reader *reader, char *out, size_t size, size_t *ret_len)
{
	struct feed *feed = reader->feed;
	size_t left;

	*ret_len = 0;
	if (reader->in_file) {
		int err = read_file(reader, out, size, ret_len);

		if (err || *ret_len)
			return err;
	}
	left = feed->tail.len - reader->tail_at;
	*ret_len = left < size ? left : size;
	if (!*ret_len)
		return feed->ended ? -ENODATA : 0;
	memcpy(out, feed->tail.data + reader->tail_at, *ret_len);
	reader->tail_at += *ret_len;
	return 0;
}
