/* SPDX-License-Identifier: MIT */
/* Timers of CPUs, beside those of threads, while the target makes threads or processes.
 *
 * A thread that lives for less than a period may never be sampled by a timer of its own: the timer has to be set up for it
 * first. The timers of CPUs (broker/clocks.h) tick whoever runs, so such threads are sampled by them. They cost a tick
 * on every CPU, so they run only while there are births: from the first clone or fork until there was none for
 * SCHEDULE_BIRTHS_LAST_NS.
 *
 *    RECORD_CLONE, RECORD_FORK -> session.born -> births__poll() -> BROKER_SET_CLOCKS -> BROKER_CLOCKS */
#include "serve/engine.h"

void births__record(struct session *session, const struct record_header *header)
{
	session->born = header->time;
}

static void set_clocks(struct session *session, bool on)
{
	struct broker_message message = {.kind = BROKER_SET_CLOCKS, .pid = session->request.pid, .number = on};

	if (!session__ask(session, &message, NULL))
		session->clocks = on ? CLOCKS_ON : CLOCKS_OFF;
}

void births__poll(struct session *session, uint64_t now)
{
	/* A host's processes have no other clocks. */
	bool born = session->host || (session->born && now < session->born + SCHEDULE_BIRTHS_LAST_NS);

	if (session->state == SESSION_RUNNING && session->clocks != CLOCKS_REFUSED && born != (session->clocks == CLOCKS_ON))
		set_clocks(session, born);
}

/* Refused once: it will be refused at each birth, so it is not requested again in this session. Such threads are
 * counted as not sampled then. */
void births__answered(struct session *session, const struct broker_message *message)
{
	if (message->error != BROKER_ERROR_OK)
		session->clocks = CLOCKS_REFUSED;
}
