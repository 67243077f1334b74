/* SPDX-License-Identifier: MIT */
/* Polls: records, from the rings to the profile. Each record goes through collect twice: at a poll as a preview, for
 * what has to be read at once (values, JIT code); later, sorted by time, for good (on_sample and its neighbours).
 *
 *    drain__tick(), a poll
 *      holds_back()    ring__drain() -> on_record() -> collector -> on_preview()
 *      drain__run()    if events are due:              collector -> on_sample(), on_other() -> profile */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>

#include "base/blocking.h"
#include "python/code.h"
#include "serve/engine.h"
#include "target/process.h"

/* Bytes of held records for each ms of latency: 999 Hz of whole stacks. With more, samples are handed on before the
 * latency is over. */
#define HOLD_BYTES_PER_MS 800u
/* A rush: more stacks than these wait for tables. */
#define RUSH_STACKS 8u
/* Lines that wait. */
#define PENDING_MAX (64u << 10)

/* The sinks are members of the session: no context pointer is needed. */
static struct session *of(struct collect_sink *sink)
{
	return (struct session *)((char *)sink - offsetof(struct session, collect_sink));
}

/* Does the record have all that a capture sends when each page could be read? Further pieces of a long line table come
 * as records of their own, with an offset. */
static bool is_whole(const struct record_code *code)
{
	const struct record_part *lines = record__part(code, PART_LINES), *variables = record__part(code, PART_VARIABLES);

	if (lines && ((const struct part_bytes *)lines)->offset)
		return true;
	/* A qualified name that equals the name is left out. */
	return lines && record__part(code, PART_NAME) && record__part(code, PART_FILE) && variables && !variables->loss;
}

/* The sampler cannot take page faults: what was not resident is missing in its record. A read from here faults the page
 * in, and the sampler, which tries again at a later tick, then finds it. */
static void prefault(struct engine *engine, struct tracee *tracee, const struct record_code *code)
{
	struct memory_reader memory = memory_reader__of(tracee->mem);

	if (!tracee->image.runtime || is_whole(code))
		return;
	if (tracee->mem < 0)
		tracee__ask_memory(engine, tracee);
	else
		python_code__prefault(&memory.reader, &tracee->image.layout, code->address);
}

static int on_code(struct collect_sink *self, const struct record_code *code)
{
	struct session *session = of(self);
	struct tracee *tracee = tracee__find(session, (int32_t)code->header.task.tgid);

	if (tracee)
		prefault(session->engine, tracee, code);
	session_units__code(session, code);
	return profile__code(session->profile, code);
}

/* --- samples: what is known of their native frames by now --- */

#define NATIVE_BEGUN (UINT32_MAX - 1)

/* Did the tick interrupt a thread at its very first instruction, behind the system call in clone()? Its stack is empty,
 * and the call frame information there is its parent's: the walk fails, maybe after one more frame, which is wrong. In
 * truth the first frame is the whole stack. */
static bool is_begun(const struct modules_process *process, const struct sample *sample,
		     const struct part_native_frames *part)
{
	return (part->part.loss == LOSS_PAGE_FAULT || part->part.loss == LOSS_NATIVE_MAPPING ||
		part->part.loss == LOSS_NATIVE_ORDER) &&
	       part->n && part->n <= 2 && modules__begins(process, part->pc[0], sample->record->header.time);
}

/* How many frames of its native stack can be trusted? UINT32_MAX: all; NATIVE_BEGUN: the first one is the whole stack.
 * Code that was unmapped or replaced since the sample makes what is further out doubtful, as its addresses belong to
 * another function by now. If no mappings are known under its pid, it may be a forked child that was not sampled
 * before: native__of_forked() sets it up. Also requests what its walk lacked. */
static uint32_t trusted(struct session *session, const struct sample *sample)
{
	int32_t pid = (int32_t)sample->record->header.task.tgid;
	const struct part_native_frames *part = sample->native;
	struct modules_process *process;
	uint32_t n;

	if (!session->modules || !part)
		return UINT32_MAX;
	process = modules__process(session->modules, pid, sample->record->header.time);
	if (!process)
		process = native__of_forked(session, pid);
	else if (modules_process__is_later(process, sample->record->header.time) &&
		 tracee__forked_as(session, &sample->record->header.task))
		return UINT32_MAX; /* of before its exec */
	if (!process)
		return UINT32_MAX;
	n = modules_process__trusted(process, part->pc, part->n, sample->record->header.time);
	if (n < part->n)
		return n;
	if (is_begun(process, sample, part))
		return NATIVE_BEGUN;
	if (part->part.loss && part->n && !sample->stack) /* else it is not over */
		modules__wants(session->modules, process, part->pc[part->n - 1], part->part.loss,
			       sample->record->header.time);
	return UINT32_MAX;
}

