/* SPDX-License-Identifier: MIT */
#include "cli/flight.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/cli.h"
#include "cli/folder.h"
#include "cli/user.h"
#include "export/join.h"

/* A part of that age: a recording has so much more than --last, and each part has tables of its own. */
#define PARTS 8u
#define PART_LEAST_NS 1000000000u
#define PART_MOST_NS 60000000000u
/* As of other recordings: each flush ends a block of the compression. Until then the size of a part is not known. */
#define FLUSH_MS 1000

/* struct fired.condition of what no condition is. */
#define REQUEST (UINT32_MAX - 1)
#define SIGNAL UINT32_MAX

struct part {
	int fd;
	uint64_t begin, end; /* begin 0: that of the session */
	uint64_t bytes;
};

bool flight__wanted(const struct cli_options *options)
{
	return options->n_conditions || options->last;
}

int flight__judge(const struct cli_options *options)
{
	if (!flight__wanted(options)) {
		if (!options->after_given && !options->cool_down_given && !options->count_given && !options->memory && !options->directory)
			return CLI_DONE;
		say__failure("add --trigger CONDITION, as 'unit>2s', or --last TIME", "--after, --cool-down, --count, --memory and --dir are of a recording that a trigger makes");
		return CLI_USAGE;
	}
	if (options->continuous)
		say__failure("--continuous keeps all, --trigger and --last the time before a trigger: choose one", "--continuous and --trigger are two ways to record");
	else if (options->output || options->format || options->open || options->stream)
		say__failure("name a directory with --dir, and convert its files", "--trigger and --last write recordings: leave -o, -f, --open and --stream out");
	else
		return CLI_DONE;
	return CLI_USAGE;
}

/* --- parts --- */

/* -errno. Then live->writer writes into it. */
static int open_part(struct flight *flight, uint64_t time)
{
	int err;

	flight->fd = memfd_create("cprofd-part", MFD_CLOEXEC);
	if (flight->fd < 0)
		return -errno;
	flight->begun = time;
	flight->opened = clock__now() / 1000000;
	err = recording_writer__new(flight->fd, true, &flight->live->writer);
	return err ?: recording_writer__lines(flight->live->writer, flight->live->hello.data, flight->live->hello.len);
}

static void drop_first(struct flight *flight)
{
	const struct part *part = &ITEM(flight->parts, struct part, 0);

	close(part->fd);
	flight->bytes -= part->bytes;
	flight->parts.len -= sizeof(*part);
	memmove(flight->parts.data, flight->parts.data + sizeof(*part), flight->parts.len);
}

static uint64_t before(uint64_t time, uint64_t ns)
{
	return time > ns ? time - ns : 0;
}

static void drop_old(struct flight *flight)
{
	const uint64_t from = before(flight->n_reasons ? flight->reasons[0].time : watch__now(flight->watch), flight->options->last);

	while (flight->parts.len && ITEM(flight->parts, struct part, 0).end <= from)
		drop_first(flight);
	while (flight->parts.len && flight->bytes > flight->options->memory - flight->options->memory / PARTS) {
		flight->dropped = ITEM(flight->parts, struct part, 0).end;
		drop_first(flight);
	}
}

/* `reason` of its `end`; NULL: it has one, or is to have none. */
static int close_part(struct flight *flight, uint64_t time, const char *reason)
{
	const struct event end = {.kind = EVENT_END, .end = {.time = time, .reason = reason ?: "", .detail = ""}};
	_cleanup_(buf__free) struct buf scratch = {};
	struct part part = {.fd = flight->fd, .begin = flight->begun, .end = time};
	struct live *live = flight->live;
	int err = reason ? recording_writer__event(live->writer, &end, &scratch) : 0;

	err = err ?: recording_writer__flush(live->writer);
	live->writer = recording_writer__free(live->writer);
	part.bytes = (uint64_t)lseek(part.fd, 0, SEEK_CUR);
	err = err ?: buf__append(&flight->parts, &part, sizeof(part));
	if (err) {
		close(part.fd);
		part.bytes = 0;
	}
	flight->bytes += part.bytes;
	flight->fd = -1;
	return err;
}

/* --- recordings --- */

/* NULL: somebody asked, by a signal or a request. */
static const struct condition *condition_of(const struct flight *flight, const struct fired *fired)
{
	return fired->condition >= REQUEST ? NULL : &flight->options->conditions[fired->condition];
}

static const char *words_of(const struct flight *flight, const struct fired *fired)
{
	const struct condition *condition = condition_of(flight, fired);

	return condition ? condition->text : fired->condition == SIGNAL ? "SIGUSR2" : "request";
}

