/* SPDX-License-Identifier: MIT */
/* Joins recordings of several processes, or parts of one session: copies their events into one, renumbers epochs, and adds up the
 * ledgers. A ledger is a running total, so the last one of each recording is what counts.
 *
 *     first pass     the session events: which began first (its times are the origin), all commands
 *     second pass    hello, session, then recording after recording: epoch, tables, samples ...; one ledger; end
 *
 * Times need no change: all recordings have the same CLOCK_MONOTONIC. Ids need none either: each recording
 * begins with an epoch of its own, which starts all tables anew. */
#include "export/join.h"

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/order.h"
#include "events/events.h"
#include "base/intern.h"

#define STOPS_MAX 16u /* docs/protocol.md */

/* A ledger that can be added to. */
struct totals {
	uint64_t samples, whole, native, native_whole, stops_more;
	struct intern names;         /* of losses */
	struct buf counts;           /* uint64_t of each */
	struct intern places;        /* keys of stops: offset and texts */
	struct buf stops;            /* struct ledger_stop of each; its strings lie in `places` */
};

/* One join, on the stack of recordings__join(). It is a sink of its own, with another function for each pass. */
struct join {
	struct event_sink sink;
	struct recording_writer *writer;
	const struct event_trigger *triggers;
	uint32_t n_triggers;
	struct buf line, commands;
	struct event_session session; /* of the recording that began first; strings in `kept` */
	char *kept[3];
	bool begun, ended;            /* `session` was written; `end` was read */
	uint32_t epochs;
	struct totals sums;             /* of the recordings that were read completely */
	struct totals now;            /* the last ledger of the current one */
	uint64_t end;
	char *reason, *detail;        /* of the recording that ended last */
};

static void totals__free(struct totals *totals)
{
	intern__free(&totals->names);
	intern__free(&totals->places);
	buf__free(&totals->counts);
	buf__free(&totals->stops);
	*totals = (struct totals){};
}

static int keep(char **to, const char *text)
{
	free(*to);
	*to = strdup(text);
	return *to ? 0 : -ENOMEM;
}

/* --- the ledger --- */

static int add_loss(struct totals *totals, const char *name, uint64_t count)
{
	uint64_t *sum = intern__item(&totals->names, name, strlen(name) + 1, &totals->counts, sizeof(*sum));

	if (!sum)
		return -ENOMEM;
	*sum += count;
	return 0;
}

static int add_stop(struct totals *totals, const struct ledger_stop *stop)
{
	const char *const texts[] = {stop->loss, stop->module, stop->function};
	struct ledger_stop *sum = NULL;
	_cleanup_(buf__free) struct buf key = {};
	uint64_t count;
	int err = buf__append(&key, &stop->offset, sizeof(stop->offset));

	for (uint32_t i = 0; i < 3 && !err; i++)
		err = buf__append(&key, texts[i], strlen(texts[i]) + 1);
	if (!err)
		sum = intern__item(&totals->places, key.data, key.len, &totals->stops, sizeof(*sum));
	if (!sum)
		return -ENOMEM;
	/* The strings of `stop` die with the event: name_stop() replaces them. */
	count = sum->count + stop->count;
	*sum = *stop;
	sum->count = count;
	return 0;
}

static int totals__add(struct totals *totals, const struct event_ledger *ledger)
{
	int err = 0;

	totals->samples += ledger->samples;
	totals->whole += ledger->whole;
	totals->native += ledger->native;
	totals->native_whole += ledger->native_whole;
	totals->stops_more += ledger->stops_more;
	for (uint32_t i = 0; i < ledger->n && !err; i++)
		err = add_loss(totals, ledger->lines[i].name, ledger->lines[i].count);
	for (uint32_t i = 0; i < ledger->n_stops && !err; i++)
		err = add_stop(totals, &ledger->stops[i]);
	return err;
}

/* Lets a stop's strings point into its key. */
static void name_stop(const struct intern *places, uint32_t id, struct ledger_stop *stop)
{
	size_t len;
	const char *text = (const char *)intern__key(places, id, &len) + sizeof(stop->offset);

	stop->loss = text;
	stop->module = stop->loss + strlen(stop->loss) + 1;
	stop->function = stop->module + strlen(stop->module) + 1;
}

