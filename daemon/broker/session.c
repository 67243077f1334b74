/* SPDX-License-Identifier: MIT */
/* A session, from request to end. The order of an attach is a matter of security:
 *
 *    helper   opens the process, asks as the client whether it may be read         authorise__begin(), _finish()
 *    kernel   notes what the process is: its memory, its credentials               note()
 *    helper   asks once more                                                       authorise__again()
 *    kernel   notes again
 *
 * Only if both notes are equal does the sampler get the process as a target, with that note: from then on the programs
 * compare it with what they meet (bpf/authorised.h). An exec in between makes the notes differ, and so the attach
 * fails.
 *
 * What a session opened is in its struct, so session__free() undoes any half of it. */
#include "broker/session.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "broker/coroutine.h"
#include "broker/family.h"
#include "broker/policy.h"

/* The programs, links, maps and pidfds of a session. Threads and CPU clocks are counted one by one. */
#define SESSION_DESCRIPTORS 64u

void reply__fail(struct reply *reply, enum broker_error error, int err)
{
	reply__close(reply);
	reply->message.error = error;
	reply->message.error_errno = err < 0 ? -err : err;
}

void reply__fail_at(struct reply *reply, const struct charge *charge, enum broker_error error, int err)
{
	reply__fail(reply, error, err);
	if (err == -EDQUOT && charge->refused)
		broker_message__set_limit(&reply->message, &charge->reached);
}

void reply__close(struct reply *reply)
{
	for (unsigned i = reply->borrowed; i < reply->n; i++)
		close(reply->fds[i]);
	reply->n = reply->borrowed = 0;
}

/* Moves the fds of the process to the reply. */
static void fill_process(struct reply *reply, pid_t pid, const struct process_stat *stat,
			 struct process_fds *fds)
{
	struct broker_message *m = &reply->message;

	m->pid = pid;
	m->parent = stat->parent;
	m->process_start = clock__of_proc(stat->start_ticks * NS_PER_TICK);
	m->arg_start = stat->arg_start;
	m->start_data = stat->start_data;
	reply->fds[reply->n++] = fds->pidfd;
	reply->fds[reply->n++] = fds->mem;
	reply->fds[reply->n++] = fds->maps;
	*fds = PROCESS_FDS_NONE;
}

/* For root nothing is noted: it may read every process. */
static int note(struct sampler *sampler, const struct identity *client, pid_t pid, struct target *ret)
{
	int err;

	*ret = (struct target){.state = TARGET_ANY};
	if (identity__may_all(client))
		return 0;
	err = sampler__note(sampler, pid, ret);
	/* It may be dumpable just while the client is asked about, and hide before and after, the same both times. */
	return !err && ret->hides ? -EACCES : err;
}

/* May the client read the process that is open? *ret is what was authorised: the same before and after the check, so
 * the process did not change meanwhile. */
static int authorise(struct sampler *sampler, const struct identity *client, enum ptrace_rule rule, pid_t pid,
		     const struct process_fds *fds, const struct process_stat *stat, struct target *ret)
{
	struct target after;
	int err = sampler ? note(sampler, client, pid, ret) : 0;

	err = err ?: authorise__again(client, pid, rule, fds, stat);
	if (!err && sampler)
		err = note(sampler, client, pid, &after);
	if (!err && sampler && memcmp(ret, &after, sizeof(after)))
		err = -ESTALE;
	return err;
}

/* Opens the process and its image, if the client may read it. */
static int open_authorised(struct sampler *sampler, pid_t pid, const struct identity *client, enum ptrace_rule rule,
			   struct process_fds *ret, struct process_stat *ret_stat, struct target *ret_as)
{
	struct helper helper;
	struct target after;
	int err = sampler ? note(sampler, client, pid, ret_as) : 0;

	err = err ?: authorise__begin(client, pid, rule, &helper);
	if (!err)
		err = authorise__finish(&helper, ret, ret_stat);
	if (err)
		return err;
	err = sampler ? note(sampler, client, pid, &after) : 0;
	if (!err && sampler && memcmp(ret_as, &after, sizeof(after)))
		err = -ESTALE;
	if (err)
		process__close(ret);
	return err;
}

/* The engine checked its client's request before; an engine that sends another one is broken or taken over. So there is
 * no sentence for it. */
