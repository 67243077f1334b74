/* SPDX-License-Identifier: MIT */
/* Events -> the model of a recording. A session numbers its rows anew in each epoch; here each function,
 * frame, stack and thread has one id for the whole recording, and times are ns since the session's start.
 * timeline.c decides which stack a sample's time goes to.
 *
 *     model.c       the event sink, sessions, threads, samples
 *     projection.c  functions, frames and stacks: ids of the epoch -> ids of the model
 *     timeline.c    samples -> slices of a thread's time
 *     unsampled.c   CPU time that samples of other threads represent
 *     units.c       compiles
 *     lines.c       lines that compilers were at
 *     view.c        what exporters ask of a model that was read
 *
 * The events come from a file that anyone may have made. The decoder has checked ids; what is left to check
 * here are times (SPAN_MAX) and the order of a thread's events (`ended`). */
#include "export/model.h"

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "events/json.h"
#include "export/close.h"
#include "export/quiet.h"

/* Times beyond 104 days (2^53 ns) mean a damaged file; sums of such times could overflow. */
#define SPAN_MAX (1ull << 53)

/* --- processes and threads --- */

static int replace(char **string, const char *with)
{
	char *copy = strdup(with);

	if (!copy)
		return -ENOMEM;
	free(*string);
	*string = copy;
	return 0;
}

/* Maps the epoch's id `local` to the model's `id`. Ids of an epoch count up from 0, so a new one is the next;
 * a known one is emitted again, with another name. */
static int map(struct buf *epoch, uint32_t local, uint32_t id)
{
	if (local < LENGTH(*epoch, uint32_t)) {
		ITEM(*epoch, uint32_t, local) = id;
		return 0;
	}
	return buf__append(epoch, &id, sizeof(id));
}

/* Converts to ns since the session's start. Without an event `session`, the first time seen is the start. */
static uint64_t since_start(struct model *model, uint64_t time)
{
	uint64_t since;

	if (!model->begun) {
		model->origin = time;
		model->begun = true;
	}
	since = time > model->origin ? time - model->origin : 0;
	if (since < SPAN_MAX && since > model->finish)
		model->finish = since;
	return since;
}

static int on_process(struct model *model, const struct event_process *event)
{
	/* A pid that was reused has another start; a process that called exec has another count. */
	const uint64_t key[] = {(uint32_t)event->pid, event->start, event->exec};
	const struct model_process fresh = {.pid = event->pid};
	uint32_t id;
	int err = intern__id(&model->process_keys, key, sizeof(key), &id);

	if (!err && id == LENGTH(model->processes, struct model_process))
		err = buf__append(&model->processes, &fresh, sizeof(fresh));
	err = err ?: map(&model->epoch_processes, event->id, id);
	if (!err && event->unsupported && *event->unsupported && !model->unsupported)
		err = replace(&model->unsupported, event->unsupported);
	/* The last name wins: a program may change its title. */
	err = err ?: replace(&model__process(model, id)->name, event->name);
	err = err ?: replace(&model__process(model, id)->container, event->container ?: "");
	return err ?: replace(&model__process(model, id)->python, event->python);
}

static int add_thread(struct model *model, const struct event_thread *event, uint32_t id,
		      uint32_t process, uint64_t time)
{
	struct model_thread *thread = calloc(1, sizeof(*thread));

	if (!thread || buf__append(&model->threads, &thread, sizeof(thread))) {
		free(thread);
		return -ENOMEM;
	}
	thread->id = id;
	thread->process = process;
	thread->tid = event->tid;
	thread->begin = thread->clock = time;
	return 0;
}

