/* SPDX-License-Identifier: MIT */
/* Native stacks of a session. It connects three that know nothing of each other: modules (what lies where), the broker
 * (which opens files, and adds pools to the sampler), and the session's processes.
 *
 *    modules --struct modules_host--> here --message--> broker
 *    modules <--modules__file() and others-- here <--answer with a descriptor-- broker
 *
 * One question of each kind is open at a time. Answers are matched by their token, as an answer may come after the
 * question has lost its meaning. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/blocking.h"
#include "codemap/namer.h"
#include "serve/engine.h"

static struct session *of(struct modules_host *host)
{
	return (struct session *)((char *)host - offsetof(struct session, modules_host));
}

/* --- what modules ask for --- */

/* struct modules_host: the mapping start..end of pid, whose file the broker opens by /proc/PID/map_files. Answer:
 * BROKER_FILE. */
static int open_file(struct modules_host *host, int32_t pid, uint64_t start, uint64_t end)
{
	struct broker_message message = {.kind = BROKER_OPEN_FILE, .pid = pid, .start = start, .end = end};

	return session__ask(of(host), &message, &of(host)->file_token);
}

/* A further BPF map for unwind tables, of this many bytes. Answer: BROKER_POOL. */
static int add_pool(struct modules_host *host, uint64_t bytes)
{
	struct broker_message message = {.kind = BROKER_ADD_POOL, .pool_bytes = bytes};

	return session__ask(of(host), &message, &of(host)->pool_token);
}

/* /tmp/perf-PID.map. Answer: BROKER_PERF_MAP, also with the pid that the process has in its own namespace: its name has
 * that. */
static int open_perf_map(struct modules_host *host, int32_t pid)
{
	struct broker_message message = {.kind = BROKER_OPEN_PERF_MAP, .pid = pid};

	return session__ask(of(host), &message, &of(host)->map_token);
}

/* NULL: the sampler forgets the process. */
static int set_process(struct modules_host *host, const struct native_key *key,
		       const struct unwind_process *process)
{
	struct session *session = of(host);

	return process ? processes__put(session->processes, session->ring, key, process)
		       : processes__drop(session->processes, session->ring, key);
}

/* Whose mappings does a process use that has none of its own? A forked child that has mapped nothing has what its
 * parent had at the fork. That holds for its samples even if it ended, or executed another program, before they are
 * handed on. `later`: what its pid runs at present, which may be another image. */
static struct modules_process *inherited(struct modules_host *host, const struct record_task *task, uint64_t time,
					 struct modules_process *later)
{
	struct session *session = of(host);
	const struct tracee *tracee = tracee__forked_as(session, task);
	struct modules_process *process = NULL;
	unsigned i;

	if (tracee && tracee->native_from)
		process = modules__numbered(session->modules, tracee->native_from);
	if (process || later)
		return process ?: later;
	tracee = tracee ?: tracee__find(session, (int32_t)task->tgid);
	for (i = 0; tracee && !process && i < GENERATIONS; i++) {
		process = modules__process(session->modules, tracee->parent, time);
		tracee = tracee__find(session, tracee->parent);
	}
	return process;
}

/* --- files that the code map asks for --- */

/* The namer's thread wrote to its eventfd: it needs a file (debug information, or /proc/kallsyms) that only the broker
 * can open. One question at a time; while the session ends, the answer is "no". */
static void asked(struct engine *engine, struct watch *watch, uint32_t events)
{
	struct session *session = (struct session *)((char *)watch - offsetof(struct session, codemap_watch));
	struct broker_message message = {.token = engine__token(engine), .session = session->broker};
	const char *path;
	int err;

	if (!codemap__question(session->codemap, &message.pid, &path))
		return;
	message.kind = strcmp(path, NAMER_KALLSYMS) ? BROKER_OPEN_DEBUG : BROKER_OPEN_KALLSYMS;
	snprintf(message.debug_path, sizeof(message.debug_path), "%s", path);
	session->codemap_token = message.token;
	err = session->state <= SESSION_RUNNING ? engine__ask(engine, &message) : -ESRCH;
	if (err)
		codemap__answer(session->codemap, err);
}

static int open_codemap(struct session *session)
{
	int err = codemap__new(session->modules, session->request.kernel, cache_dir__fd(), &session->codemap);

	if (err)
		return err;
	session->codemap_watch = (struct watch){.fd = fcntl(codemap__event(session->codemap), F_DUPFD_CLOEXEC, 3), .ready = asked};
	return session->codemap_watch.fd < 0 ? -errno : engine__watch(session->engine, &session->codemap_watch, EPOLLIN);
}

/* --- what comes back --- */

/* A file that nobody waits for any more is closed by a thread that may wait: it may be of a file system that does
 * not answer. */
void native__answered(struct session *session, const struct broker_message *message, const int *fds,
		      unsigned n)
{
	/* One file was asked for, so one descriptor has to be there; a kind that carries none is for somebody else. */
	bool good = message->error == BROKER_ERROR_OK && n == 1;
	int fd = good ? fcntl(fds[0], F_DUPFD_CLOEXEC, 3) : -1;

	if (message->kind == BROKER_DEBUG || message->kind == BROKER_KALLSYMS) {
		if (session->codemap && message->token == session->codemap_token) {
			session->codemap_token = 0;
			codemap__answer(session->codemap, fd >= 0 ? fd : message->error_errno == ENODEV ? -ENODEV : -ENOENT);
		} else if (fd >= 0) {
			blocking__close(fd);
		}
	} else if (session->modules && message->kind == BROKER_FILE &&
	    message->token == session->file_token) {
		session->file_token = 0;
		modules__file(session->modules, fd);
	} else if (session->modules && message->kind == BROKER_PERF_MAP && message->token == session->map_token) {
		session->map_token = 0;
		modules__perf_map(session->modules, fd, (int32_t)message->number);
	} else if (session->modules && message->kind == BROKER_POOL &&
		   message->token == session->pool_token) {
		session->pool_token = 0;
		modules__pool(session->modules, fd, good ? message->pool_bytes : 0,
			      message->number);
	} else if (fd >= 0) {
		blocking__close(fd);
	}
}