static enum broker_error check_request(const struct broker_message *request)
{
	uint64_t ring = request->ring_bytes;

	if (!request->rate || request->rate > BROKER_RATE_MAX)
		return BROKER_ERROR_INTERNAL;
	if (request->flags == BROKER_DUMP)
		return BROKER_ERROR_OK;
	if (request->flags & BROKER_HOST && (request->pid || request->flags & BROKER_WALL || !(request->flags & BROKER_SUBPROCESSES)))
		return BROKER_ERROR_INTERNAL;
	if (request->flags & ~(BROKER_SUBPROCESSES | BROKER_KERNEL | BROKER_WALL | BROKER_GIL | BROKER_HOST | BROKER_NATIVE_MASK) ||
	    (request->flags & BROKER_NATIVE_MASK) >> BROKER_NATIVE_SHIFT > BROKER_NATIVE_FULL)
		return BROKER_ERROR_INTERNAL;
	if (ring && (ring < 4096 || ring > BROKER_RING_BYTES_MAX || (ring & (ring - 1))))
		return BROKER_ERROR_INTERNAL;
	return BROKER_ERROR_OK;
}

/* Same rule as perf_event_open's for kernel stacks, which reveal kernel addresses. */
static bool may_see_kernel(const struct identity *client)
{
	bool capable = identity__may_kernel(client);

	return capable || policy__perf_paranoid() < POLICY_NO_KERNEL;
}

/* --- samplers that are loaded --- */

static void drop_used(struct spare *spare)
{
	spare->used = sampler__free(spare->used);
	identity__free(&spare->owner);
	spare->owner = (struct identity){};
}

void spent__free(struct spent *spent)
{
	spent->sampler = sampler__free(spent->sampler);
	charge__end(&spent->charge);
}

void spare__return(struct spare *spare, struct spent *spent, struct identity *owner)
{
	bool failed;

	/* One that is still being emptied would have to be waited for. */
	if (spent->sampler && spare->keeps && (!spare->used || sampler__is_empty(spare->used, &failed) || failed)) {
		drop_used(spare);
		spare->used = sampler__recycle(take_ptr(spent->sampler));
		spare->owner = *owner;
		*owner = (struct identity){};
	}
}

void spare__free(struct spare *spare)
{
	spare->sampler = sampler__free(spare->sampler);
	drop_used(spare);
}

/* A used sampler's rings and tables still contain bytes of its session: only the same client may get it. */
static struct sampler *take_used(struct spare *spare, const struct identity *client, const struct load_options *options)
{
	struct sampler *sampler;
	bool failed;

	if (!spare->used || !identity__same(&spare->owner, client) || !sampler__fits(spare->used, options) || !sampler__is_empty(spare->used, &failed))
		return NULL;
	sampler = take_ptr(spare->used);
	drop_used(spare);
	return sampler;
}

/* In this order: one that this client used before, one that was loaded ahead, a new one (40 ms, in which the broker
 * serves nobody). */
static struct sampler *take_sampler(const struct broker_message *request, const struct identity *client, struct spare *spare,
				    bool verbose, enum broker_error *ret_error, int *ret_err)
{
	struct load_options options = load_options__of(request->flags, verbose);
	const bool others = spare->used && !identity__same(&spare->owner, client);
	struct sampler *sampler = NULL;

	options.ring_bytes = request->ring_bytes;
	*ret_error = BROKER_ERROR_OK;
	sampler = take_used(spare, client, &options);
	if (!sampler && spare->sampler && sampler__fits(spare->sampler, &options)) {
		sampler = take_ptr(spare->sampler);
		spare->wanted = others;
	}
	if (!sampler) {
		*ret_err = sampler__load(&options, &sampler, ret_error);
		spare->wanted = true;
	}
	if (!sampler)
		return NULL;
	spare->options = options;
	*ret_err = sampler__start(sampler);
	if (*ret_err)
		*ret_error = BROKER_ERROR_NO_BPF;
	return *ret_err ? sampler__free(sampler) : sampler;
}

/* Loads the programs of a dump. From here on it is pinned to the image that the process runs now. */
static int load_dump(struct session *session, const struct identity *client, const struct process_fds *fds, bool verbose,
		     enum broker_error *ret_error)
{
	int err = dumper__load(session->target, fds->pidfd, identity__may_all(client), verbose, &session->dumper, ret_error);

