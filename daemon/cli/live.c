/* SPDX-License-Identifier: MIT */
/* Handles each line of a running session: writes it to the recording (and to stdout with --stream), and keeps
 * the latest numbers for the progress line. Lines are copied as they are: only the few events that matter
 * here are parsed.
 *
 *     {"ev":"answer","id":1,"ok":true,"session":1}                        -> the session's id; not recorded
 *     {"ev":"thread",...}  {"ev":"stacks",...}  {"ev":"samples",...}      -> recorded
 *     {"ev":"ledger","time":1234,"samples":998,"losses":{"page_fault":2}} -> recorded, and for the progress line
 *     {"ev":"end","reason":"exited","detail":""}                          -> recorded; the last line
 *
 * Called by the loops of recorder.c and top.c. The process has given up root before the first line is here. */
#include <errno.h>
#include <jansson.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/json_text.h"
#include "cli/live.h"
#include "events/loss_names.h"

#define ANSWER_MS 30000

/* Every Python of the machine; the patterns of --match and --exclude, a line each. */
static int put_host(const struct cli_options *options, struct buf *out)
{
	_cleanup_(buf__free) struct buf text = {};
	json_t *string;
	char *json;
	int err = 0;

	for (uint32_t i = 0; i < options->n_matches; i++)
		err = err ?: buf__printf(&text, "%s\n", options->matches[i]);
	for (uint32_t i = 0; i < options->n_unmatched; i++)
		err = err ?: buf__printf(&text, "!%s\n", options->unmatched[i]);
	err = err ?: buf__append(&text, "", 1);
	if (err)
		return err;
	string = json__text(text.data);
	json = json_dumps(string, JSON_ENCODE_ANY);
	json_decref(string);
	err = json ? buf__printf(out, "\"host\":true,\"match\":%s,", json) : -ENOMEM;
	free(json);
	return err;
}

int live__attach(struct live *live, const struct cli_options *options, pid_t pid, bool starting, struct live_for use)
{
	static const char *const words[] = {"false", "true"};
	_cleanup_(buf__free) struct buf request = {};
	int err;

	live->pid = pid;
	/* No value but the patterns needs JSON escapes: all are numbers, booleans or words of closed lists. "spool": false, as
	 * the client keeps the events itself and never asks the engine for a snapshot. */
	err = buf__printf(&request, "{\"req\":\"attach\",\"id\":%d,", LIVE_ATTACH_ID);
	err = err ?: options->host ? put_host(options, &request) : buf__printf(&request, "\"pid\":%d,", pid);
	err = err ?: buf__printf(&request,
				 "\"rate\":%u,\"duration_ms\":%llu,\"latency_ms\":%u,\"mode\":\"%s\",\"native\":\"%s\","
				 "\"subprocesses\":%s,\"kernel\":%s,\"gil\":%s,\"idle\":%s,\"native_lines\":%s,\"stream\":true,\"spool\":false,\"trigger\":%s,\"starting\":%s}",
				 options->rate, (unsigned long long)options->duration_ms, use.latency_ms, options->wall ? "wall" : "cpu",
				 options->native, words[options->subprocesses], words[options->kernel], words[options->gil],
				 words[options->idle], words[use.native_lines], words[!!live->asked], words[starting]);
	err = err ?: user_rules__send(live->connection, options->rules);
	return err ?: connection__request(live->connection, request.data);
}

int live__stop(struct live *live)
{
	char request[96];

	snprintf(request, sizeof(request), "{\"req\":\"stop\",\"id\":%d,\"session\":%u}", LIVE_STOP_ID, live->session);
	return connection__request(live->connection, request);
}

int live__await_answer(struct live *live, int (*take)(void *), void *of)
{
	uint64_t until = clock__now() + ANSWER_MS * 1000000ull;
	int err = 0;

	while (!err && !live->answered && !live->connection->ended && clock__now() < until) {
		struct pollfd fd = {live->connection->fd, POLLIN, 0};

		if (poll(&fd, 1, 100) > 0)
			err = take(of);
	}
	if (live->answered && !live->refused)
		return CLI_DONE;
	if (live->refused)
		say__failure(live->hint, "%s", *live->error ? live->error : "refused");
	else
		say__failure("run it again with -vv", "the engine ended before it answered");
	return CLI_COULD_NOT;
}