/* May its stack have code of a JIT compiler? */
static bool near_jit(struct session *session, const struct sample *sample)
{
	const struct part_native_frames *part = sample->native;
	struct modules_process *process = NULL;

	if (session->modules && part)
		process = modules__process(session->modules, (int32_t)sample->record->header.task.tgid, sample->record->header.time);
	return process && modules_process__near_jit(process, part->pc, part->n, sample->record->header.time);
}

/* Removes frames that cannot be believed: all from number n outwards. If the sampler counted a loss for the removed
 * frames, that is taken back, or it would be counted twice. */
static void cut(struct session *session, const struct sample *sample, uint32_t n)
{
	struct part_native_frames *part = (struct part_native_frames *)sample->native;
	bool counts = !(sample->record->flags & SAMPLE_OFF_CPU); /* else that is excused already */

	if (part && n == NATIVE_BEGUN) {
		if (counts)
			profile__excuse(session->profile, part->part.loss, 1);
		part->part.loss = LOSS_NONE;
		part->flags |= NATIVE_WHOLE;
		part->n = 1;
	}
	if (!part || n >= part->n)
		return;
	part->n = n;
	part->flags &= ~NATIVE_WHOLE;
	if (part->part.loss && sample->stack)
		return; /* it is walked again */
	if (part->part.loss && counts)
		profile__excuse(session->profile, part->part.loss, 1);
	part->part.loss = LOSS_NATIVE_PENDING;
}

/* Hands on the sample as it is known to be by now: without Python, or with only the first `n` native frames. A sample
 * is borrowed and const, so a copy is changed; few samples need it. */
static int correct(struct session *session, const struct sample *sample, bool no_python, uint32_t n)
{
	struct record_sample *record = malloc(sample->record->header.size);
	struct sample copy;
	int err;

	if (!record)
		return -ENOMEM;
	sample__copy(sample, record, &copy);
	if (no_python) {
		record->loss = LOSS_NONE;
		record->flags |= SAMPLE_NO_PYTHON;
		profile__excuse(session->profile, LOSS_PROCESS_UNKNOWN, 1);
	}
	cut(session, &copy, n);
	err = profile__sample(session->profile, &copy);
	free(record);
	return err;
}

/* A stack at a switch is no sample yet: what it lacks counts for each sample that it becomes, which may be none. */
static void excuse(struct session *session, const struct sample *sample)
{
	if (sample->python && sample->python->part.loss)
		profile__excuse(session->profile, sample->python->part.loss, 1);
	if (sample->native && sample->native->part.loss)
		profile__excuse(session->profile, sample->native->part.loss, 1);
}

/* A sample for good, in order of time. What is known of its process by now is more than the sampler knew at the
 * tick. */
static int on_sample(struct collect_sink *self, const struct sample *sample)
{
	struct session *session = of(self);
	uint32_t n = trusted(session, sample);
	/* A program that began just now is no Python for its first moments, or for ever. */
	bool no_python = sample->record->loss == LOSS_PROCESS_UNKNOWN &&
			 tracee__ran_no_python(session, &sample->record->header);

	if (sample->record->flags & SAMPLE_ASLEEP)
		return asleep__sample(session, sample->record);
	if (sample->record->flags & SAMPLE_OFF_CPU)
		excuse(session, sample);
	if (no_python || n != UINT32_MAX)
		return correct(session, sample, no_python, n);
	return profile__sample(session->profile, sample);
}

/* A sample at the poll after its tick. Its values have to be read before the target changes them; and if it has a copy
 * of its stack, or is near JIT code, what it needs may be gone soon: the session becomes urgent. */
static int on_preview(struct collect_sink *self, const struct sample *sample)
{
	struct session *session = of(self);

	if (sample->record->flags & SAMPLE_ASLEEP)
		return 0;
	session->urgent = session->urgent || sample->stack || near_jit(session, sample);
	return session_units__sample(session, sample);
}

