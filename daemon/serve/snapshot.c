/* SPDX-License-Identifier: MIT */
/* A snapshot: a recording of what a session has so far, taken from its spool. The spool consists of whole zstd frames,
 * so a valid recording is its first `len` bytes and one more frame with an `end` event:
 *
 *    spool [0, len)  +  tail: {"ev":"end",...,"reason":"snapshot"}
 *
 * The whole of it, when the session is stopped, needs no tail: the spool has the session's own `end`.
 *
 * Into the client's file it is copied in pieces, one in each turn of the loop; without a file the same bytes follow the
 * answer on the socket, by sendfile(2), under the socket's back-pressure. The session goes on meanwhile: it appends
 * behind `len`. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>

#include "base/blocking.h"
#include "base/cleanup.h"
#include "serve/answer.h"
#include "serve/engine.h"

#define PIECE (256u << 10)

void snapshot__drop(struct snapshot *snapshot)
{
	if (snapshot->from >= 0)
		close(snapshot->from);
	if (snapshot->into >= 0)
		blocking__close(snapshot->into);
	chunk__unref(snapshot->tail);
	*snapshot = (struct snapshot){.from = -1, .into = -1};
}

/* `end`, as a zstd frame of its own. recording_writer writes to a descriptor only: hence the memfd. A frame with one
 * event has some 100 bytes. */
static int make_tail(struct chunk **ret)
{
	_cleanup_close_ int fd = memfd_create("cprofd-snapshot", MFD_CLOEXEC);
	char data[1024];
	int err = fd < 0 ? -errno : recording__put_end(fd, "the session goes on");
	ssize_t n = err ? 0 : pread(fd, data, sizeof(data), 0);

	return err ?: n < 0 ? -errno : chunk__new(data, (size_t)n, 0, ret);
}

static void answer(struct engine *engine, struct client *client, bool has_id, uint64_t id, uint64_t bytes)
{
	_cleanup_(buf__free) struct buf line = {};

	if (answer__ok(&line, has_id, id, json_pack("{s:I}", "bytes", (json_int_t)bytes)))
		line.failed = true;
	client__say(engine, client, &line);
}

static void refuse(struct engine *engine, struct client *client, bool has_id, uint64_t id, const char *code,
		   const char *error, const char *hint)
{
	const struct request request = {.has_id = has_id, .id = id};
	struct refusal refusal;

	refusal__set(&refusal, code, hint, "%s", error);
	command__refuse(engine, client, &request, &refusal);
}

/* The client's descriptor may be anything. A pipe could block the engine for ever, and a directory or device makes no
 * sense; O_PATH descriptors cannot be written. */
static bool is_writable_file(int fd)
{
	struct stat stat;
	int flags = fcntl(fd, F_GETFL);

	return flags >= 0 && (flags & O_ACCMODE) != O_RDONLY && !(flags & O_PATH) && !blocking__fstat(fd, &stat) &&
	       S_ISREG(stat.st_mode);
}

static int queue(struct client *client, int from, uint64_t len, struct chunk *tail)
{
	struct chunk *file = NULL;
	int err = chunk__new_file(from, 0, len, &file);

	err = err ?: outbox__add(&client->outbox, file);
	if (!err)
		err = outbox__add(&client->outbox, tail);
	chunk__unref(file);
	return err;
}

/* Is there a spool, and may it be written where the request says? Else the request is refused, and `into` closed. It is the file of a
 * request with `fd`; -1: the recording follows the answer. One snapshot into a file at a time for each client. */
static bool accept(struct engine *engine, struct client *client, const struct request *request, const struct session *session, int into)
{
	const char *code = NULL, *error, *hint;

	if (!session->spool)
		code = "NO_SPOOL", error = "this session keeps no recording", hint = "attach with \"spool\":true";
	else if (request->fd && into < 0)
		code = "NO_FD", error = "no file descriptor came along", hint = "pass one with SCM_RIGHTS, or leave \"fd\" out";
	else if (client->snapshot.into >= 0)
		code = "BUSY", error = "a snapshot is being written", hint = "wait for its answer";
	else if (into >= 0 && !is_writable_file(into))
		code = "BAD_FD", error = "the descriptor is not a regular file that may be written", hint = "pass a regular file";
	if (!code)
		return true;
	refuse(engine, client, request->has_id, request->id, code, error, hint);
	if (into >= 0)
		close(into);
	return false;
}

