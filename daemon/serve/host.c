/* SPDX-License-Identifier: MIT */
/* A session of a host: no process was named, and each CPython that the client's patterns let in is recorded, from when it begins.
 *
 *    the sampler reports an exec   (RECORD_STARTED)      \
 *    /proc is listed, at the begin and each minute        -> candidate -> OPEN_PROCESS -> identify.c
 *                                                              -> it is a CPython:  ADOPT -> announced, and sampled
 *                                                              -> it is none:       forgotten
 *
 * A candidate is a tracee that is no target of the sampler: nothing of it is recorded. What a target forks is a target at once, and a
 * target that calls exec is none any more, but a candidate again.
 *
 * Most programs of a machine are no Pythons, and begin often. So what showed none is remembered by its file (`kinds`) for the exec,
 * and by its pid and start (`none`) for the listing; both are forgotten after a while, as a program may load a Python later. */
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/hash.h"
#include "broker/process.h"
#include "serve/engine.h"
#include "serve/match.h"

#define CANDIDATES_MAX 64u /* at a time: each has descriptors, and is asked about one after the other */
#define KINDS 1024u        /* powers of two; what has no room takes the place of another */
#define NONES 8192u
/* A program that runs its first Python frame needs more CPU time than this, and has mapped its libraries before. */
#define HAS_RUN_NS (3 * SCHEDULE_SHOWS_NS)
#define KIND_NS (600000 * MS)
#define DEATHS 8u           /* from here on it is guessed: for a second, then twice as long each time */
#define GUESS_NS (1000 * MS)
#define NONE_FIRST_NS (60000 * MS)
#define NONE_LAST_NS (3600000 * MS)
#define SCAN_SOON_NS (2000 * MS) /* who began as the session did, or when there were too many */
#define SCAN_NS (60000 * MS)
#define STEP_NS (5 * MS)         /* between looks at candidates that made room */
#define LATE_NS (500 * MS)       /* a record of a begin that is so old: we were stopped, or had no CPU */

/* A program that showed no Python until it ended, `deaths` times in a row; or that ran for long enough and showed none. A Python that
 * lives for some ms may end before it is looked at, too, so of deaths alone no more than a guess is made. */
struct kind {
	uint64_t inode, until;
	uint32_t device, deaths;
	bool sure;
};
enum verdict { MAYBE, GUESSED_NONE, SURE_NONE };

struct none {
	uint64_t start; /* of the process, ns */
	uint64_t until, pause;
	int32_t pid;
};

struct host {
	struct match *match; /* NULL: all */
	struct kind kinds[KINDS];
	struct none nones[NONES];
	/* Of the listing: `at` is the next one. */
	int32_t *pids;
	uint32_t n, at, capacity;
	uint64_t scan_due;
	unsigned scans;
	bool crowded; /* there was no room for a candidate */
};

int host__new(const struct request *request, struct host **ret, struct refusal *ret_refusal)
{
	struct host *host = calloc(1, sizeof(*host));
	const char *why, *at;
	int err = host ? match__new(request->match, &host->match, &why, &at) : -ENOMEM;

	if (err == -EINVAL)
		refusal__set(ret_refusal, "BAD_VALUE", "as name=gunicorn*, cgroup=ci-*.service, user=1000; ! before one leaves out",
			     "\"match\": '%.60s' %s", at, why);
	if (err)
		host = host__free(host);
	*ret = host;
	return err;
}

struct host *host__free(struct host *host)
{
	if (host) {
		match__free(host->match);
		free(host->pids);
	}
	free(host);
	return NULL;
}

/* --- what is no Python --- */

static struct kind *kind_of(struct host *host, uint64_t inode, uint32_t device)
{
	return &host->kinds[hash__mix(inode ^ 0x9e3779b97f4a7c15ull, device ^ 0xc2b2ae3d27d4eb4full) & (KINDS - 1)];
}

static enum verdict verdict_of(struct host *host, uint64_t inode, uint32_t device)
{
	const struct kind *kind = kind_of(host, inode, device);

	if (!inode || kind->inode != inode || kind->device != device || kind->until <= engine__now())
		return MAYBE;
	return kind->sure ? SURE_NONE : GUESSED_NONE;
}

static void note_death(struct host *host, uint64_t inode, uint32_t device)
{
	struct kind *kind = kind_of(host, inode, device);
	uint64_t ns;

	if (!inode)
		return;
	if (kind->inode != inode || kind->device != device)
		*kind = (struct kind){.inode = inode, .device = device};
	if (++kind->deaths < DEATHS)
		return;
	ns = GUESS_NS << (kind->deaths - DEATHS < 10 ? kind->deaths - DEATHS : 10);
	kind->until = engine__now() + (ns < KIND_NS ? ns : KIND_NS);
	kind->sure = false;
}

