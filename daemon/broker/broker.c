/* SPDX-License-Identifier: MIT */
/* The broker's main loop: accepts clients, starts an engine for each identity, serves the engines' requests, and reaps
 * engines that ended. One thread; nothing here may block: what may block is done by helpers (helper.h) and the closer
 * (closer.h).
 *
 *    poll()  signals          SIGTERM: stop
 *            listening socket a client: which engine is it for? (of the same identity, or a new one)
 *            each engine      its channel, and what its current request waits for
 *    time    samplers are loaded ahead, ending engines are killed, the watchdog of systemd is fed */
#include "broker/broker.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "broker/closer.h"
#include "broker/notify.h"
#include "broker/perf.h"
#include "broker/policy.h"
#include "broker/privileges.h"
#include "broker/program.h"
#include "broker/refuse.h"
#include "broker/request.h"

#define ENGINES_MAX 1024u /* of all users; each user has a lower limit (limit.h) */
/* A daemon without requests for so long (ms) loads a sampler for the next session. */
#define SPARE_MS 500
#define ENDING_MS 50 /* how often ending engines are polled */
/* Clients whose engine has unread messages in its channel (it is told of many children), of all users and of one; how often these are
 * tried, and how long. */
#define PARKED_MAX 64u
#define PARKED_OF_ONE 8u
#define PARKED_MS 20u
#define PARKED_LONGEST_MS 10000u

struct parked {
	int fd;
	uid_t payer;
	uint64_t until;
};

struct broker {
	const struct broker_options *options;
	struct engine *engines;
	struct engine_program program;
	struct engine *ending; /* engines whose channels are closed, until they exit */
	unsigned n_engines;    /* all of them */
	struct parked parked[PARKED_MAX];
	unsigned n_parked;
	uint64_t parked_due; /* when they are tried next */
	/* A sampler that is loaded in advance: the kernel's verifier takes longer than everything else of an attach. */
	struct spare spare;
	int signals;
	/* A descriptor that is only there to be closed: when no other is left, it makes room to accept a client and
	 * refuse it. */
	int reserve;
	bool stop;
	int status;            /* exit status of the engine that ended last */
};

static enum broker_error load_spare(struct broker *broker)
{
	struct spare *spare = &broker->spare;
	enum broker_error error = BROKER_ERROR_OK;

	if (spare->sampler && !sampler__fits(spare->sampler, &spare->options))
		spare->sampler = sampler__free(spare->sampler);
	/* If this fails, the session that needs the sampler reports why. */
	if (!spare->sampler && !(broker->options->expect_flags & BROKER_DUMP))
		sampler__load(&spare->options, &spare->sampler, &error);
	spare->wanted = false;
	return error;
}

/* Of a daemon's first load. libbpf finds out with it what the kernel can do, and keeps the answers for as long as the process
 * lives, also one that only a lack of memory gave: then no later session could be sampled. Who is started again asks anew. */
static int judge_first_load(enum broker_error error)
{
	if (error != BROKER_ERROR_NO_MEMORY && error != BROKER_ERROR_VERIFIER)
		return 0;
	fprintf(stderr, "cprofd: the sampler cannot be loaded: %s\n        start it again, or see `cprofd check`\n", broker_error__sentence(error));
	return -EAGAIN;
}

/* Moves an engine to the list of those that end. `slot`: what points to it. */
static void end_engine(struct broker *broker, struct engine **slot, bool now)
{
	struct engine *engine = *slot;

	*slot = engine->next;
	engine->next = broker->ending;
	broker->ending = engine;
	engine__leave(engine, now);
}

/* Frees engines that have exited, without waiting for the others. */
static void reap_engines(struct broker *broker, unsigned wait_ms)
{
	struct engine **slot = &broker->ending, *next;

	while (*slot) {
		next = (*slot)->next;
		if (!engine__gone(*slot, wait_ms, &broker->spare, &broker->status)) {
			slot = &(*slot)->next;
			continue;
		}
		*slot = next;
		broker->n_engines--;
	}
}

