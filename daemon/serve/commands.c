/* SPDX-License-Identifier: MIT */
/* Requests of clients: one line in, one answer out (docs/protocol.md). request.c turns the line into a checked struct;
 * here it is carried out, or passed on:
 *
 *    attach, dump                  session__new(); the answer comes when the broker and the target allow it, or do not
 *    stop, subscribe, unsubscribe  at once
 *    rotate, trigger               with the session's next poll
 *    snapshot                      snapshot.c; into a file it takes some turns of the loop
 *    sessions, status              numbers of this engine, that is, of one user
 *
 * Every session here is of the user who asks, as an engine serves one client identity only. So nothing is authorised
 * here. */

#include <unistd.h>

#include "base/clock.h"
#include "base/json_text.h"
#include "cprofd/loss.h"
#include "serve/answer.h"
#include "serve/engine.h"

void command__refuse(struct engine *engine, struct client *client, const struct request *request,
		     const struct refusal *refusal)
{
	_cleanup_(buf__free) struct buf line = {};

	if (answer__refused(&line, request->has_id, request->id, refusal))
		line.failed = true;
	client__say(engine, client, &line);
}

/* Takes `json`. */
static void answer(struct engine *engine, struct client *client, const struct request *request, json_t *json)
{
	_cleanup_(buf__free) struct buf line = {};

	if (answer__ok(&line, request->has_id, request->id, json))
		line.failed = true;
	client__say(engine, client, &line);
}

/* --- numbers of the engine --- */

/* Rows of `native_stops` for each session, in `status`. */
#define STOPS_SHOWN 4u

/* By name; those that are 0 are left out. */
static json_t *name_losses(const uint64_t counts[LOSS_COUNT])
{
#define NAME(id, kind, name, sentence) [LOSS_##id] = name,
	static const char *const names[] = {CPROFD_LOSSES(NAME)};
#undef NAME
	json_t *losses = json_object();

	for (int i = 1; i < LOSS_COUNT; i++)
		if (counts[i])
			json__set(&losses, names[i], json_integer((json_int_t)counts[i]));
	return losses;
}

static json_t *describe(const struct engine *engine, const struct session *session)
{
	struct profile_totals totals;

	profile__totals(session->profile, &totals);
	return json_pack("{s:I, s:I, s:I, s:I, s:o, s:I, s:I, s:I, s:s, s:I, s:I, s:I, s:b, s:b, s:b}", "threads", (json_int_t)totals.threads,
			 "processes", (json_int_t)totals.processes, "table_bytes", (json_int_t)totals.bytes, "held_bytes",
			 (json_int_t)collector__held(session->collector), "losses", name_losses(totals.losses), "session", (json_int_t)session->id,
			 "pid", (json_int_t)session->request.pid, "rate", (json_int_t)session->rate,
			 "mode", session->request.wall ? "wall" : "cpu", "since", (json_int_t)session->begun,
			 "samples", (json_int_t)totals.samples, "subscribers",
			 (json_int_t)session__subscribers(engine, session), "subprocesses",
			 session->request.subprocesses, "spool", session->spool != NULL, "trigger", session__takes_trigger(session));
}

static json_t *list_sessions(const struct engine *engine)
{
	json_t *sessions = json_array();

	for (const struct session *s = engine->sessions; s; s = s->next)
		if (s->state == SESSION_RUNNING)
			json__append(&sessions, describe(engine, s));
	return json_pack("{s:o}", "sessions", sessions);
}

/* Sums of all running sessions. */
static json_t *list_losses(const struct engine *engine)
{
	uint64_t sums[LOSS_COUNT] = {};

	for (const struct session *s = engine->sessions; s; s = s->next) {
		struct profile_totals totals;

		if (s->state != SESSION_RUNNING)
			continue;
		profile__totals(s->profile, &totals);
		for (int i = 1; i < LOSS_COUNT; i++)
			sums[i] += totals.losses[i];
	}
	return name_losses(sums);
}