	return err ? err : dumper__pin(session->dumper);
}

static void give_maps(const struct session *session, int ret[BROKER_MAP_FDS])
{
	if (session->dumper) {
		dumper__fds(session->dumper, ret);
		return;
	}
	ret[0] = sampler__ring(session->sampler);
	ret[1] = sampler__images(session->sampler);
	ret[2] = sampler__samples(session->sampler);
	ret[3] = sampler__processes(session->sampler);
}

static bool lives(const struct session *session)
{
	return !poll(&(struct pollfd){.fd = session->pidfd, .events = POLLIN}, 1, 0);
}

/* Does the pid belong to this session: the target or a descendant? A dump has its target only. The pidfd makes this
 * certain: while the target lives, its pid is its own. It is asked before and after the parents are followed. To a session of a
 * host all processes belong. */
static bool may_open(const struct session *session, const struct identity *client, pid_t pid)
{
	if (session->flags & BROKER_HOST)
		return pid > 0;
	if (pid == session->target && lives(session))
		return true;
	if (!session->sampler)
		return false;
	return sampler__is_target(session->sampler, pid) ||
	       (lives(session) && family__nearest(client->payer, pid, &session->target, 1) && lives(session));
}

/* --- processes for which the client was authorised --- */

static struct known_process *known_of(struct session *session, pid_t pid)
{
	for (unsigned i = 0; i < SESSION_KNOWN_MAX; i++)
		if (session->known[i].pid == pid)
			return &session->known[i];
	return NULL;
}

/* Remembers what was authorised; recognises() compares with it. For root nothing was noted: the current state is
 * taken. */
static void remember(struct session *session, const struct identity *client, pid_t pid, const struct process_stat *stat, const struct target *as)
{
	struct known_process *known = known_of(session, pid);
	int err = 0;

	if (!session->sampler)
		return;
	if (!known)
		known = &session->known[session->next_known++ % SESSION_KNOWN_MAX];
	known->as = *as;
	known->start_ticks = stat->start_ticks;
	if (identity__may_all(client))
		err = sampler__note(session->sampler, pid, &known->as);
	known->pid = err ? 0 : pid;
}

/* Still the process that was authorised, according to the kernel: no helper is needed to check again. */
static bool recognises(struct session *session, pid_t pid, struct process_stat *ret)
{
	const struct known_process *known = session->sampler ? known_of(session, pid) : NULL;
	struct target now;

	if (!known || sampler__note(session->sampler, pid, &now) || memcmp(&now, &known->as, sizeof(now)))
		return false;
	*ret = (struct process_stat){.start_ticks = known->start_ticks};
	return true;
}

static struct perf_options timers_of(const struct session *session)
{
	return (struct perf_options){.rate = session->rate,
				     .follow_children = session->flags & BROKER_SUBPROCESSES,
				     .program = session->dumper ? dumper__program(session->dumper) : sampler__program(session->sampler)};
}

/* Adds one child that runs already and that the client may read. Errors that concern only this child (it ended) leave
 * it out; those of resources end the attach. */
static int add_child(struct session *session, const struct identity *client, pid_t pid, const struct target *as,
		     const struct perf_options *perf)
{
	struct target after;
	int err;

	/* A child that was forked after the target got its events has inherited them, and
	 * the sampler knows it. */
	if (sampler__is_target(session->sampler, pid))
		return 0;
	if (note(session->sampler, client, pid, &after) || memcmp(as, &after, sizeof(after)))
		return 0;
	if (sampler__add_target(session->sampler, pid, as))
		return 0;
	err = perf_events__open(&session->events, pid, perf);
	if (!err)
		session->children[session->n_children++] = pid;
	return err == -EMFILE || err == -ENOMEM || err == -EDQUOT ? err : 0;
}

/* Adds the descendants that run already; one helper checks them all. Those that the client may not read, or that
 * ended meanwhile, are left out. */
