/* SPDX-License-Identifier: MIT */
/* Reads recordings into the tables. Samples are first added up by (thread, stack), and the time of each stack
 * is added to the rows once per epoch (fold()), because a recording has far more samples than stacks.
 *
 *     model__read() -> add_slice()      each sample: sums by stack (cells), by thread and class (parts)
 *                   -> units__sampled() each sample: sums of compiles (units.c)
 *                   -> fold()           end of an epoch: cells -> stacks__add() -> rows
 *     then add_parts(), units__add(), describe() */
#include "report/report.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "classes/classes.h"
#include "events/json.h"
#include "export/close.h"
#include "export/quiet.h"
#include "report/internal.h"

/* Key of an epoch's sums: the stack; with --thread also the thread, as its name may be known only at the end of the
 * epoch. */
struct cell {
	uint32_t thread, stack;
};

/* Key of a recording's sums for classes and threads. */
struct part {
	uint32_t thread, class_id;
};
/* Values of class_id for time that has no class. */
#define PART_IDLE UINT32_MAX
#define PART_NOT_RECORDED (UINT32_MAX - 1)
#define PART_LEFT_OUT (UINT32_MAX - 2)

int report__new(const struct report_options *options, uint32_t files, struct report **ret)
{
	struct report *report = calloc(1, sizeof(*report));
	int err = 0, i;

	if (!report)
		return -ENOMEM;
	report->options = options;
	report->files = files;
	report->file = calloc(files, sizeof(*report->file));
	for (i = 0; i < REPORT_BY_COUNT; i++)
		/* Also tables that were not asked for: they stay empty, and nobody needs to test for them. */
		err = err ?: table__init(&report->tables[i], (enum report_by)i, files);
	report->tables[REPORT_CALLERS].lines = options->filter.lines;
	report->tables[REPORT_CALLEES].lines = options->filter.lines;
	for (i = 0; i < REPORT_BY_COUNT; i++)
		err = err ?: table__init(&report->below[i], REPORT_LINE, files);
	err = err ?: table__init(&report->ran, REPORT_CLASS, files);
	err = err ?: table__init(&report->focus[0], REPORT_FUNCTION, files);
	err = err ?: table__init(&report->focus[1], REPORT_FUNCTION, files);
	if (err || !report->file) {
		report__free(report);
		return -ENOMEM;
	}
	*ret = report;
	return 0;
}

void report__free(struct report *report)
{
	struct buf *bufs[] = {&report->each, &report->stages, &report->chains,
			      &report->repeated, &report->first,	 &report->next,
			      &report->last_samples};

	if (!report)
		return;
	for (uint32_t i = 0; i < REPORT_BY_COUNT; i++)
		table__free(&report->tables[i]);
	for (uint32_t i = 0; i < REPORT_BY_COUNT; i++)
		table__free(&report->below[i]);
	table__free(&report->ran);
	table__free(&report->focus[0]);
	table__free(&report->focus[1]);
	for (uint32_t i = 0; report->file && i < report->files; i++) {
		free(report->file[i].name);
		free(report->file[i].command);
		free(report->file[i].mode);
		free(report->file[i].reason);
		free(report->file[i].unsupported);
		buf__free(&report->file[i].losses);
		buf__free(&report->file[i].triggers);
		buf__free(&report->file[i].fired);
	}
	free(report->file);
	sums__free(&report->cells);
	sums__free(&report->parts);
	intern__free(&report->compiled);
	buf__free(&report->compiled_times);
	sums__free(&report->unnamed);
	intern__free(&report->thread_names);
	for (uint32_t i = 0; i < sizeof(bufs) / sizeof(bufs[0]); i++)
		buf__free(bufs[i]);
	shares__free(&report->shares);
	buf__free(&report->focused);
	buf__free(&report->quiet);
	buf__free(&report->stack);
	buf__free(&report->calls);
	free(report);
}

/* --- reading --- */

/* Which part a sample's time belongs to: its class, or the reason why it has none. The three stacks are made
 * by the model, with notes as their frames. */
static uint32_t part_of(const struct model *model, uint32_t stack)
{
	if (stack == MODEL_ROOT)
		return PART_LEFT_OUT;
	if (stack == model->idle)
		return PART_IDLE;
	return stack == model->not_recorded ? PART_NOT_RECORDED : model->class_now;
}

static bool chooses_threads(const struct report *report)
{
	return report->options->filter.thread || report->options->filter.process;
}

