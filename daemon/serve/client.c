/* SPDX-License-Identifier: MIT */
/* A client: one connection on the socket. Its lines go to command__line(), what the engine writes to it goes through
 * its outbox. All in the main thread; no call waits.
 *
 *    socket -> receive() -> client.in -> take_lines() -> command__line()
 *    client__say(), client__stream() -> outbox -> client__flush() -> socket
 *
 * Back-pressure has three steps, so that no client can make the engine grow or slow down another one:
 *
 *    answers > ANSWERS_MAX     its requests are not read any more (it asks, and does not read)
 *    events > SERVE_QUEUE_MAX  events are counted instead of queued; once its queue is empty it gets `gap`, the tables
 *                              as they are by then, and events again
 *    no memory                 the connection ends: a client notices that, but not a line that is missing */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "serve/answer.h"
#include "serve/engine.h"

#define READ_BYTES (16u << 10)
/* A client that asks without reading the answers is not read from. */
#define ANSWERS_MAX (256u << 10)

/* Descriptors that no request used. Without this a client could fill the engine's table of descriptors. */
static void close_fds(struct client *client)
{
	while (client->n_fds)
		close(client->fds[--client->n_fds]);
}

/* The order matters: client.session is NULL before session__abandoned() counts subscribers, and `dead` is set before
 * anything can call this again. */
void client__die(struct engine *engine, struct client *client)
{
	struct session *session = client->session;

	if (client->dead)
		return;
	client->dead = true;
	client->session = NULL;
	engine__unwatch(engine, &client->watch);
	for (struct session *s = engine->sessions; s; s = s->next) {
		bool owned = s->owner == client;

		if (owned)
			s->owner = NULL;
		if (owned || s == session)
			session__abandoned(engine, s);
	}
}

void client__free(struct client *client)
{
	close_fds(client);
	snapshot__drop(&client->snapshot);
	chunk__unref(client->farewell);
	outbox__free(&client->outbox);
	buf__free(&client->in);
	user_rules__free(client->rules);
	free(client);
}

/* --- out --- */

/* Queues a chunk. The outbox takes a reference of its own; NULL (no memory before) adds nothing. */
static void add(struct engine *engine, struct client *client, struct chunk *chunk)
{
	if (chunk && outbox__add(&client->outbox, chunk))
		client__die(engine, client); /* out of memory: a hole in a stream is worse than its end */
}

void client__say(struct engine *engine, struct client *client, const struct buf *lines)
{
	struct chunk *chunk = NULL;

	if (client->dead)
		return;
	if (lines->failed || chunk__new(lines->data, lines->len, 0, &chunk)) {
		client__die(engine, client);
		return;
	}
	add(engine, client, chunk);
	chunk__unref(chunk);
}

void client__stream(struct engine *engine, struct client *client, struct chunk *chunk)
{
	if (client->dead)
		return;
	if (!client->lagging && client->outbox.bytes + chunk__len(chunk) > SERVE_QUEUE_MAX)
		client->lagging = true;
	if (client->lagging) {
		client->gap_events += chunk__events(chunk);
		client->gap_bytes += chunk__len(chunk);
		return;
	}
	add(engine, client, chunk);
}

/* An event sink that encodes into a buffer: the tables are replayed to one client, not to the session's stream. */
struct encoder {
	struct event_sink sink;
	struct buf out;
};

static int encode(struct event_sink *self, const struct event *event)
{
	return event__encode(event, &((struct encoder *)self)->out);
}

/* Tables first, then units, as a unit may name rows of the tables; both as one chunk, so that no live event can come
 * between. */
void client__replay(struct engine *engine, struct client *client)
{
	struct encoder encoder = {.sink.event = encode};

	struct chunk *chunk = NULL;

	/* Tables are not shared: without a bound, clients that do not read could hold many of them. */
	if (chunk__memory() > SERVE_MEMORY_MAX ||
	    profile__replay(client->session->profile, &encoder.sink) ||
	    session_units__replay(client->session, &encoder.sink) || chunk__take(&encoder.out, 0, &chunk))
		client__die(engine, client);
	else
		add(engine, client, chunk);
	chunk__unref(chunk);
	buf__free(&encoder.out);
}

