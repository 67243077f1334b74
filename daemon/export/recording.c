/* SPDX-License-Identifier: MIT */
/* `-f events`: copies the recording byte for byte; with a filter, a thread or a window, writes its events
 * again without the samples that do not pass. Byte for byte means that a recording of a newer version, or a
 * damaged one, is copied, too. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "events/events.h"
#include "export/filter.h"
#include "export/formats.h"

static int copy(int recording_fd, FILE *out)
{
	_cleanup_free_ char *chunk = malloc(1 << 16);
	ssize_t n;

	if (!chunk)
		return -ENOMEM;
	while ((n = read(recording_fd, chunk, 1 << 16)) != 0) {
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (fwrite(chunk, 1, (size_t)n, out) != (size_t)n)
			return errno ? -errno : -EIO;
	}
	return 0;
}

/* The last sink: encodes each event as a line of the new recording. */
struct rewriter {
	struct event_sink sink;
	struct recording_writer *writer;
	struct buf line;
};

static int rewrite_event(struct event_sink *self, const struct event *event)
{
	struct rewriter *rewriter = (struct rewriter *)self;
	int err;

	buf__clear(&rewriter->line);
	err = event__encode(event, &rewriter->line);
	err = err
		      ?: recording_writer__lines(rewriter->writer, rewriter->line.data,
						 rewriter->line.len);
	/* Ends a zstd frame about each second, as a session does: if the file is truncated, the frames before
	 * can be read. */
	if (!err && event->kind == EVENT_LEDGER)
		err = recording_writer__flush(rewriter->writer);
	return err;
}

static int rewrite(int recording_fd, const struct export_options *options, FILE *out,
		   struct export_report *ret)
{
	struct rewriter rewriter = {.sink = {rewrite_event}};
	struct filter *filter = NULL;
	/* The writer uses the descriptor below the stream. */
	int err = fflush(out) ? -errno : 0;

	err = err ?: recording_writer__new(fileno(out), options->compress, &rewriter.writer);
	err = err ?: filter__new(options, true, recording_fd, &rewriter.sink, &filter);
	err = err ?: recording__read(recording_fd, false, filter__sink(filter), &ret->cut);
	err = err ?: filter__missing(filter, &ret->missing);
	err = err ?: recording_writer__flush(rewriter.writer);
	if (filter) {
		ret->samples = filter__kept(filter);
		ret->span = filter__span(filter);
	}
	recording_writer__free(rewriter.writer);
	filter__free(filter);
	buf__free(&rewriter.line);
	return err;
}

int export__events(int recording_fd, const struct export_options *options, FILE *out,
		   struct export_report *ret)
{
	if (filter__wanted(options) || options->thread || options->from || options->to)
		return rewrite(recording_fd, options, out, ret);
	return copy(recording_fd, out);
}