static int add_slice(struct model *model, struct model_thread *thread, uint32_t stack, uint64_t cpu,
		     uint64_t ns)
{
	struct report *report = model->ctx;
	const struct times times = {cpu, ns};
	const struct part part = {thread->id, part_of(model, stack)};
	const struct cell cell = {chooses_threads(report) ? thread->id : 0, stack};
	int err = sums__add(&report->parts, &part, sizeof(part), &times);

	/* Time that filters leave out, idle time and time of quiet threads are in no row of functions. */
	if (err || part.class_id >= PART_LEFT_OUT || quiet__is(&report->quiet, thread->id))
		return err;
	if (model->how_now < ATTRIBUTION_HOW_COUNT)
		report->file[report->read].worked[model->how_now] += cpu;
	return sums__add(&report->cells, &cell, sizeof(cell), &times);
}

/* Adds the epoch's sums to the tables. It must be done now, because stacks are dropped with their epoch. --thread and
 * --process are applied here, as a thread or process may get its name after its first samples. */
static int fold(struct model *model)
{
	struct report *report = model->ctx;
	int err = 0;

	for (uint32_t i = 0; i < sums__n(&report->cells) && !err; i++) {
		const struct cell *cell = sums__key(&report->cells, i);

		if (!chooses_threads(report) ||
		    model__passes(model, model__thread(model, cell->thread)))
			err = stacks__add(report, cell->stack, sums__times(&report->cells, i));
	}
	sums__free(&report->cells);
	shares__free(&report->shares); /* ids of calls change with the epoch */
	return err;
}

/* For tables whose rows divide the time among them, so that exclusive and inclusive time are equal. */
static int add_whole(struct report *report, struct table *table, const struct row_key *key, const struct times *times,
		     uint32_t *ret)
{
	int err = table__row(table, key, ret);

	if (err)
		return err;
	table__exclusive(table, *ret, times);
	times__add(&table__times(table, *ret, report->read)->inclusive, times);
	times__add(&table->totals[report->read], times);
	return 0;
}

/* The rows of the tables of processes, of threads and of classes. */
static int add_part(struct report *report, const struct part *part, const struct times *times)
{
	struct report_file *file = &report->file[report->read];
	const struct model *model = report->model;
	const struct model_thread *thread = model__thread(model, part->thread);
	const struct model_process *process = model__process(model, thread->process);
	struct row_key class_key = row_key__named("", KIND_GROUP), key = class_key, process_key = class_key;
	char name[256];
	uint32_t row;
	int err;

	if (part->class_id == PART_LEFT_OUT)
		times__add(&file->left_out, times);
	else if (part->class_id == PART_IDLE)
		file->idle += times->wall;
	else if (part->class_id == PART_NOT_RECORDED)
		file->not_recorded += times->wall;
	if (part->class_id >= PART_LEFT_OUT)
		return 0;
	times__add(&file->shown, times);
	class_key.name = class_names__name(&model->classes, part->class_id);
	report->gil |= !strcmp(class_key.name, class__name(CLASS_WITHOUT_GIL));
	/* Several recordings: the same thread has another tid in each run, and its process another pid. */
	if (report->files > 1)
		snprintf(name, sizeof(name), "%s", thread->name);
	else
		snprintf(name, sizeof(name), "%s (%d)", thread->name, thread->tid);
	key.pid = process_key.pid = report->files > 1 ? 0 : process->pid;
	key.name = name;
	/* Threads of the same name in different processes are different rows. */
	key.detail = process_key.name = process->name;
	err = add_whole(report, &report->tables[REPORT_CLASS], &class_key, times, &row);
	if (thread->quiet)
		file->quiet_wall += times->wall;
	else
		err = err ?: add_whole(report, &report->ran, &class_key, times, &row);
	err = err ?: add_whole(report, &report->tables[REPORT_PROCESS], &process_key, times, &row);
	err = err ?: add_whole(report, &report->tables[REPORT_THREAD], &key, times, &class_key.parent);
	return err ?: add_whole(report, &report->below[REPORT_THREAD], &class_key, times, &row);
}

/* Sums of threads first: with a filter, threads count fully in `cpu` and `wall`, also where no sample of
 * theirs is shown. */