static int on_thread(struct model *model, const struct event_thread *event)
{
	uint32_t process = ITEM(model->epoch_processes, uint32_t, event->process), id;
	const uint64_t key[] = {process, (uint32_t)event->tid, event->start};
	/* An id that is known in this epoch: only the name has changed. */
	bool renamed = event->id < LENGTH(model->epoch_threads, uint32_t);
	uint64_t time = since_start(model, event->time);
	int err = intern__id(&model->thread_keys, key, sizeof(key), &id);

	if (!err && time > SPAN_MAX)
		err = -EBADMSG;
	if (!err && id == LENGTH(model->threads, struct model_thread *))
		err = add_thread(model, event, id, process, time);
	else if (!err && !renamed) /* emitted again in a new epoch: nothing is missing up to here */
		err = timeline__advance(model, model__thread(model, id), time);
	err = err ?: map(&model->epoch_threads, event->id, id);
	return err ? err : replace(&model__thread(model, id)->name, event->name);
}

/* --- time --- */

/* With -i or in wall mode, a sample that was taken while the thread waited has a cause: its time goes to its own
 * stack, whose leaf says what the thread waited for. */
static uint32_t waiting_stack(const struct model *model, const struct sample_row *row, uint32_t stack)
{
	return row->cause && row->stack && (model->options->idle || model->wall_mode) ? stack : MODEL_ROOT;
}

static int on_units(struct model *model, const struct event_rows *rows)
{
	const struct unit_row *row = rows->rows;
	int err = 0;

	for (uint32_t i = 0; i < rows->n && !err && model->with_units; i++, row++) {
		uint32_t thread = ITEM(model->epoch_threads, uint32_t, row->thread), trigger = 0;

		/* Only of outermost compiles; for the others it would repeat the outermost one's. */
		if (row->trigger && !row->parent)
			trigger = model__node(model, ITEM(model->epoch_stacks, uint32_t, row->trigger)).frame + 1;
		err = unit_tree__row(&model->units, row, thread, trigger, since_start(model, row->time));
	}
	return err;
}

static int on_unit_end(struct model *model, const struct event_unit_end *event)
{
	return model->with_units ? unit_tree__end(&model->units, event, since_start(model, event->time)) : 0;
}

static int on_unit_ends(struct model *model, const struct event_unit_ends *ends)
{
	struct event_unit_end end = {.name = "", .signature = "", .file = ""};
	int err = 0;

	for (uint32_t i = 0; !err && i < ends->n; i++) {
		end.id = ends->rows[i].id;
		end.time = ends->rows[i].time;
		err = on_unit_end(model, &end);
	}
	return err;
}

/* What the sample is counted for. One that a filter leaves out keeps its place and its times, so that a thread's time
 * still adds up, but nothing else. */
static int place_sample(struct model *model, struct sample_row *row, uint32_t *ret)
{
	bool pass = true;
	int err = model->filter ? filter__passes(model->filter, row, &pass) : 0;

	*ret = !pass ? model->left_out : row->stack ? ITEM(model->epoch_stacks, uint32_t, row->stack) : model->no_stack;
	if (!pass)
		row->class_id = row->unit = row->line = row->cause = 0;
	return err;
}

/* What comes of a thread behind its end: in the same epoch only a damaged or hostile file has that. In a later one it is
 * the next part of the session (docs/protocol.md, `part`), where the thread goes on. */
static bool has_ended(const struct model *model, struct model_thread *thread)
{
	thread->ended = thread->ended && thread->ended_in == model->epochs;
	return thread->ended;
}

