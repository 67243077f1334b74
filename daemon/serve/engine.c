/* SPDX-License-Identifier: MIT */
/* The engine's loop, and its channel to the broker.
 *
 * A turn of the loop: events of descriptors (clients, the broker, rings, pidfds, worker threads), then work() that is
 * due by time, then reap() of what ended. Everything in a turn takes some milliseconds at most, since all sessions of
 * the user share this thread. Calls that may hang (reads of a target's memory, of files) go through base/blocking.h.
 *
 * Descriptors come only from the broker: the engine opens none but files in /proc, its cache and its spools, and the
 * sandbox keeps it so. */
#include "base/blocking.h"
#include "base/clock.h"
#include "serve/engine.h"
#include "serve/sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <malloc.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>

#include "base/cleanup.h"

#define STACK_BYTES (2u << 20) /* of its threads; libiberty's demangler has its own bound */

uint64_t engine__now(void)
{
	return clock__now();
}

uint32_t engine__token(struct engine *engine)
{
	if (++engine->last_token == 0)
		++engine->last_token;
	return engine->last_token;
}

/* Once something is queued, all that follows is queued behind it: the broker relies on the order. */
int engine__ask(struct engine *engine, const struct broker_message *message)
{
	struct broker_message *asks;
	int err = engine->n_asks ? -EAGAIN : broker__send(engine->channel, message, NULL, 0);

	if (err == -EPIPE)
		engine->broker_gone = true;
	if (err != -EAGAIN)
		return err;
	/* The broker is behind. Processes and sessions are bounded, so is this. */
	asks = reallocarray(engine->asks, engine->n_asks + 1, sizeof(*asks));
	if (!asks)
		return -ENOMEM;
	engine->asks = asks;
	asks[engine->n_asks++] = *message;
	return 0;
}

/* A message that cannot be sent because the broker is gone is dropped; the loop ends after this turn. */
static void ask_again(struct engine *engine)
{
	size_t done = 0;

	while (done < engine->n_asks) {
		int err = broker__send(engine->channel, &engine->asks[done], NULL, 0);

		if (err == -EAGAIN)
			break;
		engine->broker_gone |= err == -EPIPE;
		done++;
	}
	engine->n_asks -= done;
	memmove(engine->asks, engine->asks + done, engine->n_asks * sizeof(*engine->asks));
}

int engine__watch(struct engine *engine, struct watch *watch, uint32_t events)
{
	struct epoll_event event = {.events = events, .data.ptr = watch};
	int op = watch->registered ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;

	if (epoll_ctl(engine->epoll, op, watch->fd, &event) < 0)
		return -errno;
	watch->registered = true;
	return 0;
}

void engine__unwatch(struct engine *engine, struct watch *watch)
{
	if (watch->fd < 0)
		return;
	if (watch->registered)
		epoll_ctl(engine->epoll, EPOLL_CTL_DEL, watch->fd, NULL);
	close(watch->fd);
	watch->fd = -1;
	watch->registered = false;
}

/* --- the broker --- */

/* Gives an answer to its session: by the broker's number, or, before the session has one, by the token of its ATTACH.
 * An answer that nobody waits for is dropped, and the caller closes its descriptors. */
static void answered(struct engine *engine, const struct broker_message *message, int *fds, unsigned n)
{
	for (struct session *s = engine->sessions; s; s = s->next) {
		bool mine = s->broker ? s->broker == message->session
				      : message->kind == BROKER_ATTACHED && s->token == message->token;

		if (mine && s->state != SESSION_DONE) {
			session__answered(engine, s, message, fds, n);
			return;
		}
	}
}

/* Takes *fd (and sets it to -1) unless there are too many connections. */
static void accept_client(struct engine *engine, int *fd, pid_t pid, enum broker_error unnamed)
{
	static const char full[] = "{\"ev\":\"answer\",\"ok\":false,\"error\":\"too many connections of this user\","
				   "\"hint\":\"close some of them\",\"code\":\"LIMIT\"}\n";

	engine->served = true;
	if (engine->n_clients >= SERVE_CLIENTS_MAX) {
		send(*fd, engine->hello, strlen(engine->hello), MSG_NOSIGNAL | MSG_DONTWAIT);
		send(*fd, full, sizeof(full) - 1, MSG_NOSIGNAL | MSG_DONTWAIT);
		return;
	}
	client__new(engine, take_fd(fd), pid, unnamed);
}

