/* SPDX-License-Identifier: MIT */
/* The server: libmicrohttpd in the caller's loop, on one socket of 127.0.0.1.
 *
 *     a connection  -> connected()   known to struct web; ended if it brings no whole request in time
 *     its request   -> answer()      guard.c first, then one of the routes
 *     events        -> give_events() asked for more whenever the socket has room; suspended while there is nothing
 *     save          -> suspended until its child has ended
 *
 * What one caller can hold is bounded: so many connections, so many bytes of a request, so long for it. Nothing is
 * queued for a reader: it is a position in the feed. */
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "export/export.h"
#include "web/internal.h"
#include "web/library.h"

#define CONNECTIONS_MAX 64u
#define READERS_MAX 16u
#define SAVES_MAX 2u
/* Bytes for the head of a request and what is in transit of the response. */
#define REQUEST_MAX (16u << 10)
/* For a whole request. */
#define REQUEST_S 10u
/* A page that reads nothing for so long is gone. */
#define READER_S 300u
#define EVENTS_CHUNK (64u << 10)

/* A connection, from accept to close. */
struct peer {
	struct peer *next, *previous;
	int fd;
	uint64_t since; /* when a request was due */
	bool served;    /* it has come, and is being answered */
};

/* A page that reads events. */
struct reader {
	struct reader *next;
	struct web *web;
	struct MHD_Connection *connection;
	struct feed_reader *feed;
	struct buf pending; /* server-sent events that did not fit yet */
	size_t sent;        /* of these */
	bool in_line, suspended;
	bool gone; /* no longer counted; the library has yet to end it */
};

/* A file that is being made. */
struct save {
	struct MHD_Connection *connection; /* NULL: free */
	const struct exporter *exporter;
	pid_t pid; /* 0: it has ended */
	int fd, status;
};

struct web {
	struct web_content content;
	struct MHD_Daemon *daemon;
	int epoll;
	uint16_t port;
	char token[WEB_TOKEN_CHARS + 1], address[128];
	struct peer *peers;
	struct reader *readers;
	uint32_t n_readers;
	struct save saves[SAVES_MAX];
	struct buf formats; /* JSON: the names of all that can be saved */
};

/* --- answers --- */

static const char *const headers[][2] = {
	/* The token stays with the page. */
	{"Referrer-Policy", "no-referrer"},
	{"Cache-Control", "no-store"},
	{"X-Content-Type-Options", "nosniff"},
	{"Cross-Origin-Resource-Policy", "same-origin"},
	{"Cross-Origin-Opener-Policy", "same-origin"},
	{"X-Frame-Options", "DENY"},
	{"Content-Security-Policy", "frame-ancestors 'none'"},
};

/* Scripts and styles of the page are files of it; there is nothing inline. */
#define POLICY "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'"

/* Takes the response over. NULL: no memory. */
static enum MHD_Result queue(struct MHD_Connection *connection, unsigned status, struct MHD_Response *response, const char *type, const char *policy)
{
	enum MHD_Result done = response ? MHD_YES : MHD_NO;

	for (size_t i = 0; i < sizeof(headers) / sizeof(headers[0]) && done; i++)
		done = library.MHD_add_response_header(response, headers[i][0], headers[i][1]);
	done = done && library.MHD_add_response_header(response, "Content-Security-Policy", policy) &&
	       library.MHD_add_response_header(response, "Content-Type", type) && library.MHD_queue_response(connection, status, response);
	if (response)
		library.MHD_destroy_response(response);
	return done;
}

static enum MHD_Result put_text(struct MHD_Connection *connection, unsigned status, const char *type, const char *text)
{
	struct MHD_Response *response = library.MHD_create_response_from_buffer(strlen(text), (void *)text, MHD_RESPMEM_PERSISTENT);

	return queue(connection, status, response, type, POLICY);
}

static enum MHD_Result refuse(struct MHD_Connection *connection, unsigned status)
{
	return put_text(connection, status, "text/plain", "refused\n");
}