static int on_samples(struct model *model, const struct event_samples *samples)
{
	uint32_t i, stack, waiting;
	int err = 0;

	for (i = 0; i < samples->n && !err; i++) {
		struct sample_row row = samples->rows[i];
		uint32_t id = ITEM(model->epoch_threads, uint32_t, row.thread);
		struct model_thread *thread = model__thread(model, id);
		uint64_t time = since_start(model, row.time);

		if (time > SPAN_MAX || row.wall > SPAN_MAX || row.cpu > SPAN_MAX)
			return -EBADMSG;
		if (has_ended(model, thread))
			continue;
		err = place_sample(model, &row, &stack);
		/* Samples inside the window; waits count only if the recording is about waits. */
		model->counts_now = !row.cause || model->waits_asked;
		thread->samples += model->counts_now && time >= model->options->from && (!model->options->to || time <= model->options->to) &&
				   !(model->filter && stack == model->left_out);
		/* class_now to others_now: what the callbacks slice() and sampled() read during this sample. */
		err = err ?: class_names__id(&model->classes, row.class_id, &model->class_now);
		model->call_now = unit_tree__sample(&model->units, row.unit, id, time);
		model->line_now = line_tree__id(&model->lines, row.line);
		model->time_now = time;
		model->cause_now = row.cause;
		model->how_now = row.how;
		model->caller_now = ITEM(model->epoch_threads, uint32_t, row.caller);
		waiting = waiting_stack(model, &row, stack);
		model->given_now = row.given;
		model->others_now = row.others;
		err = err ?: timeline__sample(model, thread, time, row.wall, row.cpu, stack, waiting);
		/* After its own time: its stack also represents threads that ended without a sample. */
		if (!err && row.others)
			err = unsampled__stand(model, stack, row.others);
	}
	return err;
}

/* Time between a thread's last sample and its end: "(not sampled)". */
static int on_thread_end(struct model *model, const struct event_ending *event)
{
	uint32_t id = ITEM(model->epoch_threads, uint32_t, event->id);
	struct model_thread *thread = model__thread(model, id);
	uint64_t time = since_start(model, event->time);
	int err;

	if (time > SPAN_MAX || event->wall > SPAN_MAX || event->cpu > SPAN_MAX)
		return -EBADMSG;
	if (has_ended(model, thread))
		return 0;
	err = class_names__id(&model->classes, 0, &model->class_now);
	model->call_now = CALL_NONE;
	model->line_now = 0;
	model->cause_now = model->how_now = 0;
	model->time_now = time;
	model->given_now = event->cpu;
	model->others_now = 0;
	err = err ?: timeline__sample(model, thread, time, event->wall, event->cpu,
				      model->not_sampled, MODEL_ROOT);
	thread->ended = true;
	thread->ended_in = model->epochs;
	thread->finish = thread->clock;
	return err;
}

/* --- the session --- */

static int on_session(struct model *model, const struct event_session *event)
{
	int err = replace(&model->mode, event->mode);

	if (model->begun)
		return 0; /* emitted again for a late joiner */
	model->begun = true;
	model->origin = event->monotonic;
	model->realtime = event->realtime;
	model->pid = event->pid;
	model->rate = event->rate;
	/* The engine's default, if a damaged file has no rate. */
	model->period = 1000000000 / (event->rate ? event->rate : 999);
	model->wall_mode = !strcmp(event->mode, "wall");
	model->native_asked = event->native;
	model->waits_asked = event->idle || model->wall_mode;
	return err ?: replace(&model->command, event->command) ?: replace(&model->machine, event->machine ?: "");
}

/* Resets the tree of stacks to the notes, "(idle)" and so on. They get the same ids each time, so an id of a note
 * (model->idle ...) is valid in all epochs. */
static int reset_tree(struct model *model)
{
	uint32_t root;
	int err;

	intern__free(&model->nodes);
	err = projection__node(model, UINT32_MAX, UINT32_MAX, &root);
	err = err ?: projection__note(model, "(idle)", &model->idle);
	err = err ?: projection__note(model, "(not recorded)", &model->not_recorded);
	err = err ?: projection__note(model, "(not sampled)", &model->not_sampled);
	err = err ?: projection__note(model, "(no stack)", &model->no_stack);
	err = err ?: projection__note(model, "(folded)", &model->folded);
	err = err ?: projection__note(model, FILTER_LEFT_OUT, &model->left_out);
	return err || !model->hide ? err : projection__note(model, HIDE_NOTE, &model->hidden);
}

/* Row ids start at 0 again. What is keyed by content stays (functions, frames, threads, classes). The tree of stacks
 * stays, too, unless model->epoch is set: then it has been summed up and is dropped. */
