/* SPDX-License-Identifier: MIT */
/* A session, from attach to its end. Its states, and the message of the broker that ends each:
 *
 *    ATTACHING     the broker loads or takes a sampler, opens the process           BROKER_ATTACHED
 *    IDENTIFYING   which CPython is it? (serve/identify.c, by reads of its memory)  -
 *    RESUMING      the broker opens events for all threads                          BROKER_THREADS
 *    RUNNING       polls: tick()                                                    BROKER_DETACHED
 *    DETACHING     nothing is sampled; the last names and lines are read: linger()  -
 *    DONE          session__reap() frees it
 *
 * A refusal may come in each of them. All of it runs in the engine's main thread, and waits for nothing. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/blocking.h"
#include "base/clock.h"
#include "rules/rules.h"
#include "serve/answer.h"
#include "serve/engine.h"

/* After this, the lines of a session's last frames were requested once. */
#define LINES_ASKED_NS (PROFILE_BATCH_NS + SCHEDULE_DRAIN_NS)
/* Bytes of held records for each ms of latency: 999 Hz of whole stacks. With more, samples are handed on before the
 * latency is over. */
#define HOLD_BYTES_PER_MS 800u

struct session *session__find(struct engine *engine, uint32_t id)
{
	for (struct session *s = engine->sessions; s; s = s->next)
		if (s->id == id && (s->state == SESSION_RUNNING || s->state == SESSION_DETACHING))
			return s;
	return NULL;
}

/* The sentence is the cause: the error's number adds nothing. */
static bool says_it_all(enum broker_error error)
{
	return error == BROKER_ERROR_NO_PROCESS || error == BROKER_ERROR_NOT_YOURS || error == BROKER_ERROR_NO_MEMORY ||
	       error == BROKER_ERROR_LIMIT || error == BROKER_ERROR_NO_DESCRIPTORS || error == BROKER_ERROR_NO_TASKS || error == BROKER_ERROR_KERNEL_STACKS || error == BROKER_ERROR_KERNEL_THREAD ||
	       error == BROKER_ERROR_OTHER_NAMESPACE || error == BROKER_ERROR_NO_PROC;
}

/* A broker's error as an answer: its sentence, and the kernel's error where that adds something. */
static void set_refusal(struct refusal *ret, enum broker_error error, int err)
{
	const bool more = err && !says_it_all(error);

	refusal__set(ret, broker_error__name(error), broker_error__hint(error), "%s%s%s", broker_error__sentence(error), more ? ": " : "",
		     more ? strerror(err) : "");
	if (error == BROKER_ERROR_NOT_YOURS)
		ret->number = err;
}

/* The broker counts the sessions of a user (quota.c); BROKER_SESSIONS_MAX bounds those of one engine. The session is in
 * the list before the broker answers, so that a client that goes away meanwhile is noticed. */
int session__new(struct engine *engine, struct client *client, const struct request *request,
		 struct refusal *ret_refusal)
{
	struct broker_message message = {.kind = BROKER_ATTACH,
					 .token = engine__token(engine),
					 .pid = request->pid,
					 .number = (uint32_t)client->pid,
					 .rate = request->rate,
					 .flags = request->kind == REQUEST_DUMP ? BROKER_DUMP :
						  (request->subprocesses ? BROKER_SUBPROCESSES : 0) |
						  (request->kernel ? BROKER_KERNEL : 0) |
						  (request->wall || request->idle ? BROKER_WALL : 0) |
						  (request->gil ? BROKER_GIL : 0) |
						  native__flags(request),
					 .ring_bytes = SERVE_RING_BYTES};
	struct session *session;
	struct limit_reached reached;
	int err;