/* The response owns a duplicate of the descriptor. */
static struct MHD_Response *of_file(int fd)
{
	struct stat status;
	/* Of its own offset, as it is read by position. */
	int copy = fcntl(fd, F_DUPFD_CLOEXEC, 3);

	if (copy < 0 || fstat(copy, &status)) {
		if (copy >= 0)
			close(copy);
		return NULL;
	}
	return library.MHD_create_response_from_fd64((uint64_t)status.st_size, copy);
}

/* --- events --- */

/* NDJSON -> server-sent events: each line becomes "data: LINE\n\n". */
static int put_events(struct reader *reader, const char *text, size_t len)
{
	struct buf *out = &reader->pending;

	while (len) {
		const char *end = memchr(text, '\n', len);
		size_t n = end ? (size_t)(end - text) : len;

		if (!reader->in_line)
			buf__puts(out, "data: ");
		buf__append(out, text, n);
		reader->in_line = !end;
		if (end)
			buf__puts(out, "\n\n");
		n += end != NULL;
		text += n;
		len -= n;
	}
	return out->failed ? -ENOMEM : 0;
}

/* Called by the library, when the socket has room for up to `size` bytes. */
static ssize_t give_events(void *cls, uint64_t position, char *out, size_t size)
{
	struct reader *reader = cls;
	char text[16384];
	size_t len;
	int err;

	if (reader->gone)
		return MHD_CONTENT_READER_END_WITH_ERROR;
	if (reader->sent == reader->pending.len) {
		buf__clear(&reader->pending);
		reader->sent = 0;
		err = feed_reader__read(reader->feed, text, sizeof(text), &len) ?: put_events(reader, text, len);
		if (err)
			return err == -ENODATA ? MHD_CONTENT_READER_END_OF_STREAM : MHD_CONTENT_READER_END_WITH_ERROR;
		if (!len) {
			reader->suspended = true;
			library.MHD_suspend_connection(reader->connection);
			return 0;
		}
	}
	len = reader->pending.len - reader->sent;
	len = len < size ? len : size;
	memcpy(out, reader->pending.data + reader->sent, len);
	reader->sent += len;
	return (ssize_t)len;
}

static void free_reader(void *cls)
{
	struct reader *reader = cls, **at;

	for (at = &reader->web->readers; *at != reader; at = &(*at)->next)
		;
	*at = reader->next;
	reader->web->n_readers -= !reader->gone;
	feed_reader__free(reader->feed);
	buf__free(&reader->pending);
	free(reader);
}

static struct peer *peer_of(struct MHD_Connection *connection)
{
	const union MHD_ConnectionInfo *info = library.MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);

	return info ? info->socket_context : NULL;
}

static void resume(struct reader *reader)
{
	if (reader->suspended) {
		reader->suspended = false;
		library.MHD_resume_connection(reader->connection);
	}
}

/* The library does not look at a suspended connection: a page that was closed would hold its place until there is something to write. */
static void end_gone(struct web *web)
{
	for (struct reader *reader = web->readers; reader; reader = reader->next) {
		const struct peer *peer = peer_of(reader->connection);
		struct pollfd fd = {peer ? peer->fd : -1, POLLRDHUP, 0};

		if (reader->gone || poll(&fd, 1, 0) <= 0)
			continue;
		reader->gone = true;
		web->n_readers--;
		resume(reader);
	}
}

static enum MHD_Result begin_events(struct web *web, struct MHD_Connection *connection)
{
	struct reader *reader;
	struct MHD_Response *response;

