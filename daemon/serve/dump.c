/* SPDX-License-Identifier: MIT */
/* A dump: a session that takes one stack of each thread and ends (docs/dump.md). It works in steps of some ms, started
 * by a timer, so that other sessions of this engine go on meanwhile.
 *
 * Most threads sleep. For these the kernel's iterator (bpf/dump.bpf.c) copies registers and stack into one of 16 slots,
 * and their Python frames are walked here, in memory that nobody changes while they sleep. A thread that runs fills its
 * slot at its next tick, Python frames included. Either way the stack is of one instant:
 *
 *    assign()       tid -> free slot
 *    pass()         runs the iterator over all threads: those off-CPU fill their slots
 *    walk_python()  walks Python frames, runs the iterator again: has each thread stayed where it was? Else once more
 *    gather()       unwinds the native stack of each slot that is proven, and frees the slot
 *    names_ready()  waits for files and symbols, at most SCHEDULE_DUMP_NAMES_NS
 *    emit()         one line of JSON for each thread, then the answer */
#include <errno.h>
#include <string.h>
#include <sys/timerfd.h>

#include "base/blocking.h"
#include "base/cleanup.h"
#include "base/json_text.h"
#include "broker/slots.h"
#include "serve/answer.h"
#include "serve/engine.h"
#include "target/process.h"

/* Attempts to read a thread that wakes up while it is read; after that it is reported without a stack. */
#define TRIES 5u
#define THREADS_MAX 65536u

struct thread {
	struct dump_result result;
	/* When it is given up (monotonic ns); 0: it has had no slot yet. */
	uint64_t until;
	unsigned tries;
	/* Registers, stack and Python frames are of one instant: it did not run while they were read. */
	bool proven;
	/* It ended before it had a slot filled. */
	bool gone;
};

struct dumping {
	struct dump_slots *slots;
	struct target_process process;
	bool opened;            /* the process */
	struct dump_unwinder *unwinder;
	struct python_walker *python;
	struct thread *threads;
	uint32_t n, emitted;
	/* Who has slot i: index of the thread + 1; 0: the slot is free. */
	uint32_t in[DUMP_SLOTS];
	/* 0: stacks are still being gathered. Else names are waited for until then. */
	uint64_t names_until;
	struct dump_native natives; /* of the walk that goes on */
};

static struct tracee *root_of(struct session *session)
{
	return tracee__find(session, session->request.pid);
}

/* --- its way in and out --- */

/* fds: those of ATTACHED for a dump: the iterator's link, images, the slots, and `wanted`. */
int dump__open(struct session *session, const int *fds)
{
	session->dump = calloc(1, sizeof(*session->dump));
	return session->dump ? dump_slots__new(fds[0], fds[2], fds[3], &session->dump->slots) : -ENOMEM;
}

void dump__close(struct session *session)
{
	struct dumping *dump = session->dump;

	if (!dump)
		return;
	for (uint32_t i = 0; i < dump->n; i++) {
		free(dump->threads[i].result.natives);
		free(dump->threads[i].result.python.frames);
	}
	free(dump->threads);
	dump_unwinder__free(dump->unwinder);
	python_walker__free(dump->python);
	if (dump->opened)
		target_process__free(&dump->process);
	dump_slots__free(dump->slots);
	free(dump);
	session->dump = NULL;
}

/* The process ended during the dump: what was gathered is not emitted. */
static void gone(struct engine *engine, struct session *session)
{
	struct refusal refusal;

	refusal__set(&refusal, "NO_PROCESS", "", "the process ended, or runs another program now");
	session__refuse(engine, session, &refusal);
}

static void failed(struct engine *engine, struct session *session, const char *what, int err)
{
	struct refusal refusal;

	refusal__set_internal(&refusal, engine, what, err);
	session__refuse(engine, session, &refusal);
}

/* --- one thread --- */

/* Linear, as rows come in the order of the kernel's list; at most 16 are searched for in each pass. */
static const struct dump_thread *row_of(const struct dump_thread *rows, uint32_t n, uint32_t tid)
{
	for (uint32_t i = 0; i < n; i++)
		if (rows[i].tid == tid)
			return &rows[i];
	return NULL;
}

/* Has the thread not run since its slot was filled? It is on no CPU and was switched out as often as then. The start
 * time tells it apart from a new thread with the same tid. */
static bool is_still(const struct dump_slot *slot, const struct dump_thread *rows, uint32_t n)
{
	const struct dump_thread *row = row_of(rows, n, slot->thread.tid);

	return row && !row->on_cpu && row->switches == slot->thread.switches &&
	       row->thread_start == slot->thread.thread_start;
}