static int start_epoch(struct model *model)
{
	int err = 0;

	model->epochs++;
	/* The callback reads the tree and the sums of the epoch that ends now. */
	if (model->epoch)
		err = model->epoch(model) ?: reset_tree(model);
	if (err)
		return err;
	err = unit_tree__epoch(&model->units);
	if (err)
		return err;
	class_names__epoch(&model->classes);
	line_tree__epoch(&model->lines);
	buf__clear(&model->epoch_functions);
	buf__clear(&model->epoch_frames);
	buf__clear(&model->epoch_function_traits);
	buf__clear(&model->epoch_frame_traits);
	buf__clear(&model->epoch_bases);
	buf__clear(&model->epoch_stacks);
	buf__clear(&model->epoch_processes);
	buf__clear(&model->epoch_threads);
	return projection__root(model);
}

/* Keeps the ends of native stacks as JSON text, ready to be written into a file. Each ledger replaces the one
 * before. */
static int keep_stops(struct model *model, const struct event_ledger *event)
{
	struct buf *out = &model->stops;
	int err = 0;

	buf__clear(out);
	model->native = event->native;
	model->native_whole = event->native_whole;
	model->stops_more = event->stops_more;
	for (uint32_t i = 0; i < event->n_stops && !err; i++) {
		const struct ledger_stop *stop = &event->stops[i];

		err = buf__puts(out, i ? ",{" : "{") ?: json__member(out, "loss", stop->loss);
		err = err ?: json__member(out, "module", stop->module) ?: json__number(out, "offset", stop->offset);
		err = err ?: json__member(out, "function", stop->function) ?: json__number(out, "count", stop->count);
		err = err ?: buf__puts(out, "}");
	}
	return err;
}

static int on_ledger(struct model *model, const struct event_ledger *event)
{
	uint32_t i, id;
	int err = keep_stops(model, event);

	since_start(model, event->time);
	model->samples = event->samples;
	model->whole = event->whole;
	/* Totals: a ledger replaces the one before, also the counts that it no longer has (a tick that came late after all). */
	if (model->loss_counts.len)
		memset(model->loss_counts.data, 0, model->loss_counts.len);
	for (i = 0; i < event->n && !err; i++) {
		const char *name = event->lines[i].name;

		err = intern__id(&model->loss_names, name, strlen(name) + 1, &id);
		if (!err && id == LENGTH(model->loss_counts, uint64_t))
			err = buf__append(&model->loss_counts, &event->lines[i].count,
					  sizeof(uint64_t));
		if (!err)
			ITEM(model->loss_counts, uint64_t, id) = event->lines[i].count;
	}
	return err;
}

static int on_trigger(struct model *model, const struct event_trigger *event)
{
	struct model_trigger trigger = {.time = since_start(model, event->time), .value = event->value, .span = event->span, .tid = event->tid};
	int err;

	if (LENGTH(model->triggers, struct model_trigger) == MODEL_TRIGGERS_MAX)
		return 0;
	err = replace(&trigger.condition, event->condition) ?: replace(&trigger.name, event->name) ?: buf__append(&model->triggers, &trigger, sizeof(trigger));
	if (err) {
		free(trigger.condition);
		free(trigger.name);
	}
	return err;
}

static int on_end(struct model *model, const struct event_end *event)
{
	int err = replace(&model->reason, event->reason);

	/* The last ledger is emitted after all samples, so its time is too late. Threads that end later extend this
	 * in model__read(). */
	model->finish = 0;
	since_start(model, event->time);
	return err ? err : replace(&model->detail, event->detail);
}

/* Functions name their module: where two files have one name, no build id is certain. */
static int on_modules(struct model *model, const struct event_rows *rows)
{
	const struct module_row *row = rows->rows;
	int err = 0;

	for (uint32_t i = 0; i < rows->n && !err; i++) {
		char **known = intern__item(&model->modules, row[i].name, strlen(row[i].name), &model->build_ids, sizeof(*known));

		if (!known)
			err = -ENOMEM;
		else if (!*known || strcmp(*known, row[i].build_id))
			err = replace(known, *known ? "" : row[i].build_id);
	}
	return err;
}