	if (web->n_readers == READERS_MAX)
		end_gone(web);
	if (web->n_readers == READERS_MAX)
		return refuse(connection, 503);
	reader = calloc(1, sizeof(*reader));
	if (!reader || feed_reader__new(web->content.feed, &reader->feed)) {
		free(reader);
		return refuse(connection, 503);
	}
	reader->web = web;
	reader->connection = connection;
	reader->next = web->readers;
	web->readers = reader;
	web->n_readers++;
	response = library.MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, EVENTS_CHUNK, give_events, reader, free_reader);
	if (!response)
		free_reader(reader);
	library.MHD_set_connection_option(connection, MHD_CONNECTION_OPTION_TIMEOUT, READER_S);
	return queue(connection, 200, response, "text/event-stream", POLICY);
}

void web__wake(struct web *web)
{
	for (struct reader *reader = web->readers; reader; reader = reader->next)
		resume(reader);
}

/* --- save --- */

static bool is_window(const char *text)
{
	return strspn(text, "0123456789.,") == strlen(text) && strlen(text) < 64;
}

static bool is_thread(const char *text)
{
	return strspn(text, "0123456789") == strlen(text) && strlen(text) < 16;
}

static const char *argument(struct MHD_Connection *connection, const char *name)
{
	return library.MHD_lookup_connection_value(connection, MHD_GET_ARGUMENT_KIND, name);
}

/* Values are numbers, or a word of a table: none is taken for an option. */
static enum MHD_Result begin_save(struct web *web, struct MHD_Connection *connection, void **state)
{
	const char *format = argument(connection, "format"), *window = argument(connection, "window"), *thread = argument(connection, "thread");
	const char *arguments[16] = {"cprofd", "convert", "-q", "-o", "-"};
	const struct exporter *exporter = format ? exporter__find(format) : NULL;
	struct save *save = web->saves, *end = web->saves + SAVES_MAX;
	size_t n = 5;

	if (!exporter || (window && !is_window(window)) || (thread && !is_thread(thread)))
		return refuse(connection, 400);
	while (save < end && save->connection)
		save++;
	if (save == end)
		return refuse(connection, 503);
	arguments[n++] = "-f";
	arguments[n++] = exporter->name;
	if (window) {
		arguments[n++] = "--window";
		arguments[n++] = window;
	}
	if (thread) {
		arguments[n++] = "--thread";
		arguments[n++] = thread;
	}
	arguments[n++] = "-";
	if (feed__flush(web->content.feed) || save__convert(web->content.feed, arguments, &save->pid, &save->fd))
		return refuse(connection, 500);
	save->connection = connection;
	save->exporter = exporter;
	*state = save;
	library.MHD_suspend_connection(connection);
	return MHD_YES;
}

static enum MHD_Result finish_save(const struct save *save)
{
	struct MHD_Response *response;
	char name[160], time_text[32];
	time_t now = time(NULL);
	struct tm utc;

	if (!WIFEXITED(save->status) || WEXITSTATUS(save->status))
		return put_text(save->connection, 500, "text/plain", "it could not be made; the terminal of cprofd says why\n");
	gmtime_r(&now, &utc);
	strftime(time_text, sizeof(time_text), "%Y%m%dT%H%M%SZ", &utc);
	snprintf(name, sizeof(name), "attachment; filename=\"cprofd-%s%s\"", time_text, save->exporter->extension);
	response = of_file(save->fd);
	if (response && library.MHD_add_response_header(response, "Content-Disposition", name) != MHD_YES) {
		library.MHD_destroy_response(response);
		response = NULL;
	}
	return queue(save->connection, 200, response, "application/octet-stream", POLICY);
}

void web__child(struct web *web)
{
	for (struct save *save = web->saves; save < web->saves + SAVES_MAX; save++)
		if (save->connection && save->pid && waitpid(save->pid, &save->status, WNOHANG) == save->pid) {
			save->pid = 0;
			library.MHD_resume_connection(save->connection);
		}
}

static void free_save(struct save *save)
{
	if (save->pid) {
		kill(save->pid, SIGKILL);
		waitpid(save->pid, NULL, 0);
	}
	close(save->fd);
	*save = (struct save){};
}

/* --- requests --- */