	if (client->unnamed) {
		set_refusal(ret_refusal, client->unnamed, 0);
		return -EREMOTE;
	}
	if (engine->n_sessions >= BROKER_SESSIONS_MAX) {
		refusal__set(ret_refusal, "LIMIT", "stop one of them", "there are %u sessions already: an engine can hold no more",
			     engine->n_sessions);
		return -EDQUOT;
	}
	if (memory__is_short(engine, &reached)) {
		refusal__set_limit(ret_refusal, &reached);
		return -EDQUOT;
	}
	session = calloc(1, sizeof(*session));
	err = session ? 0 : -ENOMEM;
	if (!err && request->kind != REQUEST_DUMP)
		err = user_rules__build(client->rules, &session->rules);
	err = err ?: engine__ask(engine, &message);
	if (err) {
		if (session)
			rules__free(session->rules);
		free(session);
		refusal__set_internal(ret_refusal, engine, "the broker cannot be asked", err);
		return err;
	}
	session->engine = engine;
	session->id = ++engine->last_session;
	session->token = message.token;
	session->request = *request;
	session->owner = client;
	session->timer.fd = session->ring_watch.fd = session->native_watch.fd = session->codemap_watch.fd = session->images = session->processes = -1;
	session->next = engine->sessions;
	engine->sessions = session;
	engine->n_sessions++;
	return 0;
}

/* Order: tracees use modules and profile, the drain's profile uses codemap, and codemap uses modules. */
void session__reap(struct engine *engine, struct session *session)
{
	blocking__owner(session->id);
	blocking__release(session->id);
	while (session->tracees)
		tracee__free(engine, session->tracees);
	drain__close(session);
	dump__close(session);
	native__close(session);
	engine__unwatch(engine, &session->timer);
	if (session->images >= 0)
		close(session->images);
	spool__free(session->spool);
	buf__free(&session->pending);
	rules__free(session->rules);
	free(session);
	memory__reserve(engine);
}

unsigned session__subscribers(const struct engine *engine, const struct session *session)
{
	unsigned n = 0;

	for (struct client *c = engine->clients; c; c = c->next)
		n += c->session == session;
	return n;
}

/* --- its way out --- */

/* Requests its end from the broker. If that is gone, or never had this session, there is nothing to wait for. */
static void detach(struct engine *engine, struct session *session)
{
	struct broker_message message = {.kind = BROKER_DETACH,
					 .token = engine__token(engine),
					 .session = session->broker,
					 .pid = session->request.pid};

	session->token = message.token;
	if (!session->broker || engine__ask(engine, &message))
		session->state = SESSION_DONE;
	else
		session->state = SESSION_DETACHING;
}

/* Before it ran: the owner gets the reason as the answer to its request. Without a profile no event is emitted at the
 * end. */
void session__refuse(struct engine *engine, struct session *session, const struct refusal *refusal)
{
	struct client *owner = session->owner;

	if (owner) {
		command__refuse(engine, owner, &session->request, refusal);
		client__flush(engine, owner); /* which died of it, where there was no memory for the words */
	}
	session->owner = NULL;
	session->profile = profile__free(session->profile); /* no events at its end */
	detach(engine, session);
}

/* `reason` (of the `end` event) must be a constant string: "stopped", "duration", "exited", "failed". */
void session__stop(struct engine *engine, struct session *session, const char *reason, const char *detail)
{
	if (session->state != SESSION_RUNNING)
		return;
	session->reason = reason;
	snprintf(session->detail, sizeof(session->detail), "%s", detail);
	detach(engine, session);
	if (session->state == SESSION_DONE) { /* the broker is gone: end what is there */
		session->state = SESSION_DETACHING;
		session__answered(engine, session, &(struct broker_message){.kind = BROKER_DETACHED}, NULL, 0);
	}
}

/* Nobody reads it any more, so it ends, unless `keep` was requested. A session that is being attached has no number at
 * the broker yet: its answer ends it, in attached(). */