/* Where walks of native stacks ended early: of each session the most frequent places. */
static json_t *list_stops(const struct engine *engine)
{
	json_t *stops = json_array();

	for (const struct session *s = engine->sessions; s; s = s->next) {
		struct ledger_stop top[STOPS_SHOWN];
		uint32_t n = s->state == SESSION_RUNNING && s->profile ? profile__stops(s->profile, top, STOPS_SHOWN) : 0;

		for (uint32_t i = 0; i < n; i++)
			json__append(
				&stops, json_pack("{s:I, s:s, s:o, s:I, s:o, s:I}", "session", (json_int_t)s->id, "loss",
						 top[i].loss, "module", json__text(top[i].module), "offset",
						 (json_int_t)top[i].offset, "function", json__text(top[i].function),
						 "count", (json_int_t)top[i].count));
	}
	return stops;
}

/* samples_per_second is each session's mean since its begin, added up: what the engine has to do, not what it does at
 * this moment. */
static json_t *make_status(const struct engine *engine)
{
	uint64_t samples = 0, rate = 0, tables = 0;
	unsigned sessions = 0;

	for (const struct session *s = engine->sessions; s; s = s->next) {
		struct profile_totals totals;
		uint64_t age = engine__now() - s->begun;

		if (s->state != SESSION_RUNNING)
			continue;
		profile__totals(s->profile, &totals);
		samples += totals.samples;
		tables += totals.bytes;
		if (age)
			rate += (uint64_t)((double)totals.samples * 1e9 / (double)age);
		sessions++;
	}
	return json_pack("{s:{s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:o, s:o}}", "status", "version", CPROFD_VERSION,
			 "clients", (json_int_t)engine->n_clients, "sessions", (json_int_t)sessions, "samples",
			 (json_int_t)samples, "samples_per_second", (json_int_t)rate, "pss_bytes",
			 (json_int_t)proc__own_memory(), "cpu_ns",
			 (json_int_t)clock__read(CLOCK_PROCESS_CPUTIME_ID), "queued_bytes", (json_int_t)chunk__memory(),
			 "table_bytes", (json_int_t)tables, "losses", list_losses(engine), "native_stops", list_stops(engine));
}

/* --- commands that name a session --- */

/* The answer goes out before the tables, so that a client knows what the rows belong to. */
static void subscribe(struct engine *engine, struct client *client, const struct request *request,
		      struct session *session)
{
	struct refusal refusal;

	if (client->session) {
		refusal__set(&refusal, "SUBSCRIBED", "open another connection, or unsubscribe first",
			     "this connection streams session %u", client->session->id);
		command__refuse(engine, client, request, &refusal);
		return;
	}
	answer(engine, client, request, json_pack("{s:I}", "session", (json_int_t)session->id));
	session__subscribe(engine, session, client);
}

/* session 0, or none: whatever this connection streams. A gap that was not reported yet belongs to the stream, and ends
 * with it. */
static void unsubscribe(struct engine *engine, struct client *client, const struct request *request)
{
	struct session *session = client->session;
	struct refusal refusal;

	if (!session || (request->session && session->id != request->session)) {
		refusal__set(&refusal, "NOT_SUBSCRIBED", "", "this connection streams no such session");
		command__refuse(engine, client, request, &refusal);
		return;
	}
	client->session = NULL;
	client->lagging = false;
	client->gap_events = client->gap_bytes = 0;
	answer(engine, client, request, json_object());
	session__abandoned(engine, session);
}

/* The parts of a stream are recordings of their own, those of a spool would be one file. */
static void rotate(struct engine *engine, struct client *client, const struct request *request, struct session *session)
{
	struct refusal refusal;

	if (session->spool || session->state != SESSION_RUNNING) {
		refusal__set(&refusal, "SPOOLED", "attach with \"stream\":true, \"spool\":false", "session %u does not only stream", session->id);
		command__refuse(engine, client, request, &refusal);
		return;
	}
	if (request->rate > session->request.rate) {
		refusal__set(&refusal, "BAD_VALUE", "attach again", "session %u began with a rate of %u", session->id, session->request.rate);
		command__refuse(engine, client, request, &refusal);
		return;
	}
	drain__rotate_soon(session, request->rate ?: session->rate);
	answer(engine, client, request, json_object());
}