static int on_other(struct collect_sink *self, const struct record_header *record)
{
	struct session *session = of(self);
	int err = profile__record(session->profile, record);

	if (record->kind == RECORD_EXEC)
		tracee__show(session, record->task.tgid, record->task.exec);
	return err;
}

/* The last stage: an event of the profile or of units, encoded into session.pending. publish.c sends it. After one that could
 * not be encoded only the session's end is told: others may name rows of tables that nobody got. */
static int on_event(struct event_sink *sink, const struct event *event)
{
	struct session *session = (struct session *)((char *)sink - offsetof(struct session, sink));
	int err;

	if (session->hole && event->kind != EVENT_LEDGER && event->kind != EVENT_END)
		return session->hole;
	err = event__encode(event, &session->pending);
	if (err)
		session->hole = err;
	else
		session->pending_events++;
	return err;
}

/* A record as it comes out of a ring, in no order between CPUs, and not checked yet: what is done at once checks
 * what it reads. That is what concerns "now" and not a place in time: mappings, wake-ups, and processes that begin
 * or end, whose files in /proc have to be opened before they are gone. */
static int on_record(void *ctx, const void *data, size_t len)
{
	struct session *session = ctx;
	const struct record_header *header = data;
	int err;

	if (len >= sizeof(*header) && header->kind == RECORD_MAP) {
		if (record__check(data, len) == 0)
			native__mapped(session, data);
		return 0;
	}
	if (len >= sizeof(struct record_wake) && header->kind == RECORD_WAKE) {
		session->woken = true;
		return 0;
	}
	if (len >= sizeof(struct record_wake) && header->kind == RECORD_SLEEPS) {
		session->sleeps = true;
		return 0;
	}
	if (len >= sizeof(*header) && header->kind == RECORD_STARTED) {
		if (session->host && record__check(data, len) == 0) {
			session->woken = true;
			host__started(session, data);
		}
		return 0;
	}
	if (len >= sizeof(*header) && (header->kind == RECORD_CLONE || header->kind == RECORD_FORK))
		births__record(session, header);
	if (len >= sizeof(*header) && header->size <= len &&
	    (header->kind == RECORD_FORK || header->kind == RECORD_EXEC || header->kind == RECORD_EXIT) &&
	    record__check(data, len) == 0) {
		session->urgent = session->woken = true;
		session_units__other_memory(session);
		tracee__record(session->engine, session, header);
	}
	err = collector__record(session->collector, data, len);
	if (err && !session->error)
		session->error = err;
	return 0; /* the ring is emptied whatever becomes of the records */
}

/* Counters that are kept elsewhere (in the kernel, in the collector, in base/blocking.c) become lines of the ledger.
 * The sampler's are totals, the others differences since the last call. */
void drain__counts(struct session *session)
{
	struct collect_counts counts;
	struct sampler_counts sum;
	uint64_t missed;

	if (session->ring) {
		ring__counts(session->ring, &sum);
		profile__counts(session->profile, &sum);
	}
	collector__counts(session->collector, &counts);
	if (counts.bad > session->bad_counted)
		profile__loss(session->profile, LOSS_RECORD_BAD, counts.bad - session->bad_counted);
	session->bad_counted = counts.bad;
	missed = blocking__missed(session->id);
	if (missed)
		profile__loss(session->profile, LOSS_TARGET_MUTE, missed);
	missed = session_units__unnamed(session);
	if (missed)
		profile__loss(session->profile, LOSS_UNIT_NAME, missed);
}

/* All records up to then, in order. */
void drain__run(struct engine *engine, struct session *session, uint64_t up_to)
{
	int err = ring__drain(session->ring);

	native__refresh(session); /* before somebody asks what lies where */
	if (!err)
		err = collector__flush(session->collector, up_to);
	if (!err)
		err = profile__sleep(session->profile, up_to == UINT64_MAX ? session->detached : up_to - 1000000000ull / session->rate);
	session->handed_on = up_to;
	if (err && !session->error)
		session->error = err;
}

/* --- polls --- */

/* What a poll reads, before it knows whether it makes events. The last values of a thread that sleeps are read at once, or
 * the engine would have to be woken twice; an older record that still comes is previewed after them. */
