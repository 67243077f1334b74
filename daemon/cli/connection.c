/* SPDX-License-Identifier: MIT */
/* Connects to the daemon. If there is none, forks a broker of its own, which starts an engine, and talks to
 * them over a socketpair. From then on both cases are the same: one JSON line per request, one per event.
 *
 *     {"req":"attach","id":1,"pid":4242,"rate":999}       to the engine
 *     {"ev":"answer","id":1,"ok":true,...}                from it
 *     {"ev":"samples",...}                                from it, again and again
 *
 * The far end is the broker at first: it reads no request, but passes the socket on to the engine of this
 * user. */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "base/cleanup.h"
#include "base/json_text.h"
#include "broker/broker.h"
#include "broker/peer.h"
#include "cli/connection.h"
#include "cli/user.h"
#include "events/events.h"
#include "serve/serve.h"

/* A broker that is busy accepts after some seconds; one that hangs never does, and its backlog fills. */
#define CONNECT_SECONDS 60
#define TRY_SECONDS 2 /* to learn whether there is a daemon */
/* An engine answers at once, as its main loop never waits; but it may first have to be started for this user. */
#define ANSWER_MS 5000

const char *connection__socket_path(const struct cli_options *options, bool *ret_by_name)
{
	const char *path = options->socket ? options->socket : getenv(CLI_SOCKET_VARIABLE);

	/* An empty variable counts as none, as usual in shells. */
	*ret_by_name = path && *path;
	return *ret_by_name ? path : CLI_SOCKET;
}

/* Sends the pid along as SCM_CREDENTIALS (peer.h), which names the process that root's engine may ask for. Other
 * users need not name one, and in a container the kernel may refuse it. */
static int name(int fd, pid_t pid)
{
	return pid && !geteuid() ? peer__name(fd, &pid, 1) : 0;
}

/* The pid must be sent before the connection is accepted, so it is attached to the socket before connect():
 * the broker then finds it together with the peer's credentials. */
static int connect_naming(const char *path, pid_t pid, int seconds, int *ret_fd)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	const struct timeval timeout = {.tv_sec = seconds};
	_cleanup_close_ int fd = -1;
	int err;

	/* 108 bytes, NUL included (unix(7)). A cut path would be another socket. */
	if (strlen(path) >= sizeof(address.sun_path))
		return -ENAMETOOLONG;
	strcpy(address.sun_path, path);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	err = name(fd, pid);
	if (err)
		return err;
	/* connect(), too, waits no longer, and gives EAGAIN then (socket(7)). */
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout));
	if (connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0)
		return errno == EAGAIN ? -ETIMEDOUT : -errno;
	*ret_fd = take_fd(&fd);
	return 0;
}

int connection__connect_path(const char *path, int *ret_fd)
{
	return connect_naming(path, 0, TRY_SECONDS, ret_fd);
}

/* BROKER_* flags of the session that will be requested, so that the broker can load the right programs meanwhile. */
static uint32_t expected(const struct cli_options *options)
{
	uint32_t native = !options->native || !strcmp(options->native, "off") ? BROKER_NATIVE_OFF :
			  !strcmp(options->native, "leaf")		      ? BROKER_NATIVE_LEAF :
										BROKER_NATIVE_FULL;

	if (options->dump)
		return BROKER_DUMP;
	return native << BROKER_NATIVE_SHIFT | (options->subprocesses ? BROKER_SUBPROCESSES : 0) |
	       (options->kernel ? BROKER_KERNEL : 0) | (options->wall || options->idle ? BROKER_WALL : 0) |
	       (options->gil ? BROKER_GIL : 0) | (options->host ? BROKER_HOST : 0);
}

/* In the child: a broker of our own. It gets its own process group, so that Ctrl-C reaches only the client. */
static void __attribute__((noreturn)) run_broker(int fd, const struct cli_options *options)
{
	const struct broker_options broker = {
		.listen_fd = -1,
		.client_fd = fd,
		.client_uid = getuid(),
		.client_gid = getgid(),
		.verbose = options->debug,
		.expect_flags = expected(options),
	};
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	sigset_t none;

	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	setpgid(0, 0);
	prctl(PR_SET_NAME, "cprofd-broker");
	if (null >= 0) {
		dup2(null, STDIN_FILENO);
		dup2(null, STDOUT_FILENO);
	}
	_exit(broker__run(&broker));
}