/* Of an engine that is in the list. */
static struct engine **slot_of(struct broker *broker, const struct engine *engine)
{
	struct engine **slot = &broker->engines;

	while (*slot != engine)
		slot = &(*slot)->next;
	return slot;
}

/* The engine of this identity, started if there is none. `client` is moved into it. */
static int engine_for(struct broker *broker, struct identity *client, struct engine **ret, struct limit_reached *ret_reached)
{
	struct engine *engine;
	int err;

	for (engine = broker->engines; engine; engine = engine->next) {
		if (identity__same(&engine->client, client)) {
			identity__free(client);
			*ret = engine;
			return 0;
		}
	}
	if (broker->n_engines == ENGINES_MAX)
		return -EUSERS;
	err = engine__start(client, &broker->program, &engine, ret_reached);
	if (err)
		return err;
	engine->next = broker->engines;
	broker->engines = engine;
	broker->n_engines++;
	*ret = engine;
	return 0;
}

/* Finds or starts the client's engine and passes the socket on. Moves or frees `identity`. -EDQUOT: *ret_reached says which
 * limit. -EPIPE: the engine that there was has just ended. -EBUSY: it has to read first. */
static int add_client(struct broker *broker, int fd, struct identity *identity, const struct peer *peer, struct limit_reached *ret_reached)
{
	/* Copied first: engine_for() moves the identity into a new engine. */
	struct identity who = {.uid = identity->uid, .gid = identity->gid};
	struct engine *engine;
	int err = engine_for(broker, identity, &engine, ret_reached);

	if (!err) {
		err = engine__give_client(engine, fd, peer, &who);
		if (err == -EPIPE)
			end_engine(broker, slot_of(broker, engine), false);
		if (err == -EAGAIN)
			err = -EBUSY; /* -EAGAIN is fork's */
	}
	identity__free(identity);
	return err;
}

/* *ret_payer: whose connection it is, for the closer. */
static int serve_client(struct broker *broker, int fd, struct limit_reached *ret_reached, uid_t *ret_payer)
{
	struct identity identity;
	struct peer peer = {.pidfd = -1};
	int err = peer__of_socket(fd, &peer) ?: -EPIPE;

	*ret_payer = err == -EPIPE ? peer.payer : CLOSER_NOBODY;
	/* The engine may have exited since it was polled: then try once more, with a new one. */
	for (int turn = 0; turn < 2 && err == -EPIPE; turn++) {
		err = identity__of_socket(fd, &peer, &identity);
		err = err ?: add_client(broker, fd, &identity, &peer, ret_reached);
	}
	peer__free(&peer);
	return err;
}