static int add_parts(struct report *report)
{
	struct report_file *file = &report->file[report->read];
	const struct model_thread *thread;
	int err = 0;

	for (uint32_t i = 0; i < model__threads(report->model); i++) {
		thread = model__thread(report->model, i);
		file->cpu += thread->shown ? thread->cpu : 0;
		file->wall += thread->shown ? thread->wall : 0;
	}
	for (uint32_t i = 0; i < model__threads(report->model); i++) {
		thread = model__thread(report->model, i);
		file->quiet_threads += thread->quiet;
	}
	for (uint32_t i = 0; i < sums__n(&report->parts) && !err; i++) {
		const struct part *part = sums__key(&report->parts, i);

		if (model__thread(report->model, part->thread)->shown)
			err = add_part(report, part, sums__times(&report->parts, i));
	}
	return err;
}

/* --- what is printed of the recording --- */

static int describe_triggers(struct buf *out, const struct model *model)
{
	int err = 0;

	for (uint32_t i = 0; i < LENGTH(model->triggers, struct model_trigger) && !err; i++) {
		const struct model_trigger *trigger = &ITEM(model->triggers, const struct model_trigger, i);
		const double value = (double)trigger->value / 1e9, span = (double)trigger->span / 1e9;

		err = buf__printf(out, "\n    fired at %.3f s: %s", (double)trigger->time / 1e9, trigger->condition);
		if (!err && trigger->span)
			err = buf__printf(out, ": %.0f %% of a CPU in %.0f s", 100 * value / span, span);
		else if (!err && trigger->value)
			err = buf__printf(out, ": %s had taken %.3f s (thread %d)", trigger->name, value, trigger->tid);
	}
	return err ?: buf__append(out, "", 1);
}

static int describe(struct report *report, const char *name)
{
	struct report_file *file = &report->file[report->read];
	const struct model *model = report->model;
	struct export_report sums = {};

	model__report(model, &sums);
	file->whole_span = sums.span;
	file->name = strdup(name);
	file->command = strdup(model->command);
	file->mode = strdup(model->mode);
	file->reason = strdup(model->reason);
	file->unsupported = model->unsupported ? strdup(model->unsupported) : NULL;
	file->pid = model->pid;
	file->rate = model->rate;
	file->threads = sums.threads;
	file->realtime = model->realtime;
	file->span = model__to(model) - model__from(model);
	file->samples = model->samples;
	file->seen = sums.samples;
	file->whole = model->whole;
	file->cpu = sums.cpu;
	file->wall = sums.wall;
	file->cut = model->cut;
	file->waits = model->waits_asked;
	report->wall |= model->wall_mode;
	report->has_native |= model->native_asked;
	if (!file->name || !file->command || !file->mode || !file->reason)
		return -ENOMEM;
	return about__losses(&file->losses, model, false) ?: about__triggers(&file->triggers, model) ?: describe_triggers(&file->fired, model);
}

/* For "did you mean": functions with names like that of --callers or --callees. */
static void suggest(struct report *report, const struct model *model, const char *option,
		     const char *want)
{
	struct close close = CLOSE(option, want, false);

	for (uint32_t i = 0; i < model->frames.n; i++)
		close__offer(&close, model__frame(model, i).name);
	close__missing(&close, &report->missing);
}

/* Only with the last recording's frames: the model is freed after it. report__finish() fails if none of the
 * recordings had the function. */
static void suggest_focus(struct report *report)
{
	if (report->options->callers && !rows__n(&report->focus[0].rows))
		suggest(report, report->model, "callers", report->options->callers);
	else if (report->options->callees && !rows__n(&report->focus[1].rows))
		suggest(report, report->model, "callees", report->options->callees);
}

static void start_file(struct report *report)
{
	for (uint32_t i = 0; i < REPORT_BY_COUNT; i++) {
		table__next(&report->tables[i], report->read);
		table__next(&report->below[i], report->read);
	}
	table__next(&report->ran, report->read);
	table__next(&report->focus[0], report->read);
	table__next(&report->focus[1], report->read);
	sums__free(&report->parts);
	intern__free(&report->compiled);
	buf__clear(&report->compiled_times);
	buf__clear(&report->each);
	buf__clear(&report->last_samples);
	sums__free(&report->unnamed);
	buf__clear(&report->stages);
	buf__clear(&report->focused);
}