static struct none *none_of(struct host *host, int32_t pid)
{
	return &host->nones[(uint32_t)pid & (NONES - 1)];
}

/* Start times from /proc are those of ticks. */
static bool is_of(const struct none *none, int32_t pid, uint64_t start)
{
	return none->pid == pid && none->start / NS_PER_TICK == start / NS_PER_TICK;
}

static void note_none(struct host *host, int32_t pid, uint64_t start)
{
	struct none *none = none_of(host, pid);
	bool again = is_of(none, pid, start);

	none->pause = again && none->pause ? none->pause * 2 : NONE_FIRST_NS;
	if (none->pause > NONE_LAST_NS)
		none->pause = NONE_LAST_NS;
	none->pid = pid;
	none->start = start;
	none->until = engine__now() + none->pause;
}

static bool is_none(struct host *host, int32_t pid, uint64_t start)
{
	const struct none *none = none_of(host, pid);

	return is_of(none, pid, start) && none->until > engine__now();
}

/* --- patterns --- */

static bool lets_in(const struct host *host, int32_t pid)
{
	char comm[64] = "", arguments[4096] = "", cgroups[4096] = "";
	struct match_facts facts = {.comm = comm, .arguments = arguments, .cgroups = cgroups};
	ssize_t n;

	if (!host->match)
		return true;
	n = proc__text(pid, "comm", comm, sizeof(comm));
	if (n > 0 && comm[n - 1] == '\n')
		comm[n - 1] = '\0';
	n = proc__text(pid, "cmdline", arguments, sizeof(arguments));
	facts.n = n > 0 ? (size_t)n : 0;
	if (proc__text(pid, "cgroup", cgroups, sizeof(cgroups)) < 0)
		*cgroups = '\0';
	facts.uid_known = !proc__uid(pid, &facts.uid);
	return match__lets_in(host->match, &facts);
}

/* --- candidates --- */

static unsigned count_candidates(const struct session *session)
{
	unsigned n = 0;

	for (const struct tracee *p = session->tracees; p; p = p->next)
		n += p->candidate && !p->dead;
	return n;
}

/* It is asked about again if it is one already: it runs another image now. */
static void ask(struct session *session, struct tracee *tracee)
{
	tracee->candidate = true;
	tracee__ask(session->engine, tracee);
}

/* Did it come and go while nobody looked? What it was cannot be known any more: it may have been a Python. */
static bool was_missed(const struct record_started *started)
{
	const struct record_task *task = &started->header.task;

	return engine__now() > started->header.time + LATE_NS && !proc__alive((int32_t)task->tgid, task->process_start);
}

void host__started(struct session *session, const struct record_started *started)
{
	const struct record_task *task = &started->header.task;
	struct host *host = session->host;
	struct tracee *tracee = tracee__find(session, (int32_t)task->tgid);
	enum verdict verdict;

	if (session->state != SESSION_RUNNING)
		return;
	verdict = verdict_of(host, started->inode, started->device);
	host->crowded |= verdict == GUESSED_NONE;
	if (verdict != SURE_NONE && was_missed(started))
		profile__loss(session->profile, LOSS_CHILD_MISSED, 1);
	if (verdict != MAYBE || !lets_in(host, (int32_t)task->tgid)) {
		if (tracee)
			tracee__drop(session->engine, tracee);
		return;
	}
	if (!tracee && count_candidates(session) < CANDIDATES_MAX)
		tracee = tracee__new(session, (int32_t)task->tgid);
	if (!tracee) { /* the listing finds it, if it is still there then */
		host->crowded = true;
		return;
	}
	if (!tracee->start)
		tracee->start = task->process_start;
	tracee->exec = task->exec;
	tracee->exec_known = true;
	tracee->exec_cpu = started->cpu_time;
	tracee->exec_time = started->header.time;
	tracee->inode = started->inode;
	tracee->device = started->device;
	tracee->none_until = started->header.time + SCHEDULE_SHOWS_NS;
	ask(session, tracee);
}

bool host__has_run(const struct tracee *tracee)
{
	uint64_t spent;

	return tracee->exec_known && !proc__cpu_time(tracee->pid, &spent) && spent > tracee->exec_cpu + HAS_RUN_NS;
}

