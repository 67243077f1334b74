/* SPDX-License-Identifier: MIT */
/* Starts an engine, and makes certain that it ends. Between fork and exec the child gives up everything: other
 * descriptors, signals' settings, its user and all capabilities; memory is limited, and the kernel is asked to end
 * it first when memory runs short. An engine runs code over hostile input, so nothing that it says about its own
 * end is believed: it is reaped by pidfd, and killed after a deadline. */
#include "broker/engine.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "broker/cache.h"
#include "broker/file.h"
#include "broker/privileges.h"
#include "broker/program.h"

#define CHANNEL BROKER_CHANNEL_FD
#define END_MS 2000    /* from closing the channel to SIGKILL */
#define KILLED_MS 1000 /* from SIGKILL to giving up */
_Static_assert(BROKER_CACHE_FD == CHANNEL + 1, "close_range() below keeps these and what is before them");

/* --- the child --- */

/* Blocked and ignored signals survive an exec; a signalfd's mask must not be the engine's. */
static void default_signals(void)
{
	sigset_t none;

	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	signal(SIGCHLD, SIG_DFL);
	signal(SIGTERM, SIG_DFL);
	/* The client gets Ctrl-C, and tells its engine to finish. */
	signal(SIGINT, SIG_IGN);
	signal(SIGQUIT, SIG_IGN);
	signal(SIGPIPE, SIG_IGN);
}

/* Limits its private memory and thread stacks. File mappings do not count: the kernel can drop them. */
static void limit_memory(uint64_t bytes)
{
#ifdef __SANITIZE_ADDRESS__
	bytes = 0; /* ASan's shadow memory would count, too */
#endif
	if (bytes)
		setrlimit(RLIMIT_DATA, &(struct rlimit){bytes, bytes});
}

/* If memory runs out, the kernel should kill engines before the broker. */
static void end_first(void)
{
	int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);

	if (fd >= 0) {
		if (write(fd, "500", 3) < 0) {
			/* it keeps the broker's score */
		}
		close(fd);
	}
}

/* The child of fork(): becomes an engine. Returns only an exit status: 125: descriptors; 126: rights could not be given
 * up; 127: no program. Rights are dropped before the program is executed, so that none of its code ever has them. */
static int enter(int channel, const struct identity *client, const struct engine_program *program, uint64_t memory)
{
	uid_t uid = client->uid ? client->uid : privileges__engine_of_root();
	gid_t gid = client->uid ? client->gid : PRIVILEGES_NOBODY;
	struct rlimit no_core = {};
	int cache, err;

	default_signals();
	if (channel != CHANNEL && dup2(channel, CHANNEL) < 0)
		return 125;
	/* The cache of uid 0 is root's: a uid 0 without root's rights (a container) must not write there. */
	cache = client->uid || identity__may_all(client) ? cache__open(client->uid, uid) : -EPERM;
	if (cache >= 0 && cache != BROKER_CACHE_FD && dup2(cache, BROKER_CACHE_FD) < 0)
		return 125;
	if (fcntl(CHANNEL, F_SETFD, 0) || (cache >= 0 && fcntl(BROKER_CACHE_FD, F_SETFD, 0)) ||
	    close_range(cache < 0 ? BROKER_CACHE_FD : BROKER_CACHE_FD + 1, ~0u, program->main ? 0 : CLOSE_RANGE_CLOEXEC))
		return 125;
	setrlimit(RLIMIT_CORE, &no_core);
	end_first();
	/* Groups of uid 0 are root's: its engine, which runs as another user, gets none. */
	err = privileges__become(uid, gid, client->uid ? client->groups : NULL,
				 client->uid ? client->n_groups : 0);
	if (err)
		return 126;
	limit_memory(memory);
	if (program->main)
		return program->main(CHANNEL);
	err = program__execute(program->fd);
	fprintf(stderr, "cprofd: its engine cannot be executed: %s\n", strerror(-err));
	return 127;
}

/* --- the broker's side --- */

/* Charges the user's limits; root is not charged. *ret_memory: bytes that the engine may use; 0: no limit. An engine
 * has half of what its user has left of memory, so that a second login of that user can still start one. */
static int charge(struct engine *engine, const struct identity *client, uint64_t *ret_memory)
{
	int err = identity__may_all(client) ? 0 : charge__begin(&engine->charge, client->payer);

	*ret_memory = 0;
	err = err ?: charge__take(&engine->charge, LIMIT_ENGINES, 1);
	return err ? err : charge__take_half(&engine->charge, LIMIT_MEMORY, LIMIT_MEMORY_LEAST, ret_memory);
}

static void free_engine(struct engine *engine)
{
	charge__end(&engine->charge);
	free(engine);
}

