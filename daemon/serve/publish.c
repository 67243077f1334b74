/* SPDX-License-Identifier: MIT */
/* Sends a session's events: what stages appended to session.pending becomes one chunk, which goes to the spool and into
 * the outbox of each client that streams the session. It is encoded once, however many clients there are. */
#include <string.h>

#include "serve/engine.h"

#define PENDING_COPIED (256u << 10)

/* The first error of the spool (a full disk) ends the recording, not the session; it may come with any line, or with a
 * flush. It is counted as a loss while there is still a ledger to come: the last one is written together with `end`. */
static void poll_spool(struct session *session)
{
	if (session->spool_failed || !spool__error(session->spool))
		return;
	session->spool_failed = true;
	if (session->profile && !session->reason)
		profile__loss(session->profile, LOSS_DISK_FULL, 1);
}

static void spool_lines(struct session *session, const char *data, size_t len)
{
	if (!session->spool)
		return;
	spool__lines(session->spool, data, len);
	poll_spool(session);
}

/* A recording begins with the hello line, as a stream does. */
int session__open_spool(struct engine *engine, struct session *session)
{
	int err = spool__new(&session->spool);

	if (!err)
		spool_lines(session, engine->hello, strlen(engine->hello));
	return err;
}

/* Ends a zstd frame: what was written so far can be read by itself. */
uint64_t session__flush_spool(struct session *session)
{
	uint64_t len = 0;

	spool__flush(session->spool, &len);
	poll_spool(session);
	return len;
}

void session__flush_spool_if_due(struct session *session, uint64_t now)
{
	if (!session->spool || now < session->spool_due)
		return;
	session__flush_spool(session);
	session->spool_due = now + SCHEDULE_SPOOL_NS;
}

/* There is no memory for what its clients were to get: a gap, as for one that does not read. */
static void miss(struct engine *engine, struct session *session, size_t bytes, unsigned events)
{
	if (!session->error)
		session->error = -ENOMEM;
	for (struct client *c = engine->clients; c; c = c->next) {
		if (c->session != session)
			continue;
		c->lagging = true;
		c->gap_events += events;
		c->gap_bytes += bytes;
	}
}

/* The spool first: a snapshot that a client asks for now has what it was just sent. */
void session__publish(struct engine *engine, struct session *session)
{
	struct chunk *chunk = NULL;

	if (!session->pending.len)
		return;
	spool_lines(session, session->pending.data, session->pending.len);
	/* Much of it, as when an epoch begins, goes as it is: neither a copy nor a buffer of that size stays. */
	if (session->pending.len > PENDING_COPIED ? chunk__take(&session->pending, session->pending_events, &chunk)
						  : chunk__new(session->pending.data, session->pending.len, session->pending_events, &chunk))
		miss(engine, session, session->pending.len, session->pending_events);
	buf__clear(&session->pending);
	session->pending_events = 0;
	if (!chunk)
		return;
	for (struct client *c = engine->clients; c; c = c->next) {
		if (c->session != session)
			continue;
		client__stream(engine, c, chunk);
		client__flush(engine, c);
	}
	chunk__unref(chunk);
}

/* --- requests `trigger` --- */

bool session__takes_trigger(const struct session *session)
{
	return session->request.trigger && session->owner && session->owner->session == session;
}

bool session__trigger(struct session *session)
{
	const bool takes = session__takes_trigger(session);

	session->triggered |= takes;
	return takes;
}

/* To the client that attached alone, and into no recording: nobody else asked for it. One that lags gets it behind its gap. */
void session__publish_trigger(struct engine *engine, struct session *session)
{
	const struct event event = {.kind = EVENT_TRIGGER, .trigger = {.time = engine__now(), .condition = "request", .name = ""}};
	struct client *owner = session->owner;
	_cleanup_(buf__free) struct buf line = {};

	if (!session->triggered || !session__takes_trigger(session) || owner->lagging)
		return;
	session->triggered = false;
	if (event__encode(&event, &line))
		line.failed = true;
	client__say(engine, owner, &line);
	client__flush(engine, owner);
}

/* `end` is cut out of the last chunk as a chunk of its own: a client that lags gets that after its gap, and so learns
 * that the session is over. */
void session__farewell(struct engine *engine, struct session *session, bool ended)
{
	struct buf *lines = &session->pending;
	size_t from = lines->len;
	struct chunk *last = NULL;

	session__publish_trigger(engine, session);
	/* `end` is the last line: all of it that a client needs who missed the rest. */
	while (from > 0 && (from == lines->len || lines->data[from - 1] != '\n'))
		from--;
	if (lines->len && ended)
		chunk__new(lines->data + from, lines->len - from, 1, &last);
	/* Before the last lines: one that they make lag may have read all else a moment later. */
	for (struct client *c = engine->clients; c; c = c->next)
		if (c->session == session && last)
			c->farewell = chunk__ref(last);
	session__publish(engine, session);
	for (struct client *c = engine->clients; c; c = c->next) {
		if (c->session != session)
			continue;
		c->session = NULL;
		if (!c->lagging) /* it got `end` with the last lines, or after its gap */
			c->farewell = chunk__unref(c->farewell);
		if (!ended || (c->lagging && !last))
			client__die(engine, c); /* it would wait for the end */
		else
			client__flush(engine, c);
	}
	chunk__unref(last);
}