/* It has read all that was queued: emits `gap` with what it missed, then the tables as they are at this time. They are
 * whole again, since ids of rows that were in the gap may be used by later events. If the session ended meanwhile, its
 * `end` (farewell) is all that is left to send. */
static void end_gap(struct engine *engine, struct client *client)
{
	struct event gap = {.kind = EVENT_GAP,
			    .gap = {.time = engine__now(),
				    .events = client->gap_events,
				    .bytes = client->gap_bytes}};
	_cleanup_(buf__free) struct buf line = {};

	client->lagging = false;
	client->gap_events = client->gap_bytes = 0;
	if (event__encode(&gap, &line))
		line.failed = true;
	client__say(engine, client, &line);
	if (client->farewell) {
		add(engine, client, client->farewell);
		client->farewell = chunk__unref(client->farewell);
	} else if (client->session) {
		client__replay(engine, client);
	}
}

/* Are requests read from this client? Not while its answers pile up; a client that streams a session has room for live
 * events on top of that. */
static bool reads(const struct client *client)
{
	return !client->eof && (client->lagging || client->outbox.bytes < SERVE_QUEUE_MAX + ANSWERS_MAX) &&
	       (client->session || client->outbox.bytes < ANSWERS_MAX);
}

/* Loops, as the end of a gap queues more. Afterwards the loop waits for EPOLLOUT only if the socket was full. */
void client__flush(struct engine *engine, struct client *client)
{
	int err = 0;
	bool wait = false;

	while (!client->dead) {
		err = outbox__write(&client->outbox, client->watch.fd);
		/* Of a session that fails only the end comes, which takes less memory than its tables. */
		if (err || !client->lagging || (client->session && client->session->error))
			break;
		end_gap(engine, client);
	}
	if (client->dead)
		return;
	if (err && err != -EAGAIN) {
		client__die(engine, client);
		return;
	}
	wait = err == -EAGAIN;
	if (client->eof && !wait && !client->session && client->snapshot.into < 0 && !client->n_fds) {
		bool owns = false;

		/* A client that sent its requests and closed its half (`echo ... | nc`) is served to the end: it goes
		 * when it owns no session and streams none. */
		for (struct session *s = engine->sessions; s; s = s->next)
			owns |= s->owner == client;
		if (!owns) { /* It sent all its requests, and has all answers. */
			client__die(engine, client);
			return;
		}
	}
	engine__watch(engine, &client->watch, (reads(client) ? EPOLLIN : 0u) | (wait ? EPOLLOUT : 0u));
}

/* --- in --- */

/* A line that has no request to answer: the answer is without an id. */
static void refuse_line(struct engine *engine, struct client *client, const char *code, const char *error,
			const char *hint)
{
	const struct request none = {};
	struct refusal refusal;

	refusal__set(&refusal, code, hint, "%s", error);
	command__refuse(engine, client, &none, &refusal);
}

static void too_long(struct engine *engine, struct client *client)
{
	refuse_line(engine, client, "TOO_LONG", "a request has at most 65536 bytes: this line is skipped", "");
}

/* Splits client.in at newlines. A line above SERVE_REQUEST_MAX is refused once, and skipped up to its newline; the
 * buffer never holds more than that plus one read. A command may end the client: `dead` is checked before each line,
 * and `in` is not touched afterwards. */
static void take_lines(struct engine *engine, struct client *client)
{
	size_t done = 0;

	while (!client->dead) {
		const char *start = client->in.data + done;
		size_t left = client->in.len - done;
		const char *end = left ? memchr(start, '\n', left) : NULL;
		size_t len = end ? (size_t)(end - start) : left;

		if (!end) {
			if (len > SERVE_REQUEST_MAX) {
				if (!client->skipping)
					too_long(engine, client);
				client->skipping = true;
				done = client->in.len;
			} else if (client->skipping) {
				done = client->in.len;
			}
			break;
		}
		done += len + 1;
		if (client->skipping)
			client->skipping = false;
		else if (len > SERVE_REQUEST_MAX)
			too_long(engine, client);
		else if (len && !(len == 1 && *start == '\r'))
			command__line(engine, client, start, len);
	}
	if (client->dead)
		return;
	buf__consume(&client->in, done);
	/* They came with lines that had no use for them. recvmsg() never joins what came with descriptors to what came after. */
	if (!client->in.len)
		close_fds(client);
}