static enum MHD_Result count_hosts(void *cls, enum MHD_ValueKind kind, const char *key, const char *value)
{
	*(uint32_t *)cls += !strcasecmp(key, "Host");
	return MHD_YES;
}

static const char *header(struct MHD_Connection *connection, const char *name)
{
	return library.MHD_lookup_connection_value(connection, MHD_HEADER_KIND, name);
}

static enum MHD_Result route(struct web *web, struct MHD_Connection *connection, const char *name, void **state)
{
	if (web->content.report >= 0)
		return *name ? refuse(connection, 404) : queue(connection, 200, of_file(web->content.report), "text/html; charset=utf-8", web->content.policy);
	if (!strcmp(name, "events"))
		return begin_events(web, connection);
	if (!strcmp(name, "formats"))
		return put_text(connection, 200, "application/json", web->formats.data);
	if (!strcmp(name, "save"))
		return begin_save(web, connection, state);
	for (const struct web_file *file = web_files; file->name; file++)
		if (!strcmp(file->name, name))
			return put_text(connection, 200, file->type, file->asset->text);
	return refuse(connection, 404);
}

/* Called with *state NULL when the head of a request is there: who is refused is so now, and the connection closed. Then
 * again for the answer, and once more when a save is done. */
static enum MHD_Result answer(void *cls, struct MHD_Connection *connection, const char *path, const char *method, const char *version,
			      const char *body, size_t *body_size, void **state)
{
	const char *length = header(connection, "Content-Length"), *name;
	struct web_request request = {
		.method = method,
		.path = path,
		.host = header(connection, "Host"),
		.origin = header(connection, "Origin"),
		.fetch_site = header(connection, "Sec-Fetch-Site"),
		.fetch_dest = header(connection, "Sec-Fetch-Dest"),
		.body = (length && strcmp(length, "0")) || header(connection, "Transfer-Encoding"),
	};
	struct peer *peer = peer_of(connection);
	struct web *web = cls;
	unsigned status;

	for (struct save *save = web->saves; save < web->saves + SAVES_MAX; save++)
		if (*state == save)
			return finish_save(save);
	library.MHD_get_connection_values(connection, MHD_HEADER_KIND, count_hosts, &request.hosts);
	status = web__judge(&request, web->port, web->token, &name);
	if (status)
		return refuse(connection, status);
	if (!*state) {
		*state = web;
		return MHD_YES;
	}
	if (peer)
		peer->served = true;
	return route(web, connection, name, state);
}

/* Nothing that is served needs %XX, so it stays as it is, and no name is cut at a %00. */
static size_t unescape(void *cls, struct MHD_Connection *connection, char *text)
{
	return strlen(text);
}

static void completed(void *cls, struct MHD_Connection *connection, void **state, enum MHD_RequestTerminationCode code)
{
	struct peer *peer = peer_of(connection);
	struct web *web = cls;

	for (struct save *save = web->saves; save < web->saves + SAVES_MAX; save++)
		if (*state == save)
			free_save(save);
	if (!peer)
		return;
	peer->served = false;
	peer->since = clock__now();
}

static void connected(void *cls, struct MHD_Connection *connection, void **context, enum MHD_ConnectionNotificationCode code)
{
	struct web *web = cls;
	struct peer *peer = *context;

	if (code == MHD_CONNECTION_NOTIFY_STARTED) {
		peer = calloc(1, sizeof(*peer));
		*context = peer;
		if (!peer)
			return;
		peer->fd = library.MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
		peer->since = clock__now();
		peer->next = web->peers;
		if (peer->next)
			peer->next->previous = peer;
		web->peers = peer;
	} else if (peer) {
		if (peer->next)
			peer->next->previous = peer->previous;
		*(peer->previous ? &peer->previous->next : &web->peers) = peer->next;
		free(peer);
		*context = NULL;
	}
}