const char *model__build_id(const struct model *model, const char *module)
{
	uint32_t id = intern__find(&model->modules, module, strlen(module));

	return id == UINT32_MAX ? "" : ITEM(model->build_ids, char *, id) ?: "";
}

static int on_event(struct event_sink *self, const struct event *event)
{
	struct model *model = (struct model *)self;
	int err = model->filter ? filter__event(model->filter, event) : 0;

	if (err)
		return err;
	switch (event->kind) {
	case EVENT_SESSION:
		return on_session(model, &event->session) ?: start_epoch(model);
	case EVENT_EPOCH:
		return start_epoch(model);
	case EVENT_PROCESS:
		return on_process(model, &event->process);
	case EVENT_THREAD:
		return on_thread(model, &event->thread);
	case EVENT_MODULES:
		return model->detailed ? on_modules(model, &event->rows) : 0;
	case EVENT_FUNCTIONS:
		return projection__functions(model, &event->rows);
	case EVENT_FRAMES:
		return projection__frames(model, &event->rows);
	case EVENT_STACKS:
		return projection__stacks(model, &event->rows);
	case EVENT_CLASSES:
		return class_names__rows(&model->classes, &event->rows);
	case EVENT_UNITS:
		return on_units(model, &event->rows);
	case EVENT_LINES:
		return model->with_units ? line_tree__rows(&model->lines, &event->rows) : 0;
	case EVENT_UNIT_NAME:
		return model->with_units ? unit_tree__name(&model->units, &event->unit_end) : 0;
	case EVENT_UNIT_END:
		return on_unit_end(model, &event->unit_end);
	case EVENT_UNIT_ENDS:
		return on_unit_ends(model, &event->unit_ends);
	case EVENT_SAMPLES:
		return on_samples(model, &event->samples);
	case EVENT_THREAD_END:
		return on_thread_end(model, &event->ending);
	case EVENT_LEDGER:
		return on_ledger(model, &event->ledger);
	case EVENT_GAP:
		model->gap_events += event->gap.events;
		return 0;
	case EVENT_TRIGGER:
		return on_trigger(model, &event->trigger);
	case EVENT_END:
		return on_end(model, &event->end);
	default:
		return 0;
	}
}

int model__no_slice(struct model *model, struct model_thread *thread, uint32_t stack, uint64_t cpu, uint64_t ns)
{
	return 0;
}

int model__no_epoch(struct model *model)
{
	return 0;
}

static int init(struct model *model, const struct export_options *options, bool detailed)
{
	int err;

	/* 999 Hz until the session says otherwise: time lines need a period. */
	*model = (struct model){.sink = {on_event}, .options = options, .detailed = detailed,
				.period = 1000000000 / 999, .call_now = CALL_NONE};
	err = reset_tree(model) ?: start_epoch(model);
	err = err ?: replace(&model->mode, "") ?: replace(&model->command, "") ?: replace(&model->machine, "");
	return err ?: replace(&model->reason, "") ?: replace(&model->detail, "");
}

int model__init(struct model *model, const struct export_options *options)
{
	return init(model, options, false);
}

int model__init_detailed(struct model *model, const struct export_options *options)
{
	return init(model, options, true);
}

bool thread__passes(const struct export_options *options, int32_t tid, const char *name)
{
	const char *want = options->thread;
	char *end;

	/* A thread may be called "42", so a number is tried as a name, too. */
	return !want || !strcmp(want, name) || (*want && strtol(want, &end, 10) == tid && !*end);
}

bool process__passes(const struct export_options *options, int32_t pid, const char *name)
{
	return !options->process || pattern__process(options->process, pid, name);
}

