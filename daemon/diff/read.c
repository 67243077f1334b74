/* SPDX-License-Identifier: MIT */
/* Reads a recording into series: each row's time, cell by cell.
 *
 *     model__read() -> on_sample() -> whole__follow()   which compile is it in?
 *                                  -> add_weight()      into the rows of its class, unit, stack, in the current cell
 *     then finish_unsampled(), whole__finish(), diff__add_units()
 *
 * There are two measures of the same samples (struct measure): cells of equal time, and cells of equally many
 * compiles. What a cell is grows with the recording: when all 512 are used up, pairs are joined. */
#include <errno.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "base/stamps.h"
#include "classes/classes.h"
#include "diff/internal.h"
#include "export/places.h"
#include "export/quiet.h"

#define CELL_FIRST_NS 20000000ull /* length of a cell at first; it doubles when the cells are used up */

/* --- time --- */

static struct diff_recording *current(struct diff *diff)
{
	return &diff->recordings[diff->read];
}

/* Makes each cell twice as long, when the recording turns out to be longer. */
static void halve(struct measure *measure)
{
	for (uint32_t kind = 0; kind < SERIES_KINDS; kind++)
		for (uint32_t i = 0; i < measure->series[kind].len / sizeof(struct series); i++)
			series__halve(&ITEM(measure->series[kind], struct series, i));
	for (uint32_t i = 0; i < DIFF_CELLS; i++) {
		measure->against[i] =
			i < DIFF_CELLS / 2 ? measure->against[2 * i] + measure->against[2 * i + 1]
					   : 0;
		measure->time[i] =
			i < DIFF_CELLS / 2 ? measure->time[2 * i] + measure->time[2 * i + 1] : 0;
		measure->collector[i] = i < DIFF_CELLS / 2 ? measure->collector[2 * i] +
								     measure->collector[2 * i + 1]
							   : 0;
	}
	measure->cell *= 2;
}

void measure__advance(struct measure *measure, uint64_t more)
{
	/* The last unit of what is added, so that a sample that ends exactly at the end of a cell is in it. */
	uint64_t last = measure->counted + (more ? more - 1 : 0);
	uint32_t cell;

	/* Hostile times are bounded by the model (SPAN_MAX), so this ends after at most some 40 rounds. */
	while (last / measure->cell >= DIFF_CELLS)
		halve(measure);
	cell = (uint32_t)(last / measure->cell);
	measure->counted += more;
	measure->against[cell] += (double)more;
	measure->n_cells = cell + 1;
}

int diff__add(struct diff *diff, enum series_kind kind, uint32_t what, uint64_t ns)
{
	struct measure *measure = current(diff)->measures;
	struct series *series;
	int per, err = 0;

	for (per = 0; per < DIFF_PER_COUNT && !err; per++) {
		/* Waits for the end of its compile. */
		if (per == DIFF_COMPILE && diff__by_compile(diff)) {
			err = whole__stage(diff->staging, kind, what, ns);
			continue;
		}
		series = series__at(&measure[per].series[kind], what);
		err = series ? series__add(series, measure__cell(&measure[per]), ns) : -ENOMEM;
	}
	return err;
}

/* Adds time to a row once per sample, even if its function is in the stack several times. */
static int add_once(struct diff *diff, uint32_t row, uint64_t ns)
{
	uint32_t *stamp = diff__cached(&diff->stamps, row);

	if (!stamp)
		return -ENOMEM;
	if (*stamp == diff->stamp)
		return 0;
	*stamp = diff->stamp;
	return diff__add(diff, SERIES_ROW, row, ns);
}