void session__abandoned(struct engine *engine, struct session *session)
{
	if (session->owner || session->request.keep || session__subscribers(engine, session))
		return;
	switch (session->state) {
	case SESSION_RUNNING:
		session__stop(engine, session, "stopped", "its clients are gone");
		break;
	case SESSION_ATTACHING: /* the broker's number is not known yet: its answer ends it */
	case SESSION_DETACHING:
	case SESSION_DONE:
		break;
	default:
		detach(engine, session);
	}
}

/* --- its end --- */

/* Nothing is sampled from here on: `time` (0: now) is the end of all waits. What sleeps is accounted for until then,
 * and each thread's CPU time is read from /proc, as its last sample may be older. */
static void finish_accounting(struct session *session, uint64_t time)
{
	int err = session->profile ? asleep__last(session) : 0;

	if (err && !session->error)
		session->error = err;
	session->detached = time ? time : engine__now();
	for (struct tracee *p = session->tracees; p; p = p->next)
		if (!p->dead)
			proc__threads(session, p, true);
}

/* The order matters: first all records of before the end, then losses, then ends of processes, then the profile's own
 * end, which emits samples that still wait for something; `end` is the last line. */
static void finish(struct engine *engine, struct session *session)
{
	if (session->profile && session->reason) {
		int err;

		/* If memory ran out, this is what the last lines are built in. */
		memory__spend_reserve(engine);
		if (!session->detached)
			finish_accounting(session, 0);
		drain__run(engine, session, UINT64_MAX);
		drain__counts(session);
		tracee__announce_ends(session, UINT64_MAX);
		err = profile__end(session->profile, session->detached, session->reason, session->detail);
		if (err && !session->error)
			session->error = err;
		session__farewell(engine, session, !err);
	}
	session->owner = NULL;
	session->state = SESSION_DONE;
}

/* Between BROKER_DETACHED and the end: names and lines of the last frames are still being read in another thread. They
 * are waited for, up to a bound, as a short recording would have few names otherwise. */
static void linger(struct engine *engine, struct session *session, uint64_t now)
{
	uint64_t since = now - session->detached;
	bool symbols = codemap__reads(session->codemap);

	drain__run(engine, session, UINT64_MAX);
	codemap__hurry(session->codemap);
	codemap__tick(session->codemap);
	if (!session->error)
		session->error = profile__tick(session->profile, now);
	if (session->error || since >= (symbols ? SCHEDULE_SYMBOLS_LAST_NS : SCHEDULE_LINES_LAST_NS) ||
	    (since >= LINES_ASKED_NS && !symbols && !codemap__waits(session->codemap)))
		finish(engine, session);
}

/* --- its way in --- */

static void read_clocks(struct event_session *ret)
{
	ret->monotonic = clock__now();
	ret->boottime = clock__boottime();
	ret->realtime = clock__read(CLOCK_REALTIME);
}

/* Between two polls. */
static uint64_t period_of(const struct session *session)
{
	return session->rushes ? SCHEDULE_RUSH_DRAIN_NS : SCHEDULE_DRAIN_NS;
}

/* The one timer of a session; the engine's loop sleeps until the earliest of all. */
static void tick_after(struct session *session, uint64_t ns)
{
	session->tick_due = engine__now() + ns;
}

/* Brings the next poll forward. The regular ones go on from there; in a rush they are frequent enough. */
static void poll_after(struct session *session, uint64_t ns)
{
	if (session->soon || session->rushes)
		return;
	session->soon = true;
	tick_after(session, ns);
}

/* Samples with copies of stacks fill a ring within 20 ms: while there are such samples (until unwind tables are built),
 * polls come every few ms. */
static void rush(struct session *session, uint64_t now)
{
	bool rushes;

	if (!session->rush_until)
		session->rush_until = now + SCHEDULE_RUSH_NS;
	rushes = session->modules && session->request.native == REQUEST_NATIVE_FULL &&
		 (now < session->rush_until || profile__unfinished(session->profile));
	if (rushes == session->rushes)
		return;
	session->rushes = rushes;
	tick_after(session, period_of(session));
}

