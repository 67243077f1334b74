/* SPDX-License-Identifier: MIT */
/* Reads and writes recordings: the event stream in a file. The writer ends a zstd frame at each flush. Frames
 * have checksums and are independent, so a file that was cut off (full disk, SIGKILL) can be read up to the
 * last flush.
 *
 *     28 b5 2f fd ...   a zstd frame (RFC 8878): the lines of about a second
 *     28 b5 2f fd ...   the next one
 *     or, without compression: {"ev":"hello",...}\n{"ev":"session",...}\n...
 *
 * `zstdcat svd.cprof` shows the lines. Lines may cross the chunks in which the file is read, not the
 * frames. */
#include <zstd.h>
#include <zstd_errors.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/limits.h"
#include "events/events.h"

#ifdef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION
#define CHUNK 1024u /* fuzzing inputs are small: with small chunks they reach chunk boundaries */
#else
/* The most that a block of zstd expands to (RFC 8878, 3.1.1.2.4). */
#define CHUNK (128u << 10)
#endif
#define LEVEL 1 /* with frames of one second, 2 and 3 do not compress better, and take 1.3 and 2 times as long */
/* Bounds what a reader allocates for a hostile file: 8 MB. Level 1 needs 0.5 MB. */
#define WINDOW_LOG_MAX 23

struct recording_writer {
	int fd;
	int failed;	 /* the first error: nothing is written after a gap */
	ZSTD_CCtx *zstd; /* NULL: plain */
	bool (*full)(void *of); /* NULL: a full disk is an error like others */
	void *of;
	/* a frame was begun: a flush without lines must not write an empty one */
	bool in_frame;
	size_t used; /* of out[] */
	char out[CHUNK];
};

/* What could not be written is dropped; `failed` then keeps everything after it out of the file, too. */
static int write_out(struct recording_writer *writer)
{
	size_t done = 0;
	int err;

	do
		err = file__write_rest(writer->fd, writer->out, writer->used, &done);
	while ((err == -ENOSPC || err == -EDQUOT) && writer->full && writer->full(writer->of));
	writer->used = 0;
	return err;
}

/* Collects lines in out[], so that write() is called once for each chunk. */
static int write_plain(struct recording_writer *writer, const char *data, size_t len)
{
	int err = 0;

	while (len && !err) {
		size_t n = sizeof(writer->out) - writer->used;

		n = n < len ? n : len;
		memcpy(writer->out + writer->used, data, n);
		writer->used += n;
		data += n;
		len -= n;
		if (writer->used == sizeof(writer->out))
			err = write_out(writer);
	}
	return err;
}

/* ZSTD_e_continue: the library decides when it writes. ZSTD_e_end: everything, and the end of the frame;
 * `left` is 0 when that is done. */
static int write_zstd(struct recording_writer *writer, const char *data, size_t len,
		      ZSTD_EndDirective directive)
{
	ZSTD_inBuffer in = {data, len, 0};
	size_t left;

	do {
		ZSTD_outBuffer out = {writer->out, sizeof(writer->out), writer->used};

		left = ZSTD_compressStream2(writer->zstd, &out, &in, directive);
		if (ZSTD_isError(left))
			return -EIO;
		writer->used = out.pos;
		if (writer->used == sizeof(writer->out)) {
			int err = write_out(writer);

			if (err)
				return err;
		}
	} while (in.pos < in.size || (directive == ZSTD_e_end && left));
	return 0;
}

int recording_writer__new(int fd, bool compress, struct recording_writer **ret)
{
	struct recording_writer *writer = malloc(sizeof(*writer));

	if (!writer)
		return -ENOMEM;
	writer->fd = fd;
	writer->failed = 0;
	writer->full = NULL;
	writer->in_frame = false;
	writer->used = 0;
	writer->zstd = compress ? ZSTD_createCCtx() : NULL;
	if (compress &&
	    (!writer->zstd ||
	     ZSTD_isError(ZSTD_CCtx_setParameter(writer->zstd, ZSTD_c_compressionLevel, LEVEL)) ||
	     ZSTD_isError(ZSTD_CCtx_setParameter(writer->zstd, ZSTD_c_checksumFlag, 1)))) {
		recording_writer__free(writer);
		return -ENOMEM;
	}
	*ret = writer;
	return 0;
}