/* One of our own, if no daemon answers. The broker is a forked child of this program and not a thread,
 * because it keeps root while this process gives it up. */
static int start_own(const struct cli_options *options, pid_t pid, struct connection *connection)
{
	int pair[2], err;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		return -errno;
	fflush(NULL);
	/* Before the fork: the broker can take the name from the socket as its first act. */
	err = name(pair[0], pid);
	connection->broker = err ? -1 : fork();
	if (connection->broker < 0) {
		err = err ?: -errno;
		connection->broker = 0;
		close(pair[0]);
		close(pair[1]);
		return err;
	}
	if (!connection->broker) {
		close(pair[0]);
		run_broker(pair[1], options);
	}
	close(pair[1]);
	connection->fd = pair[0];
	return 0;
}

/* The socket refused us: says which group may connect. */
static void print_kept_out(const char *path)
{
	struct stat status;
	char hint[200];
	const struct group *group = !stat(path, &status) && status.st_mode & S_IWGRP ? getgrgid(status.st_gid) : NULL;

	if (group && group->gr_gid)
		snprintf(hint, sizeof(hint), "members of the group %.32s may connect (sudo usermod -aG %.32s USER, then log in again); or run it with sudo",
			 group->gr_name, group->gr_name);
	else
		snprintf(hint, sizeof(hint), "ask whoever started the daemon, or run it with sudo");
	say__failure(hint, "a daemon is at %s, but the permissions of its socket keep you out", path);
}

int connection__open(const struct cli_options *options, pid_t pid, bool daemon_only, struct connection *ret)
{
	bool by_name;
	const char *path = connection__socket_path(options, &by_name);
	int err;

	*ret = CONNECTION_NONE;
	/* With CPROFD_SOCKET=none no daemon is tried: the session gets an engine of its own. */
	if (!strcmp(path, CLI_SOCKET_NONE) && !daemon_only)
		by_name = false, err = -ENOENT;
	else
		err = connect_naming(path, pid, CONNECT_SECONDS, &ret->fd);
	/* Falling back to a broker of our own would end in a message about missing privileges. The group of
	 * the socket is what helps here. */
	if (err == -EACCES && geteuid()) {
		print_kept_out(path);
		return CLI_COULD_NOT;
	}
	/* A socket that the user has chosen must answer; only the default one may be missing. */
	if (err && (by_name || daemon_only)) {
		say__failure("start one with `sudo cprofd serve`, or `sudo systemctl start cprofd.socket`", "no daemon answers at %s: %s",
			     path, strerror(-err));
		return CLI_COULD_NOT;
	}
	if (options->debug && !err)
		say("asking the daemon at %s", path);
	else if (options->debug)
		say("no daemon at %s (%s): an engine of our own", path, strerror(-err));
	if (err)
		err = start_own(options, pid, ret);
	if (err) {
		say__failure("", "the engine could not be started: %s", strerror(-err));
		return CLI_COULD_NOT;
	}
	fcntl(ret->fd, F_SETFL, O_NONBLOCK);
	return CLI_DONE;
}

void connection__close(struct connection *connection)
{
	if (connection->fd >= 0)
		close(take_fd(&connection->fd));
	/* The broker ends when our socket closes. Waiting for it keeps its last messages before the shell's prompt. */
	if (connection->broker > 0)
		waitpid(connection->broker, NULL, 0);
	connection->broker = 0;
	buf__free(&connection->in);
}