static bool is_of_process(const struct model *model, const struct model_thread *thread)
{
	const struct model_process *process = model__process(model, thread->process);

	return process__passes(model->options, process->pid, process->name);
}

bool model__passes(const struct model *model, const struct model_thread *thread)
{
	return thread__passes(model->options, thread->tid, thread->name) && is_of_process(model, thread);
}

/* Which one of the two does not exist. For "did you mean": names that are similar to it. */
static int missing_thread(const struct model *model, struct export_missing *ret)
{
	const struct export_options *options = model->options;
	struct close process = CLOSE("process", options->process, !options->process);
	struct close thread = CLOSE("thread", options->thread, !options->thread);

	for (uint32_t i = 0; i < model__threads(model); i++) {
		const struct model_thread *one = model__thread(model, i);

		close__tried(&process, is_of_process(model, one), model__process(model, one->process)->name);
		close__tried(&thread, thread__passes(options, one->tid, one->name), one->name);
	}
	return close__missing(&process, ret) ?: close__missing(&thread, ret);
}

static int read_events(struct model *model, int recording_fd, struct export_missing *ret_missing)
{
	int err = 0;

	if (hide__wanted(model->options))
		err = hide__new(model->options, &model->hide) ?: projection__note(model, HIDE_NOTE, &model->hidden);
	if (filter__wanted(model->options))
		err = err ?: filter__new(model->options, recording_fd, &model->filter);
	err = err ?: recording__read(recording_fd, model->options->readable, &model->sink, &model->cut);
	if (!err && model->filter)
		err = filter__missing(model->filter, ret_missing);
	if (!err && model->hide)
		err = hide__missing(model->hide, ret_missing);
	return err;
}

/* The life of a process before exec, such as the forked child of `record`: it only waited, and its later image is
 * another process of the model. */
static bool is_before_exec(const struct model *model, const struct model_thread *thread)
{
	return thread->ended && !thread->samples && !thread->cpu && model__process(model, thread->process)->followed;
}

/* Finds processes that a later one with the same pid follows: goes backwards, and looks up whether the pid is known. */
static int find_followed(struct model *model)
{
	struct intern pids = {};
	uint32_t i, id;
	int err = 0;

	for (i = LENGTH(model->processes, struct model_process); i-- && !err;) {
		struct model_process *process = model__process(model, i);
		uint32_t known = pids.n;

		err = intern__id(&pids, &process->pid, sizeof(process->pid), &id);
		/* The pid was seen before, and that means later in the recording. */
		process->followed = id < known;
	}
	intern__free(&pids);
	return err;
}

/* Threads shown with the same tid, in images of the same pid. */
struct same {
	uint32_t process; /* of the first of them */
	bool several;	  /* other images have such threads, too */
};

/* A thread that called exec occurs once per image. `counted` is set for all but the first, so that it counts once. */
static int find_counted(struct model *model)
{
	struct intern keys = {};
	struct buf all = {}; /* struct same */
	uint32_t i, id;
	int err = 0;

	for (i = 0; i < model__threads(model) && !err; i++) {
		struct model_thread *thread = model__thread(model, i);
		const int32_t key[] = {model__process(model, thread->process)->pid, thread->tid};
		const struct same fresh = {.process = thread->process};
		struct same *same;

		if (!thread->shown)
			continue;
		err = intern__id(&keys, key, sizeof(key), &id);
		if (!err && id == LENGTH(all, struct same))
			err = buf__append(&all, &fresh, sizeof(fresh));
		if (err)
			break;
		same = &ITEM(all, struct same, id);
		thread->counted = same->several || same->process != thread->process;
		same->several |= same->process != thread->process;
	}
	intern__free(&keys);
	buf__free(&all);
	return err;
}

static void find_quiet(struct model *model)
{
	struct export_report all = {};

	model__report(model, &all);
	for (uint32_t i = 0; model->wall_mode && i < model__threads(model); i++) {
		struct model_thread *thread = model__thread(model, i);

		thread->quiet = thread->shown && thread__is_quiet(thread->cpu, thread->wall, all.cpu, all.wall);
	}
}

