/* SPDX-License-Identifier: MIT */
/* The profile as a whole: begin, code objects, epochs, replay for late joiners, the end. What happens to one sample
 * is in sample.c.
 *
 * An epoch is a time in which ids (of functions, frames, stacks, threads) mean the same. When its tables are full
 * all of them are emptied and a new epoch begins, so that a session of days takes no more memory than one of
 * minutes.
 *
 * Order inside profile__tick(): ends that are due, samples whose tables came, CPU time, a new epoch if one is due,
 * then rows and samples, then the ledger. */
#include "profile/profile.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "profile/internal.h"

/* If code objects that live fill most of the registry, they are asked for again after this time, or the asking would never end. */
#define NO_ROOM_NS 10000000000ull
/* The sampler sends what it samples again for this long. What did not come by then is dropped. It covers records that
 * are held back and samples that wait for names. */
#define RESEND_NS 300000000ull

int profile__new(const struct profile_options *options, struct event_sink *sink,
		 struct profile **ret)
{
	struct profile *profile = calloc(1, sizeof(*profile));
	int err;

	if (!profile)
		return -ENOMEM;
	profile->options = *options;
	if (!profile->options.stacks_max)
		profile->options.stacks_max = options->codemap ? 200000 : 12000;
	if (!profile->options.bytes_max)
		profile->options.bytes_max = 4u << 20;
	if (!profile->options.ended_max)
		profile->options.ended_max = 2048;
	if (!profile->options.pending_max)
		profile->options.pending_max = 65536; /* three seconds of two threads at 9999 Hz */
	profile->sink = sink;
	tasks__init(&profile->tasks);
	profile->stack = calloc(1, sizeof(*profile->stack));
	err = profile->stack ? hash_seed__draw(&profile->stack->cache.seed) : -ENOMEM;
	err = err ?: codes__new(&profile->codes);
	if (!err)
		err = tables__init(&profile->tables, profile->codes, options->codemap,
				   profile->ledger.own);
	profile->tables.without_lines = options->without_lines;
	if (err) {
		profile__free(profile);
		return err;
	}
	*ret = profile;
	return 0;
}

struct profile *profile__free(struct profile *profile)
{
	if (!profile)
		return NULL;
	free((char *)profile->session.mode);
	free((char *)profile->session.boot_id);
	free((char *)profile->session.command);
	free((char *)profile->session.machine);
	unfinished__free(profile);
	for (struct thread *thread = profile->tasks.threads; thread; thread = thread->next)
		waits__free(profile, thread);
	queue__free(&profile->queue);
	free(profile->stack);
	tasks__free(&profile->tasks);
	tables__free(&profile->tables);
	classify__free(profile);
	sites__clear(&profile->sites);
	codes__free(profile->codes);
	free(profile);
	return NULL;
}

static int emit_session(const struct profile *profile, struct event_sink *sink)
{
	const struct event event = {.kind = EVENT_SESSION, .session = profile->session};

	return sink->event(sink, &event);
}

static int emit_epoch(const struct profile *profile, struct event_sink *sink)
{
	const struct event event = {
		.kind = EVENT_EPOCH,
		.epoch = {.number = profile->epoch, .time = profile->epoch_time},
	};

	return sink->event(sink, &event);
}

int profile__begin(struct profile *profile, const struct event_session *session)
{
	struct event_session *own = &profile->session;
	int err;

	if (profile->begun)
		return -EINVAL;
	*own = *session;
	own->mode = strdup(session->mode ? session->mode : "");
	own->boot_id = strdup(session->boot_id ? session->boot_id : "");
	own->command = strdup(session->command ? session->command : "");
	own->machine = strdup(session->machine ? session->machine : "");
	if (!own->mode || !own->boot_id || !own->command || !own->machine)
		return -ENOMEM;
	profile->begun = true;
	profile->wall = own->idle || !strcmp(own->mode, "wall");
	profile->epoch_time = profile->batch_time = profile->deadline_time = profile->ledger_time = session->monotonic;
	err = emit_session(profile, profile->sink);
	return err ? err : emit_epoch(profile, profile->sink);
}

/* A new code object, or more of a known one. The format of its line table is its process's; of an unknown process,
 * that of the last known one. */
