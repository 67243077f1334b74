/* SPDX-License-Identifier: MIT */
/* `-f events`: copies the recording byte for byte; with a filter, a thread or a window, writes its events
 * again without the samples that do not pass. Byte for byte means that a recording of a newer version, or a
 * damaged one, is copied, too. Into a pipe or a file of lines (.ndjson), a compressed one is written as lines. */

#include "base/cleanup.h"
#include "base/intern.h"
#include "base/stream.h"
#include "export/close.h"
#include "export/formats.h"
#include "export/model.h"

static int copy(int recording_fd, FILE *out)
{
	_cleanup_free_ char *chunk = malloc(1 << 16);
	ssize_t n;
	int err;

	if (!chunk)
		return -ENOMEM;
	while ((n = read(recording_fd, chunk, 1 << 16)) != 0) {
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		err = stream__write(out, chunk, (size_t)n);
		if (err)
			return err;
	}
	return 0;
}

struct thread_match {
	bool is; /* selected by --thread */
	uint32_t process;
};

/* Writes the events again, as they pass. Tables are written whole, also rows that no sample refers to any more:
 * leaving rows out would mean to renumber all others. */
struct rewriter {
	struct event_sink sink;
	struct recording_writer *writer;
	const struct export_options *options;
	struct filter *filter;
	struct buf line, rows;     /* scratch */
	struct buf threads;        /* struct thread_match by thread id of the epoch */
	struct buf processes;      /* bool by process id of the epoch: selected by --process */
	struct intern keys;        /* all processes, by what they are; ... */
	struct buf chosen;         /* bool: selected by the name that each has at the end */
	struct close close, close_process; /* names that are similar to those of --thread and --process */
	uint64_t origin, last;     /* the session's start; the latest time that was read */
	uint64_t kept, kept_whole; /* samples that passed, and those of them with a whole stack */
};

static bool is_chosen(const struct rewriter *rewriter, uint32_t thread)
{
	const struct thread_match *match = &ITEM(rewriter->threads, struct thread_match, thread);

	return match->is && ITEM(rewriter->processes, bool, match->process);
}

/* --- the window: a sample that begins or ends outside of it is shortened --- */

/* Saturates: --window 1e9 on a hostile time must not wrap around. */
static uint64_t low(const struct rewriter *rewriter)
{
	uint64_t time;

	return __builtin_add_overflow(rewriter->origin, rewriter->options->from, &time) ? UINT64_MAX : time;
}

static uint64_t high(const struct rewriter *rewriter)
{
	uint64_t time;

	return !rewriter->options->to || __builtin_add_overflow(rewriter->origin, rewriter->options->to, &time) ? UINT64_MAX : time;
}

static uint64_t within(const struct rewriter *rewriter, uint64_t time)
{
	time = time > low(rewriter) ? time : low(rewriter);
	return time < high(rewriter) ? time : high(rewriter);
}

/* How much of the `ns` before `time` lies in the window. */
static uint64_t part(const struct rewriter *rewriter, uint64_t time, uint64_t ns)
{
	uint64_t from = time > ns ? time - ns : 0;

	return within(rewriter, time) - within(rewriter, from);
}

/* Shortens the sample's times to the window, as the model does; false: none of it is in the window. */
static bool cut(const struct rewriter *rewriter, struct sample_row *row)
{
	/* Taken before the time is moved. The CPU time of others belongs to the instant of the sample. */
	bool inside = row->time >= low(rewriter) && row->time <= high(rewriter);
	uint64_t wall = part(rewriter, row->time, row->wall), cpu = part(rewriter, row->time, row->cpu);

	if (!rewriter->options->from && !rewriter->options->to)
		return true;
	row->time = within(rewriter, row->time);
	row->wall = wall;
	row->cpu = cpu;
	row->others = inside ? row->others : 0;
	row->given = row->given < cpu ? row->given : cpu;
	return inside || wall || cpu;
}