/* CPU time that no sample represents gets no class. */
int model__settle(struct model *model)
{
	int err = class_names__id(&model->classes, 0, &model->class_now);

	model->call_now = CALL_NONE;
	model->line_now = 0;
	model->how_now = 0;
	return err ?: unsampled__finish(model);
}

/* Reads the events, then computes what is known only at the end: how long each thread lived, and which are shown,
 * listed, counted, quiet. */
int model__read(struct model *model, int recording_fd, struct export_missing *ret_missing)
{
	int err = read_events(model, recording_fd, ret_missing) ?: model__settle(model) ?: unit_tree__finish(&model->units);
	uint32_t i, shown = 0;

	/* Not even a session event: the file is empty or ends in its first line. */
	if (!err && !model->begun)
		return -ENOMSG;
	err = err ?: find_followed(model);
	for (i = 0; i < model__threads(model) && !err; i++) {
		struct model_thread *thread = model__thread(model, i);

		err = timeline__finish(model, thread);
		if (thread->finish > model->finish)
			model->finish = thread->finish;
		/* Threads that began after the window are no part of it. */
		thread->shown = model__passes(model, thread) && thread->begin <= model__to(model);
		thread->listed = thread->shown && !is_before_exec(model, thread);
		if (thread->listed && !model__process(model, thread->process)->shown++)
			model->processes_shown++;
		shown += thread->shown;
	}
	find_quiet(model);
	err = err ?: find_counted(model);
	/* A recording without threads is not an error; a thread that nobody has is. */
	if (err || shown || (!model->options->thread && !model->options->process))
		return err;
	return missing_thread(model, ret_missing);
}

void model__free(struct model *model)
{
	struct intern *interns[] = {&model->loss_names, &model->modules, &model->functions, &model->frames,
				    &model->nodes, &model->process_keys, &model->thread_keys};
	struct buf *bufs[] = {&model->triggers, &model->loss_counts, &model->columns, &model->processes,
			      &model->threads, &model->stops, &model->epoch_functions, &model->epoch_frames,
			      &model->epoch_stacks, &model->epoch_processes, &model->epoch_threads,
			      &model->epoch_function_traits, &model->epoch_frame_traits, &model->epoch_bases, &model->scratch, &model->build_ids};

	for (size_t i = 0; i < LENGTH(model->processes, struct model_process); i++) {
		free(model__process(model, (uint32_t)i)->name);
		free(model__process(model, (uint32_t)i)->python);
		free(model__process(model, (uint32_t)i)->container);
	}
	for (size_t i = 0; i < model__threads(model); i++) {
		struct model_thread *thread = model__thread(model, (uint32_t)i);

		buf__free(&thread->slices.packed);
		free(thread->name);
		free(thread);
	}
	for (uint32_t i = 0; i < LENGTH(model->build_ids, char *); i++)
		free(ITEM(model->build_ids, char *, i));
	for (uint32_t i = 0; i < LENGTH(model->triggers, struct model_trigger); i++) {
		free(ITEM(model->triggers, struct model_trigger, i).condition);
		free(ITEM(model->triggers, struct model_trigger, i).name);
	}
	for (size_t i = 0; i < sizeof(interns) / sizeof(interns[0]); i++)
		intern__free(interns[i]);
	for (size_t i = 0; i < sizeof(bufs) / sizeof(bufs[0]); i++)
		buf__free(bufs[i]);
	unsampled__free(&model->unsampled);
	filter__free(model->filter);
	hide__free(model->hide);
	unit_tree__free(&model->units);
	line_tree__free(&model->lines);
	class_names__free(&model->classes);
	free(model->mode);
	free(model->command);
	free(model->machine);
	free(model->reason);
	free(model->detail);
	free(model->unsupported);
}
