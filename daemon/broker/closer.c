/* SPDX-License-Identifier: MIT */
/* The closer: a process, no child of the broker's, that closes connections of clients for the broker (closer.h). The
 * protocol on its socketpair has two messages:
 *
 *    broker   sends the connection (SCM_RIGHTS)      closer   keeps it
 *    broker   closes its own, says so                closer   closes it: it is the last one that has it
 *
 * In that order, whoever closes last, and may hang in close(2), is always the closer. It has a stack of descriptors,
 * and threads that close them; they are started when needed and end when nothing is left. A closer that does not read
 * fast enough is left alone with what it has, and another one is started. */
#include "broker/closer.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/array.h"
#include "base/thread.h"
#include "broker/broker.h"
#include "broker/privileges.h"

/* Bounds: while so many threads hang in a user's connections, further ones of that user stay open; while all threads
 * hang, further ones of everybody. */
#define THREADS_OF_USER 8u
#define THREADS_MAX 64u

/* --- in the process --- */

struct connection {
	int fd;
	uid_t payer;
};

/* Protects all below. Only in the closer are there threads. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct connection *waiting;
static uint32_t n_waiting, capacity;
/* The payers whose connections are being closed at this moment: n_busy threads, some of which may hang for ever. */
static uid_t busy[THREADS_MAX];
static unsigned n_busy, n_threads;

static unsigned busy_of(uid_t payer)
{
	unsigned n = 0;

	for (unsigned i = 0; i < n_busy; i++)
		n += busy[i] == payer;
	return n;
}

/* One of this payer's entries; there is one, as the caller's thread put it there. */
static void remove_busy(uid_t payer)
{
	unsigned i = 0;

	while (busy[i] != payer)
		i++;
	busy[i] = busy[--n_busy];
}

/* The one that came last, as those before it may be what others are held by. False: there is none that may be closed
 * now. */
static bool take(struct connection *ret)
{
	uint32_t i = n_waiting;

	while (i > 0 && busy_of(waiting[i - 1].payer) >= THREADS_OF_USER)
		i--;
	if (!i)
		return false;
	*ret = waiting[i - 1];
	waiting[i - 1] = waiting[--n_waiting];
	busy[n_busy++] = ret->payer;
	return true;
}

static void *close_waiting(void *context)
{
	struct connection connection;

	pthread_mutex_lock(&lock);
	while (take(&connection)) {
		pthread_mutex_unlock(&lock);
		close(connection.fd);
		pthread_mutex_lock(&lock);
		remove_busy(connection.payer);
	}
	n_threads--;
	pthread_mutex_unlock(&lock);
	return NULL;
}

/* False: there was no room for it. */
static bool add(int fd, uid_t payer)
{
	bool kept, more;

	pthread_mutex_lock(&lock);
	kept = !ARRAY_RESERVE(waiting, n_waiting, capacity);
	if (kept)
		waiting[n_waiting++] = (struct connection){fd, payer};
	more = kept && n_threads < THREADS_MAX;
	n_threads += more;
	pthread_mutex_unlock(&lock);
	if (!more || !thread__start_detached(close_waiting, NULL))
		return kept;
	/* No thread could be started: the descriptor is closed together with a later one. */
	pthread_mutex_lock(&lock);
	n_threads--;
	pthread_mutex_unlock(&lock);
	return true;
}

/* Reads the broker's messages until it is gone, or has started another closer, or there is no memory. What is still
 * open then is closed by the end of this process. */
static void serve(int socket)
{
	struct broker_message message;
	int fds[BROKER_FDS_MAX], held = -1;
	unsigned n;

	while (!broker__receive(socket, &message, fds, &n)) {
		if (n) {
			held = fds[0];
		} else if (held >= 0) {
			if (!add(held, message.uid))
				return;
			held = -1;
		}
	}
}

/* Everything else of the broker is closed, and all capabilities are dropped: closing needs none. */
static void enter(int socket)
{
	/* It ends with the broker, whose signals are not its own. */
	signal(SIGTERM, SIG_IGN);
	signal(SIGINT, SIG_IGN);
	if (dup2(socket, 0) || close_range(1, ~0u, 0) || privileges__keep(0))
		return;
	serve(0);
}

/* --- in the broker --- */

static int channel = -1;
/* closer__begin() was called: this is a daemon. */
static bool wanted;

/* Forks twice, so that the closer is no child of the broker, which would have to reap it: whoever adopts it does
 * (init). */
static bool start(int socket)
{
	const pid_t between = fork();
	int status = -1;
	pid_t process;

	if (!between) {
		process = fork();
		if (!process)
			enter(socket);
		_exit(process < 0);
	}
	while (between > 0 && waitpid(between, &status, 0) < 0 && errno == EINTR)
		;
	return !status;
}

int closer__begin(void)
{
	int pair[2];
	bool started;

	wanted = true;
	/* The old closer sees the end of its socket, and finishes what it has. */
	if (channel >= 0)
		close(channel);
	channel = -1;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
		return -errno;
	started = start(pair[1]);
	close(pair[1]);
	if (!started) {
		close(pair[0]);
		return -EAGAIN;
	}
	channel = pair[0];
	fcntl(channel, F_SETFL, O_NONBLOCK);
	return 0;
}

/* The socket does not block: with a full buffer the closer counts as hanging. */
static bool hand_over(int fd)
{
	const struct broker_message message = {};

	return channel >= 0 && !broker__send(channel, &message, &fd, 1);
}

void closer__close(int fd, uid_t payer)
{
	const struct broker_message closed = {.uid = payer};
	/* It ended, is behind with its work, or could not be started. */
	const bool handed = hand_over(fd) || (wanted && !closer__begin() && hand_over(fd));

	close(fd);
	if (handed && broker__send(channel, &closed, NULL, 0))
		closer__begin();
}
