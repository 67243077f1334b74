/* SPDX-License-Identifier: MIT */
/* A session, from attach to its end. Its states, and the message of the broker that ends each:
 *
 *    ATTACHING     the broker loads or takes a sampler, opens the process           BROKER_ATTACHED
 *    IDENTIFYING   which CPython is it? (serve/identify.c, by reads of its memory)  -
 *    RESUMING      the broker opens events for all threads                          BROKER_THREADS
 *    RUNNING       polls: drain__tick()                                             BROKER_DETACHED
 *    DETACHING     nothing is sampled; the last names and lines are read: session__linger()  -
 *    DONE          session__reap() frees it
 *
 * A refusal may come in each of them. All of it runs in the engine's main thread, and waits for nothing. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/blocking.h"
#include "base/clock.h"
#include "rules/rules.h"
#include "serve/answer.h"
#include "serve/engine.h"

/* After this, the lines of a session's last frames were requested once. */
#define LINES_ASKED_NS (PROFILE_BATCH_NS + SCHEDULE_DRAIN_NS)

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
						  (request->host ? BROKER_HOST : 0) |
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
	if (!err && request->host)
		err = host__new(request, &session->host, ret_refusal);
	if (err == -EINVAL) {
		free(session);
		return err;
	}
	if (!err && request->kind != REQUEST_DUMP)
		err = user_rules__build(client->rules, &session->rules);
	err = err ?: engine__ask(engine, &message);
	if (err) {
		if (session) {
			rules__free(session->rules);
			host__free(session->host);
		}
		free(session);
		refusal__set_internal(ret_refusal, engine, "the broker cannot be asked", err);
		return err;
	}
	session->engine = engine;
	session->id = ++engine->last_session;
	session->token = message.token;
	session->request = *request;
	session->rate = request->rate;
	session->request.match = session->request.file = session->request.text = NULL; /* the caller's */
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
	snapshot__ended(engine, session);
	spool__free(session->spool);
	buf__free(&session->pending);
	rules__free(session->rules);
	host__free(session->host);
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

int session__ask(struct session *session, struct broker_message *message, uint32_t *ret_token)
{
	message->token = engine__token(session->engine);
	message->session = session->broker;
	if (ret_token)
		*ret_token = message->token;
	return engine__ask(session->engine, message);
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

/* A stage had an error. With -ENOMEM the user reads which limit was reached, not "Cannot allocate memory". A session that is
 * about to end for another reason has failed, too. */
void session__fail(struct engine *engine, struct session *session)
{
	char words[sizeof(session->detail)];
	struct limit_reached reached;

	snprintf(words, sizeof(words), "%s", strerror(-session->error));
	if (session->error == -ENOMEM && memory__limit(engine, &reached))
		limit__sentence(&reached, words, sizeof(words));
	if (session->state == SESSION_RUNNING) {
		session__stop(engine, session, "failed", words);
	} else if (strcmp(session->reason, "failed")) {
		session->reason = "failed";
		memcpy(session->detail, words, sizeof(words));
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
		if (session->error)
			session__fail(engine, session);
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
void session__linger(struct engine *engine, struct session *session, uint64_t now)
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

void session__read_clocks(struct event_session *ret)
{
	ret->monotonic = clock__now();
	ret->boottime = clock__boottime();
	ret->realtime = clock__read(CLOCK_REALTIME);
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
	tracee = err || session->host ? NULL : tracee__new(session, message->pid);
	if (!tracee && (err || !session->host)) {
		internal_error(engine, session, "the session cannot be set up", err ? err : -ENOMEM);
		return;
	}
	if (!session->owner && !session->request.keep) { /* nobody waits for it any more */
		detach(engine, session);
		return;
	}
	if (!tracee) {
		session__identified(engine, session);
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
	struct broker_message resume = {.kind = BROKER_RESUME, .pid = request->pid};
	char command[1024], boot_id[64], machine[192];
	struct event_session event = {.id = session->id,
				      .pid = request->pid,
				      .rate = request->rate,
				      .mode = request->wall ? "wall" : "cpu",
				      .boot_id = boot_id,
				      .command = command,
				      .machine = machine,
				      .subprocesses = request->subprocesses,
				      .native = request->native != REQUEST_NATIVE_OFF,
				      .idle = request->idle};
	int err;

	if (request->kind == REQUEST_DUMP) {
		dump__identified(engine, session);
		return;
	}
	if (request->host)
		snprintf(command, sizeof(command), "every Python of this machine");
	else
		proc__command(request->pid, command, sizeof(command));
	proc__boot_id(boot_id, sizeof(boot_id));
	proc__machine(machine, sizeof(machine));
	session__read_clocks(&event);
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
		session->state = SESSION_RESUMING;
		err = session__ask(session, &resume, &session->token);
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

	drain__start(session);
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
		if (message->error != BROKER_ERROR_OK || n != (session->host ? BROKER_MAP_FDS : BROKER_ATTACHED_FDS))
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
	case BROKER_ADOPTED:
		if (session->host && session->state == SESSION_RUNNING)
			host__adopted(engine, session, message);
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