static int open_descendants(struct session *session, const struct identity *client,
			    const struct perf_options *perf)
{
	_cleanup_free_ struct target *as = NULL;
	_cleanup_free_ int *denied = NULL;
	_cleanup_free_ pid_t *pids = NULL;
	size_t n, i;
	int err;

	err = family__descendants(client->payer, session->target, &pids, &n);
	if (err)
		return err;
	session->children = calloc(n + 1, sizeof(*session->children));
	denied = calloc(n + 1, sizeof(*denied));
	as = calloc(n + 1, sizeof(*as));
	if (!session->children || !denied || !as)
		return -ENOMEM;
	for (i = 0; i < n && !err; i++) {
		if (note(session->sampler, client, pids[i], &as[i]))
			as[i] = (struct target){}; /* matches nothing */
		err = coroutine__share();
	}
	err = err ?: authorise__many(client, policy__of_process(client, session->started), pids, n, denied);
	for (i = 0; i < n && !err; i++) {
		if (!denied[i])
			err = add_child(session, client, pids[i], &as[i], perf);
		err = err ? err : coroutine__share();
	}
	return err;
}

/* Charged before anything is opened, so that a user over the limit costs others no time. */
static int charge(struct session *session, const struct charge *payer, const struct broker_message *request)
{
	struct load_options options = load_options__of(request->flags, false);
	struct charge *charge = &session->charge;
	int err;

	options.ring_bytes = request->ring_bytes;
	charge__begin_like(charge, payer);
	session->events.charge = session->clocks.charge = charge;
	err = charge__take(charge, LIMIT_SESSIONS, 1);
	err = err ?: charge__take(charge, LIMIT_SAMPLES, request->rate);
	if (!err)
		err = charge__take(charge, LIMIT_DESCRIPTORS, SESSION_DESCRIPTORS);
	if (err || !charge->user)
		return err;
	return charge__take(charge, LIMIT_MAPS, request->flags & BROKER_DUMP ? dumper__bytes() : sampler__bytes(&options, load__cpus()));
}

static struct session *new_session(const struct broker_message *request)
{
	struct session *session = calloc(1, sizeof(*session));

	if (!session)
		return NULL;
	session->pidfd = -1;
	session->target = request->pid;
	session->rate = request->rate;
	session->flags = request->flags;
	return session;
}

static void fill_attached(const struct session *session, const struct broker_message *request, struct reply *reply)
{
	give_maps(session, reply->fds);
	reply->n = reply->borrowed = BROKER_MAP_FDS;
	reply->message.rate = request->rate;
	reply->message.flags = request->flags;
	reply->message.ring_bytes = request->ring_bytes ? request->ring_bytes : BROKER_RING_BYTES;
	reply->message.threads = perf_events__count(&session->events);
}

struct session *session__attach_host(const struct broker_message *request, const struct identity *client, const struct charge *payer,
				     struct spare *spare, bool verbose, struct reply *reply)
{
	enum broker_error error = check_request(request) ?: policy__of_client(client, false);
	struct session *session = error ? NULL : new_session(request);
	int err = error || session ? 0 : -ENOMEM;

	err = err || error ? err : charge(session, payer, request);
	if (!err && !error)
		session->sampler = take_sampler(request, client, spare, verbose, &error, &err);
	if (err || error) {
		reply__fail(reply, error ? error : process__error(err), err);
		return session__free(session);
	}
	sampler__set_rate(session->sampler, request->rate);
	fill_attached(session, request, reply);
	return session;
}