/* Equal counts in the order in which they came. */
static int most_first(const void *left, const void *right, void *arg)
{
	const struct ledger_stop *all = arg;
	const uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;

	return ORDER(all[b].count, all[a].count) ?: ORDER(a, b);
}

/* The totals as a ledger, valid until they change. Its arrays are ret_lines and ret_stops, which the caller frees. */
static int totals__emit(const struct totals *totals, uint64_t time, struct buf *ret_lines, struct buf *ret_stops, struct event_ledger *ret)
{
	const struct ledger_stop *all = (const struct ledger_stop *)totals->stops.data;
	uint32_t n = (uint32_t)(totals->stops.len / sizeof(*all)), i;
	_cleanup_free_ uint32_t *order = calloc(n + 1, sizeof(*order));
	struct ledger_line line;
	size_t len;
	int err = order ? 0 : -ENOMEM;

	*ret = (struct event_ledger){.time = time, .samples = totals->samples, .whole = totals->whole, .native = totals->native,
				     .native_whole = totals->native_whole, .stops_more = totals->stops_more, .n = totals->names.n};
	for (i = 0; i < totals->names.n && !err; i++) {
		line = (struct ledger_line){intern__key(&totals->names, i, &len), ITEM(totals->counts, const uint64_t, i)};
		err = buf__append(ret_lines, &line, sizeof(line));
	}
	for (i = 0; i < n && !err; i++)
		order[i] = i;
	if (!err && n)
		qsort_r(order, n, sizeof(*order), most_first, (void *)all);
	for (i = 0; i < n && !err; i++) {
		struct ledger_stop stop = all[order[i]];

		name_stop(&totals->places, order[i], &stop);
		err = buf__append(ret_stops, &stop, sizeof(stop));
	}
	if (err)
		return err;
	/* native = native_whole + the counts of stops + stops_more must still hold (docs/protocol.md). */
	for (i = STOPS_MAX; i < n; i++)
		ret->stops_more += ITEM(*ret_stops, const struct ledger_stop, i).count;
	ret->n_stops = n < STOPS_MAX ? n : STOPS_MAX;
	ret->lines = (const struct ledger_line *)ret_lines->data;
	ret->stops = (const struct ledger_stop *)ret_stops->data;
	return 0;
}

/* Totals run on within a recording: the last ledger replaces those before. */
static int on_ledger(struct join *join, const struct event_ledger *ledger)
{
	totals__free(&join->now);
	return totals__add(&join->now, ledger);
}

/* The end of a recording: adds its last ledger to the sums. */
static int add_up(struct join *join)
{
	_cleanup_(buf__free) struct buf lines = {}, stops = {};
	struct event event = {.kind = EVENT_LEDGER};
	int err = totals__emit(&join->now, 0, &lines, &stops, &event.ledger);

	err = err ?: totals__add(&join->sums, &event.ledger);
	totals__free(&join->now);
	return err;
}

static int emit_ledger(struct join *join)
{
	_cleanup_(buf__free) struct buf lines = {}, stops = {};
	struct event event = {.kind = EVENT_LEDGER};
	int err = totals__emit(&join->sums, join->end, &lines, &stops, &event.ledger);

	return err ?: recording_writer__event(join->writer, &event, &join->line);
}

/* --- first pass: the sessions --- */

static int on_first_pass(struct event_sink *self, const struct event *event)
{
	struct join *join = (struct join *)self;
	const struct event_session *session = &event->session;
	/* The first one on the command line: reports name the recording after it. */
	int32_t pid = join->session.pid ?: session->pid;
	const bool is_part = join->session.pid == session->pid;
	int err;

	if (event->kind != EVENT_SESSION)
		return event->kind == EVENT_HELLO ? 0 : -ECANCELED;
	err = join->commands.len && !is_part ? buf__puts(&join->commands, ", ") : 0;
	if (!is_part)
		err = err ?: buf__puts(&join->commands, session->command);
	if (!err && (!join->session.pid || session->monotonic < join->session.monotonic)) {
		join->session = *session;
		err = keep(&join->kept[0], session->mode) ?: keep(&join->kept[1], session->boot_id) ?: keep(&join->kept[2], session->machine);
		join->session.mode = join->kept[0];
		join->session.boot_id = join->kept[1];
		join->session.machine = join->kept[2];
		join->session.pid = pid;
	}
	return err ?: -ECANCELED; /* stop reading: the session is all that this pass needs */
}

