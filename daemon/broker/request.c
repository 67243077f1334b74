/* SPDX-License-Identifier: MIT */
/* Serves the requests of an engine: one at a time, each in a coroutine, because opening a process may have to wait for
 * a helper.
 *
 *    request__wants()   what poll() should wait for
 *    request__serve()   begin(): receives a request and runs serve() until it waits, or is done; then goes on with it
 *    send_reply()       each request has exactly one answer
 *
 * The engine is hostile by assumption. A message that is not in the protocol ends it; all others are checked here and
 * in session.c, each time anew. */
#include "broker/request.h"

#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "broker/session.h"

static int send_now(struct engine *engine, const struct broker_message *message, const int *fds,
		    unsigned n)
{
	int err = broker__send(engine->channel, message, fds, n);

	/* Too many fds in flight, or no room: the reply is lost, and an engine cannot go on without it. */
	return err ? -EPIPE : 0;
}

/* An opened file stays with the helper that opened it, which also sends it: the broker never holds it, as closing it
 * could block. */
static int send_reply(struct engine *engine, const struct reply *reply)
{
	if (!reply->opener)
		return send_now(engine, &reply->message, reply->fds, reply->n);
	return file__hand_over(reply->opener, engine->channel, &reply->message) ? -EPIPE : 0;
}

/* NULL: it has no such session (any more). */
static struct session **slot_of(struct engine *engine, uint32_t id)
{
	for (size_t i = 0; i < BROKER_SESSIONS_MAX; i++)
		if (engine->sessions[i] && engine->sessions[i]->id == id)
			return &engine->sessions[i];
	return NULL;
}

/* Reports the children that ran already, as fast as the engine reads. The engine is `stalled` until all are sent. */
static int send_children(struct engine *engine)
{
	struct broker_message child = {.kind = BROKER_CHILD};
	struct session *session;
	int err;

	for (size_t i = 0; i < BROKER_SESSIONS_MAX; i++) {
		session = engine->sessions[i];
		while (session && session->n_sent < session->n_children) {
			child.token = session->token;
			child.session = session->id;
			child.pid = session->children[session->n_sent];
			err = engine__writable(engine);
			err = err ?: broker__send(engine->channel, &child, NULL, 0);
			engine->stalled = err == -EAGAIN;
			if (err)
				return err == -EAGAIN ? err : -EPIPE;
			session->n_sent++;
		}
	}
	engine->stalled = false;
	return 0;
}

/* The kernel refuses nothing to root. So an engine of root may only attach to processes that its clients named, and
 * to their descendants. */
static enum broker_error is_named(const struct engine *engine, pid_t pid)
{
	struct pollfd ended = {.events = POLLIN};
	bool lives;

	if (!identity__may_all(&engine->client) || known__holds(&engine->named, engine->client.payer, pid))
		return BROKER_ERROR_OK;
	ended.fd = (int)syscall(SYS_pidfd_open, pid, 0);
	lives = ended.fd >= 0 && poll(&ended, 1, 0) == 0;
	if (ended.fd >= 0)
		close(ended.fd);
	return lives ? BROKER_ERROR_NOT_NAMED : BROKER_ERROR_NO_PROCESS;
}

/* Every process of the machine is below process 1: who names that names all of them. */
static enum broker_error is_of_host(const struct engine *engine)
{
	return identity__may_all(&engine->client) && known__has(&engine->named, 1) ? BROKER_ERROR_OK : BROKER_ERROR_NOT_NAMED;
}

static int attach(struct engine *engine, const struct broker_message *request, struct reply *reply,
		  struct spare *spare, bool verbose)
{
	const bool host = request->flags & BROKER_HOST;
	enum broker_error error;
	struct session *session;
	size_t i;
	int err;

	reply->message.kind = BROKER_ATTACHED;
	reply->message.pid = request->pid;
	/* The first free slot. */
	for (i = 0; i < BROKER_SESSIONS_MAX && engine->sessions[i]; i++)
		;
	if (i == BROKER_SESSIONS_MAX) {
		reply__fail(reply, BROKER_ERROR_LIMIT, EDQUOT);
		return send_now(engine, &reply->message, NULL, 0);
	}
	error = host ? is_of_host(engine) : is_named(engine, request->pid);
	if (error) {
		reply__fail(reply, error, error == BROKER_ERROR_NOT_NAMED ? EPERM : ESRCH);
		return send_now(engine, &reply->message, NULL, 0);
	}
	spent__free(&engine->spent);
	if (host)
		session = session__attach_host(request, &engine->client, &engine->charge, spare, verbose, reply);
	else
		session = session__attach(request, &engine->client, &engine->clients, &engine->charge, spare, verbose, reply);
	/* Check again: only now that its pidfd is open can the pid no longer be reused for another process. */
	error = session && !host ? is_named(engine, request->pid) : BROKER_ERROR_OK;
	if (error) {
		session = session__free(session);
		reply__fail(reply, error, ESRCH);
	}
	if (!session)
		return send_now(engine, &reply->message, NULL, 0);
	session->id = ++engine->last_session;
	engine->sessions[i] = session;
	reply->message.session = session->id;
	session->token = request->token;
	err = send_now(engine, &reply->message, reply->fds, reply->n);
	return err ? err : send_children(engine);
}

static bool has_unsent(const struct engine *engine)
{
	for (size_t i = 0; i < BROKER_SESSIONS_MAX; i++)
		if (engine->sessions[i] && engine->sessions[i]->n_sent < engine->sessions[i]->n_children)
			return true;
	return false;
}