/* All sessions of the process, or the one that is named: whoever may ask here is the user whose they are. */
static void trigger(struct engine *engine, struct client *client, const struct request *request)
{
	unsigned found = 0, fired = 0;
	struct refusal refusal;

	for (struct session *s = engine->sessions; s; s = s->next) {
		if (s->state != SESSION_RUNNING || (request->session ? s->id != request->session : s->request.pid != request->pid))
			continue;
		found++;
		fired += session__trigger(s);
	}
	if (fired) {
		answer(engine, client, request, json_pack("{s:i}", "fired", (int)fired));
		return;
	}
	if (found)
		refusal__set(&refusal, "NO_TRIGGER", "begin one with --trigger or --last, docs/triggers.md", "%s %u is recorded, but not by a flight recorder",
			     request->session ? "session" : "process", request->session ?: (unsigned)request->pid);
	else
		refusal__set(&refusal, "NO_SESSION", "the request sessions lists those that run", "there is no session %s%u", request->session ? "" : "of process ",
			     request->session ?: (unsigned)request->pid);
	command__refuse(engine, client, request, &refusal);
}

/* STOP, SUBSCRIBE, SNAPSHOT and ROTATE, which name a session. */
static void on_session(struct engine *engine, struct client *client, const struct request *request)
{
	struct session *session = session__find(engine, request->session);
	/* Its own also if it is refused: the next request must not get it. */
	int into = request->fd ? client__take_fd(client) : -1;
	struct refusal refusal;

	if (!session) {
		if (into >= 0)
			close(into);
		refusal__set(&refusal, "NO_SESSION", "the request sessions lists those that run",
			     "there is no session %u", request->session);
		command__refuse(engine, client, request, &refusal);
	} else if (request->kind == REQUEST_SUBSCRIBE) {
		subscribe(engine, client, request, session);
	} else if (request->kind == REQUEST_ROTATE) {
		rotate(engine, client, request, session);
	} else if (request->kind == REQUEST_SNAPSHOT) {
		snapshot__begin(engine, client, request, session, into);
	} else {
		/* With `fd` the recording goes there, and the answer comes when all of it is there. */
		if (!request->fd)
			answer(engine, client, request, json_object());
		else if (!snapshot__await_end(engine, client, request, session, into))
			return;
		session__stop(engine, session, "stopped", "");
	}
}

/* The owner would be subscribed when the session begins. If it streams another session by now, its requests are refused
 * before anything is asked of the broker. */
static void attach(struct engine *engine, struct client *client, const struct request *request)
{
	struct refusal refusal = {};

	if (request->stream && client->session)
		refusal__set(&refusal, "SUBSCRIBED", "open another connection, or ask with \"stream\":false",
			     "this connection streams session %u", client->session->id);
	else if (session__new(engine, client, request, &refusal) == 0)
		return;
	command__refuse(engine, client, request, &refusal);
}

void command__line(struct engine *engine, struct client *client, const char *line, size_t len)
{
	struct request request;
	struct refusal refusal;

	if (request__parse(line, len, &request, &refusal)) {
		command__refuse(engine, client, &request, &refusal);
		request__clear(&request);
		return;
	}
	switch (request.kind) {
	case REQUEST_DUMP:
		if (session__new(engine, client, &request, &refusal))
			command__refuse(engine, client, &request, &refusal);
		break;
	case REQUEST_ATTACH:
		attach(engine, client, &request);
		break;
	case REQUEST_RULES:
		if (user_rules__add(&client->rules, request.file, request.text, &refusal))
			command__refuse(engine, client, &request, &refusal);
		else
			answer(engine, client, &request, json_object());
		break;
	case REQUEST_TRIGGER:
		trigger(engine, client, &request);
		break;
	case REQUEST_UNSUBSCRIBE:
		unsubscribe(engine, client, &request);
		break;
	case REQUEST_SESSIONS:
		answer(engine, client, &request, list_sessions(engine));
		break;
	case REQUEST_STATUS:
		answer(engine, client, &request, make_status(engine));
		break;
	default:
		on_session(engine, client, &request);
	}
	request__clear(&request);
}