/* Waits in many places; `client`, `clients`, `payer` and `spare` belong to the engine, which outlives its request. */
struct session *session__attach(const struct broker_message *request, const struct identity *client, const struct known *clients,
				const struct charge *payer, struct spare *spare, bool verbose, struct reply *reply)
{
	struct process_fds fds = PROCESS_FDS_NONE;
	struct helper helper = HELPER_NONE;
	struct session *session = NULL;
	struct process_stat stat;
	struct perf_options perf;
	struct target as = {}, after;
	enum broker_error error;
	enum ptrace_rule rule;
	/* `denied`: the client may not, or the process is gone: as important as err, but with another answer. */
	int err = 0, denied;

	error = check_request(request) ?: policy__of_client(client, request->flags & BROKER_DUMP);
	if (!error && request->flags & BROKER_KERNEL && !may_see_kernel(client))
		error = BROKER_ERROR_KERNEL_STACKS;
	if (error)
		goto fail;
	session = new_session(request);
	if (!session) {
		err = -ENOMEM;
		goto fail;
	}
	err = charge(session, payer, request);
	if (err)
		goto fail;
	rule = policy__of_process(client, false);
	if (rule == PTRACE_RULE_ATTACH) { /* only then it matters who started it */
		session->started = known__is_above(clients, client->payer, (pid_t)request->number, request->pid);
		rule = policy__of_process(client, session->started);
	}
	err = authorise__begin(client, request->pid, rule, &helper);
	if (err)
		goto fail;
	denied = authorise__finish(&helper, &fds, &stat);
	/* Only after the helper has answered: loading a sampler blocks all clients. */
	if (!denied && request->flags & BROKER_DUMP)
		err = load_dump(session, client, &fds, verbose, &error);
	else if (!denied)
		session->sampler = take_sampler(request, client, spare, verbose, &error, &err);
	if (!denied && !err && !error) /* with a sampler, the kernel's state can be noted */
		denied = authorise(session->sampler, client, rule, request->pid, &fds, &stat, &as);
	if (denied) {
		error = denied == -EPERM && rule != PTRACE_RULE_READ ? BROKER_ERROR_PTRACE_SCOPE : BROKER_ERROR_OK;
		err = denied;
	}
	if (err || error)
		goto fail;
	session->pidfd = fcntl(fds.pidfd, F_DUPFD_CLOEXEC, 0);
	if (session->pidfd < 0) {
		err = -errno;
		goto fail;
	}
	/* Wait tracking starts before the events: a thread is known to be off the CPU if it was seen leaving, or has
	 * not come back since now. */
	if (session->sampler) {
		sampler__set_rate(session->sampler, request->rate);
		sampler__watch_waits(session->sampler);
		err = sampler__add_target(session->sampler, session->target, &as);
	}
	if (err)
		goto fail;
	perf = timers_of(session);
	err = perf_events__open(&session->events, session->target, &perf);
	if (err == -EPERM || err == -EACCES || err == -ENOENT || err == -EOPNOTSUPP)
		error = BROKER_ERROR_NO_PERF;
	/* The sampler ignores a process that has changed since; so the attach has to fail, too. */
	if (!err && session->sampler)
		err = note(session->sampler, client, session->target, &after);
	if (!err && session->sampler && memcmp(&as, &after, sizeof(as)))
		err = -ESTALE;
	if (!err && perf.follow_children)
		err = open_descendants(session, client, &perf);
	if (err)
		goto fail;
	remember(session, client, session->target, &stat, &as);
	fill_attached(session, request, reply);
	fill_process(reply, session->target, &stat, &fds);
	return session;
fail:
	process__close(&fds);
	if (session)
		reply__fail_at(reply, &session->charge, error ? error : process__error(err), err);
	else
		reply__fail(reply, error ? error : process__error(err), err);
	return session__free(session);
}

/* Events that tick for nobody any more cannot be told from others (perf_events__renew). So that a shell whose commands call
 * sudo for hours does not use up descriptors, all are closed now and then, and opened for whoever lives. Ticks that are
 * missed meanwhile are counted. */
#define RENEWED_MOST 256u

static void renew_events(struct session *session, pid_t pid)
{
	const struct perf_options timers = timers_of(session);
	_cleanup_free_ pid_t *pids = NULL;
	uint32_t n = 0;

	if (++session->n_renewed < RENEWED_MOST || sampler__targets(session->sampler, &pids, &n)) {
		perf_events__renew(&session->events, pid, &timers);
		return;
	}
	session->n_renewed = 0;
	perf_events__close(&session->events);
	for (uint32_t i = 0; i < n; i++)
		perf_events__open(&session->events, pids[i], &timers);
	perf_events__enable(&session->events);
}