/* At most 64 messages in a turn: an engine with many processes must not starve its clients. A handler duplicates what
 * it keeps of the descriptors; the rest is closed by a thread that may wait, as a file system may not answer to
 * close(). */
static void channel_ready(struct engine *engine, struct watch *watch, uint32_t events)
{
	for (int round = 0; round < 64 && !engine->broker_gone; round++) {
		int fds[BROKER_FDS_MAX];
		struct broker_message message;
		unsigned n = 0;
		int err;

		for (unsigned i = 0; i < BROKER_FDS_MAX; i++)
			fds[i] = -1;
		err = broker__receive(engine->channel, &message, fds, &n);
		if (err == -EAGAIN)
			return;
		if (err) {
			engine->broker_gone = true;
			return;
		}
		if (message.kind == BROKER_CLIENT && n == 1)
			accept_client(engine, &fds[0], message.pid, (enum broker_error)message.error);
		else
			answered(engine, &message, fds, n);
		for (unsigned i = 0; i < n; i++)
			if (fds[i] >= 0)
				blocking__close(fds[i]);
	}
}

/* --- the loop --- */

/* The only place where clients and sessions are freed, when no watch of this turn can refer to them any more. */
static void reap(struct engine *engine)
{
	for (struct client **at = &engine->clients; *at;) {
		struct client *client = *at;

		if (!client->dead) {
			at = &client->next;
			continue;
		}
		*at = client->next;
		engine->n_clients--;
		client__free(client);
	}
	for (struct session **at = &engine->sessions; *at;) {
		struct session *session = *at;

		if (session->state != SESSION_DONE) {
			at = &session->next;
			continue;
		}
		*at = session->next;
		engine->n_sessions--;
		session__reap(engine, session);
	}
}

/* Work that is due by time, not by a descriptor. *ret_wait: ms until there is more; -1: nothing is due. */
static void work(struct engine *engine, int *ret_wait)
{
	uint64_t now = engine__now(), next = UINT64_MAX;
	bool more = false;

	if (engine->n_asks) {
		ask_again(engine);
		if (engine->n_asks)
			/* The channel has no room: try again in 1 ms. Its EPOLLOUT is not waited for, as that is
			 * rare. */
			next = now + 1000000;
	}
	for (struct session *s = engine->sessions; s; s = s->next)
		drain__tick(engine, s, now, &next);
	for (struct session *s = engine->sessions; s; s = s->next)
		tracee__retry(engine, s, now, &next);
	for (struct client *c = engine->clients; c; c = c->next)
		if (!c->dead && c->snapshot.into >= 0)
			more |= snapshot__step(engine, c);
	now = engine__now();
	if (more || next <= now)
		*ret_wait = 0;
	else if (next == UINT64_MAX)
		*ret_wait = -1;
	else
		*ret_wait = (int)((next - now) / 1000000 + 1);
}

/* An engine ends with its broker, or when its last client and session are gone: engines are cheap to start and hold
 * memory. */
static bool is_over(const struct engine *engine)
{
	return engine->broker_gone || (engine->served && !engine->clients && !engine->sessions);
}

/* Has the broker sent something that was not read yet? It may be a client, for whom the engine should go on. */
static bool is_asked(const struct engine *engine)
{
	struct pollfd in = {.fd = engine->channel, .events = POLLIN};

	return !engine->broker_gone && poll(&in, 1, 0) == 1;
}

/* Nothing is left to do, but the broker may be handing over a client at this moment. Once reading is shut down, the
 * broker's send fails and it starts a new engine. A client that came before that gets an answer that says to connect
 * again. */