/* Drops samples that do not pass. The times of the others stay right: a sample says itself how long it is. */
static int keep_samples(struct rewriter *rewriter, const struct event_samples *event)
{
	struct event out = {.kind = EVENT_SAMPLES};
	bool pass;
	int err = 0;

	buf__clear(&rewriter->rows);
	for (uint32_t i = 0; i < event->n && !err; i++) {
		struct sample_row row = event->rows[i];

		err = filter__passes(rewriter->filter, &row, &pass);
		if (err || !pass || !is_chosen(rewriter, row.thread) || !cut(rewriter, &row))
			continue;
		rewriter->kept++;
		/* The ledger of the new recording: a stack without a note "(cut: ...)" is whole. */
		rewriter->kept_whole += row.stack && !filter__has_hole(rewriter->filter, row.stack);
		err = buf__append(&rewriter->rows, &row, sizeof(row));
	}
	out.samples = (struct event_samples){LENGTH(rewriter->rows, struct sample_row), (struct sample_row *)rewriter->rows.data};
	return err || !out.samples.n ? err : recording_writer__event(rewriter->writer, &out, &rewriter->line);
}

/* Other events of the new recording: times are moved into the window, and the ledger counts the samples that passed.
 * Losses and ends of native stacks are known only for the whole session; the latter are left out. */
static int keep_event(struct rewriter *rewriter, const struct event *event)
{
	struct event out = *event;
	bool known;

	switch (event->kind) {
	case EVENT_PROCESS:
		out.process.time = within(rewriter, event->process.time);
		break;
	case EVENT_THREAD:
		out.thread.time = within(rewriter, event->thread.time);
		break;
	case EVENT_THREAD_END:
		/* Time after a thread's last sample belongs to no stack, so with a filter of samples it
		 * cannot pass. */
		known = !filter__wanted(rewriter->options) && is_chosen(rewriter, event->ending.id);
		out.ending.wall = known ? part(rewriter, event->ending.time, event->ending.wall) : 0;
		out.ending.cpu = known ? part(rewriter, event->ending.time, event->ending.cpu) : 0;
		out.ending.time = within(rewriter, event->ending.time);
		break;
	case EVENT_PROCESS_END:
		out.ending.time = within(rewriter, event->ending.time);
		break;
	case EVENT_LEDGER:
		out.ledger.time = within(rewriter, event->ledger.time);
		out.ledger.samples = rewriter->kept;
		out.ledger.whole = rewriter->kept_whole;
		out.ledger.native = out.ledger.native_whole = out.ledger.stops_more = 0;
		out.ledger.n_stops = 0;
		break;
	case EVENT_END:
		out.end.time = within(rewriter, event->end.time);
		break;
	default:
		break;
	}
	return recording_writer__event(rewriter->writer, &out, &rewriter->line);
}

static void note_time(struct rewriter *rewriter, const struct event *event)
{
	uint64_t time = event->kind == EVENT_END	? event->end.time
			: event->kind == EVENT_LEDGER ? event->ledger.time
			: event->kind == EVENT_SAMPLES && event->samples.n
				? event->samples.rows[event->samples.n - 1].time
				: 0;

	rewriter->last = time > rewriter->last ? time : rewriter->last;
}

static int on_thread(struct rewriter *rewriter, const struct event_thread *event)
{
	struct thread_match *match = buf__at(&rewriter->threads, sizeof(*match), event->id);

	if (!match || !buf__at(&rewriter->processes, sizeof(bool), event->process))
		return -ENOMEM;
	*match = (struct thread_match){thread__passes(rewriter->options, event->tid, event->name), event->process};
	close__tried(&rewriter->close, match->is, event->name);
	return 0;
}

/* The mark of a process, whatever its id is in this epoch; NULL: out of memory. */
static bool *find_process(struct rewriter *rewriter, const struct event_process *event)
{
	const uint64_t key[] = {(uint32_t)event->pid, event->start, event->exec};

	return intern__item(&rewriter->keys, key, sizeof(key), &rewriter->chosen, sizeof(bool));
}

static int on_process(struct rewriter *rewriter, const struct event_process *event)
{
	bool *match = buf__at(&rewriter->processes, sizeof(*match), event->id), *known = find_process(rewriter, event);

	if (!match || !known)
		return -ENOMEM;
	*match = !rewriter->options->process || *known;
	return 0;
}

/* A process that has just begun has the name of the one that forked it for a while. */
static int choose_process(struct event_sink *self, const struct event *event)
{
	struct rewriter *rewriter = (struct rewriter *)self;
	const struct event_process *process = &event->process;
	bool *match = event->kind == EVENT_PROCESS ? find_process(rewriter, process) : NULL;

	if (!match)
		return event->kind == EVENT_PROCESS ? -ENOMEM : 0;
	*match = process__passes(rewriter->options, process->pid, process->name);
	close__tried(&rewriter->close_process, *match, process->name);
	return 0;
}