/* How long samples may be held back before they become events. Where a JIT replaces code, not for long: the code that
 * they interrupted has to be read while it is there. */
static uint64_t latency_of(const struct session *session)
{
	uint64_t ns = session->request.latency_ms * 1000000ull - SCHEDULE_DRAIN_NS / 10; /* polls come every 100 ms */

	return session->modules && modules__replace_code(session->modules) && ns > SCHEDULE_HOLD_JIT_NS ? SCHEDULE_HOLD_JIT_NS : ns;
}

/* The first half of a poll: rings are emptied, values of frames are read. True: the rest
 * may wait until `hand_on_due`, as nothing is urgent and not too much is held. */
static bool holds_back(struct session *session, uint64_t now)
{
	session->polled = now;
	session->soon = false;
	drain__poll(session, now - SCHEDULE_SETTLE_NS);
	ring__polled(session->ring, now);
	births__poll(session, now);
	if (!session->urgent && !session->rushes && !session->error && now >= session->rush_until && now < session->hand_on_due &&
	    collector__held(session->collector) < session->request.latency_ms * HOLD_BYTES_PER_MS && !(session->deadline && now >= session->deadline))
		return true;
	/* What is urgent seldom comes alone: code of a JIT that runs, a stack to be finished. */
	if (session->urgent)
		poll_after(session, SCHEDULE_URGENT_NS);
	session->urgent = false;
	session->hand_on_due = now + latency_of(session);
	return false;
}

/* A stage had an error. With -ENOMEM the user reads which limit was reached, not "Cannot allocate memory". */
static void fail(struct engine *engine, struct session *session)
{
	char words[sizeof(session->detail)];
	struct limit_reached reached;

	snprintf(words, sizeof(words), "%s", strerror(-session->error));
	if (session->error == -ENOMEM && memory__limit(engine, &reached))
		limit__sentence(&reached, words, sizeof(words));
	session__stop(engine, session, "failed", words);
}

/* A poll. Its first half (holds_back) is done each time: rings are emptied, and what cannot wait is read. The second
 * half, which makes events of samples, is done when it is due, or when something is urgent. It takes only records that
 * are older than SCHEDULE_SETTLE_NS: rings of several CPUs are read one after the other, and a younger record could
 * still get an older neighbour. */
static void tick(struct engine *engine, struct session *session)
{
	uint64_t now = engine__now();

	blocking__owner(session->id);
	if (session->detached)
		linger(engine, session, now);
	if (session->state != SESSION_RUNNING || holds_back(session, now))
		return;
	/* JITs register code before they run it, so what this finds is complete for the samples that are handed on
	 * next. */
	if (session->modules)
		modules__tick(session->modules, now);
	codemap__tick(session->codemap);
	gil__poll(session, now);
	drain__run(engine, session, now - SCHEDULE_SETTLE_NS);
	if (session->rushes && ++session->rush_polls % SCHEDULE_RUSH_TICKS)
		return;
	rush(session, now);
	tracee__announce_ends(session, now - SCHEDULE_SETTLE_NS);
	if (now >= session->counts_due) {
		drain__counts(session);
		session->counts_due = now + SCHEDULE_COUNTS_NS;
	}
	if (!session->error)
		session->error = profile__tick(session->profile, now);
	if (profile__resends_codes(session->profile))
		ring__resend_codes(session->ring);
	session__publish(engine, session);
	session__flush_spool_if_due(session, now);
	if (session->error)
		fail(engine, session);
	else if (session->deadline && now >= session->deadline)
		session__stop(engine, session, "duration", "");
	else if (!tracee__any_alive(session))
		session__stop(engine, session, "exited", "the process ended");
}