/* Native frames, from the copy of the stack (DUMP_STACK_BYTES). If that is too short (a deep stack, or a signal
 * handler's own stack), the walk is done again with the target's memory behind it. That holds only if the thread has
 * not moved even then; if it has, the walk of the copy alone is used. */
static int unwind(struct dumping *dump, struct thread *thread, const struct dump_slot *slot)
{
	struct dump_state state = {.regs = (const uint64_t *)slot->regs,
				   .stack_at = slot->stack_at,
				   .stack = slot->stack,
				   .stack_size = slot->stack_bytes <= DUMP_STACK_BYTES ? slot->stack_bytes : 0};
	struct dump_native *natives = &dump->natives;
	const struct dump_thread *rows;
	uint32_t n;

	dump_unwinder__walk(dump->unwinder, &state, natives);
	if (natives->loss && slot->how == DUMP_STILL) {
		state.live = true;
		dump_unwinder__walk(dump->unwinder, &state, natives);
		state.live = false;
		if (dump_slots__pass(dump->slots, &rows, &n) || !is_still(slot, rows, n))
			dump_unwinder__walk(dump->unwinder, &state, natives);
	}
	thread->result.natives = malloc(DUMP_NATIVE_BYTES(natives->n));
	if (!thread->result.natives)
		return -ENOMEM;
	memcpy(thread->result.natives, natives, DUMP_NATIVE_BYTES(natives->n));
	return 0;
}

/* --- all of them --- */

static int list_threads(struct session *session)
{
	static const uint8_t how[] = {
		[REQUEST_NATIVE_FULL] = 2, [REQUEST_NATIVE_LEAF] = 1, [REQUEST_NATIVE_OFF] = 0};
	struct dumping *dump = session->dump;
	const struct dump_thread *rows;
	uint32_t n;
	int err = dump_slots__pass(dump->slots, &rows, &n);

	if (err)
		return err;
	if (!n)
		return -ESRCH;
	if (n > THREADS_MAX)
		n = THREADS_MAX;
	dump->threads = calloc(n, sizeof(*dump->threads));
	if (!dump->threads)
		return -ENOMEM;
	for (uint32_t i = 0; i < n; i++)
		dump->threads[i].result = (struct dump_result){.thread = rows[i], .native = how[session->request.native]};
	dump->n = n;
	return 0;
}

/* Gives free slots to threads that had none yet. True: some slot is in use, so there is something to wait for. */
static bool assign(struct dumping *dump, uint64_t now)
{
	uint32_t next = 0, i;
	bool any = false;

	for (i = 0; i < DUMP_SLOTS; i++) {
		while (next < dump->n && dump->threads[next].until)
			next++;
		if (!dump->in[i] && next < dump->n) {
			dump->threads[next].until = now + SCHEDULE_DUMP_THREAD_NS;
			dump->in[i] = next + 1;
			dump_slots__want(dump->slots, i, dump->threads[next].result.thread.tid);
		}
		any |= dump->in[i] != 0;
	}
	return any;
}

static void release(struct dumping *dump, uint32_t i)
{
	dump_slots__want(dump->slots, i, 0);
	dump->in[i] = 0;
}

static struct thread *thread_in(struct dumping *dump, uint32_t i)
{
	return dump->in[i] ? &dump->threads[dump->in[i] - 1] : NULL;
}

/* It ran while it was read: its slot is filled once more, TRIES times at most. */
static void again(struct dumping *dump, uint32_t i)
{
	struct thread *thread = thread_in(dump, i);

	free(thread->result.python.frames);
	thread->result.python = (struct python_frames){};
	if (++thread->tries < TRIES)
		dump_slots__again(dump->slots, i);
	else
		release(dump, i);
}

/* Python frames of threads whose slots were filled since the last call. A tick brought them along. For a thread that
 * sleeps they are walked here: all such threads first, then one pass of the iterator proves all walks at once. */