static void preview(struct session *session, uint64_t now)
{
	bool sleeps = session->sleeps;
	uint64_t up_to;
	int err;

	session->sleeps = false; /* of a record that comes from here on, the sample may be missed */
	err = ring__drain(session->ring);
	native__refresh(session);
	up_to = sleeps ? engine__now() : now - SCHEDULE_SETTLE_NS;
	err = err ?: collector__preview(session->collector, up_to);
	if (err && !session->error)
		session->error = err;
}

/* Between two polls. The long period is for clients that wait anyway, and not where a JIT writes files (SCHEDULE_HOLD_JIT_NS). */
static uint64_t period_of(const struct session *session)
{
	bool waits = session->state == SESSION_RUNNING && session->request.latency_ms >= SCHEDULE_PATIENT_MS &&
		     !(session->modules && modules__jit_files(session->modules));

	return session->rushes ? SCHEDULE_RUSH_DRAIN_NS : waits ? SCHEDULE_DRAIN_PATIENT_NS : SCHEDULE_DRAIN_NS;
}

/* The one timer of a session; the engine's loop sleeps until the earliest of all. A duration ends in time. */
static void tick_at(struct session *session, uint64_t now, uint64_t due)
{
	session->tick_due = session->deadline > now && session->deadline < due ? session->deadline : due;
}

static void tick_after(struct session *session, uint64_t ns)
{
	uint64_t now = engine__now();

	tick_at(session, now, now + ns);
}

/* What is due then does not wait for the poll after it: wake-ups of the sampler put off the regular one. */
static void no_later_than(struct session *session, uint64_t now, uint64_t due)
{
	if (due < session->tick_due)
		tick_at(session, now, due);
}

/* Brings the next poll forward. The regular ones go on from there; in a rush they are frequent enough. */
static void poll_after(struct session *session, uint64_t ns)
{
	if (session->soon || session->rushes)
		return;
	session->soon = true;
	tick_after(session, ns);
}

/* Samples with copies of stacks fill a ring within 20 ms: while there are many such samples (until unwind tables are built),
 * polls come every few ms. */
static void rush(struct session *session, uint64_t now)
{
	bool rushes;

	if (!session->rush_until)
		session->rush_until = now + SCHEDULE_RUSH_NS;
	rushes = session->modules && session->request.native == REQUEST_NATIVE_FULL &&
		 (now < session->rush_until || profile__unfinished(session->profile) > RUSH_STACKS);
	if (rushes == session->rushes)
		return;
	session->rushes = rushes;
	tick_after(session, period_of(session));
}

/* How long samples may be held back before they become events. */
static uint64_t latency_of(const struct session *session)
{
	return session->request.latency_ms * 1000000ull - SCHEDULE_DRAIN_NS / 10; /* a little less: the poll of that moment may come early */
}

/* ... and before they are handed on. Where a JIT writes files, which do not say when code was replaced, not for long. (Of lists
 * there are urgent samples: near_jit().) */
static uint64_t hold_of(const struct session *session)
{
	uint64_t ns = latency_of(session);

	return session->modules && modules__jit_files(session->modules) && ns > SCHEDULE_HOLD_JIT_NS ? SCHEDULE_HOLD_JIT_NS : ns;
}

/* Lines of samples that were not held back so long wait for the rest of the latency, and no longer: each time that a client is woken
 * costs it more than the lines do. */
static void publish_if_due(struct engine *engine, struct session *session, uint64_t now)
{
	if (!session->pending.len)
		return;
	if (now < session->publish_due && session->pending.len < PENDING_MAX) {
		no_later_than(session, now, session->publish_due);
		return;
	}
	session->publish_due = now + latency_of(session);
	session__publish(engine, session);
}

/* Samples near JIT code are urgent; all others need nothing of it. So objects of a list are looked for with the urgent ones,
 * and else as rarely as samples of other targets are handed on: most of JAX's are on no stack before they are dropped. Files
 * have no record of what was replaced, and are read each time. */
static void poll_modules(struct session *session, uint64_t now)
{
	if (!session->modules || (now < session->modules_due && !modules__jit_files(session->modules)))
		return;
	modules__tick(session->modules, now);
	session->modules_due = now + latency_of(session);
}