static void copy(char *to, size_t size, const json_t *object, const char *key)
{
	const char *text = json_string_value(json_object_get(object, key));

	snprintf(to, size, "%s", text ? text : "");
}

/* 0 for what is missing or negative: no count of ours is. */
static uint64_t number(const json_t *object, const char *key)
{
	json_int_t value = json_integer_value(json_object_get(object, key));

	return value < 0 ? 0 : (uint64_t)value;
}

/* Stores a ledger's count in a ring of LIVE_LEDGERS, and computes the sample rate over that ring. `first` is
 * the oldest entry: the next to be overwritten, once the ring is full. */
static void note(struct live *live, uint64_t time, uint64_t samples)
{
	const uint32_t last = live->ledgers++ % LIVE_LEDGERS, first = live->ledgers > LIVE_LEDGERS ? live->ledgers % LIVE_LEDGERS : 0;

	live->times[last] = time;
	live->counts[last] = samples;
	if (time > live->times[first] && samples >= live->counts[first])
		live->rate = (samples - live->counts[first]) * 1000000000ull / (time - live->times[first]);
}

/* Refusals whose sentence begins with "this": the engine does not know what the user typed. */
static bool is_of_this(const char *code)
{
	return code && (!strcmp(code, "NOT_YOURS") || !strcmp(code, "KERNEL_THREAD") || !strcmp(code, "NO_ANSWER"));
}

static void on_answer(struct live *live, const json_t *answer)
{
	const char *code = json_string_value(json_object_get(answer, "code")), *hint;
	uint64_t id = number(answer, "id");
	bool refused = !json_is_true(json_object_get(answer, "ok"));
	int at;

	if (!answer && !live->answered) {
		live->answered = live->refused = true;
		snprintf(live->error, sizeof(live->error), "the answer could not be read: out of memory");
		return;
	}
	/* An answer without an id refuses the whole connection, whatever was requested. */
	if (live->answered || (id != LIVE_ATTACH_ID && !(refused && (id == USER_RULES_ID || !json_object_get(answer, "id")))))
		return;
	live->answered = true;
	live->session = (uint32_t)number(answer, "session");
	note(live, clock__now(), 0); /* the first point of the rate: no samples yet */
	live->refused = refused;
	at = refused && is_of_this(code) ? snprintf(live->error, sizeof(live->error), "%d: ", live->pid) : 0;
	copy(live->error + at, sizeof(live->error) - (size_t)at, answer, "error");
	copy(live->hint, sizeof(live->hint), answer, "hint");
	if (refused && !strcmp(live->error, "no such process")) {
		snprintf(live->error, sizeof(live->error), "no such process: %d", live->pid);
		snprintf(live->hint, sizeof(live->hint), "it may have ended already; `pgrep -af python` lists the Pythons that run");
	}
	if (refused && forbidden__answered(live->pid, code, (int)number(answer, "errno"), live->error, sizeof(live->error), &hint))
		snprintf(live->hint, sizeof(live->hint), "%s", hint);
}

static void on_ledger(struct live *live, json_t *ledger)
{
	uint64_t time = number(ledger, "time"), samples = number(ledger, "samples");
	json_t *losses = json_object_get(ledger, "losses"), *count;
	const char *name;

	note(live, time, samples);
	live->samples = samples;
	/* Losses in a ledger are totals since the start, so they replace what was known. Only lost samples
	 * count here; a lost frame or name is not a lost sample. */
	live->lost = 0;
	json_object_foreach(losses, name, count) if (loss__is_sample(name)) live->lost +=
		(uint64_t)json_integer_value(count);
}

static void on_end(struct live *live, const json_t *end)
{
	live->ended = true;
	copy(live->reason, sizeof(live->reason), end, "reason");
	copy(live->detail, sizeof(live->detail), end, "detail");
}

/* Updates the state from the few events that matter while recording. The summary reads the whole recording
 * later. The order of tests is by frequency among those that are not parsed; most lines (samples, stacks)
 * fail all of them after a few bytes. */