/* Exclusive: the leaf only. Inclusive: all frames up to the root, each row once. */
static int add_stack(struct diff *diff, uint32_t stack, uint64_t ns)
{
	static const enum report_by of_frames[] = {REPORT_FUNCTION, REPORT_LINE, REPORT_PACKAGE,
						   REPORT_MODULE, REPORT_FILE};
	uint32_t row;
	int err = 0;

	while (stack != MODEL_ROOT && !err) {
		struct model_node node = model__node(diff->model, stack);

		for (size_t t = 0; t < sizeof(of_frames) / sizeof(of_frames[0]) && !err; t++) {
			if (!diff__wants(diff, of_frames[t]))
				continue;
			/* Inclusive times walk each sample's whole stack: a hostile recording must not make
			 * that endless. */
			err = limits__walk(1) ?: diff__row_of_frame(diff, of_frames[t], node.frame, &row)
				      ?: add_once(diff, row, ns);
		}
		stack = diff->options->inclusive ? node.parent : MODEL_ROOT;
	}
	return err;
}

static bool in_native_code(const struct model *model)
{
	return !strcmp(class_names__name(&model->classes, model->class_now), class__name(CLASS_COMPILER));
}

static uint32_t node_now(const struct model *model)
{
	return model->call_now == CALL_NONE ? 0 : unit_tree__call(&model->units, model->call_now)->node;
}

/* By node, as names may arrive late; diff__add_units() moves it to rows. */
static int add_unit(struct diff *diff, uint64_t ns)
{
	const struct model *model = diff->model;
	uint32_t node = node_now(model);
	int err = diff__add(diff, SERIES_NODE, node, ns);

	return err || !node || !in_native_code(model) ? err : diff__add(diff, SERIES_NATIVE, node, ns);
}

/* Adds time to the sample's cells: either time that rows share, or the garbage collector's. */
static void add_time(struct diff *diff, uint64_t ns, bool collector)
{
	struct measure *measure = current(diff)->measures;

	for (int per = 0; per < DIFF_PER_COUNT; per++) {
		uint32_t cell = measure__cell(&measure[per]);

		if (per == DIFF_COMPILE && diff__by_compile(diff))
			whole__time(diff, ns, collector);
		else if (collector)
			measure[per].collector[cell] += (double)ns;
		else
			measure[per].time[cell] += (double)ns;
	}
}

static int add_spent(struct diff *diff, uint64_t ns)
{
	uint64_t *spent = buf__at(&diff->spent, sizeof(*spent), node_now(diff->model));

	if (!spent)
		return -ENOMEM;
	*spent += ns;
	return 0;
}

/* Time of the garbage collector belongs to its class and to no other row; per compile also to compiles. */
static int add_collector(struct diff *diff, uint64_t ns)
{
	uint32_t row;
	int err = 0;

	current(diff)->collector += ns;
	add_time(diff, ns, true);
	if (diff__by_compile(diff))
		err = diff__add(diff, SERIES_COLLECTOR, node_now(diff->model), ns);
	if (err || !diff__wants(diff, REPORT_CLASS))
		return err;
	err = diff__row_of_class(diff, diff->model->class_now, &row);
	return err ?: diff__add(diff, SERIES_ROW, row, ns);
}

static bool in_window(const struct model *model)
{
	return model->time_now >= model->options->from && (!model->options->to || model->time_now <= model->options->to);
}

/* Adds a sample: units get what their thread ran, rows of tables also what the sample represents. */
static int add_weight(struct diff *diff, uint32_t stack, uint64_t ran, uint64_t ns)
{
	struct model *model = diff->model;
	uint32_t row;
	int err;

	if (!strcmp(class_names__name(&model->classes, model->class_now), CLASS_COLLECTOR))
		return add_collector(diff, ns);
	/* Cells have equal amounts of the time that is compared, so it does not matter how often the thread lost the
	 * CPU. */
	measure__advance(&current(diff)->measures[DIFF_SHARE], ns);
	stamps__next(&diff->stamps, &diff->stamp);
	add_time(diff, ns, false);
	err = add_unit(diff, ran);
	if (!err && diff__wants(diff, REPORT_CLASS))
		err = diff__row_of_class(diff, model->class_now, &row) ?: diff__add(diff, SERIES_ROW, row, ns);
	if (!err && diff->options->flame)
		err = flame__add(diff, stack, ns);
	return err ?: add_stack(diff, stack, ns);
}