/* Its answer comes when the last byte is in the file. */
static void copy_into(struct client *client, int into, const struct request *request, const struct session *session, uint64_t len, struct chunk *tail)
{
	client->snapshot = (struct snapshot){.from = fcntl(spool__fd(session->spool), F_DUPFD_CLOEXEC, 3),
					     .into = into,
					     .len = len,
					     .bytes = len + (tail ? chunk__len(tail) : 0),
					     .tail = tail,
					     .has_id = request->has_id,
					     .id = request->id};
}

void snapshot__begin(struct engine *engine, struct client *client, const struct request *request,
		     struct session *session, int into)
{
	struct chunk *tail = NULL;
	uint64_t len;

	if (!accept(engine, client, request, session, into))
		return;
	/* What is pending belongs to the snapshot, too. */
	session__publish(engine, session);
	len = session__flush_spool(session);
	if (make_tail(&tail)) {
		refuse(engine, client, request->has_id, request->id, "INTERNAL", "out of memory", "");
		if (into >= 0)
			blocking__close(into);
		return;
	}
	if (into >= 0) {
		copy_into(client, into, request, session, len, tail);
		return;
	}
	answer(engine, client, request->has_id, request->id, len + chunk__len(tail));
	if (!client->dead && queue(client, spool__fd(session->spool), len, tail))
		client__die(engine, client);
	chunk__unref(tail);
}

bool snapshot__await_end(struct engine *engine, struct client *client, const struct request *request, struct session *session, int into)
{
	if (!accept(engine, client, request, session, into))
		return false;
	client->snapshot = (struct snapshot){.from = -1, .into = into, .of = session, .has_id = request->has_id, .id = request->id};
	return true;
}

void snapshot__ended(struct engine *engine, struct session *session)
{

	for (struct client *c = engine->clients; c; c = c->next) {
		const struct snapshot *snapshot = &c->snapshot;

		if (!c->dead && snapshot->of == session)
			copy_into(c, snapshot->into, &(struct request){.has_id = snapshot->has_id, .id = snapshot->id}, session,
				  session__flush_spool(session), NULL);
	}
}

static int write_all(int fd, const char *data, size_t len)
{
	while (len) {
		ssize_t n = blocking__write(fd, data, len); /* a client's file may lie on any file system */

		if (n == -EINTR)
			continue;
		if (n <= 0)
			return n ? (int)n : -EIO;
		data += n;
		len -= (size_t)n;
	}
	return 0;
}

/* The last call, when nothing is left of the spool, writes the tail. */
static int write_piece(struct snapshot *snapshot)
{
	static char piece[PIECE];
	uint64_t left = snapshot->len - snapshot->offset;
	ssize_t n;

	if (!left)
		return snapshot->tail ? write_all(snapshot->into, chunk__data(snapshot->tail), chunk__len(snapshot->tail)) : 0;
	n = pread(snapshot->from, piece, left < PIECE ? left : PIECE, (off_t)snapshot->offset);
	if (n <= 0)
		return n ? -errno : -EIO;
	snapshot->offset += (uint64_t)n;
	return write_all(snapshot->into, piece, (size_t)n);
}

bool snapshot__step(struct engine *engine, struct client *client)
{
	struct snapshot *snapshot = &client->snapshot;
	bool more = snapshot->offset < snapshot->len;
	int err;

	if (snapshot->of)
		return false;
	err = write_piece(snapshot);
	if (!err && more)
		return true;
	if (err)
		refuse(engine, client, snapshot->has_id, snapshot->id, "WRITE_FAILED", strerror(-err), "");
	else
		answer(engine, client, snapshot->has_id, snapshot->id, snapshot->bytes);
	snapshot__drop(snapshot);
	client__flush(engine, client);
	return false;
}