/* Finds the earliest session, whose times are the origin, and lists all commands. */
static int read_sessions(struct join *join, const int *in, uint32_t n)
{
	bool cut;
	int err = 0;

	join->sink.event = on_first_pass;
	for (uint32_t i = 0; i < n && !err; i++) {
		err = lseek(in[i], 0, SEEK_SET) < 0 ? -errno : recording__read(in[i], false, &join->sink, &cut);
		err = err == -ECANCELED ? 0 : err;
	}
	err = err ?: buf__append(&join->commands, "", 1);
	join->session.command = join->commands.data;
	return err;
}

/* --- second pass: all events --- */

static int on_end(struct join *join, const struct event_end *end)
{
	join->ended = true;
	if (join->reason && end->time < join->end)
		return 0;
	join->end = end->time;
	return keep(&join->reason, end->reason) ?: keep(&join->detail, end->detail);
}

static int emit_triggers(struct join *join)
{
	int err = 0;

	for (uint32_t i = 0; i < join->n_triggers && !err; i++) {
		const struct event event = {.kind = EVENT_TRIGGER, .trigger = join->triggers[i]};

		err = recording_writer__event(join->writer, &event, &join->line);
	}
	return err;
}

static int on_event(struct event_sink *self, const struct event *event)
{
	struct join *join = (struct join *)self;
	struct event own = *event;

	switch (event->kind) {
	case EVENT_HELLO:
		return join->begun ? 0 : recording_writer__event(join->writer, event, &join->line);
	case EVENT_SESSION:
		own.session = join->session;
		if (join->begun)
			return 0;
		join->begun = true;
		return recording_writer__event(join->writer, &own, &join->line) ?: emit_triggers(join);
	case EVENT_EPOCH:
		own.epoch.number = join->epochs++;
		return recording_writer__event(join->writer, &own, &join->line);
	case EVENT_LEDGER:
		return on_ledger(join, &event->ledger);
	case EVENT_END:
		return on_end(join, &event->end);
	default:
		return recording_writer__event(join->writer, event, &join->line);
	}
}

static int read_all(struct join *join, const int *in, uint32_t n, bool *ret_cut)
{
	bool cut;
	int err = 0;

	join->sink.event = on_event;
	for (uint32_t i = 0; i < n && !err; i++) {
		join->ended = false;
		err = lseek(in[i], 0, SEEK_SET) < 0 ? -errno : recording__read(in[i], false, &join->sink, &cut);
		err = err ?: add_up(join);
		*ret_cut |= !join->ended;
	}
	return err;
}

int recordings__join(const int *in, uint32_t n, const struct event_trigger *triggers, uint32_t n_triggers, int out, bool compress, bool *ret_cut)
{
	struct join join = {.triggers = triggers, .n_triggers = n_triggers};
	struct event end = {.kind = EVENT_END};
	int err;

	*ret_cut = false;
	err = recording_writer__new(out, compress, &join.writer);
	err = err ?: read_sessions(&join, in, n) ?: read_all(&join, in, n, ret_cut) ?: emit_ledger(&join);
	end.end = (struct event_end){.time = join.end, .reason = join.reason, .detail = join.detail};
	/* An `end` would say that all of it is there. */
	if (!err && !*ret_cut)
		err = recording_writer__event(join.writer, &end, &join.line);
	err = err ?: recording_writer__flush(join.writer);
	recording_writer__free(join.writer);
	totals__free(&join.sums);
	totals__free(&join.now);
	buf__free(&join.line);
	buf__free(&join.commands);
	for (size_t i = 0; i < sizeof(join.kept) / sizeof(join.kept[0]); i++)
		free(join.kept[i]);
	free(join.reason);
	free(join.detail);
	return err;
}