int connection__request(struct connection *connection, const char *request)
{
	_cleanup_(buf__free) struct buf line = {};
	size_t sent = 0;
	int err = buf__printf(&line, "%s\n", request);

	/* The socket does not block. The engine reads requests at any time, so a full socket drains soon;
	 * five seconds without progress mean that it hangs. */
	while (!err && sent < line.len) {
		struct pollfd poll_fd = {connection->fd, POLLOUT, 0};
		ssize_t n = send(connection->fd, line.data + sent, line.len - sent, MSG_NOSIGNAL);

		if (n >= 0)
			sent += (size_t)n;
		else if (errno == EAGAIN)
			err = poll(&poll_fd, 1, 5000) == 0 ? -ETIMEDOUT : 0;
		else if (errno == EPIPE) /* the daemon closed the connection; its answer may still be in the socket */
			break;
		else if (errno != EINTR)
			err = -errno;
	}
	return err;
}

/* The answer contains data that targets wrote, so it must not be parsed as root. It is safe to drop root only now: a
 * daemon takes a client's rights from the process that connected, and the first byte of an answer shows that it has. */
static int give_up_rights(void)
{
	int err = user__drop(user__calling());

	if (err)
		say("root's rights cannot be given up, so nothing is read: %s", strerror(-err));
	return err;
}

int connection__receive(struct connection *connection, int timeout_ms)
{
	struct pollfd poll_fd = {connection->fd, POLLIN, 0};
	const size_t chunk = 256 << 10;
	ssize_t n;
	int err;

	if (connection->consumed)
		buf__consume(&connection->in, connection->consumed);
	connection->consumed = 0;
	if (poll(&poll_fd, 1, timeout_ms) < 0)
		return errno == EINTR ? 0 : -errno;
	if (!poll_fd.revents)
		return 0;
	/* `in` holds at most one incomplete line here, as the caller has taken the complete ones. One longer
	 * than the protocol allows would grow without end. */
	if (connection->in.len > EVENTS_LINE_MAX)
		return -EMSGSIZE;
	err = give_up_rights() ?: buf__reserve(&connection->in, chunk);
	if (err)
		return err;
	n = recv(connection->fd, connection->in.data + connection->in.len, chunk, MSG_DONTWAIT);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	/* A reset is an end, too: a daemon was killed with our data unread. What it had sent before is in
	 * `in`. */
	if (n < 0 && errno != ECONNRESET)
		return -errno;
	if (n <= 0)
		connection->ended = true;
	else
		connection->in.len += (size_t)n;
	return 0;
}

int connection__await(struct connection *connection, int timeout_ms)
{
	const size_t before = connection->in.len - connection->consumed;
	int err = connection__receive(connection, timeout_ms);

	return !err && connection->in.len == before && !connection->ended ? -ETIMEDOUT : err;
}

bool connection__line(struct connection *connection, const char **ret_line, size_t *ret_len)
{
	const char *line = connection->in.data + connection->consumed;
	const char *end;

	if (connection->consumed == connection->in.len)
		return false;
	end = memchr(line, '\n', connection->in.len - connection->consumed);
	if (!end)
		return false;
	*ret_line = line;
	*ret_len = (size_t)(end + 1 - line);
	connection->consumed += *ret_len;
	return true;
}

/* Most lines are only copied to the recording. Parsing each as JSON just for its type would cost more than
 * all else that the client does. */
bool line__is(const char *line, size_t len, const char *event)
{
	static const char head[] = "{\"ev\":\"";
	size_t name = strlen(event);

	return len > sizeof(head) + name && !memcmp(line, head, sizeof(head) - 1) &&
	       !memcmp(line + sizeof(head) - 1, event, name) &&
	       line[sizeof(head) - 1 + name] == '"';
}

json_t *line__read(const char *line, size_t len, size_t flags)
{
	json_t *answer = json__load(line, len, flags, NULL);

	if (!answer)
		say("the engine's answer cannot be read: out of memory, or it is no JSON");
	return answer;
}

json_t *connection__ask(struct connection *connection, const char *request)
{
	const char *line;
	size_t len;
	int err = connection__request(connection, request);

	while (!err && !connection->ended) {
		err = connection__await(connection, ANSWER_MS);
		while (!err && connection__line(connection, &line, &len))
			if (line__is(line, len, "answer"))
				return line__read(line, len, 0);
	}
	say("the daemon did not answer: %s", err ? strerror(-err) : "it closed the connection");
	return NULL;
}