static void say_fired(const struct flight *flight, const struct fired *fired)
{
	const struct condition *condition = condition_of(flight, fired);

	if (!condition)
		say__note("%s: the last %s are written", words_of(flight, fired), words__duration(flight->options->last));
	else if (condition->kind == CONDITION_CPU)
		say__note("%s: %.0f%% of a CPU in %u s", condition->text, (double)fired->value / 1e7 / condition->seconds, condition->seconds);
	else
		say__note("%s: %s has taken %s", condition->text, fired->name, words__duration(fired->value));
}

/* The parts from --last before the first reason on. */
static int join_into(struct flight *flight, int out)
{
	const uint64_t from = before(flight->reasons[0].time, flight->options->last);
	struct event_trigger triggers[FLIGHT_REASONS_MAX];
	_cleanup_(buf__free) struct buf in = {}; /* int */
	bool cut;
	int err = 0;

	for (uint32_t i = 0; i < flight->n_reasons; i++) {
		const struct fired *fired = &flight->reasons[i];
		const struct condition *condition = condition_of(flight, fired);

		triggers[i] = (struct event_trigger){
			.time = fired->time,
			.condition = words_of(flight, fired),
			.value = fired->value,
			.span = condition ? condition->seconds * 1000000000ull : 0,
			.name = fired->name,
			.tid = fired->tid,
		};
	}
	for (uint32_t i = 0; i < LENGTH(flight->parts, struct part) && !err; i++)
		if (ITEM(flight->parts, struct part, i).end > from)
			err = buf__append(&in, &ITEM(flight->parts, struct part, i).fd, sizeof(int));
	if (!err && !in.len)
		err = -ENODATA;
	return err ?: recordings__join((const int *)in.data, LENGTH(in, int), triggers, flight->n_reasons, out, true, &cut);
}

static void write_recording(struct flight *flight)
{
	const struct fired *first = &flight->reasons[0];
	const uint64_t ago = before(clock__now(), first->time), from = before(first->time, flight->options->last);
	struct output output;
	char path[PATH_MAX];
	uint64_t bytes = 0;
	int err;

	folder__name(flight->options->directory, flight->pid, (clock__read(CLOCK_REALTIME) - ago) / 1000000, &flight->named, path);
	err = output__create(path, true, &output);
	err = err ?: join_into(flight, output.fd);
	if (!err) {
		bytes = (uint64_t)lseek(output.fd, 0, SEEK_END);
		err = output__commit(&output);
	}
	output__close(&output); /* and removes what is not complete */
	if (err) {
		flight->failed++;
		say__failure(err == -ENOSPC || err == -EDQUOT ? "make room; what fires next is tried again" : "", "%s cannot be written: %s", path, strerror(-err));
	} else {
		flight->written++;
		say__done("", "wrote %s (%s)", path, words__bytes(bytes));
		if (flight->dropped > from)
			say__more("it begins %s before it fired: more did not fit into --memory %s", words__duration(before(first->time, flight->dropped)),
				  words__bytes(flight->options->memory));
	}
	flight->n_reasons = 0;
	flight->due = 0;
	watch__release(flight->watch);
}

/* The engine has cut the session. */
static void on_part(void *of, uint64_t time)
{
	struct flight *flight = of;
	struct live *live = flight->live;

	if (live->write_error)
		return;
	live->write_error = close_part(flight, time, "trigger");
	drop_old(flight);
	if (flight->due && time >= flight->due) {
		write_recording(flight);
		flight->quiet_until = time + flight->options->cool_down;
		drop_old(flight);
	}
	live->write_error = live->write_error ?: open_part(flight, time);
}

static void on_request(void *of)
{
	((struct flight *)of)->requested = true;
}

static void on_lines(void *of, const char *lines, size_t len)
{
	struct flight *flight = of;

	for (const char *end; len && !flight->decode_error && (end = memchr(lines, '\n', len)); lines = end + 1) {
		flight->decode_error = event_decoder__line(flight->decoder, lines, (size_t)(end - lines), watch__sink(flight->watch));
		len -= (size_t)(end + 1 - lines);
	}
}

/* --- while sampling --- */

/* What fires while a recording is pending is a reason of that one. */
static void add_reason(struct flight *flight, const struct fired *fired)
{
	if (!flight->n_reasons && condition_of(flight, fired) && fired->time < flight->quiet_until) {
		flight->held++;
		watch__release(flight->watch);
		return;
	}
	if (flight->n_reasons < FLIGHT_REASONS_MAX)
		flight->reasons[flight->n_reasons++] = *fired;
	else if (!condition_of(flight, fired)) /* it ends the wait, so it must be among them: is_over() */
		flight->reasons[FLIGHT_REASONS_MAX - 1] = *fired;
	say_fired(flight, fired);
}