int report__read(struct report *report, int recording_fd, const char *name)
{
	struct export_options how = report->options->filter;
	struct model model;
	bool unknown;
	int err;

	/* Unless a table needs lines, frames that differ only in their line are one: fewer frames, fewer stacks,
	 * less memory. Lines are needed for callers, callees and the table of lines, and for what caused a compile. */
	how.lines = how.lines || report__wants(report, REPORT_LINE) || report__wants(report, REPORT_CALLEE) ||
		    units__wanted(report);
	start_file(report);
	/* A pass of its own over the recording, as which threads hardly ran is known only at the end; then it
	 * is read again from the start. A pipe cannot be: `unknown`. */
	err = quiet__find(recording_fd, &how, &report->quiet, &unknown);
	report->quiet_unknown |= unknown;
	if (err)
		return err;
	err = model__init_detailed(&model, &how);
	model.slice = add_slice;
	model.epoch = fold;
	model.with_units = units__wanted(report);
	model.sampled = model.with_units ? units__sampled : NULL;
	model.ctx = report;
	report->model = &model;
	err = err ?: model__read(&model, recording_fd, &report->missing);
	err = err ?: fold(&model) ?: add_parts(report) ?: units__add(report) ?: describe(report, name);
	if (!err)
		suggest_focus(report);
	report->model = NULL;
	model__free(&model);
	/* After an error the report is useless; its columns have a part of the recording. */
	report->read += !err;
	return err;
}

int report__finish(struct report *report)
{
	/* The tree is ranked without limits, which tree__link() applies to each branch. */
	const struct report_options all = {.sort = report->options->sort};
	int err = 0;

	if ((report->options->callers && !rows__n(&report->focus[0].rows)) ||
	    (report->options->callees && !rows__n(&report->focus[1].rows)))
		return -ENOENT;
	for (uint32_t i = 0; i < REPORT_BY_COUNT && !err; i++)
		if (report__wants(report, (enum report_by)i))
			err = table__rank(&report->tables[i], i == REPORT_TREE ? &all : report->options, report->wall,
					  ROW_NONE);
	if (!err && rows__n(&report->ran.rows))
		err = table__rank(&report->ran, report->options, report->wall, ROW_NONE);
	if (!err && report__wants(report, REPORT_TREE))
		err = tree__link(report);
	if (rank__order(&report->tables[REPORT_CHAIN], report->options) != REPORT_SORT_START)
		compiles__sort(report);
	return err;
}

const struct table *report__table(const struct report *report, enum report_by by)
{
	for (uint32_t i = 0; by == REPORT_CLASS && report->wall && i < report->read; i++)
		if (report->file[i].quiet_threads)
			return &report->ran;
	return &report->tables[by];
}

int report__rank_below(struct report *report, enum report_by by, uint32_t row, uint32_t top, const struct table **ret)
{
	const struct report_options options = {.sort = REPORT_SORT_INCLUSIVE, .top = top};

	*ret = NULL;
	if (by != REPORT_CALLEE && by != REPORT_THREAD && by != REPORT_UNIT && by != REPORT_SOURCE && by != REPORT_SOURCE_LINE && by != REPORT_PHASE && by != REPORT_FAILED)
		return 0;
	*ret = &report->below[by];
	return table__rank(&report->below[by], &options, report->wall, row);
}

const struct export_missing *report__missing(const struct report *report)
{
	return &report->missing;
}

bool report__empty(const struct report *report)
{
	for (uint32_t i = 0; i < report->read; i++)
		if (report->file[i].shown.wall)
			return false;
	return true;
}

bool report__cut(const struct report *report)
{
	uint32_t i;

	for (i = 0; i < report->read && !report->file[i].cut; i++)
		;
	return i < report->read;
}

uint64_t report__span(const struct report *report)
{
	uint64_t longest = 0;

	for (uint32_t i = 0; i < report->read; i++)
		if (report->file[i].whole_span > longest)
			longest = report->file[i].whole_span;
	return longest;
}

const char *kind__name(uint8_t kind)
{
	static const char *const names[] = {
		[FUNCTION_PYTHON] = "python", [FUNCTION_NATIVE] = "native",
		[FUNCTION_KERNEL] = "kernel", [FUNCTION_NOTE] = "note",
		[FUNCTION_JIT] = "jit",	      [FUNCTION_INTERPRETER] = "interpreter",
		[FUNCTION_CALL] = "call",
	};

	return kind == KIND_GROUP			 ? ""
	       : kind < sizeof(names) / sizeof(names[0]) ? names[kind]
							 : "native";
}