void session__open_process(struct session *session, const struct identity *client, const struct broker_message *request, struct reply *reply)
{
	pid_t pid = request->pid;
	struct process_fds fds;
	struct process_stat stat;
	struct target as;
	int err;

	if (!may_open(session, client, pid)) {
		reply__fail(reply, BROKER_ERROR_NO_PROCESS, ESRCH);
		return;
	}
	err = open_authorised(session->sampler, pid, client, policy__of_process(client, session->started), &fds, &stat, &as);
	/* Only now that its pidfd is open can the pid no longer be reused. */
	if (!err && !may_open(session, client, pid)) {
		process__close(&fds);
		err = -ESRCH;
	}
	/* A child may have its events by inheritance alone: announce its image now. A process that is no target has
	 * no samples. */
	if (!err && session->sampler)
		sampler__publish(session->sampler, pid, &as);
	if (!err)
		remember(session, client, pid, &stat, &as);
	/* As in an attach, the sampler compares what ticks with what was authorised. Without them, ticks are missed, which is counted. */
	if (!err && request->number && session->sampler)
		renew_events(session, pid);
	if (err)
		reply__fail(reply, process__error(err), err);
	else
		fill_process(reply, pid, &stat, &fds);
}

/* It is the process that was opened, before and after: who got its pid meanwhile, or has called exec, is no target. */
void session__adopt(struct session *session, const struct identity *client, const struct broker_message *request, struct reply *reply)
{
	pid_t pid = request->pid;
	struct process_stat stat;
	struct target as;
	int err = session->flags & BROKER_HOST && recognises(session, pid, &stat) ? 0 : -ESRCH;

	err = err ?: note(session->sampler, client, pid, &as);
	err = err ?: sampler__add_target(session->sampler, pid, &as);
	if (!err && !recognises(session, pid, &stat)) {
		sampler__remove_target(session->sampler, pid);
		err = -ESRCH;
	}
	if (err)
		reply__fail(reply, process__error(err), err);
}

static int open_file(const struct broker_message *request, const struct identity *client,
		     const struct process_stat *stat, struct openers *openers, struct reply *reply)
{
	if (request->kind == BROKER_OPEN_PERF_MAP)
		return file__open_perf_map(openers, client->payer, request->pid, stat->start_ticks, &reply->opener, &reply->message.number);
	if (request->kind == BROKER_OPEN_DEBUG)
		return file__open_debug(openers, request->pid, stat->start_ticks, client, request->debug_path, &reply->opener);
	return file__open_mapped(openers, client->payer, request->pid, request->start, request->end, &reply->opener);
}

void session__open_file(struct session *session, const struct identity *client,
			const struct broker_message *request, struct openers *openers, struct reply *reply)
{
	struct process_fds fds = PROCESS_FDS_NONE;
	pid_t pid = request->pid;
	struct process_stat stat;
	bool known, opened;
	int err;

	/* The kernel decides which file it is: below one directory, with the rights of the client. */
	if (request->kind == BROKER_OPEN_DEBUG && !memchr(request->debug_path, 0, sizeof(request->debug_path))) {
		reply__fail(reply, BROKER_ERROR_INTERNAL, EINVAL);
		return;
	}
	if (!may_open(session, client, pid)) {
		reply__fail(reply, BROKER_ERROR_NO_PROCESS, ESRCH);
		return;
	}
	known = recognises(session, pid, &stat);
	err = known ? 0
		    : open_authorised(NULL, pid, client, policy__of_process(client, session->started), &fds, &stat, NULL);
	err = err ?: open_file(request, client, &stat, openers, reply);
	opened = !err;
	if (!err) /* did the mapping belong to the image that the client may read? */
		err = known ? (recognises(session, pid, &stat) ? 0 : -ESTALE) : authorise__again(client, pid, policy__of_process(client, session->started), &fds, &stat);
	if (!err && !may_open(session, client, pid))
		err = -ESRCH;
	process__close(&fds);
	reply->message.pid = pid;
	reply->message.start = request->start;
	reply->message.end = request->end;
	if (opened && err)
		helper__end(reply->opener);
	if (err) {
		reply->opener = NULL;
		reply__fail(reply, err == -ENOENT ? BROKER_ERROR_NO_PROCESS : process__error(err), err);
	}
}

void session__open_kallsyms(struct session *session, struct reply *reply)
{
	int fd = session->flags & BROKER_KERNEL ? open("/proc/kallsyms", O_RDONLY | O_CLOEXEC) : -1;

	if (fd < 0)
		reply__fail(reply, BROKER_ERROR_NOT_YOURS, session->flags & BROKER_KERNEL ? errno : EPERM);
	else
		reply->fds[reply->n++] = fd;
}