static int accept_one(const struct broker *broker)
{
	return accept4(broker->options->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
}

static int open_reserve(void)
{
	return open("/dev/null", O_RDONLY | O_CLOEXEC);
}

/* No descriptor is left: refuses a client with the reserve. Otherwise the listening socket would stay readable, and
 * poll() would spin. */
static void refuse_one(struct broker *broker)
{
	int fd;

	if (broker->reserve >= 0)
		close(broker->reserve);
	fd = accept_one(broker);
	if (fd >= 0) {
		refuse__client(fd, broker->options->hello, -EMFILE, NULL);
		closer__close(fd, CLOSER_NOBODY);
	}
	broker->reserve = open_reserve();
}

/* Its engine has it, or it is told why not. */
static void end_client(const struct broker *broker, int fd, uid_t payer, int err, const struct limit_reached *reached)
{
	if (err)
		refuse__client(fd, broker->options->hello, err, reached);
	closer__close(fd, payer);
}

/* A client of an engine that has to read first is served when it has. */
static bool park(struct broker *broker, int fd, uid_t payer)
{
	unsigned n = 0;

	for (unsigned i = 0; i < broker->n_parked; i++)
		n += broker->parked[i].payer == payer;
	if (n >= PARKED_OF_ONE || broker->n_parked == PARKED_MAX)
		return false;
	broker->parked[broker->n_parked++] = (struct parked){.fd = fd, .payer = payer, .until = clock__now() + PARKED_LONGEST_MS * 1000000ull};
	if (broker->n_parked == 1)
		broker->parked_due = clock__now() + PARKED_MS * 1000000ull;
	return true;
}

/* In the order in which they came. */
static void serve_parked(struct broker *broker)
{
	const uint64_t now = clock__now();
	struct limit_reached reached;
	unsigned n = 0;
	uid_t payer;
	int err;

	if (!broker->n_parked || now < broker->parked_due)
		return;
	broker->parked_due = now + PARKED_MS * 1000000ull;
	for (unsigned i = 0; i < broker->n_parked; i++) {
		const struct parked *parked = &broker->parked[i];

		err = serve_client(broker, parked->fd, &reached, &payer);
		if (err == -EBUSY && now < parked->until) {
			broker->parked[n++] = *parked;
			continue;
		}
		end_client(broker, parked->fd, payer, err, &reached);
	}
	broker->n_parked = n;
}

static void accept_client(struct broker *broker)
{
	int fd = accept_one(broker), err;
	struct limit_reached reached;
	uid_t payer;

	if (fd < 0 && (errno == EMFILE || errno == ENFILE))
		refuse_one(broker);
	if (fd < 0)
		return;
	err = serve_client(broker, fd, &reached, &payer);
	if (err == -EBUSY && park(broker, fd, payer))
		return;
	end_client(broker, fd, payer, err, &reached);
	/* While it makes up its request. Where a used one waits, it is most likely this client's. */
	if (!err && !broker->spare.sampler && !broker->spare.used)
		load_spare(broker);
}

/* Each engine's request runs for some milliseconds in turn, so nobody can keep the others waiting. */
static void serve_engines(struct broker *broker, const struct pollfd *polled)
{
	struct engine **slot = &broker->engines;

	for (; *slot; polled += REQUEST_POLLED) {
		int err = request__serve(*slot, polled, &broker->spare, broker->options->verbose);

		if (err)
			end_engine(broker, slot, err == -EBADMSG);
		else
			slot = &(*slot)->next;
	}
}

/* Only a daemon has a next session. */
static bool waits_for_spare(const struct broker *broker)
{
	return broker->options->listen_fd >= 0 && broker->spare.wanted;
}

/* How long poll() may wait, in ms; -1: for ever. */
static int pause_of(const struct broker *broker, uint64_t until)
{
	const uint64_t now = clock__now();
	const uint64_t longest = broker->n_parked ? PARKED_MS : broker->ending ? ENDING_MS : waits_for_spare(broker) ? SPARE_MS : INT32_MAX;
	const uint64_t ms = until <= now ? 0 : (until - now) / 1000000 + 1;

	if (until == UINT64_MAX && longest == INT32_MAX)
		return -1;
	return (int)(ms < longest ? ms : longest);
}

/* The loop. It ends with SIGTERM; without a daemon also when the last engine is gone. */
static int run(struct broker *broker)
{
	struct pollfd *polled;
	uint64_t until, first, due;
	nfds_t n;
	int ready;

	polled = calloc(2 + REQUEST_POLLED * ENGINES_MAX, sizeof(*polled));
	if (!polled)
		return -ENOMEM;
	while (!broker->stop && (broker->options->listen_fd >= 0 || broker->engines)) {
		n = 0;
		first = UINT64_MAX;
		polled[n++] = (struct pollfd){.fd = broker->signals, .events = POLLIN};
		polled[n++] = (struct pollfd){.fd = broker->options->listen_fd, .events = POLLIN};
		for (struct engine *engine = broker->engines; engine; engine = engine->next, n += REQUEST_POLLED) {
			request__wants(engine, polled + n, &until);
			first = until < first ? until : first;
		}
		due = notify__alive();
		ready = poll(polled, n, pause_of(broker, first < due ? first : due));
		if (ready < 0 && errno != EINTR)
			break;
		if (ready < 0) /* nothing was polled */
			continue;
		/* Nothing happened for SPARE_MS: load a sampler for the daemon's next session. */
		if (!ready && !broker->ending && !broker->n_parked && first == UINT64_MAX && waits_for_spare(broker))
			load_spare(broker);
		reap_engines(broker, 0);
		if (polled[0].revents)
			broker->stop = true;
		/* Engines first: an engine that accept_client() adds is not in `polled`. */
		serve_engines(broker, polled + 2);
		serve_parked(broker);
		if (polled[1].revents)
			accept_client(broker);
	}
	free(polled);
	return 0;
}

/* SIGTERM ends the broker, and SIGINT a daemon. A broker below a client ignores Ctrl-C: the client gets it and ends
 * the recording, then its engine exits, and then the broker. */
static int open_signals(bool daemon)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	if (daemon) {
		sigaddset(&set, SIGINT);
	} else {
		signal(SIGINT, SIG_IGN);
		signal(SIGQUIT, SIG_IGN);
	}
	signal(SIGPIPE, SIG_IGN);
	signal(SIGCHLD, SIG_DFL);
	if (sigprocmask(SIG_BLOCK, &set, NULL))
		return -errno;
	return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

/* exec fails if the engine's user has more processes than the caller's limit (execve(2), EAGAIN). */
static void raise_process_limit(void)
{
	struct rlimit limit = {RLIM_INFINITY, RLIM_INFINITY};

	if (!setrlimit(RLIMIT_NPROC, &limit) || getrlimit(RLIMIT_NPROC, &limit))
		return;
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NPROC, &limit);
}