/* Called in each turn of the engine's loop. If the loop was late by whole periods, these polls are left out. */
void session__tick(struct engine *engine, struct session *session, uint64_t now, uint64_t *next)
{
	if (!session->tick_due)
		return;
	if (session->tick_due <= now) {
		session->tick_due += period_of(session);
		if (session->tick_due <= now)
			session->tick_due = now + period_of(session);
		tick(engine, session);
	}
	if (session->tick_due < *next)
		*next = session->tick_due;
}

/* The sampler woke us. Not sooner than SCHEDULE_POLL_NS after the last time, however often it does. */
void session__poll_soon(struct engine *engine, struct session *session)
{
	uint64_t since = engine__now() - session->polled;

	if (since >= SCHEDULE_POLL_NS) {
		if (!session->rushes)
			tick_after(session, SCHEDULE_DRAIN_NS); /* after this one */
		tick(engine, session);
	} else {
		poll_after(session, SCHEDULE_POLL_NS - since);
	}
}

/* For records of just now, which a poll at once would leave to the next one; as rarely as that. */
void session__poll_later(struct session *session)
{
	uint64_t since = engine__now() - session->polled;

	poll_after(session, since + SCHEDULE_FRESH_NS < SCHEDULE_POLL_NS ? SCHEDULE_POLL_NS - since : SCHEDULE_FRESH_NS);
}

static void internal_error(struct engine *engine, struct session *session, const char *what, int err)
{
	struct refusal refusal;

	if (err == -ENOMEM)
		memory__spend_reserve(engine);
	refusal__set_internal(&refusal, engine, what, err);
	session__refuse(engine, session, &refusal);
}

/* The broker opened the process: sets up all stages, and begins to identify it. fds: ring, images, samples, processes
 * (for a dump: its own four, see broker.h), then those of the process. What is kept is duplicated. */
static void attached(struct engine *engine, struct session *session, const struct broker_message *message,
		     const int *fds)
{
	struct tracee *tracee;
	int err;

	session->broker = message->session;
	session->state = SESSION_IDENTIFYING;
	session->images = fcntl(fds[1], F_DUPFD_CLOEXEC, 3);
	err = session->images < 0 ? -errno : native__open(session, fds[3]);
	if (!err)
		err = session->request.kind == REQUEST_DUMP ? dump__open(session, fds) :
							      drain__open(session, fds[0], fds[2]);
	tracee = err ? NULL : tracee__new(session, message->pid);
	if (!tracee) {
		internal_error(engine, session, "the session cannot be set up", err ? err : -ENOMEM);
		return;
	}
	if (!session->owner && !session->request.keep) { /* nobody waits for it any more */
		detach(engine, session);
		return;
	}
	tracee->root = tracee->list = true;
	tracee->parent = message->parent;
	tracee__open(engine, tracee, message, fds + BROKER_MAP_FDS);
}

/* Its first process is identified, or known to be none that is supported. The session's event is the first of its
 * stream, then come its processes; and only then do timers of threads begin to tick (BROKER_RESUME), so that no sample
 * is of a process that was not announced. */
void session__identified(struct engine *engine, struct session *session)
{
	const struct request *request = &session->request;
	struct broker_message resume = {.kind = BROKER_RESUME,
					.token = engine__token(engine),
					.session = session->broker,
					.pid = request->pid};
	char command[1024], boot_id[64];
	struct event_session event = {.id = session->id,
				      .pid = request->pid,
				      .rate = request->rate,
				      .mode = request->wall ? "wall" : "cpu",
				      .boot_id = boot_id,
				      .command = command,
				      .subprocesses = request->subprocesses,
				      .native = request->native != REQUEST_NATIVE_OFF,
				      .idle = request->idle};
	int err;

	if (request->kind == REQUEST_DUMP) {
		dump__identified(engine, session);
		return;
	}
	proc__command(request->pid, command, sizeof(command));
	proc__boot_id(boot_id, sizeof(boot_id));
	read_clocks(&event);
	session->begun = event.monotonic;
	if (request->spool) {
		err = session__open_spool(engine, session);
		if (err) {
			internal_error(engine, session, "the recording cannot be spooled", err);
			return;
		}
	}
	err = profile__begin(session->profile, &event);
	if (!err) {
		for (struct tracee *t = session->tracees; t && !err; t = t->next)
			if (t->state == TRACEE_KNOWN && !t->dead)
				err = tracee__announce(t);
	}
	if (!err) {
		session->token = resume.token;
		session->state = SESSION_RESUMING;
		err = engine__ask(engine, &resume);
	}
	if (err)
		internal_error(engine, session, "the session cannot begin", err);
}