static int on_sample(struct model *model, struct model_thread *thread, uint32_t stack, uint64_t ran,
		     uint64_t shown)
{
	struct diff *diff = model->ctx;
	struct diff_recording *recording = current(diff);
	/* `spent`: the thread's own time. `ns`: what the sample counts for in tables, which in CPU mode
	 * includes time of others (export/unsampled.h). */
	uint64_t spent = model->wall_mode ? shown : ran;
	uint64_t ns = model->wall_mode ? shown : sample__weight(ran, model->given_now, model->others_now);
	int err;

	if (!model__passes(model, thread) || quiet__is(&diff->quiet, thread->id))
		return 0;
	err = whole__follow(diff, thread, stack != model->not_sampled, spent != 0);
	if (err || (model->filter && (stack == model->left_out || stack == model->not_sampled)))
		return err;
	/* Counts as the summary does: a sample without time (by the clock's resolution) is still a sample. */
	recording->samples += model->counts_now && stack != model->not_sampled && in_window(model);
	if (!spent && !ns)
		return 0;
	recording->time += spent;
	/* What threads ran, less what samples represent: it must end at 0, or else the rest has no sample. */
	diff->unsampled += spent;
	diff->unsampled -= ns < diff->unsampled ? ns : diff->unsampled;
	return add_spent(diff, spent) ?: add_weight(diff, stack, spent, ns);
}

/* CPU time that no sample represents belongs to "(not sampled)". */
static int finish_unsampled(struct diff *diff)
{
	uint64_t ns = diff->unsampled;

	diff->unsampled = 0;
	if (!ns || diff->model->filter)
		return 0;
	diff->model->call_now = CALL_NONE;
	return class_names__id(&diff->model->classes, 0, &diff->model->class_now) ?: add_weight(diff, diff->model->not_sampled, 0, ns);
}

/* --- what the sides have in common --- */

/* Functions of the standard library are in every recording of a Python program, so they do not show that two
 * recordings are of the same one. */
static int note_functions(struct diff *diff, bool after)
{
	char module[1024], none = 0;
	uint32_t i, id;
	int err = 0;

	for (i = 0; i < diff->model->frames.n && !err; i++) {
		struct model_frame frame = model__frame(diff->model, i);
		struct buf key = {};

		if (frame.kind != FUNCTION_PYTHON)
			continue;
		place__package(frame.kind, frame.source, frame.module, module, sizeof(module));
		if (!strcmp(module, PLACE_STANDARD))
			continue;
		place__module(frame.kind, frame.source, frame.module, module, sizeof(module));
		err = buf__append(&key, module, strlen(module) + 1)
			      ?: buf__append(&key, frame.name, strlen(frame.name));
		err = err ?: intern__id(&diff->functions, key.data, key.len, &id);
		if (!err && id == diff->sides.len)
			err = buf__append(&diff->sides, &none, 1);
		if (!err)
			diff->sides.data[id] |= after ? 2 : 1;
		buf__free(&key);
	}
	return err;
}

/* --- a recording --- */

static int on_epoch(struct model *model)
{
	flame__epoch(model->ctx);
	return 0;
}

static void free_all(struct buf *all)
{
	for (size_t i = 0; i < all->len / sizeof(struct series); i++)
		series__free(&ITEM(*all, struct series, i));
	buf__free(all);
}

/* What is by id of the model ends with it. */
static void clear(struct diff *diff)
{
	for (size_t i = 0; i < REPORT_BY_COUNT; i++)
		buf__free(&diff->of_frame[i]);
	buf__free(&diff->of_class);
	buf__free(&diff->begun);
	buf__free(&diff->spent);
	flame__epoch(diff);
	free(diff->script);
	diff->script = NULL;
	whole__free(diff);
}