int engine__start(struct identity *client, const struct engine_program *program, struct engine **ret, struct limit_reached *ret_reached)
{
	struct engine *engine = calloc(1, sizeof(*engine));
	uint64_t memory;
	int pair[2];
	int err;

	if (!engine)
		return -ENOMEM;
	err = charge(engine, client, &memory);
	*ret_reached = engine->charge.reached;
	if (!err && socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
		err = -errno;
	if (err) {
		free_engine(engine);
		return err;
	}
	fflush(NULL);
	engine->pid = fork();
	if (!engine->pid) {
		/* _exit(): exit handlers and stdio buffers of the broker are not for the child. */
		int status = enter(pair[1], client, program, memory);

		fflush(NULL);
		/* Close everything first: a thread stuck in a file system would keep the channel and the client's
		 * pipes open. */
		close_range(0, ~0u, 0);
		_exit(status);
	}
	close(pair[1]);
	engine->openers = OPENERS_NONE;
	engine->channel = pair[0];
	fcntl(engine->channel, F_SETFL, O_NONBLOCK); /* an engine that does not read is ended, not waited for */
	engine->pidfd = engine->pid < 0 ? -1 : (int)syscall(SYS_pidfd_open, engine->pid, 0);
	if (engine->pidfd < 0) {
		err = -errno;
		if (engine->pid > 0) {
			int status;

			engine__leave(engine, true);
			while (!engine__gone(engine, 0, NULL, &status))
				engine->until = 0;
		} else {
			close(engine->channel);
			free_engine(engine);
		}
		return err;
	}
	engine->client = *client;
	*client = (struct identity){};
	*ret = engine;
	return 0;
}

int engine__writable(const struct engine *engine)
{
	struct pollfd out = {.fd = engine->channel, .events = POLLOUT};

	if (poll(&out, 1, 0) != 1)
		return -EAGAIN;
	return out.revents & POLLOUT ? 0 : -EPIPE;
}

int engine__give_client(struct engine *engine, int client, const struct peer *peer, const struct identity *identity)
{
	struct broker_message message = {
		.kind = BROKER_CLIENT,
		.pid = peer->pid,
		.uid = identity->uid,
		.gid = identity->gid,
		.error = peer->unnamed,
	};
	int err = engine__writable(engine);

	if (!err && !peer->unnamed)
		err = known__add(&engine->clients, peer->pid);
	for (unsigned i = 0; !err && !peer->unnamed && i < peer->n_named && identity__may_all(&engine->client); i++)
		err = known__add(&engine->named, peer->named[i]);
	return err ? err : broker__send(engine->channel, &message, &client, 1);
}

/* Engines that were killed but still exist: a thread of theirs is stuck in a read from a file system that does not
 * answer. Beyond HELD_MAX they are not reaped. */
#define HELD_MAX 64u
static pid_t held[HELD_MAX];
static unsigned n_held;

static void reap_held(void)
{
	unsigned i = n_held;

	while (i-- > 0)
		if (waitpid(held[i], NULL, WNOHANG))
			held[i] = held[--n_held];
}

void engine__leave(struct engine *engine, bool now)
{
	reap_held();
	coroutine__cancel(engine->request);
	engine->request = NULL;
	for (size_t i = 0; i < BROKER_SESSIONS_MAX; i++)
		session__free(engine->sessions[i]);
	openers__leave(&engine->openers);
	close(engine->channel);
	/* A healthy engine exits when its channel is closed. */
	engine->until = clock__now() + (now ? 0 : END_MS * 1000000ull);
}

/* Frees the engine and returns its exit status. */
static int reap(struct engine *engine, bool gone, struct spare *spare)
{
	int status = SIGKILL;

	while (gone && waitpid(engine->pid, &status, 0) < 0 && errno == EINTR)
		;
	if (!gone && n_held < HELD_MAX)
		held[n_held++] = engine->pid;
	/* Only after a clean exit: an engine that crashed or was killed may have passed its maps to another
	 * process. */
	if (gone && spare && !status && !engine->killed)
		spare__return(spare, &engine->spent, &engine->client);
	spent__free(&engine->spent);
	if (engine->pidfd >= 0)
		close(engine->pidfd);
	identity__free(&engine->client);
	known__free(&engine->clients);
	known__free(&engine->named);
	free_engine(engine);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

bool engine__gone(struct engine *engine, unsigned wait_ms, struct spare *spare, int *ret_status)
{
	struct pollfd ended = {.fd = engine->pidfd, .events = POLLIN};

	if (engine->pidfd >= 0 && poll(&ended, 1, (int)wait_ms) == 1) {
		*ret_status = reap(engine, true, spare);
		return true;
	}
	if (clock__now() < engine->until)
		return false;
	if (engine->killed) {
		*ret_status = reap(engine, engine->pidfd < 0, NULL);
		return true;
	}
	kill(engine->pid, SIGKILL);
	engine->killed = true;
	engine->until = clock__now() + KILLED_MS * 1000000ull;
	return false;
}