static int walk_python(struct dumping *dump)
{
	_cleanup_(python_tstates__free) struct python_tstates tstates = {};
	bool walked[DUMP_SLOTS] = {}, any = false;
	const struct dump_thread *rows = NULL;
	uint32_t n = 0, i;
	int err = 0;

	for (i = 0; i < DUMP_SLOTS && !err; i++) {
		struct thread *thread = thread_in(dump, i);
		const struct dump_slot *slot = thread && !thread->proven ? dump_slots__done(dump->slots, i) : NULL;

		if (!slot)
			continue;
		/* Addresses of code objects that this slot holds: threads of other slots name them by their keys
		 * only. */
		python_walker__learn(dump->python, slot);
		if (slot->thread.tid != thread->result.thread.tid) {
			again(dump, i);
		} else if (slot->how == DUMP_TICK) {
			err = python_walker__take(dump->python, slot, &thread->result.python);
			thread->proven = true;
		} else {
			/* The list of thread states is read once, after the first slot was filled: it holds for all
			 * threads that were asleep by then. */
			err = any ? 0 : python_walker__list(dump->python, &tstates);
			err = err ?: python_walker__walk(dump->python, &slot->thread, &tstates, &thread->result.python);
			any = walked[i] = true;
		}
	}
	if (!err && any)
		err = dump_slots__pass(dump->slots, &rows, &n);
	for (i = 0; i < DUMP_SLOTS && !err; i++) {
		if (!walked[i])
			continue;
		thread_in(dump, i)->proven = is_still(dump_slots__done(dump->slots, i), rows, n);
		if (!thread_in(dump, i)->proven)
			again(dump, i);
	}
	return err;
}

/* One pass of the iterator: threads that are on no CPU fill their slots. One that runs all the time and gets no tick in
 * time is given up, and reported as running, without a stack. */
static int pass(struct dumping *dump, uint64_t now)
{
	const struct dump_thread *rows;
	uint32_t n, i;
	int err = dump_slots__pass(dump->slots, &rows, &n);

	if (err || !n)
		return err ? err : -ESRCH;
	for (i = 0; i < DUMP_SLOTS; i++) {
		struct thread *thread = thread_in(dump, i);

		if (!thread || thread->proven || dump_slots__done(dump->slots, i))
			continue;
		thread->gone = !row_of(rows, n, thread->result.thread.tid);
		if (thread->gone || now > thread->until)
			release(dump, i);
	}
	return walk_python(dump);
}

/* One step of gathering, bounded by SCHEDULE_DUMP_STEP_NS. False: all stacks are there, or an error. */
static bool gather(struct session *session, uint64_t now)
{
	struct dumping *dump = session->dump;
	uint64_t until = now + SCHEDULE_DUMP_STEP_NS;
	bool rest = false;

	if (!assign(dump, now))
		return false;
	for (uint32_t i = 0; i < DUMP_SLOTS; i++)
		rest |= dump->in[i] && thread_in(dump, i)->proven;
	if (!rest)
		session->error = pass(dump, now);
	for (uint32_t i = 0; i < DUMP_SLOTS && !session->error && engine__now() < until; i++) {
		struct thread *thread = thread_in(dump, i);
		const struct dump_slot *slot = thread && thread->proven ? dump_slots__done(dump->slots, i) : NULL;

		if (!slot)
			continue;
		if (session->request.native != REQUEST_NATIVE_OFF)
			session->error = unwind(dump, thread, slot);
		thread->result.how = (uint8_t)slot->how;
		thread->result.thread = slot->thread;
		release(dump, i);
	}
	return !session->error;
}

/* Are the symbols of all files read that a frame lies in? Asks for those that are not: nothing else would, since no
 * sample comes in a dump. */
static bool names_ready(struct session *session, uint64_t now)
{
	struct dumping *dump = session->dump;
	struct modules_process *process = root_of(session)->native;
	struct codemap *codemap = session->codemap;
	struct modules_found found;
	struct code_location place;
	bool ready = true;

	for (uint32_t i = 0; process && i < dump->n; i++) {
		const struct dump_native *natives = dump->threads[i].result.natives;
		const struct record_task task = dump_task(&dump->threads[i].result);

		if (natives && codemap__eval_known(codemap, &task, now) == -EAGAIN)
			ready = false;

		for (uint32_t k = 0; natives && k < natives->n; k++) {
			uint64_t pc = natives->pc[k];
			uint64_t address = native_address(pc);

			if (!codemap__find(codemap, &task, address, now, &place) && place.pending)
				ready = false;
			if (modules__find(session->modules, process, address, now, &found) || !found.module ||
			    found.module->state != MODULE_WAITS)
				continue;
			modules__wants(session->modules, process, pc, LOSS_NATIVE_PENDING, now);
			ready = false;
		}
	}
	return ready;
}