static void forget(struct rewriter *rewriter)
{
	buf__clear(&rewriter->threads);
	buf__clear(&rewriter->processes);
}

static int on_event(struct event_sink *self, const struct event *event)
{
	struct rewriter *rewriter = (struct rewriter *)self;
	int err = filter__event(rewriter->filter, event);

	note_time(rewriter, event);
	switch (event->kind) {
	case EVENT_SAMPLES:
		return err ?: keep_samples(rewriter, &event->samples);
	case EVENT_SESSION:
		/* The first session event; a late joiner's stream repeats it. */
		rewriter->origin = rewriter->origin ? rewriter->origin : event->session.monotonic;
		forget(rewriter);
		break;
	case EVENT_EPOCH:
		forget(rewriter);
		break;
	case EVENT_PROCESS:
		err = err ?: on_process(rewriter, &event->process);
		break;
	case EVENT_THREAD:
		err = err ?: on_thread(rewriter, &event->thread);
		break;
	default:
		break;
	}
	return err ?: keep_event(rewriter, event);
}

static int choose_processes(struct rewriter *rewriter, int recording_fd)
{
	off_t begin = lseek(recording_fd, 0, SEEK_CUR);
	int err = begin < 0 ? -errno : 0;
	bool cut;

	rewriter->sink.event = choose_process;
	err = err ?: recording__read(recording_fd, false, &rewriter->sink, &cut);
	rewriter->sink.event = on_event;
	return err ?: lseek(recording_fd, begin, SEEK_SET) < 0 ? -errno : 0;
}

static int rewrite(int recording_fd, const struct export_options *options, FILE *out,
		   struct export_report *ret)
{
	struct rewriter rewriter = {.sink = {on_event}, .options = options, .close = CLOSE("thread", options->thread, !options->thread),
				    .close_process = CLOSE("process", options->process, !options->process)};
	/* The writer uses the descriptor below the stream. */
	int err = fflush(out) ? -errno : 0;

	err = err ?: recording_writer__new(fileno(out), options->compress, &rewriter.writer);
	err = err ?: filter__new(options, recording_fd, &rewriter.filter);
	if (options->process)
		err = err ?: choose_processes(&rewriter, recording_fd);
	err = err ?: recording__read(recording_fd, false, &rewriter.sink, &ret->cut);
	err = err ?: close__missing(&rewriter.close_process, &ret->missing) ?: close__missing(&rewriter.close, &ret->missing);
	err = err ?: filter__missing(rewriter.filter, &ret->missing);
	err = err ?: recording_writer__flush(rewriter.writer);
	ret->samples = rewriter.kept;
	ret->span = rewriter.last > rewriter.origin ? rewriter.last - rewriter.origin : 0;
	recording_writer__free(rewriter.writer);
	filter__free(rewriter.filter);
	buf__free(&rewriter.line);
	buf__free(&rewriter.rows);
	buf__free(&rewriter.threads);
	buf__free(&rewriter.processes);
	buf__free(&rewriter.chosen);
	intern__free(&rewriter.keys);
	return err;
}

static int on_line(struct event_sink *self, const struct event *event)
{
	struct rewriter *rewriter = (struct rewriter *)self;

	return recording_writer__event(rewriter->writer, event, &rewriter->line);
}

static int write_lines(int recording_fd, FILE *out, struct export_report *ret)
{
	struct rewriter rewriter = {.sink = {on_line}};
	int err = fflush(out) ? -errno : 0;

	err = err ?: recording_writer__new(fileno(out), false, &rewriter.writer);
	err = err ?: recording__read(recording_fd, false, &rewriter.sink, &ret->cut) ?: recording_writer__flush(rewriter.writer);
	recording_writer__free(rewriter.writer);
	buf__free(&rewriter.line);
	return err;
}

/* Lines already. Of a pipe that is not known before it is read. */
static bool is_plain(int recording_fd)
{
	char first = 0;

	return pread(recording_fd, &first, 1, 0) == 1 && first == '{';
}

int export__events(int recording_fd, const struct export_options *options, FILE *out,
		   struct export_report *ret)
{
	if (filter__wanted(options) || options->thread || options->process || options->from || options->to)
		return rewrite(recording_fd, options, out, ret);
	return options->compress || is_plain(recording_fd) ? copy(recording_fd, out) : write_lines(recording_fd, out, ret);
}