/* One that waits for long before it does anything is looked at again by the listing. */
void host__none(struct engine *engine, struct tracee *tracee)
{
	struct host *host = tracee->session->host;

	if (tracee->inode && host__has_run(tracee))
		*kind_of(host, tracee->inode, tracee->device) =
			(struct kind){.inode = tracee->inode, .device = tracee->device, .until = engine__now() + KIND_NS, .sure = true};
	note_none(host, tracee->pid, tracee->start);
	tracee__drop(engine, tracee);
}

void host__died(struct engine *engine, struct tracee *tracee)
{
	if (tracee->state != TRACEE_KNOWN)
		note_death(tracee->session->host, tracee->inode, tracee->device);
	tracee__drop(engine, tracee);
}

void host__found(struct tracee *tracee)
{
	struct broker_message message = {.kind = BROKER_ADOPT, .pid = tracee->pid};
	struct kind *kind = kind_of(tracee->session->host, tracee->inode, tracee->device);

	if (kind->inode == tracee->inode && kind->device == tracee->device)
		*kind = (struct kind){};
	session__ask(tracee->session, &message, &tracee->token);
}

/* It is sampled from now on; what it ran before is in the CPU times that are listed now. */
void host__adopted(struct engine *engine, struct session *session, const struct broker_message *message)
{
	struct tracee *tracee = tracee__find(session, message->pid);

	if (!tracee || !tracee->candidate || tracee->token != message->token || tracee->state != TRACEE_KNOWN)
		return; /* it has called exec since */
	if (message->error != BROKER_ERROR_OK) {
		tracee__drop(engine, tracee);
		return;
	}
	tracee->candidate = false;
	tracee->adopted = tracee->authorised = tracee->list = true;
	tracee__announce(tracee);
	if (tracee->exec_known)
		tracee__show(session, (uint32_t)tracee->pid, tracee->exec);
	native__enter(tracee);
	native__poll(tracee);
}

/* --- the listing --- */

static void list(struct host *host)
{
	DIR *directory = opendir("/proc");
	struct dirent *entry;

	host->n = host->at = 0;
	while (directory && (entry = readdir(directory))) {
		int32_t pid = atoi(entry->d_name);

		if (pid > 0 && ARRAY_ADD(host->pids, host->n, host->capacity, pid))
			break;
	}
	if (directory)
		closedir(directory);
}

static void look_at(struct session *session, int32_t pid)
{
	struct host *host = session->host;
	struct process_stat stat;
	struct tracee *tracee = tracee__find(session, pid);

	/* Its RECORD_STARTED did not come. */
	if (tracee && tracee->candidate && tracee->state == TRACEE_ASKED && !tracee->token)
		ask(session, tracee);
	if (tracee || process__stat(pid, &stat) || stat.kernel_thread || stat.state == 'Z')
		return;
	stat.start_ticks = clock__of_proc(stat.start_ticks * NS_PER_TICK);
	if (is_none(host, pid, stat.start_ticks) || !lets_in(host, pid))
		return;
	tracee = tracee__new(session, pid);
	if (!tracee)
		return;
	tracee->start = stat.start_ticks;
	ask(session, tracee);
}

/* Processes that no record told of: of before the session, of a full ring, of a crowd; those that load a Python late, and those that
 * became another user's. CPUs that came meanwhile get their clocks, too. */
static void begin_scan(struct session *session, uint64_t now)
{
	struct broker_message clocks = {.kind = BROKER_SET_CLOCKS, .number = 1};
	struct host *host = session->host;

	list(host);
	tracee__sweep(session);
	if (host->scans++)
		session__ask(session, &clocks, NULL);
	host->crowded = false;
	host->scan_due = now + (host->scans == 1 ? SCAN_SOON_NS : SCAN_NS);
}

void host__step(struct engine *engine, struct session *session, uint64_t now, uint64_t *ret_next)
{
	struct host *host = session->host;
	unsigned n;

	if (host->crowded && host->scan_due > now + SCAN_SOON_NS)
		host->scan_due = now + SCAN_SOON_NS;
	if (host->scan_due <= now && host->at == host->n)
		begin_scan(session, now);
	if (host->at < host->n) {
		for (n = count_candidates(session); host->at < host->n && n < CANDIDATES_MAX; n += !!tracee__find(session, host->pids[host->at++]))
			look_at(session, host->pids[host->at]);
	}
	if (host->at < host->n && now + STEP_NS < *ret_next)
		*ret_next = now + STEP_NS;
	if (host->scan_due < *ret_next)
		*ret_next = host->scan_due;
}