static void add_asked(struct flight *flight)
{
	const struct {
		bool *asked;
		uint32_t condition;
	} ways[] = {{&flight->wanted, SIGNAL}, {&flight->requested, REQUEST}};

	for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
		if (*ways[i].asked)
			add_reason(flight, &(struct fired){.condition = ways[i].condition, .time = clock__now()});
		*ways[i].asked = false;
	}
}

/* Has the last part of the recording come, once it is cut now? */
static bool is_over(const struct flight *flight)
{
	const struct cli_options *options = flight->options;
	const uint64_t now = watch__now(flight->watch), first = flight->reasons[0].time;

	if (!condition_of(flight, &flight->reasons[flight->n_reasons - 1]))
		return true;
	return options->after_given ? now >= first + options->after : !watch__goes_on(flight->watch) || now >= first + options->last;
}

bool flight__tick(struct flight *flight, uint64_t now_ms)
{
	const uint64_t last = flight->options->last, share = last / PARTS;
	const uint64_t age = share < PART_LEAST_NS ? PART_LEAST_NS : share > PART_MOST_NS ? PART_MOST_NS : share;
	struct live *live = flight->live;
	struct fired fired;
	bool wanted;

	live->write_error = live->write_error ?: flight->decode_error;
	while (watch__next(flight->watch, &fired))
		add_reason(flight, &fired);
	if (!live->answered || live->write_error)
		return false;
	add_asked(flight);
	if (flight->n_reasons && !flight->due && is_over(flight))
		flight->due = watch__now(flight->watch) ?: 1;
	if (now_ms - flight->flushed >= FLUSH_MS) {
		flight->flushed = now_ms;
		live->write_error = recording_writer__flush(live->writer);
	}
	wanted = flight->due || now_ms - flight->opened >= age / 1000000 || (uint64_t)lseek(flight->fd, 0, SEEK_CUR) >= flight->options->memory / PARTS;
	return wanted && !live__awaits_part(live, now_ms);
}

bool flight__is_done(const struct flight *flight)
{
	return flight->options->count && flight->written >= flight->options->count;
}

/* --- its begin and its end --- */

/* A directory in which nothing can be made is found now, and not when something fires. */
static int open_directory(struct flight *flight)
{
	const char *path = flight->options->directory;
	int err = 0;

	flight->directory = folder__open(path);
	if (flight->directory < 0)
		return flight->directory;
	user__writes_in(flight->directory);
	err = user__enter(user__calling());
	if (!err && faccessat(flight->directory, ".", W_OK | X_OK, AT_EACCESS) < 0)
		err = -errno;
	user__leave(user__calling());
	return err;
}

int flight__open(struct flight *flight, const struct cli_options *options, pid_t pid, struct live *live)
{
	int err;

	*flight = FLIGHT_NONE;
	flight->options = options;
	flight->pid = pid;
	flight->live = live;
	live->part = on_part;
	live->lines = on_lines;
	live->asked = on_request;
	live->of = flight;
	err = open_directory(flight);
	if (err) {
		say__failure("choose another directory with --dir; nothing was sampled yet", "no recording can be made in %s: %s", options->directory, strerror(-err));
		return CLI_COULD_NOT;
	}
	err = watch__new(options->conditions, options->n_conditions, &flight->watch) ?: event_decoder__new(&flight->decoder) ?: open_part(flight, 0);
	if (err)
		say("no memory for a recording: %s", strerror(-err));
	return err ? CLI_COULD_NOT : CLI_DONE;
}

static void say_held(const struct flight *flight)
{
	if (flight->held)
		say__note("%u more fired within --cool-down %s", flight->held, words__duration(flight->options->cool_down));
}

int flight__finish(struct flight *flight)
{
	struct live *live = flight->live;
	struct fired fired;

	while (watch__next(flight->watch, &fired))
		add_reason(flight, &fired);
	if (live->writer && !live->write_error)
		live->write_error = close_part(flight, watch__now(flight->watch) + 1, NULL);
	if (flight->n_reasons)
		write_recording(flight);
	if (flight->written)
		say__done("`cprofd report FILE...`: tables of one or several", "wrote %u recording%s into %s", flight->written, flight->written == 1 ? "" : "s",
			  flight->options->directory);
	else if (!flight->failed)
		say__note("nothing fired: no recording was written");
	say_held(flight);
	return flight->failed ? CLI_COULD_NOT : CLI_DONE;
}

void flight__close(struct flight *flight)
{
	while (flight->parts.len)
		drop_first(flight);
	buf__free(&flight->parts);
	flight->watch = watch__free(flight->watch);
	flight->decoder = event_decoder__free(flight->decoder);
	if (flight->fd >= 0)
		close(take_fd(&flight->fd));
	if (flight->directory >= 0)
		close(take_fd(&flight->directory));
}