/* Timers run: the client gets its answer, and is subscribed. `time` (monotonic ns, the broker's): waits are recorded
 * from then on. */
static void resumed(struct engine *engine, struct session *session, uint64_t time)
{
	const struct request *request = &session->request;
	struct client *owner = session->owner;
	struct buf line = {};

	tick_after(session, SCHEDULE_DRAIN_NS);
	rush(session, engine__now());
	session->state = SESSION_RUNNING;
	profile__waits_begin(session->profile, time);
	if (request->duration_ms)
		session->deadline = session->begun + request->duration_ms * 1000000u;
	if (owner) {
		if (answer__ok(&line, request->has_id, request->id,
			       json_pack("{s:I}", "session", (json_int_t)session->id)))
			line.failed = true;
		client__say(engine, owner, &line);
		buf__free(&line);
		if (request->stream && !owner->dead && !owner->session)
			owner->session = session;
	}
	session__publish(engine, session);
	if (owner && !owner->dead)
		client__flush(engine, owner);
	session__abandoned(engine, session);
}

static void refused_by_broker(struct engine *engine, struct session *session,
			      const struct broker_message *message)
{
	struct refusal refusal;
	struct limit_reached reached;

	if (broker_message__limit(message, &reached))
		refusal__set_limit(&refusal, &reached);
	else
		set_refusal(&refusal, (enum broker_error)message->error, message->error_errno);
	session__refuse(engine, session, &refusal);
}

/* A message that does not fit the state answers a request from before the session was stopped. It is dropped; the
 * caller closes its descriptors. */
void session__answered(struct engine *engine, struct session *session,
		       const struct broker_message *message, const int *fds, unsigned n)
{
	blocking__owner(session->id);
	switch (message->kind) {
	case BROKER_ATTACHED:
		if (session->state != SESSION_ATTACHING)
			break;
		if (message->error != BROKER_ERROR_OK || n != BROKER_ATTACHED_FDS)
			refused_by_broker(engine, session, message);
		else
			attached(engine, session, message, fds);
		break;
	case BROKER_THREADS:
		if (session->state != SESSION_RESUMING)
			break;
		if (message->error != BROKER_ERROR_OK)
			refused_by_broker(engine, session, message);
		else if (session->dump)
			dump__resumed(engine, session);
		else
			resumed(engine, session, message->start);
		break;
	case BROKER_DETACHED:
		if (session->state != SESSION_DETACHING || session->detached)
			break;
		if (session->profile && session->reason)
			finish_accounting(session, session->request.wall || session->request.idle ? message->start : 0);
		if (!session->detached || !session->codemap || engine->broker_gone)
			finish(engine, session);
		break;
	case BROKER_FILE:
	case BROKER_POOL:
	case BROKER_PERF_MAP:
	case BROKER_DEBUG:
	case BROKER_KALLSYMS:
		native__answered(session, message, fds, n);
		break;
	case BROKER_CLOCKS:
		births__answered(session, message);
		break;
	case BROKER_PROCESS:
	case BROKER_CHILD:
		tracee__answered(engine, session, message, fds, n);
		break;
	default:
		break;
	}
}

void session__subscribe(struct engine *engine, struct session *session, struct client *client)
{
	session__publish(engine, session); /* the others get what was before, the new one the tables of now */
	client->session = session;
	client__replay(engine, client);
}