/* The library's timeout is for silence: who sends a byte now and then would stay for ever. */
static void end_late(struct web *web)
{
	const uint64_t now = clock__now();

	for (struct peer *peer = web->peers; peer; peer = peer->next)
		if (!peer->served && now - peer->since > REQUEST_S * 1000000000ull)
			shutdown(peer->fd, SHUT_RDWR);
}

/* --- its life --- */

static int listen_on(int *ret_fd, uint16_t *ret_port)
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof(address);
	_cleanup_close_ int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0 || bind(fd, (struct sockaddr *)&address, len) || listen(fd, 32) || getsockname(fd, (struct sockaddr *)&address, &len))
		return -errno;
	*ret_port = ntohs(address.sin_port);
	*ret_fd = take_fd(&fd);
	return 0;
}

static int make_token(char token[WEB_TOKEN_CHARS + 1])
{
	unsigned char random[WEB_TOKEN_BYTES];

	if (getrandom(random, sizeof(random), 0) != sizeof(random))
		return -EIO;
	for (size_t i = 0; i < sizeof(random); i++)
		snprintf(token + 2 * i, 3, "%02x", random[i]);
	return 0;
}

static int put_formats(struct buf *out)
{
	const struct exporter *exporter;

	for (exporter = exporters; exporter->name; exporter++)
		buf__printf(out, "%s\"%s\"", exporter == exporters ? "[" : ",", exporter->name);
	return buf__append(out, "]", sizeof("]"));
}

int web__new(const struct web_content *content, struct web **ret)
{
	struct web *web = calloc(1, sizeof(*web));
	int fd = -1, err;

	*ret = NULL;
	if (!web)
		return -ENOMEM;
	web->content = *content;
	err = make_token(web->token) ?: put_formats(&web->formats) ?: listen_on(&fd, &web->port);
	if (!err) {
		snprintf(web->address, sizeof(web->address), "http://127.0.0.1:%u/%s/", web->port, web->token);
		web->daemon = library.MHD_start_daemon(MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME, 0, NULL, NULL, answer, web,
						       MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_CONNECTION_LIMIT, CONNECTIONS_MAX,
						       MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)REQUEST_MAX, MHD_OPTION_CONNECTION_TIMEOUT, REQUEST_S,
						       MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_UNESCAPE_CALLBACK, unescape, NULL, MHD_OPTION_NOTIFY_CONNECTION, connected, web,
						       MHD_OPTION_NOTIFY_COMPLETED, completed, web, MHD_OPTION_END);
		if (!web->daemon) {
			close(fd);
			err = -EIO;
		}
	}
	if (err) {
		buf__free(&web->formats);
		free(web);
		return err;
	}
	web->epoll = library.MHD_get_daemon_info(web->daemon, MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd;
	*ret = web;
	return 0;
}

void web__free(struct web *web)
{
	if (!web)
		return;
	/* The library wants none suspended when it stops. */
	web__wake(web);
	for (struct save *save = web->saves; save < web->saves + SAVES_MAX; save++)
		if (save->connection && save->pid) {
			kill(save->pid, SIGKILL);
			waitpid(save->pid, &save->status, 0);
			save->pid = 0;
			library.MHD_resume_connection(save->connection);
		}
	library.MHD_stop_daemon(web->daemon);
	buf__free(&web->formats);
	free(web);
}

const char *web__address(const struct web *web)
{
	return web->address;
}

int web__fd(const struct web *web)
{
	return web->epoll;
}

int web__timeout_ms(const struct web *web)
{
	MHD_UNSIGNED_LONG_LONG ms;

	/* At least once a second: late connections are ended then, and only a run listens again after there were too many
	 * of them. */
	return library.MHD_get_timeout(web->daemon, &ms) == MHD_YES && ms < 1000 ? (int)ms : 1000;
}

int web__run(struct web *web)
{
	end_late(web);
	return library.MHD_run(web->daemon) == MHD_YES ? 0 : -EIO;
}
