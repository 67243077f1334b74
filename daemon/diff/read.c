/* A recording -> each row's time, cell by cell. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "diff/internal.h"
#include "export/places.h"

#define CELL_FIRST_NS 20000000ull
#define ITEM(buf, type, i) (((type *)(buf).data)[i])

/* --- time --- */

static struct diff_recording *current(struct diff *diff)
{
	return &diff->recordings[diff->read];
}

static void halve(struct measure *measure)
{
	uint32_t i;

	for (i = 0; i < measure->rows.len / sizeof(struct series); i++)
		series__halve(&ITEM(measure->rows, struct series, i));
	for (i = 0; i < measure->nodes.len / sizeof(struct series); i++)
		series__halve(&ITEM(measure->nodes, struct series, i));
	for (i = 0; i < DIFF_CELLS; i++) {
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

/* `more` of what the measure is against; the sample that follows is of the cell that this is in. */
static void advance(struct measure *measure, uint64_t more)
{
	uint64_t last = measure->told + (more ? more - 1 : 0);
	uint32_t cell;

	while (last / measure->cell >= DIFF_CELLS)
		halve(measure);
	cell = (uint32_t)(last / measure->cell);
	measure->told += more;
	measure->against[cell] += (double)more;
	measure->n_cells = cell + 1;
}

static uint32_t cell_of(const struct measure *measure)
{
	return measure->n_cells ? measure->n_cells - 1 : 0;
}

static int add_to(struct buf *all, uint32_t i, uint32_t cell, uint64_t ns)
{
	struct series *series = series__at(all, i);

	return series ? series__add(series, cell, ns) : -ENOMEM;
}

static int add(struct diff *diff, uint32_t row, uint64_t ns)
{
	struct measure *measure = current(diff)->measures;
	int err = 0, per;

	for (per = 0; per < DIFF_PER_COUNT && !err; per++)
		err = add_to(&measure[per].rows, row, cell_of(&measure[per]), ns);
	return err;
}

/* Once a sample, in a function that is several times in the stack. */
static int add_once(struct diff *diff, uint32_t row, uint64_t ns)
{
	uint32_t *mark = diff__cached(&diff->marks, row);

	if (!mark)
		return -ENOMEM;
	if (*mark == diff->stamp)
		return 0;
	*mark = diff->stamp;
	return add(diff, row, ns);
}

static int add_stack(struct diff *diff, uint32_t stack, uint64_t ns)
{
	static const enum report_by of_frames[] = {REPORT_FUNCTION, REPORT_LINE, REPORT_PACKAGE,
						   REPORT_MODULE, REPORT_FILE};
	size_t t;
	uint32_t row;
	int err = 0;

	while (stack != MODEL_ROOT && !err) {
		struct model_node node = model__node(diff->model, stack);

		for (t = 0; t < sizeof(of_frames) / sizeof(of_frames[0]) && !err; t++) {
			if (!diff__wants(diff, of_frames[t]))
				continue;
			err = diff__row_of_frame(diff, of_frames[t], node.frame, &row)
				      ?: add_once(diff, row, ns);
		}
		stack = diff->options->inclusive ? node.parent : MODEL_ROOT;
	}
	return err;
}

/* A compile that is in no other one is met for the first time: the next piece of work. */
static int begin_compile(struct diff *diff)
{
	struct unit_tree *tree = &diff->model->units;
	uint32_t at = diff->model->call_now, *begun;

	while (unit_tree__call(tree, at)->parent != CALL_NONE)
		at = unit_tree__call(tree, at)->parent;
	if (unit_tree__call(tree, at)->met)
		return 0;
	unit_tree__call(tree, at)->met = true;
	begun = diff__cached(&diff->begun, unit_tree__call(tree, at)->node);
	if (!begun)
		return -ENOMEM;
	(*begun)++;
	current(diff)->compiles++;
	advance(&current(diff)->measures[DIFF_COMPILE], 1);
	return 0;
}

static int add_unit(struct diff *diff, uint64_t ns)
{
	struct measure *measure = current(diff)->measures;
	uint32_t node = unit_tree__call(&diff->model->units, diff->model->call_now)->node;
	int err = 0, per;

	for (per = 0; per < DIFF_PER_COUNT && !err; per++)
		err = add_to(&measure[per].nodes, node, cell_of(&measure[per]), ns);
	return err;
}

/* Its class, and no other row. */
static int add_collector(struct diff *diff, uint64_t ns)
{
	struct measure *measure = current(diff)->measures;
	uint32_t row;
	int per, err;

	current(diff)->collector += ns;
	for (per = 0; per < DIFF_PER_COUNT; per++)
		measure[per].collector[cell_of(&measure[per])] += (double)ns;
	if (!diff__wants(diff, REPORT_CLASS))
		return 0;
	err = diff__row_of_class(diff, diff->model->class_now, &row);
	return err ?: add(diff, row, ns);
}

static bool in_window(const struct model *model)
{
	return model->time_now >= model->options->from && (!model->options->to || model->time_now <= model->options->to);
}

static int on_sample(struct model *model, struct model_thread *thread, uint32_t stack, uint64_t ran,
		     uint64_t shown)
{
	struct diff *diff = model->ctx;
	struct diff_recording *recording = current(diff);
	uint64_t ns = model->wall_mode ? shown : ran;
	uint32_t row;
	int err = 0, per;

	if (!model__passes(model, thread) ||
	    (model->filter && (stack == model->left_out || stack == model->not_sampled)))
		return 0;
	/* As the summary counts: one that has no time (a clock's grain) is a sample. */
	recording->samples += stack != model->not_sampled && in_window(model);
	if (!ns)
		return 0;
	recording->time += ns;
	if (!strcmp(class_names__name(&model->classes, model->class_now), CLASS_COLLECTOR))
		return add_collector(diff, ns);
	/* Cells are of equal time of what is compared: how often a neighbour had the CPU meanwhile
	 * is no matter. */
	advance(&recording->measures[DIFF_SHARE], ns);
	if (!++diff->stamp) { /* it wrapped */
		memset(diff->marks.data, 0, diff->marks.len);
		diff->stamp = 1;
	}
	if (model->call_now != CALL_NONE)
		err = begin_compile(diff) ?: add_unit(diff, ns);
	for (per = 0; per < DIFF_PER_COUNT; per++)
		recording->measures[per].time[cell_of(&recording->measures[per])] += (double)ns;
	if (!err && diff__wants(diff, REPORT_CLASS))
		err = diff__row_of_class(diff, model->class_now, &row) ?: add(diff, row, ns);
	return err ?: add_stack(diff, stack, ns);
}

/* --- what the sides have in common --- */

static int note_functions(struct diff *diff, bool after)
{
	char place[1024], none = 0;
	uint32_t i, id;
	int err = 0;

	for (i = 0; i < diff->model->frames.n && !err; i++) {
		struct model_frame frame = model__frame(diff->model, i);
		struct buf key = {};

		if (frame.kind != FUNCTION_PYTHON)
			continue;
		place__package(frame.kind, frame.source, frame.module, place, sizeof(place));
		if (!strcmp(place, PLACE_STANDARD))
			continue;
		place__module(frame.kind, frame.source, frame.module, place, sizeof(place));
		err = buf__append(&key, place, strlen(place) + 1)
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

static int no_slice(struct model *model, struct model_thread *thread, uint32_t stack, uint64_t cpu,
		    uint64_t ns)
{
	return 0;
}

static int no_epoch(struct model *model)
{
	return 0;
}

static void free_all(struct buf *all)
{
	size_t i;

	for (i = 0; i < all->len / sizeof(struct series); i++)
		series__free(&ITEM(*all, struct series, i));
	buf__free(all);
}

static void clear(struct diff *diff)
{
	size_t i;

	for (i = 0; i < REPORT_BY_COUNT; i++)
		buf__free(&diff->of_frame[i]);
	buf__free(&diff->of_class);
	buf__free(&diff->begun);
}

static int describe(struct diff *diff, struct diff_recording *recording, const char *name)
{
	if (diff->read && diff->wall != diff->model->wall_mode)
		return -EXDEV;
	recording->name = strdup(name);
	recording->command = strdup(diff->model->command);
	recording->pid = diff->model->pid;
	recording->rate = diff->model->rate;
	recording->cut = diff->model->cut;
	recording->span = model__to(diff->model) - model__from(diff->model);
	diff->wall |= diff->model->wall_mode;
	return recording->name && recording->command ? 0 : -ENOMEM;
}

int diff__read(struct diff *diff, int recording_fd, const char *name, bool after)
{
	struct export_options how = diff->options->filter;
	struct diff_recording *recording = current(diff);
	struct model model;
	int err, per;

	if (lseek(recording_fd, 0, SEEK_SET) < 0 && errno != ESPIPE)
		return -errno;
	how.lines = diff__wants(diff, REPORT_LINE);
	recording->after = after;
	recording->measures[DIFF_SHARE].cell = CELL_FIRST_NS;
	recording->measures[DIFF_COMPILE].cell = 1;
	err = model__init_detailed(&model, &how);
	model.slice = no_slice;
	model.epoch = no_epoch;
	model.sampled = on_sample;
	model.with_units = true;
	model.ctx = diff;
	diff->model = &model;
	err = err ?: model__read(&model, recording_fd, &diff->missing);
	err = err ?: diff__add_units(diff, recording) ?: note_functions(diff, after) ?: describe(diff, recording, name);
	diff->model = NULL;
	model__free(&model);
	clear(diff);
	for (per = 0; per < DIFF_PER_COUNT; per++)
		free_all(&recording->measures[per].nodes);
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

struct diff *diff__free(struct diff *diff)
{
	uint32_t i, per;

	if (!diff)
		return NULL;
	for (i = 0; i < diff->n_recordings; i++) {
		struct diff_recording *recording = &diff->recordings[i];

		for (per = 0; per < DIFF_PER_COUNT; per++) {
			free_all(&recording->measures[per].rows);
			free_all(&recording->measures[per].nodes);
		}
		free(recording->name);
		free(recording->command);
	}
	for (i = 0; i < REPORT_BY_COUNT; i++)
		free(diff->tables[i].rows);
	free(diff->recordings);
	clear(diff);
	buf__free(&diff->marks);
	buf__free(&diff->sides);
	intern__free(&diff->keys);
	intern__free(&diff->functions);
	intern__free(&diff->compiles);
	buf__free(&diff->counts);
	free(diff);
	return NULL;
}

const struct export_missing *diff__missing(const struct diff *diff)
{
	return &diff->missing;
}