int client__take_fd(struct client *client)
{
	int fd;

	if (!client->n_fds)
		return -1;
	fd = client->fds[0];
	memmove(client->fds, client->fds + 1, sizeof(int) * --client->n_fds);
	return fd;
}

/* They are queued, and requests with `fd` take them in their order. What is too many is closed at once. recvmsg() has
 * installed them all by then, wanted or not. */
static void take_fds(struct client *client, struct msghdr *message)
{
	for (struct cmsghdr *c = CMSG_FIRSTHDR(message); c; c = CMSG_NXTHDR(message, c)) {
		size_t n;

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		for (size_t i = 0; i < n; i++) {
			int fd;

			memcpy(&fd, CMSG_DATA(c) + i * sizeof(fd), sizeof(fd));
			if (client->n_fds < CLIENT_FDS_MAX)
				client->fds[client->n_fds++] = fd;
			else
				close(fd);
		}
	}
}

static ssize_t receive(struct client *client)
{
	/* Room for 16 descriptors of one message. The kernel closes further ones itself (MSG_CTRUNC). */
	char control[CMSG_SPACE(sizeof(int) * 16)] __attribute__((aligned(8)));
	struct iovec iov = {.iov_len = READ_BYTES};
	struct msghdr message = {.msg_iov = &iov,
				 .msg_iovlen = 1,
				 .msg_control = control,
				 .msg_controllen = sizeof(control)};
	ssize_t n;

	if (buf__reserve(&client->in, READ_BYTES)) {
		errno = ENOMEM;
		return -1;
	}
	iov.iov_base = client->in.data + client->in.len;
	n = recvmsg(client->watch.fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	if (n > 0)
		client->in.len += (size_t)n;
	if (n >= 0)
		take_fds(client, &message);
	return n;
}

/* EPOLLIN comes first and the hang-up second: a client may send a request and exit at once. */
static void ready(struct engine *engine, struct watch *watch, uint32_t events)
{
	struct client *client = (struct client *)watch;

	if (client->dead)
		return;
	if (events & EPOLLIN && reads(client)) {
		ssize_t n = receive(client);

		if (n < 0 && errno != EAGAIN && errno != EINTR) {
			client__die(engine, client);
			return;
		}
		if (n > 0)
			take_lines(engine, client);
		if (n == 0 && !client->dead) {
			client->eof = true;
			if (client->in.len && !client->skipping)
				refuse_line(engine, client, "HALF", "the last request has no end",
					    "a request is a line: end it with a newline");
			buf__clear(&client->in);
			close_fds(client);
		}
	}
	/* Half closed is fine: who only listens goes on. Gone altogether: */
	if (!client->dead && events & (EPOLLHUP | EPOLLERR) && (client->eof || !(events & EPOLLIN))) {
		client__die(engine, client);
		return;
	}
	if (!client->dead)
		client__flush(engine, client);
}

int client__new(struct engine *engine, int fd, pid_t pid, enum broker_error unnamed)
{
	struct client *client = calloc(1, sizeof(*client));
	_cleanup_(buf__free) struct buf hello = {};
	int flags = fcntl(fd, F_GETFL), err;

	if (!client || flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0) {
		free(client);
		close(fd);
		return -ENOMEM;
	}
	client->watch = (struct watch){.fd = fd, .ready = ready};
	client->snapshot = (struct snapshot){.from = -1, .into = -1};
	client->unnamed = unnamed;
	client->pid = pid;
	client->next = engine->clients;
	engine->clients = client;
	engine->n_clients++;
	err = engine__watch(engine, &client->watch, EPOLLIN);
	if (err) {
		client__die(engine, client);
		return err;
	}
	if (buf__puts(&hello, engine->hello) == 0)
		client__say(engine, client, &hello);
	client__flush(engine, client);
	return 0;
}