/* The first half of a poll: rings are emptied, values of frames are read. True: the rest
 * may wait until `hand_on_due`, as nothing is urgent and not too much is held. */
static bool holds_back(struct session *session, uint64_t now)
{
	session->polled = now;
	session->soon = false;
	preview(session, now);
	ring__polled(session->ring, now);
	births__poll(session, now);
	if (!session->urgent && !session->rushes && !session->error && now >= session->rush_until && now < session->hand_on_due &&
	    collector__held(session->collector) < session->request.latency_ms * HOLD_BYTES_PER_MS && !(session->deadline && now >= session->deadline))
		return true;
	/* What is urgent seldom comes alone: code of a JIT that runs, a stack to be finished. */
	if (session->urgent || session->rushes)
		session->modules_due = 0;
	if (session->urgent)
		poll_after(session, SCHEDULE_URGENT_NS);
	session->urgent = false;
	session->hand_on_due = now + hold_of(session);
	return false;
}

/* Some stacks wait for tables, which a worker may have made by now. What else is held goes on waiting: batches are cheaper. */
void drain__finish_stacks(struct session *session)
{
	uint64_t now = engine__now();

	if (session->rushes || !profile__unfinished(session->profile))
		return;
	modules__tick(session->modules, now);
	codemap__tick(session->codemap);
	if (!session->error)
		session->error = profile__tick(session->profile, now);
	if (profile__unfinished(session->profile))
		poll_after(session, SCHEDULE_URGENT_NS);
}

void drain__rotate_soon(struct session *session, uint32_t rate)
{
	session->part_rate = rate;
	if (session->part_due)
		return;
	session->part_due = true;
	session->part_until = engine__now() + PROFILE_FINISH_NS;
	session->hand_on_due = 0;
}

static void set_rate(struct session *session, uint32_t rate)
{
	struct broker_message message = {.kind = BROKER_SET_RATE, .pid = session->request.pid, .rate = rate};

	if (rate != session->rate && !session__ask(session, &message, NULL))
		session->rate = rate;
}

/* All records up to then were handed on, and each of them becomes an event of the part that ends. */
static void rotate_if_due(struct session *session, uint64_t up_to, uint64_t now)
{
	struct event_session clocks;

	if (!session->part_due || session->error || (profile__unfinished(session->profile) && now < session->part_until))
		return;
	session->part_due = false;
	session__read_clocks(&clocks);
	clocks.boottime -= clocks.monotonic - up_to;
	clocks.realtime -= clocks.monotonic - up_to;
	clocks.monotonic = up_to;
	clocks.rate = session->part_rate;
	drain__counts(session);
	session->error = profile__part(session->profile, &clocks);
	set_rate(session, session->part_rate);
	session->publish_due = 0;
}

/* A poll. Its first half (holds_back) is done each time: rings are emptied, and what cannot wait is read. The second
 * half, which makes events of samples, is done when it is due, or when something is urgent. It takes only records that
 * are older than SCHEDULE_SETTLE_NS: rings of several CPUs are read one after the other, and a younger record could
 * still get an older neighbour. */
static void tick(struct engine *engine, struct session *session)
{
	uint64_t now = engine__now();

	blocking__owner(session->id);
	if (session->detached)
		session__linger(engine, session, now);
	if (session->state != SESSION_RUNNING)
		return;
	if (holds_back(session, now)) {
		no_later_than(session, now, session->hand_on_due);
		drain__finish_stacks(session);
		publish_if_due(engine, session, now);
		return;
	}
	/* JITs register code before they run it, so what this finds is complete for the samples that are handed on
	 * next. */
	poll_modules(session, now);
	codemap__tick(session->codemap);
	gil__poll(session, now);
	drain__run(engine, session, now - SCHEDULE_SETTLE_NS);
	if (session->rushes && ++session->rush_polls % SCHEDULE_RUSH_TICKS)
		return;
	rush(session, now);
	tracee__announce_ends(session, now - SCHEDULE_SETTLE_NS);
	if (now >= session->counts_due) {
		drain__counts(session);
		session->counts_due = now + SCHEDULE_COUNTS_NS;
	}
	if (!session->error)
		session->error = profile__tick(session->profile, now);
	rotate_if_due(session, now - SCHEDULE_SETTLE_NS, now);
	if (profile__resends_codes(session->profile))
		ring__resend_codes(session->ring);
	if (profile__unfinished(session->profile))
		poll_after(session, SCHEDULE_URGENT_NS);
	publish_if_due(engine, session, now);
	session__flush_spool_if_due(session, now);
	if (session->error)
		session__fail(engine, session);
	else if (session->deadline && now >= session->deadline)
		session__stop(engine, session, "duration", "");
	else if (!session->host && !tracee__any_alive(session))
		session__stop(engine, session, "exited", "the process ended");
}

