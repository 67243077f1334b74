/* SPDX-License-Identifier: MIT */
/* What a session says: to its clients, and to its spool. */
#include <string.h>

#include "serve/engine.h"

/* The first error ends the recording; it may come with any line, or with a flush. The last ledger
 * is on its way to the spool when `end` is, and takes no more. */
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

int session__open_spool(struct engine *engine, struct session *session)
{
	int err = spool__new(&session->spool);

	if (!err)
		spool_lines(session, engine->hello, strlen(engine->hello));
	return err;
}

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

void session__publish(struct engine *engine, struct session *session)
{
	struct chunk *chunk = NULL;

	if (!session->pending.len)
		return;
	spool_lines(session, session->pending.data, session->pending.len);
	if (chunk__new(session->pending.data, session->pending.len, session->pending_events, &chunk))
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

void session__farewell(struct engine *engine, struct session *session, bool ended)
{
	struct buf *lines = &session->pending;
	size_t from = lines->len;
	struct chunk *last = NULL;

	/* `end` is the last line: all of it that a client needs who missed the rest. */
	while (from > 0 && (from == lines->len || lines->data[from - 1] != '\n'))
		from--;
	if (lines->len && ended)
		chunk__new(lines->data + from, lines->len - from, 1, &last);
	session__publish(engine, session);
	for (struct client *c = engine->clients; c; c = c->next) {
		if (c->session != session)
			continue;
		c->session = NULL;
		if (c->lagging && last)
			c->farewell = chunk__ref(last);
		if (!ended || (c->lagging && !last))
			client__die(engine, c); /* it would wait for the end */
		else
			client__flush(engine, c);
	}
	chunk__unref(last);
}