void recording_writer__on_full(struct recording_writer *writer, bool (*full)(void *of), void *of)
{
	writer->full = full;
	writer->of = of;
}

int recording_writer__lines(struct recording_writer *writer, const char *lines, size_t len)
{
	if (writer->failed || !len)
		return writer->failed;
	/* A frame ends only between lines. */
	if (lines[len - 1] != '\n')
		return -EINVAL;
	writer->in_frame = true;
	writer->failed = writer->zstd ? write_zstd(writer, lines, len, ZSTD_e_continue)
				      : write_plain(writer, lines, len);
	return writer->failed;
}

int recording_writer__flush(struct recording_writer *writer)
{
	if (writer->failed)
		return writer->failed;
	if (writer->zstd && writer->in_frame)
		writer->failed = write_zstd(writer, NULL, 0, ZSTD_e_end);
	writer->in_frame = false;
	if (!writer->failed)
		writer->failed = write_out(writer);
	return writer->failed;
}

int recording_writer__event(struct recording_writer *writer, const struct event *event, struct buf *scratch)
{
	int err;

	buf__clear(scratch);
	err = event__encode(event, scratch) ?: recording_writer__lines(writer, scratch->data, scratch->len);
	return err || event->kind != EVENT_LEDGER ? err : recording_writer__flush(writer);
}

int recording__put_end(int fd, const char *detail)
{
	const struct event end = {.kind = EVENT_END, .end = {.time = clock__now(), .reason = "snapshot", .detail = detail}};
	_cleanup_(buf__free) struct buf scratch = {};
	struct recording_writer *writer;
	int err = recording_writer__new(fd, true, &writer);

	if (err)
		return err;
	err = recording_writer__event(writer, &end, &scratch) ?: recording_writer__flush(writer);
	recording_writer__free(writer);
	return err;
}

struct recording_writer *recording_writer__free(struct recording_writer *writer)
{
	if (writer)
		ZSTD_freeCCtx(writer->zstd);
	free(writer);
	return NULL;
}

/* --- reading --- */

/* State of one recording__read(). On the heap, for its two chunks. */
struct reader {
	struct event_sink watch; /* first: sees each event before the caller's sink */
	struct event_sink *sink;
	struct event_decoder *decoder;
	ZSTD_DCtx *zstd;
	struct buf line; /* the start of a line whose end is not read yet */
	bool ended;	 /* the last event was `end` */
	bool in_frame;
	/* bytes of the file that were read; bytes of text that they expanded to, for limits__text() */
	uint64_t file, text;
	char in[CHUNK], out[CHUNK];
};

/* Remembers whether the last event was `end`: without one the recording is incomplete. */
static int watch_event(struct event_sink *self, const struct event *event)
{
	struct reader *reader = (struct reader *)self;

	reader->ended = event->kind == EVENT_END;
	return reader->sink->event(reader->sink, event);
}

/* Empty lines are skipped. */
static int feed_line(struct reader *reader, const char *line, size_t len)
{
	return len ? event_decoder__line(reader->decoder, line, len, &reader->watch) : 0;
}

/* Splits text into lines. The rest, without its end, waits in reader->line; a line that lies within the chunk
 * is not copied. */