static void close_events(struct session *session)
{
	cpu_clocks__close(&session->clocks);
	for (uint32_t i = 0; i < BROKER_WATCHED_MAX; i++)
		perf_events__close(&session->watched[i]);
	perf_events__close(&session->events);
}

/* Called again with true, CPUs that came online since get theirs, too. */
void session__set_clocks(struct session *session, bool on, struct reply *reply)
{
	const struct perf_options timers = timers_of(session);
	int err = 0;

	if (!on)
		cpu_clocks__close(&session->clocks);
	else if (session->sampler)
		err = cpu_clocks__open(&session->clocks, &timers);
	if (err)
		reply__fail_at(reply, &session->charge, err == -EDQUOT ? BROKER_ERROR_LIMIT : BROKER_ERROR_NO_PERF, err);
}

/* What the session's user pays for is the rate that it began with. */
void session__set_rate(struct session *session, uint32_t rate, struct reply *reply)
{
	if (session->sampler && rate && rate <= session->rate)
		sampler__lower_rate(session->sampler, rate);
	else
		reply__fail(reply, BROKER_ERROR_INTERNAL, EINVAL);
}

/* The sampler itself decides at each switch whether the client may see the thread. */
void session__watch(struct session *session, const struct broker_message *request, struct reply *reply)
{
	struct perf_options options = timers_of(session);
	struct perf_events *events = request->slot < BROKER_WATCHED_MAX ? &session->watched[request->slot] : NULL;
	int err = -ESRCH;

	options.switches = true;
	if (events && session->sampler && sampler__is_target(session->sampler, request->pid)) {
		perf_events__close(events);
		events->charge = &session->charge;
		err = perf_events__add(events, request->pid, (pid_t)request->number, &options);
	}
	if (err)
		reply__fail_at(reply, &session->charge, err == -EDQUOT ? BROKER_ERROR_LIMIT : BROKER_ERROR_NO_PERF, err);
}

/* Timers first: afterwards no sample can come that is later than the end of waits. */
void session__end(struct session *session, struct reply *reply)
{
	close_events(session);
	if (session->sampler)
		reply->message.start = sampler__end_waits(session->sampler);
}

void session__resume(struct session *session, struct reply *reply)
{
	int err;

	if (session->sampler)
		reply->message.start = sampler__begin_waits(session->sampler);
	err = perf_events__enable(&session->events);
	reply->message.pid = session->target;
	reply->message.threads = perf_events__count(&session->events);
	if (err)
		reply__fail(reply, BROKER_ERROR_NO_PERF, err);
}

void session__add_pool(struct session *session, const struct broker_message *request, struct reply *reply)
{
	int fd = -1, err;

	reply->message.pool_bytes = request->pool_bytes;
	session->charge.refused = false;
	err = session->sampler ? charge__take(&session->charge, LIMIT_MAPS, request->pool_bytes) : -EDQUOT;
	if (!err) {
		err = sampler__add_pool(session->sampler, request->pool_bytes, &reply->message.number, &fd);
		if (err)
			charge__give(&session->charge, LIMIT_MAPS, request->pool_bytes);
	}
	if (err)
		reply__fail_at(reply, &session->charge, err == -EDQUOT ? BROKER_ERROR_LIMIT : BROKER_ERROR_NO_MEMORY, err);
	else
		reply->fds[reply->n++] = fd;
}

/* The maps stay charged until the engine has exited, as it may still read them; all else is given back at once. */
struct session *session__leave(struct session *session, struct spent *spent)
{
	if (!session->sampler)
		return session__free(session);
	close_events(session);
	sampler__stop(session->sampler);
	spent->sampler = take_ptr(session->sampler);
	spent->charge = session->charge;
	session->charge = (struct charge){};
	for (int limit = 0; limit < LIMIT_COUNT; limit++)
		if (limit != LIMIT_MAPS)
			charge__give(&spent->charge, limit, spent->charge.taken[limit]);
	return session__free(session);
}

struct session *session__free(struct session *session)
{
	if (!session)
		return NULL;
	close_events(session);
	if (session->pidfd >= 0)
		close(session->pidfd);
	sampler__free(session->sampler);
	dumper__free(session->dumper);
	free(session->children);
	charge__end(&session->charge);
	free(session);
	return NULL;
}