/* A worker thread finished a table, or a tail read a file of a JIT compiler. */
static void worked(struct engine *engine, struct watch *watch, uint32_t events)
{
	struct session *session = (struct session *)((char *)watch - offsetof(struct session, native_watch));

	blocking__owner(session->id);
	modules__tick(session->modules, engine__now());
	if (session->state == SESSION_RUNNING && session->profile)
		drain__finish_stacks(session);
}

/* --- the session's life --- */

/* Without native stacks there may still be kernel stacks, which need a codemap alone. A dump needs modules, but no
 * unwind tables in the sampler: it unwinds in user space. */
int native__open(struct session *session, int processes_fd)
{
	int cache = cache_dir__fd(), err;

	if (session->request.native == REQUEST_NATIVE_OFF)
		return session->request.kernel ? open_codemap(session) : 0;
	session->modules_host = (struct modules_host){open_file, add_pool, open_perf_map, set_process, inherited};
	session->processes = fcntl(processes_fd, F_DUPFD_CLOEXEC, 3);
	if (session->processes < 0)
		return -errno;
	err = modules__new(&session->modules_host,
			   session->request.native == REQUEST_NATIVE_FULL && session->request.kind != REQUEST_DUMP,
			   &session->modules);
	err = err ?: open_codemap(session);
	if (err)
		return err;
	modules__cache(session->modules, cache < 0 ? -1 : fcntl(cache, F_DUPFD_CLOEXEC, 3));
	session->native_watch = (struct watch){.fd = fcntl(modules__fd(session->modules), F_DUPFD_CLOEXEC, 3),
					       .ready = worked};
	return engine__watch(session->engine, &session->native_watch, EPOLLIN);
}

/* The codemap first: it asks modules. */
void native__close(struct session *session)
{
	engine__unwatch(session->engine, &session->native_watch);
	engine__unwatch(session->engine, &session->codemap_watch);
	session->codemap = codemap__free(session->codemap);
	session->modules = modules__free(session->modules);
	if (session->processes >= 0)
		close(session->processes);
	session->processes = -1;
}

uint32_t native__flags(const struct request *request)
{
	static const uint32_t how[] = {[REQUEST_NATIVE_FULL] = BROKER_NATIVE_FULL,
				       [REQUEST_NATIVE_LEAF] = BROKER_NATIVE_LEAF,
				       [REQUEST_NATIVE_OFF] = BROKER_NATIVE_OFF};

	return how[request->native] << BROKER_NATIVE_SHIFT;
}

/* --- its processes --- */

/* A forked child that was sampled has mappings by inheritance already; it gets its own /proc files only. */
void native__enter(struct tracee *tracee)
{
	struct session *session = tracee->session;

	if (!session->modules || tracee->candidate || tracee->mem < 0 || tracee->maps < 0)
		return;
	if (tracee->native) { /* inherited */
		modules_process__memory(tracee->native, tracee->mem, tracee->maps);
		return;
	}
	tracee->native = modules__open_process(session->modules, tracee->pid, &tracee->key,
					       tracee->mem, tracee->maps, engine__now());
	native__identified(tracee);
}

void native__leave(struct tracee *tracee)
{
	if (tracee->native)
		modules__close_process(tracee->session->modules, tracee->native, engine__now());
	tracee->native = NULL;
}

void native__identified(struct tracee *tracee)
{
	if (tracee->native && tracee->image.runtime)
		modules_process__runtime(tracee->native, tracee->image.runtime);
}

void native__poll(struct tracee *tracee)
{
	if (tracee->native)
		modules_process__poll(tracee->session->modules, tracee->native, engine__now());
}

void native__forked(struct tracee *child, const struct tracee *parent, uint64_t time)
{
	/* A parent that was itself forked, and never sampled, has no mappings of its own: the child takes over what the
	 * parent inherited. */
	bool same_image = parent->forked && parent->native_exec == child->native_exec;

	child->native_from = parent->native ? modules_process__id(parent->native) : same_image ? parent->native_from : 0;
	child->native_since = parent->native ? time : parent->native_since;
}

/* The first sample of a forked child: sets up what it inherits, and requests its own files of /proc. Children that exec
 * at once never come here. */
struct modules_process *native__of_forked(struct session *session, int32_t pid)
{
	struct tracee *tracee = tracee__find(session, pid);

	if (!tracee || tracee->state != TRACEE_FORKED)
		return NULL;
	if (!tracee->native && tracee->native_from && !tracee->native_sampled)
		tracee->native = modules__fork_process(session->modules, pid, tracee->native_from,
						       tracee->native_since, engine__now());
	tracee->native_sampled = true;
	tracee__ask_memory(session->engine, tracee);
	return tracee->native;
}

void native__mapped(struct session *session, const struct record_map *map)
{
	struct modules_process *process;

	if (!session->modules)
		return;
	process = modules__process(session->modules, (int32_t)map->header.task.tgid, map->header.time);
	if (process)
		modules_process__mapped(process, map->start, map->end, map->header.time);
}

uint64_t native__refresh(struct session *session)
{
	return session->modules ? modules__refresh(session->modules, engine__now()) : UINT64_MAX;
}