static int feed(struct reader *reader, const char *data, size_t len)
{
	const char *newline;
	int err;

	while ((newline = memchr(data, '\n', len))) {
		size_t n = (size_t)(newline - data);

		if (reader->line.len) {
			err = buf__append(&reader->line, data, n);
			err = err ?: feed_line(reader, reader->line.data, reader->line.len);
			buf__clear(&reader->line);
		} else {
			err = feed_line(reader, data, n);
		}
		if (err)
			return err;
		data += n + 1;
		len -= n + 1;
	}
	/* No newline for 4 MB: not a recording. */
	if (reader->line.len + len > EVENTS_LINE_MAX)
		return -EBADMSG;
	return buf__append(&reader->line, data, len);
}

static int feed_zstd(struct reader *reader, size_t len)
{
	ZSTD_inBuffer in = {reader->in, len, 0};
	size_t left;
	int err;

	/* If the output buffer is full, there may be more output without further input. */
	for (;;) {
		ZSTD_outBuffer out = {reader->out, sizeof(reader->out), 0};

		left = ZSTD_decompressStream(reader->zstd, &out, &in);
		if (ZSTD_isError(left))
			return ZSTD_getErrorCode(left) == ZSTD_error_memory_allocation ? -ENOMEM : -EBADMSG;
		/* 0: the frame is complete, and its checksum was right. */
		reader->in_frame = left != 0;
		reader->text += out.pos;
		/* Before the text is parsed: a few kilobytes of zstd can expand to gigabytes. */
		err = limits__text(reader->text, reader->file) ?: feed(reader, reader->out, out.pos);
		if (err)
			return err;
		if (in.pos == in.size && out.pos < out.size)
			return 0;
	}
}

/* Reads into reader->in until it has at least `least` bytes, or the file ends. */
static ssize_t fill(struct reader *reader, int fd, size_t least)
{
	size_t have = 0;

	while (have < least) {
		ssize_t n = read(fd, reader->in + have, sizeof(reader->in) - have);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (!n)
			break;
		have += (size_t)n;
	}
	return (ssize_t)have;
}

/* A frame that asks for a larger window than WINDOW_LOG_MAX is refused before memory is allocated for it. */
static int start_zstd(struct reader *reader)
{
	reader->zstd = ZSTD_createDCtx();
	if (!reader->zstd || ZSTD_isError(ZSTD_DCtx_setParameter(reader->zstd, ZSTD_d_windowLogMax, WINDOW_LOG_MAX)))
		return -ENOMEM;
	return 0;
}

static int read_all(struct reader *reader, int fd)
{
	static const unsigned char magic[4] = {0x28, 0xb5, 0x2f, 0xfd}; /* RFC 8878, 3.1.1 */
	ssize_t n = fill(reader, fd, sizeof(magic));
	bool zstd = n >= (ssize_t)sizeof(magic) && !memcmp(reader->in, magic, sizeof(magic));
	int err = zstd ? start_zstd(reader) : 0;

	/* The first chunk was read above, for its first bytes. */
	for (; n > 0 && !err; n = err ? 0 : fill(reader, fd, 1)) {
		reader->file += (uint64_t)n;
		err = zstd ? feed_zstd(reader, (size_t)n) : feed(reader, reader->in, (size_t)n);
	}
	/* n: 0 at the end of the file, or the error of read(). */
	return err ? err : (int)n;
}

int recording__read(int fd, bool readable, struct event_sink *sink, bool *ret_cut)
{
	struct reader *reader = calloc(1, sizeof(*reader));
	int err;

	*ret_cut = false;
	if (!reader)
		return -ENOMEM;
	reader->watch.event = watch_event;
	reader->sink = sink;
	err = event_decoder__new(&reader->decoder);
	if (!err && readable)
		event_decoder__readable(reader->decoder);
	err = err ?: read_all(reader, fd);
	/* Also after an error of the sink, where it means nothing. */
	*ret_cut = !reader->ended || reader->in_frame || reader->line.len;
	event_decoder__free(reader->decoder);
	ZSTD_freeDCtx(reader->zstd);
	buf__free(&reader->line);
	free(reader);
	return err;
}