/* The sampler of the last session alone is kept for reuse. It stays charged to the user meanwhile. */
static void leave(struct engine *engine, struct session *session)
{
	size_t i;

	for (i = 0; i < BROKER_SESSIONS_MAX && !engine->sessions[i]; i++)
		;
	spent__free(&engine->spent);
	if (i < BROKER_SESSIONS_MAX)
		session__free(session);
	else
		session__leave(session, &engine->spent);
}

/* --- one request, in a coroutine --- */

/* What the coroutine starts with. */
struct question {
	struct engine *engine;
	struct broker_message message;
	struct spare *spare;
	bool verbose;
};

/* Requests of a session. False: unknown request. */
static bool serve_session(struct engine *engine, struct session **slot, const struct broker_message *request, struct reply *reply)
{
	struct session *session = slot ? *slot : NULL;

	switch (request->kind) {
	case BROKER_OPEN_PROCESS:
		reply->message.kind = BROKER_PROCESS;
		if (session)
			session__open_process(session, &engine->client, request, reply);
		return true;
	case BROKER_OPEN_FILE:
		reply->message.kind = BROKER_FILE;
		if (session)
			session__open_file(session, &engine->client, request, &engine->openers, reply);
		return true;
	case BROKER_OPEN_DEBUG:
		reply->message.kind = BROKER_DEBUG;
		if (session)
			session__open_file(session, &engine->client, request, &engine->openers, reply);
		return true;
	case BROKER_OPEN_PERF_MAP:
		reply->message.kind = BROKER_PERF_MAP;
		if (session)
			session__open_file(session, &engine->client, request, &engine->openers, reply);
		return true;
	case BROKER_OPEN_KALLSYMS:
		reply->message.kind = BROKER_KALLSYMS;
		if (session)
			session__open_kallsyms(session, reply);
		return true;
	case BROKER_RESUME:
		reply->message.kind = BROKER_THREADS;
		if (session)
			session__resume(session, reply);
		return true;
	case BROKER_SET_CLOCKS:
		reply->message.kind = BROKER_CLOCKS;
		if (session)
			session__set_clocks(session, request->number, reply);
		return true;
	case BROKER_SET_RATE:
		reply->message.kind = BROKER_RATE;
		if (session)
			session__set_rate(session, request->rate, reply);
		return true;
	case BROKER_WATCH:
		reply->message.kind = BROKER_WATCHED;
		if (session)
			session__watch(session, request, reply);
		return true;
	case BROKER_ADOPT:
		reply->message.kind = BROKER_ADOPTED;
		if (session)
			session__adopt(session, &engine->client, request, reply);
		return true;
	case BROKER_ADD_POOL:
		reply->message.kind = BROKER_POOL;
		if (session)
			session__add_pool(session, request, reply);
		return true;
	case BROKER_DETACH:
		reply->message.kind = BROKER_DETACHED;
		if (session) {
			session__end(session, reply);
			*slot = NULL;
			leave(engine, session);
		}
		return true;
	default:
		return false;
	}
}

static int serve(void *context)
{
	/* A copy: the caller's struct is on its stack, which is gone after the first wait. */
	const struct question question = *(const struct question *)context;
	const struct broker_message *request = &question.message;
	struct engine *engine = question.engine;
	struct session **slot;
	struct reply reply = {.message = {.token = request->token, .session = request->session}};
	int err;

	if (request->kind == BROKER_ATTACH) {
		err = attach(engine, request, &reply, question.spare, question.verbose);
		reply__close(&reply);
		return err;
	}
	/* A session may end while a request is on its way: not a protocol error. */
	slot = slot_of(engine, request->session);
	if (!slot)
		reply__fail(&reply, BROKER_ERROR_NO_PROCESS, ESRCH);
	reply.message.pid = request->pid;
	err = serve_session(engine, slot, request, &reply) ? send_reply(engine, &reply) : -EBADMSG;
	reply__close(&reply);
	return err;
}

/* --- in the loop --- */

/* Starts the next request, if there is one, and runs it until it waits. An engine that does not read its answers is not
 * served: its answers would fill the broker's memory. */
static int begin(struct engine *engine, struct spare *spare, bool verbose)
{
	struct question question = {.engine = engine, .spare = spare, .verbose = verbose};
	int unexpected[BROKER_FDS_MAX], err;
	unsigned n;

	err = engine__writable(engine);
	engine->stalled = err == -EAGAIN;
	if (!err && has_unsent(engine))
		return send_children(engine);
	err = err ?: broker__receive(engine->channel, &question.message, unexpected, &n);
	if (err)
		return err;
	if (n) { /* no request has fds */
		while (n)
			close(unexpected[--n]);
		return -EBADMSG;
	}
	return coroutine__begin(serve, &question, &engine->request, &err) ? err : 0;
}

void request__wants(const struct engine *engine, struct pollfd ret[REQUEST_POLLED], uint64_t *ret_until)
{
	*ret_until = UINT64_MAX;
	ret[0] = (struct pollfd){.fd = engine->channel, .events = engine->stalled ? POLLOUT : POLLIN};
	ret[1] = (struct pollfd){.fd = -1};
	if (!engine->request)
		return;
	ret[0].events = 0; /* POLLHUP alone: no further request while one runs */
	ret[1] = coroutine__wants(engine->request, ret_until);
}

int request__serve(struct engine *engine, const struct pollfd polled[REQUEST_POLLED], struct spare *spare, bool verbose)
{
	int err = 0;

	if (engine->request && polled[0].revents)
		err = -EPIPE;
	else if (engine->request && coroutine__step(engine->request, polled[1].revents, &err))
		engine->request = NULL;
	else if (!engine->request && polled[0].revents)
		err = polled[0].revents & (POLLIN | POLLOUT) ? begin(engine, spare, verbose) : -EPIPE;
	return err == -EAGAIN ? 0 : err; /* retried when the socket is writable */
}
