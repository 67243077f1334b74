/* SPDX-License-Identifier: MIT */
/* While a target makes threads or processes, clocks of CPUs tick beside its own (broker/clocks.h): asked for at the first birth,
 * and given back when there was none for a second. */
#include "serve/engine.h"

void births__record(struct session *session, const struct record_header *header)
{
	session->born = header->time;
}

static void set_clocks(struct session *session, bool on)
{
	struct broker_message message = {.kind = BROKER_SET_CLOCKS,
					 .token = engine__token(session->engine),
					 .session = session->broker,
					 .pid = session->request.pid,
					 .number = on};

	if (!engine__ask(session->engine, &message))
		session->clocks = on ? CLOCKS_ON : CLOCKS_OFF;
}

void births__poll(struct session *session, uint64_t now)
{
	bool born = session->born && now < session->born + SCHEDULE_BIRTHS_LAST_NS;

	if (session->state == SESSION_RUNNING && session->clocks != CLOCKS_REFUSED && born != (session->clocks == CLOCKS_ON))
		set_clocks(session, born);
}

void births__answered(struct session *session, const struct broker_message *message)
{
	if (message->error != BROKER_ERROR_OK)
		session->clocks = CLOCKS_REFUSED;
}
