/* SPDX-License-Identifier: MIT */
/* `cprofd serve`: opens the listening socket, or takes the one that systemd passed, and runs the broker until
 * SIGTERM. This process becomes the broker; it starts an engine for each user who connects.
 *
 * With systemd, cprofd.socket owns the path, its permissions and its removal. By hand, this file has to care
 * for all three. */
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "base/cleanup.h"
#include "cli/connection.h"
#include "serve/serve.h"

#define LISTEN_FDS_START 3 /* sd_listen_fds(3) */
/* connections that wait while the broker is busy; more clients wait in connect() */
#define BACKLOG 32

static bool number_is(const char *variable, long wanted)
{
	const char *text = getenv(variable);
	char *end;

	return text && *text && strtol(text, &end, 10) == wanted && !*end;
}

/* The socket that systemd passed; -ENOENT: none; -EINVAL: not one listening unix socket. */
static int take_passed(int *ret)
{
	int listening = 0;
	socklen_t len = sizeof(listening);
	struct sockaddr_un address;
	socklen_t address_len = sizeof(address);

	/* LISTEN_PID protects a child: variables of its parent are not meant for it. */
	if (!getenv("LISTEN_FDS") || !number_is("LISTEN_PID", getpid()))
		return -ENOENT;
	if (!number_is("LISTEN_FDS", 1))
		return -EINVAL;
	/* The broker starts other programs, which must not take the descriptor for theirs. */
	unsetenv("LISTEN_FDS");
	unsetenv("LISTEN_PID");
	unsetenv("LISTEN_FDNAMES");
	if (getsockopt(LISTEN_FDS_START, SOL_SOCKET, SO_ACCEPTCONN, &listening, &len) < 0 ||
	    !listening ||
	    getsockname(LISTEN_FDS_START, (struct sockaddr *)&address, &address_len) < 0 ||
	    address.sun_family != AF_UNIX)
		return -EINVAL;
	fcntl(LISTEN_FDS_START, F_SETFD, FD_CLOEXEC);
	*ret = LISTEN_FDS_START;
	return 0;
}

/* Removes the socket file of a daemon that is gone: nobody accepts connections there. -EADDRINUSE: somebody does;
 * -ETIMEDOUT: somebody listens, but accepts none; -EEXIST: the file is no socket. */
static int remove_stale(const char *path)
{
	struct stat status;
	int fd, err;

	if (lstat(path, &status) < 0)
		return errno == ENOENT ? 0 : -errno;
	if (!S_ISSOCK(status.st_mode))
		return -EEXIST;
	/* ECONNREFUSED is the only answer that shows that nobody listens. Until bind() below, another daemon
	 * may start; then bind() fails. */
	err = connection__connect_path(path, &fd);
	if (!err) {
		close(fd);
		return -EADDRINUSE;
	}
	if (err != -ECONNREFUSED)
		return err;
	/* As root in a directory that root owns. lstat() above: a link is not followed. */
	return unlink(path) < 0 && errno != ENOENT ? -errno : 0;
}

/* Creates the directory (/run/cprofd is on a tmpfs, empty after each boot) and the socket in it. */
static int listen_at(const char *path, int *ret)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	_cleanup_close_ int fd = -1;
	char directory[PATH_MAX];
	mode_t mask;
	int err;

	if (strlen(path) >= sizeof(address.sun_path))
		return -ENAMETOOLONG;
	strcpy(address.sun_path, path);
	strcpy(directory, path);
	if (mkdir(dirname(directory), 0755) < 0 && errno != EEXIST)
		return -errno;
	err = remove_stale(path);
	if (err)
		return err;
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -errno;
	/* Anyone may connect: the kernel says who it is (SO_PEERCRED), and the broker decides what they may do. */
	mask = umask(0111);
	err = bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0 ? -errno : 0;
	umask(mask);
	if (!err && listen(fd, BACKLOG) < 0)
		err = -errno;
	if (!err)
		*ret = take_fd(&fd);
	return err;
}

static void print_failure(int err, const char *path)
{
	if (err == -EADDRINUSE)
		say__failure("a daemon is already running there: `cprofd status` shows it; or choose another "
			     "--socket PATH",
			     "a daemon answers at %s", path);
	else if (err == -ETIMEDOUT)
		say__failure("end it, or choose another --socket PATH", "a daemon at %s hangs: it accepts no connection", path);
	else if (err == -EEXIST)
		say__failure("choose another --socket PATH", "%s exists and is no socket", path);
	else
		say__failure(err == -EACCES || err == -EPERM
				     ? "run it with sudo, or choose another --socket PATH"
				     : "choose another --socket PATH",
			     "cannot listen at %s: %s", path, strerror(-err));
}

int serve__run(const struct cli_options *options)
{
	char hello[SERVE_HELLO_MAX] = "";
	struct broker_options broker = {
		.client_fd = -1,
		.verbose = options->verbose,
		.allow = options->allow,
		.limits = &options->limits,
		.hello = hello,
		.expect_flags = BROKER_NATIVE_FULL << BROKER_NATIVE_SHIFT, /* what `attach` asks for by default */
	};
	struct sockaddr_un bound;
	socklen_t len = sizeof(bound);
	bool by_name, passed;
	const char *path = connection__socket_path(options, &by_name);
	struct stat mine, now;
	int err, status;

	if (options->n_operands) {
		say("unexpected argument '%s'", options->operands[0]);
		return CLI_USAGE;
	}
	/* The first line of an engine. Where no engine can be started, the broker sends it itself, before its
	 * refusal (broker/refuse.h). */
	serve__hello(hello, sizeof(hello));
	err = take_passed(&broker.listen_fd);
	if (err == -EINVAL) {
		say__failure("one ListenStream= of an AF_UNIX path, see cprofd.socket",
			     "what systemd passed is not one listening unix socket");
		return CLI_COULD_NOT;
	}
	passed = !err;
	if (!passed)
		err = listen_at(path, &broker.listen_fd);
	if (err) {
		print_failure(err, path);
		return CLI_COULD_NOT;
	}
	memset(&bound, 0, sizeof(bound));
	getsockname(broker.listen_fd, (struct sockaddr *)&bound, &len);
	/* A zero inode: nothing is removed at the end. */
	if (!passed && lstat(path, &mine) < 0)
		mine = (struct stat){};
	say("cprofd %s listens at %s", CPROFD_VERSION, passed ? bound.sun_path : path);
	status = broker__run(&broker);
	/* Remove only our own socket: another daemon may have replaced the file. */
	if (!passed && !lstat(path, &now) && now.st_ino == mine.st_ino && now.st_dev == mine.st_dev)
		unlink(path);
	say("ended");
	return status ? CLI_COULD_NOT : CLI_DONE;
}