int profile__code(struct profile *profile, const struct record_code *code)
{
	const struct record_task *task = &code->header.task;
	const struct process *process = tasks__find_process(&profile->tasks, task->tgid,
							    task->process_start, task->exec, true);
	enum py_lines lines = process && process->lines ? process->lines : profile->lines;
	uint32_t serial;
	bool news;
	int err = codes__add(profile->codes, code, lines, &serial, &news);

	if (err == -ENOSPC)
		return 0; /* its frames are CODE_UNCAPTURED until it comes again */
	if (!err && news)
		tables__code_changed(&profile->tables, code->key, serial);
	return err;
}

bool profile__knows_code(const struct profile *profile, uint64_t key)
{
	return codes__find(profile->codes, key) != CODE_NONE;
}

/* Time to drop code objects with a new epoch, before one has to be refused: some fill the rest in half a second. */
static bool codes_fill(const struct profile *profile, uint64_t now)
{
	size_t bytes = codes__bytes(profile->codes);

	if (bytes >= CODES_BYTES_MAX / 4 * 3 && now - profile->epoch_time > NO_ROOM_NS)
		return true;
	return bytes >= CODES_BYTES_MAX / 2 && bytes - profile->codes_kept >= CODES_BYTES_MAX / 4;
}

/* The sampler sends a code object once. So before some are dropped, it is asked to send those that it samples again. */
static void begin_resend(struct profile *profile, uint64_t now)
{
	if (profile->resend_time || !codes_fill(profile, now))
		return;
	codes__renew(profile->codes);
	profile->resend_time = now;
	profile->resend_due = true;
}

bool profile__resends_codes(struct profile *profile)
{
	bool due = profile->resend_due;

	profile->resend_due = false;
	return due;
}

/* Has all that living code objects send again come? `now` may be the time of a sample, which is in the past. */
static bool is_resent(const struct profile *profile, uint64_t now)
{
	return profile->resend_time && (int64_t)(now - profile->resend_time) >= (int64_t)RESEND_NS;
}

/* Makes room for code objects: those that did not come again are gone, or are not sampled any more. */
static int retain_codes(struct profile *profile, uint64_t now)
{
	uint32_t i, n = codes__count(profile->codes);
	uint8_t *keep;
	int err;

	if (!is_resent(profile, now))
		return 0;
	keep = calloc(1, n / 8 + 1);
	if (!keep)
		return -ENOMEM;
	for (i = 0; i < n; i++)
		keep[i / 8] |= codes__get(profile->codes, i)->renewed << i % 8;
	err = codes__retain(profile->codes, keep);
	profile->codes_kept = codes__bytes(profile->codes);
	profile->resend_time = 0;
	free(keep);
	return err;
}

/* The end of an epoch: everything that waits is emitted with what is known; tables, classes and caches of ids are
 * emptied; living processes and threads get new ids and are announced again. Readers drop their tables at the
 * `epoch` event. */
int profile__rotate(struct profile *profile, uint64_t now)
{
	int err;

	profile__release(profile, now, true);
	err = profile__drain(profile, true);
	err = err ?: retain_codes(profile, now);
	if (err)
		return err;
	profile->epoch_due = false;
	tables__clear(&profile->tables);
	classify__clear(profile);
	if (profile->options.codemap)
		stack__clear(profile->stack);
	tasks__renew(&profile->tasks);
	profile->next_process = profile->next_thread = 0;
	profile->epoch++;
	profile->epoch_time = now;
	err = emit_epoch(profile, profile->sink);
	return err ? err : announce__new(profile, false);
}

/* Each thread gets the time since its last row, in wall mode as the wait that it is in. The CPU time that the scheduler
 * counted and no sample has (carry) goes to samples of the next part. */
static int close_accounts(struct profile *profile, uint64_t time)
{
	int err = 0;

	for (struct thread *thread = profile->tasks.threads; thread && !err; thread = thread->next) {
		if (thread->ended || thread->end_queued || thread->process->withheld)
			continue;
		if (thread->last != thread->part)
			thread->row_end = thread->last;
		if (profile->wall && !thread->lost)
			err = waits__part(profile, thread, time);
	}
	err = err ?: profile__drain(profile, true);
	for (struct thread *thread = profile->tasks.threads; thread && !err; thread = thread->next) {
		if (thread->id != ID_NONE && !thread->ended)
			err = announce__goes_on(profile, thread, time);
	}
	return err;
}