/* A line of the dump (`last` false), or its answer. Takes `json`. */
static void say(struct engine *engine, struct session *session, json_t *json, bool last)
{
	_cleanup_(buf__free) struct buf line = {};
	char *text;

	if (last) {
		if (answer__ok(&line, session->request.has_id, session->request.id, json))
			line.failed = true;
	} else {
		json__set(&json, "ev", json_string("dump"));
		if (session->request.has_id)
			json__set(&json, "id", json_integer((json_int_t)session->request.id));
		text = json_dumps(json, JSON_COMPACT);
		if (!text || buf__puts(&line, text) || buf__puts(&line, "\n"))
			line.failed = true;
		free(text);
		json_decref(json);
	}
	client__say(engine, session->owner, &line);
}

/* Emits the next threads, as many as fit into a step. False: that was all. */
static bool emit(struct engine *engine, struct session *session, uint64_t now)
{
	struct dumping *dump = session->dump;
	uint64_t until = now + SCHEDULE_DUMP_STEP_NS;
	json_t *json;

	while (dump->emitted < dump->n && engine__now() < until && session->owner && !session->owner->dead) {
		const struct thread *thread = &dump->threads[dump->emitted++];

		if (thread->gone && !thread->result.how)
			continue;
		json = dump__emit(dump->python, session->codemap, &thread->result, now);
		if (!json)
			session->error = -ENOMEM;
		else
			say(engine, session, json, false);
	}
	return dump->emitted < dump->n;
}

/* The answer, then the end of the session: a dump has no stream and no `end` event. */
static void finish(struct engine *engine, struct session *session)
{
	char command[1024];

	proc__command(session->request.pid, command, sizeof(command));
	say(engine, session,
	    json_pack("{s:{s:i, s:o, s:s, s:s}}", "dump", "pid", session->request.pid, "command",
		      json__text(command), "python", root_of(session)->python, "native",
		      request_native__name(session->request.native)),
	    true);
	if (session->owner) /* else it died of it */
		client__flush(engine, session->owner);
	session->owner = NULL;
	session__abandoned(engine, session);
}

/* One step. An error ends the dump with an answer that says so. */
static void tick(struct engine *engine, struct watch *watch, uint32_t events)
{
	struct session *session = (struct session *)watch; /* its first member */
	struct dumping *dump = session->dump;
	uint64_t now = engine__now(), expirations;

	(void)!read(watch->fd, &expirations, sizeof(expirations));
	blocking__owner(session->id);
	if (session->state != SESSION_RESUMING || !session->owner)
		return;
	if (!root_of(session)) {
		gone(engine, session);
		return;
	}
	if (session->modules)
		modules__tick(session->modules, now);
	if (!dump->names_until && !gather(session, now))
		dump->names_until = now + SCHEDULE_DUMP_NAMES_NS;
	if (session->error)
		failed(engine, session, "the threads could not be read", session->error);
	else if (dump->names_until && (now > dump->names_until || names_ready(session, now)) &&
		 !emit(engine, session, now) && session->owner && !session->owner->dead)
		finish(engine, session);
}

/* The process is identified: asks the broker for a fast timer on its threads, for those that run. */
void dump__identified(struct engine *engine, struct session *session)
{
	struct broker_message resume = {.kind = BROKER_RESUME, .pid = session->request.pid};
	int err;

	session->state = SESSION_RESUMING;
	err = session__ask(session, &resume, &session->token);
	if (err)
		failed(engine, session, "the broker cannot be asked", err);
}

void dump__resumed(struct engine *engine, struct session *session)
{
	const struct itimerspec period = {.it_interval.tv_nsec = SCHEDULE_DUMP_TICK_NS, .it_value.tv_nsec = 1};
	struct dumping *dump = session->dump;
	struct tracee *root = root_of(session);
	int err;

	if (!root) {
		gone(engine, session);
		return;
	}
	err = target_process__init(&dump->process, root->pid, root->mem, root->maps, root->key);
	dump->opened = !err;
	err = err ?: python_walker__new(&dump->process.reader, &root->image, &dump->python);
	err = err ?: dump_unwinder__new(&dump->process.reader, &dump->process.maps, &dump->unwinder);
	err = err ?: list_threads(session);
	if (err == -ESRCH) {
		gone(engine, session);
		return;
	}
	session->timer = (struct watch){.fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC),
					.ready = tick};
	if (!err && (session->timer.fd < 0 || timerfd_settime(session->timer.fd, 0, &period, NULL) < 0))
		err = -errno;
	err = err ?: engine__watch(engine, &session->timer, EPOLLIN);
	if (err)
		failed(engine, session, "the dump cannot begin", err);
}