static void note_event(struct live *live, const char *line, size_t len)
{
	json_t *json;

	if (line__is(line, len, "thread")) {
		live->threads++;
		live->met = true;
		return;
	}
	if (line__is(line, len, "epoch")) {
		live->threads = 0; /* running threads are emitted again */
		return;
	}
	if (line__is(line, len, "thread_end")) {
		/* After an epoch, the end of a thread may come before any event that names it: never below 0. */
		live->threads -= live->threads > 0;
		return;
	}
	if (!line__is(line, len, "ledger") && !line__is(line, len, "end"))
		return;
	json = json__load(line, len, 0, NULL);
	if (line__is(line, len, "ledger"))
		on_ledger(live, json);
	else
		on_end(live, json);
	json_decref(json);
}

/* Writes complete lines to the recording and to stdout. After an error nothing more is written there, and the
 * recorder asks the engine to stop: a recording is whole up to an error, never with a hole in it. */
static void keep(struct live *live, const char *line, size_t len)
{
	if (len && live->lines)
		live->lines(live->of, line, len);
	if (len && live->writer && !live->write_error)
		live->write_error = recording_writer__lines(live->writer, line, len);
	else if (len && live->part)
		live->dropped_bytes += len;
	while (live->stream_fd >= 0 && !live->stream_error && len) {
		ssize_t n = write(live->stream_fd, line, len);

		/* stdout blocks if its reader is slow. Meanwhile nothing is received, and the engine drops
		 * events with a `gap` rather than wait for us. */
		if (n < 0 && errno != EINTR)
			live->stream_error = -errno;
		if (n > 0) {
			line += n;
			len -= (size_t)n;
		}
	}
}

/* True: the line is `part`, which is in no recording. */
static bool parted(struct live *live, const char *line, size_t len)
{
	json_t *json;

	if (live->part && !live->hello.len && line__is(line, len, "hello"))
		live->write_error = live->write_error ?: buf__append(&live->hello, line, len);
	if (!live->part || !line__is(line, len, "part"))
		return false;
	live->part_asked = 0;
	json = json__load(line, len, 0, NULL);
	if (json)
		live->part(live->of, number(json, "time"));
	else
		live->write_error = live->write_error ?: -ENOMEM;
	json_decref(json);
	return true;
}

/* True: the line is an answer to a request. Answers are not part of the recording. */
static bool answered(struct live *live, const char *line, size_t len)
{
	json_t *json;

	if (!line__is(line, len, "answer"))
		return false;
	json = json__load(line, len, 0, NULL);
	if (live->status && number(json, "id") == LIVE_STATUS_ID)
		live->status(live->of, json_object_get(json, "status"));
	else
		on_answer(live, json);
	json_decref(json);
	return true;
}

/* True: the line is `trigger`, which is for us and of no recording. */
static bool asked(struct live *live, const char *line, size_t len)
{
	if (!live->asked || !line__is(line, len, "trigger"))
		return false;
	live->asked(live->of);
	return true;
}

/* Lines of the connection that no recording has. */
static bool is_apart(const char *line, size_t len)
{
	return line__is(line, len, "answer") || line__is(line, len, "part") || line__is(line, len, "trigger");
}

void live__line(struct live *live, const char *line, size_t len)
{
	if (answered(live, line, len))
		return;
	keep(live, line, len);
	note_event(live, line, len);
}

/* Adjacent lines are written with one call: most are short, and there are a thousand each second. They are
 * adjacent in the connection's buffer, so `first` and `kept` describe the run to be written; what is_apart() in
 * between ends it. */
void live__lines(struct live *live)
{
	const char *line, *first = NULL;
	size_t len, kept = 0;

	while (!live->ended && connection__line(live->connection, &line, &len)) {
		if (is_apart(line, len)) {
			keep(live, first, kept);
			first = NULL;
			kept = 0;
		}
		if (answered(live, line, len) || parted(live, line, len) || asked(live, line, len))
			continue;
		if (!first)
			first = line;
		kept += len;
		note_event(live, line, len);
	}
	keep(live, first, kept);
	/* The connection closed without the event `end`: the engine or the daemon died. */
	if (live->connection->ended && !live->ended)
		live->ended = live->cut = true;
}