static int describe(struct diff *diff, struct diff_recording *recording, const char *name)
{
	/* Known only after the recording was read. */
	if (diff->read && diff->wall != diff->model->wall_mode)
		return -EXDEV;
	recording->name = strdup(name);
	recording->command = strdup(diff->model->command);
	recording->machine = strdup(diff->model->machine);
	recording->pid = diff->model->pid;
	recording->rate = diff->model->rate;
	recording->cut = diff->model->cut;
	recording->span = model__to(diff->model) - model__from(diff->model);
	diff->wall |= diff->model->wall_mode;
	return recording->name && recording->command && recording->machine ? 0 : -ENOMEM;
}

int diff__read(struct diff *diff, int recording_fd, const char *name, bool after)
{
	struct export_options how = diff->options->filter;
	struct diff_recording *recording = current(diff);
	struct model model;
	bool unknown;
	int err, per;

	how.lines = diff__wants(diff, REPORT_LINE);
	recording->after = after;
	recording->measures[DIFF_SHARE].cell = CELL_FIRST_NS;
	/* One compile for each cell at first. */
	recording->measures[DIFF_COMPILE].cell = 1;
	err = quiet__find(recording_fd, &how, &diff->quiet, &unknown);
	if (err)
		return err;
	err = model__init_detailed(&model, &how);
	model.slice = model__no_slice;
	model.epoch = on_epoch;
	model.sampled = on_sample;
	model.with_units = true;
	model.ctx = diff;
	diff->model = &model;
	err = err ?: model__read(&model, recording_fd, &diff->missing);
	err = err ?: finish_unsampled(diff) ?: whole__finish(diff) ?: diff__add_units(diff, recording) ?: note_functions(diff, after) ?: describe(diff, recording, name);
	diff->model = NULL;
	model__free(&model);
	clear(diff);
	for (per = 0; per < DIFF_PER_COUNT; per++) {
		free_all(&recording->measures[per].series[SERIES_NODE]);
		free_all(&recording->measures[per].series[SERIES_NATIVE]);
		free_all(&recording->measures[per].series[SERIES_COLLECTOR]);
	}
	diff->read += !err;
	return err;
}

int diff__new(const struct diff_options *options, uint32_t recordings, struct diff **ret)
{
	struct diff *diff = calloc(1, sizeof(*diff));

	if (!diff)
		return -ENOMEM;
	diff->options = options;
	diff->n_recordings = recordings;
	diff->recordings = calloc(recordings, sizeof(*diff->recordings));
	if (!diff->recordings) {
		free(diff);
		return -ENOMEM;
	}
	*ret = diff;
	return 0;
}

void diff__free(struct diff *diff)
{
	if (!diff)
		return;
	for (uint32_t i = 0; i < diff->n_recordings; i++) {
		struct diff_recording *recording = &diff->recordings[i];

		for (uint32_t per = 0; per < DIFF_PER_COUNT; per++)
			for (uint32_t kind = 0; kind < SERIES_KINDS; kind++)
				free_all(&recording->measures[per].series[kind]);
		free(recording->name);
		free(recording->command);
		free(recording->machine);
	}
	for (uint32_t i = 0; i < REPORT_BY_COUNT; i++)
		free(diff->tables[i].rows);
	free(diff->recordings);
	clear(diff);
	buf__free(&diff->stamps);
	buf__free(&diff->quiet);
	buf__free(&diff->sides);
	intern__free(&diff->keys);
	intern__free(&diff->functions);
	intern__free(&diff->compiles);
	buf__free(&diff->counts);
	buf__free(&diff->of_stack);
	buf__free(&diff->path);
	intern__free(&diff->branches);
	free(diff->flame);
	free(diff->shown);
	free(diff);
}

const char *diff__other_machine(const struct diff *diff, const char **ret_first)
{
	*ret_first = diff->recordings[0].machine;
	for (uint32_t i = 1; i < diff->read; i++)
		if (strcmp(diff->recordings[i].machine, *ret_first))
			return diff->recordings[i].machine;
	return NULL;
}

const struct export_missing *diff__missing(const struct diff *diff)
{
	return &diff->missing;
}