int profile__part(struct profile *profile, const struct event_session *clocks)
{
	const struct event part = {.kind = EVENT_PART, .part = {.time = clocks->monotonic}};
	int err;

	profile__release(profile, 0, true);
	err = announce__new(profile, true);
	err = err ?: profile__drain(profile, true) ?: close_accounts(profile, clocks->monotonic);
	err = err ?: ledger__emit(profile, profile->sink, clocks->monotonic);
	err = err ?: profile->sink->event(profile->sink, &part);
	if (err)
		return err;
	ledger__part(profile);
	ledger__rate(profile, clocks->rate);
	profile->session.monotonic = clocks->monotonic;
	profile->session.boottime = clocks->boottime;
	profile->session.realtime = clocks->realtime;
	profile->ledger_time = clocks->monotonic;
	err = emit_session(profile, profile->sink);
	return err ?: profile__rotate(profile, clocks->monotonic);
}

void profile__end_epoch(struct profile *profile)
{
	profile->epoch_due = true;
}

int profile__tick(struct profile *profile, uint64_t now)
{
	int err = life__settle(profile, now, false);

	if (now - profile->deadline_time >= PROFILE_BATCH_NS) {
		profile->deadline_time = now;
		profile->tables.tick++;
	}
	err = err ?: unfinished__run(profile, now, false);
	profile__release(profile, now, false);
	begin_resend(profile, now);
	if (!err && (is_resent(profile, now) || profile->epoch_due || profile__full(profile)))
		err = profile__rotate(profile, now);
	if (!err && (now - profile->batch_time >= PROFILE_BATCH_NS ||
		     queue__length(&profile->queue) >= 2 * BATCH_ROWS)) {
		profile->batch_time = now;
		err = profile__drain(profile, false);
	}
	if (!err && now - profile->ledger_time >= PROFILE_LEDGER_NS) {
		profile->ledger_time = now;
		err = announce__new(profile, true);
		err = err ?: ledger__emit(profile, profile->sink, now);
	}
	return err;
}

int profile__replay(struct profile *profile, struct event_sink *sink)
{
	int err;

	if (!profile->begun)
		return -EINVAL;
	err = emit_session(profile, sink);
	err = err ?: emit_epoch(profile, sink);
	err = err ?: announce__replay(profile, sink);
	err = err ?: tables__replay(&profile->tables, sink);
	err = err ?: classify__emit(profile, sink, true);
	return err ? err : ledger__emit(profile, sink, profile->ledger_time);
}

static int emit_end(struct profile *profile, uint64_t time, const char *reason, const char *detail)
{
	const struct event event = {
		.kind = EVENT_END,
		.end = {.time = time, .reason = reason, .detail = detail ? detail : ""},
	};

	return profile->sink->event(profile->sink, &event);
}

/* The order is that of the stream: ends of threads and processes behind their samples, then the ledger, then `end`. */
int profile__end(struct profile *profile, uint64_t time, const char *reason, const char *detail)
{
	int err;

	if (!profile->begun || profile->ended)
		return -EINVAL;
	profile->ended = true;
	for (struct process *process = profile->tasks.processes; process; process = process->next)
		life__end_process(profile, process, time);
	err = life__settle(profile, time, true);
	err = err ?: announce__new(profile, true);
	err = err ?: profile__drain(profile, true);
	err = err ?: ledger__emit(profile, profile->sink, time);
	return emit_end(profile, time, err ? "failed" : reason, err ? strerror(-err) : detail);
}

void profile__totals(const struct profile *profile, struct profile_totals *ret)
{
	*ret = (struct profile_totals){
		.samples = profile->ledger.samples,
		.whole = profile->ledger.whole,
		.native = profile->ledger.before.native + profile->ledger.stops.native,
		.native_whole = profile->ledger.before.native_whole + profile->ledger.stops.whole,
		.epoch = profile->epoch,
		.processes = profile->tasks.n_processes,
		.threads = profile->tasks.n_threads,
		.functions = profile->tables.n_functions,
		.frames = profile->tables.n_frames,
		.stacks = profile->tables.n_stacks,
		.bytes = tables__bytes(&profile->tables) + codes__bytes(profile->codes) +
			 profile->tasks.bytes + profile->tasks.memo_bytes +
			 queue__bytes(&profile->queue) + sizeof(struct stack) + sites__bytes(&profile->sites) +
			 profile->unfinished_bytes + profile->waits_bytes,
	};
	for (enum loss loss = LOSS_NONE; loss < LOSS_COUNT; loss++)
		ret->losses[loss] = ledger__loss(profile, loss);
}