/* Called in each turn of the engine's loop. If the loop was late by whole periods, these polls are left out. */
void drain__tick(struct engine *engine, struct session *session, uint64_t now, uint64_t *next)
{
	if (!session->tick_due)
		return;
	if (session->tick_due <= now) {
		uint64_t period = period_of(session), next_due = session->tick_due + period;

		tick_at(session, now, next_due > now ? next_due : now + period);
		tick(engine, session);
		session__publish_trigger(engine, session);
	}
	if (session->tick_due < *next)
		*next = session->tick_due;
}

/* The sampler woke us. Not sooner than SCHEDULE_POLL_NS after the last time, however often it does. */
void drain__poll_soon(struct engine *engine, struct session *session)
{
	uint64_t since = engine__now() - session->polled;

	if (since >= SCHEDULE_POLL_NS) {
		if (!session->rushes)
			tick_after(session, period_of(session)); /* after this one */
		tick(engine, session);
	} else {
		poll_after(session, SCHEDULE_POLL_NS - since);
	}
}

/* The timers of threads run: polls begin. */
void drain__start(struct session *session)
{
	tick_after(session, period_of(session));
	rush(session, engine__now());
}

/* The sampler wrote to the ring with a wake-up (bpf/: BPF_RB_FORCE_WAKEUP). Most records are written without one, and
 * wait for the next poll. */
static void ring_ready(struct engine *engine, struct watch *watch, uint32_t events)
{
	struct session *session = (struct session *)((char *)watch - offsetof(struct session, ring_watch));

	/* Woken by a fork, an exec, the end of a tracee, a ring that fills, or something urgent; or by a new mapping,
	 * which mostly lies where no code is. */
	blocking__owner(session->id);
	if (session->state == SESSION_RUNNING) {
		ring__drain(session->ring);
		births__poll(session, engine__now());
		if (native__refresh(session) != UINT64_MAX || session->woken || session->sleeps)
			drain__poll_soon(engine, session);
		session->woken = false;
	}
}

/* --- life --- */

/* Connects sampler, collector, units and profile of a session. After an error, drain__close() frees what was made so
 * far. */
int drain__open(struct session *session, int ring_fd, int samples_fd)
{
	const struct profile_options options = {.rate = session->request.rate,
						.gil = session->request.gil,
						.sees_all = session->host,
						.without_lines = !session->request.native_lines,
						.codemap = session->codemap,
						.call_sites = &session->call_sites};
	int err;

	call_sites__open(session);
	session->collect_sink = (struct collect_sink){.code = on_code,
						      .preview = on_preview,
						      .sample = on_sample,
						      .other = on_other};
	session->sink.event = on_event;
	/* Order: units need the rules and the sink, the profile writes to the units, and the ring comes last, as
	 * records may flow from then on. */
	err = collector__new(&session->collect_sink, &session->collector);
	if (!err)
		err = session_units__open(session);
	if (!err)
		err = profile__new(&options, session_units__sink(session), &session->profile);
	if (!err)
		err = ring__new(ring_fd, samples_fd, on_record, session, &session->ring);
	if (err)
		return err;
	session->ring_watch = (struct watch){.fd = fcntl(ring_fd, F_DUPFD_CLOEXEC, 3), .ready = ring_ready};
	/* Edge-triggered: it wakes each time. */
	return engine__watch(session->engine, &session->ring_watch, EPOLLIN | EPOLLET);
}

/* From the source to the sink: nothing may write into what is freed. All of these accept NULL. */
void drain__close(struct session *session)
{
	engine__unwatch(session->engine, &session->ring_watch);
	session->ring = ring__free(session->ring);
	session->collector = collector__free(session->collector);
	session->profile = profile__free(session->profile);
	session_units__close(session);
}