static void leave(struct engine *engine)
{
	static const char bye[] = "{\"ev\":\"answer\",\"ok\":false,\"error\":\"the engine was just ending\","
				  "\"hint\":\"connect again\",\"code\":\"TRY_AGAIN\"}\n";
	struct broker_message message;
	int fds[BROKER_FDS_MAX];
	unsigned n;

	shutdown(engine->channel, SHUT_RD);
	while (broker__receive(engine->channel, &message, fds, &n) == 0)
		for (unsigned i = 0; i < n; i++) {
			if (message.kind == BROKER_CLIENT) {
				send(fds[i], engine->hello, strlen(engine->hello), MSG_NOSIGNAL | MSG_DONTWAIT);
				send(fds[i], bye, sizeof(bye) - 1, MSG_NOSIGNAL | MSG_DONTWAIT);
			}
			close(fds[i]);
		}
}

static int loop(struct engine *engine)
{
	struct epoll_event events[64];
	int wait = -1;

	while (!is_over(engine) || is_asked(engine)) {
		int n = epoll_wait(engine->epoll, events, 64, wait);

		if (n < 0 && errno != EINTR)
			return 1;
		/* A handler may have ended what a later event of this turn is about: its fd is -1 then. */
		for (int i = 0; i < n; i++) {
			struct watch *watch = events[i].data.ptr;

			if (watch->fd >= 0) /* not removed in this round */
				watch->ready(engine, watch, events[i].events);
		}
		work(engine, &wait);
		reap(engine);
	}
	leave(engine);
	return 0;
}

void serve__hello(char *ret, size_t size)
{
	static const char *const features[] = {"host", "rate", "rotate", "snapshot-fd", "status", "stop-fd", "trigger", NULL};
	struct event hello = {.kind = EVENT_HELLO,
			      .hello = {.major = EVENTS_MAJOR,
					.minor = EVENTS_MINOR,
					.server = "cprofd@" CPROFD_VERSION,
					.features = features}};
	_cleanup_(buf__free) struct buf line = {};

	if (event__encode(&hello, &line) == 0)
		snprintf(ret, size, "%.*s", (int)line.len, line.data);
}

/* libdebuginfod needs the network and folders of its user: who set DEBUGINFOD_URLS has no sandbox. The directories are
 * opened before, as the sandbox allows files below them only. */
static int limit(void)
{
	const char *urls = getenv("DEBUGINFOD_URLS");
	int directories[] = {cache_dir__fd(), spool__directory()};

	json_object_seed(0); /* from /dev/urandom, which is out of reach then */
	return urls && *urls ? 0 : sandbox__enter(directories, sizeof(directories) / sizeof(directories[0]));
}

/* Stacks of threads count towards the user's memory limit (RLIMIT_DATA) with their whole size, touched or not; glibc's
 * default is 8 MB each. */
static void keep_stacks_small(void)
{
	pthread_attr_t attr;

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, STACK_BYTES);
	pthread_setattr_default_np(&attr);
	pthread_attr_destroy(&attr);
}

int engine__main(int channel)
{
	struct engine engine = {.channel = channel, .started = engine__now()};
	int status = 1;

	keep_stacks_small();
	memory__begin(&engine);
	if (limit())
		/* As a shell does for a program that could not be executed: without its sandbox an engine does not
		 * run. */
		return 126;
	signal(SIGPIPE, SIG_IGN);
	/* Or glibc raises it with each large block that is freed: sections of debug information would stay. Not higher, as
	 * arrays that grow in the heap leave holes there; not lower, as buffers of readers would be mapped and touched anew for each
	 * file, which was a seventh of a short session's CPU. */
	mallopt(M_MMAP_THRESHOLD, 128 << 10);
	mallopt(M_TRIM_THRESHOLD, 512 << 10);
	fcntl(channel, F_SETFL, fcntl(channel, F_GETFL) | O_NONBLOCK);
	serve__hello(engine.hello, sizeof(engine.hello));
	engine.epoll = epoll_create1(EPOLL_CLOEXEC);
	engine.channel_watch = (struct watch){.fd = channel, .ready = channel_ready};
	if (engine.epoll >= 0 && engine__watch(&engine, &engine.channel_watch, EPOLLIN) == 0)
		status = loop(&engine);
	for (struct client *c = engine.clients; c; c = c->next)
		client__die(&engine, c);
	for (struct session *s = engine.sessions; s; s = s->next)
		s->state = SESSION_DONE;
	reap(&engine);
	if (engine.epoll >= 0)
		close(engine.epoll);
	free(engine.asks);
	memory__spend_reserve(&engine);
	return status;
}