/* The order at the start matters: the program is opened and the limits are raised with the rights of the caller, then
 * all rights that are not needed are dropped, then everything else. */
int broker__run(const struct broker_options *options)
{
	struct broker broker = {.options = options, .program = {.fd = -1, .main = options->engine_main}};
	struct identity identity;
	struct limit_reached reached;
	struct peer peer;
	enum broker_error error = BROKER_ERROR_OK;
	int err;

	if (!options->engine_main && program__open(&broker.program.fd))
		return 1;
	raise_process_limit();
	err = privileges__keep_broker();
	if (err)
		return 1;
	perf__raise_fd_limit();
	if (options->listen_fd >= 0) {
		notify__begin();
		closer__begin();
	}
	policy__set(options->allow);
	quota__set(options->limits);
	broker.reserve = open_reserve();
	privileges__engine_of_root();
	broker.spare.options = load_options__of(options->expect_flags, options->verbose);
	broker.spare.keeps = options->listen_fd >= 0;
	broker.signals = open_signals(options->listen_fd >= 0);
	if (broker.signals < 0)
		return 1;
	if (options->client_fd >= 0) {
		err = peer__of_parent(options->client_fd, &peer);
		err = err ?: identity__of_user(options->client_uid, options->client_gid, &peer, &identity);
		err = err ?: add_client(&broker, options->client_fd, &identity, &peer, &reached);
		peer__free(&peer);
		close(options->client_fd);
	}
	/* The client is preparing its request meanwhile. */
	if (!err)
		error = load_spare(&broker);
	if (options->listen_fd >= 0)
		err = err ?: judge_first_load(error);
	if (!err)
		notify__ready();
	err = err ?: run(&broker);
	notify__stopping();
	broker.spare.keeps = false;
	while (broker.engines)
		end_engine(&broker, &broker.engines, false);
	while (broker.ending)
		reap_engines(&broker, 5);
	spare__free(&broker.spare);
	close(broker.signals);
	if (err)
		return 1;
	return options->listen_fd < 0 ? broker.status : 0;
}
