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

/* --- rows --- */

struct head {
	uint32_t by, line;
};

int diff__row(struct diff *diff, const struct diff_key *key, uint32_t *ret)
{
	const struct head head = {key->by, key->line};
	struct buf text = {};
	int err = buf__append(&text, &head, sizeof(head));

	err = err ?: buf__append(&text, key->name, strlen(key->name) + 1);
	err = err ?: buf__append(&text, key->place, strlen(key->place) + 1);
	err = err ?: buf__append(&text, key->detail, strlen(key->detail) + 1);
	err = err ?: intern__id(&diff->keys, text.data, text.len, ret);
	buf__free(&text);
	return err;
}

struct diff_key diff__key(const struct diff *diff, uint32_t row)
{
	struct diff_key key = {};
	struct head head;
	size_t len;
	const char *at = intern__key(&diff->keys, row, &len);

	memcpy(&head, at, sizeof(head));
	key.by = (enum report_by)head.by;
	key.line = head.line;
	key.name = at + sizeof(head);
	key.place = key.name + strlen(key.name) + 1;
	key.detail = key.place + strlen(key.place) + 1;
	return key;
}

/* The row that `id` (a frame, a class) has in the cache; NULL: out of memory. */
static uint32_t *cached(struct buf *cache, uint32_t id)
{
	const uint32_t none = 0;

	while (cache->len / sizeof(none) <= id)
		if (buf__append(cache, &none, sizeof(none)))
			return NULL;
	return &ITEM(*cache, uint32_t, id);
}

static int row_of_frame(struct diff *diff, enum report_by by, uint32_t id, uint32_t *ret)
{
	uint32_t *known = cached(&diff->of_frame[by], id);
	struct model_frame frame;
	char place[1024];
	struct diff_key key = {.by = by, .name = place, .place = "", .detail = ""};
	int err;

	if (!known)
		return -ENOMEM;
	if (*known) {
		*ret = *known - 1;
		return 0;
	}
	frame = model__frame(diff->model, id);
	if (by == REPORT_PACKAGE)
		place__package(frame.kind, frame.source, frame.module, place, sizeof(place));
	else
		place__module(frame.kind, frame.source, frame.module, place, sizeof(place));
	if (by == REPORT_FILE)
		key.name = *frame.file ? frame.file : PLACE_NOTES;
	if (by == REPORT_FUNCTION || by == REPORT_LINE) {
		key.name = frame.name;
		key.place = place;
		key.line = by == REPORT_LINE ? frame.line : 0;
	}
	err = diff__row(diff, &key, ret);
	*known = err ? 0 : *ret + 1;
	return err;
}

static int row_of_class(struct diff *diff, uint32_t id, uint32_t *ret)
{
	const struct diff_key key = {REPORT_CLASS, 0, class_names__name(&diff->model->classes, id), "", ""};
	uint32_t *known = cached(&diff->of_class, id);
	int err = 0;

	if (!known)
		return -ENOMEM;
	if (!*known) {
		err = diff__row(diff, &key, ret);
		*known = err ? 0 : *ret + 1;
		return err;
	}
	*ret = *known - 1;
	return 0;
}

/* --- time --- */

static struct diff_recording *current(struct diff *diff)
{
	return &diff->recordings[diff->read];
}

static void halve(struct diff *diff, struct diff_recording *recording)
{
	uint32_t i;

	for (i = 0; i < recording->rows.len / sizeof(struct series); i++)
		series__halve(&ITEM(recording->rows, struct series, i));
	for (i = 0; i < diff->nodes.len / sizeof(struct series); i++)
		series__halve(&ITEM(diff->nodes, struct series, i));
	for (i = 0; i < DIFF_CELLS; i++) {
		double both = i < DIFF_CELLS / 2 ? recording->time[2 * i] + recording->time[2 * i + 1] : 0;

		recording->time[i] = both;
	}
	recording->cell_ns *= 2;
}

static int add(struct diff *diff, struct buf *all, uint32_t i, uint32_t cell, uint64_t ns)
{
	struct series *series = series__at(all, i);

	return series ? series__add(series, cell, ns) : -ENOMEM;
}

/* Once a sample, in a function that is several times in the stack. */
static int add_once(struct diff *diff, uint32_t row, uint32_t cell, uint64_t ns)
{
	uint32_t *mark = cached(&diff->marks, row);

	if (!mark)
		return -ENOMEM;
	if (*mark == diff->stamp)
		return 0;
	*mark = diff->stamp;
	return add(diff, &current(diff)->rows, row, cell, ns);
}

static int add_stack(struct diff *diff, uint32_t stack, uint32_t cell, uint64_t ns)
{
	static const enum report_by of_frames[] = {REPORT_FUNCTION, REPORT_LINE, REPORT_PACKAGE, REPORT_MODULE, REPORT_FILE};
	size_t t;
	uint32_t row;
	int err = 0;

	while (stack != MODEL_ROOT && !err) {
		struct model_node node = model__node(diff->model, stack);

		for (t = 0; t < sizeof(of_frames) / sizeof(of_frames[0]) && !err; t++) {
			if (!diff__wants(diff, of_frames[t]))
				continue;
			err = row_of_frame(diff, of_frames[t], node.frame, &row) ?: add_once(diff, row, cell, ns);
		}
		stack = diff->options->inclusive ? node.parent : MODEL_ROOT;
	}
	return err;
}

static int on_sample(struct model *model, struct model_thread *thread, uint32_t stack, uint64_t ran, uint64_t shown)
{
	struct diff *diff = model->ctx;
	struct diff_recording *recording = current(diff);
	uint64_t ns = model->wall_mode ? shown : ran;
	uint32_t cell, row;
	int err = 0;

	if (!ns || !model__passes(model, thread) ||
	    (model->filter && (stack == model->left_out || stack == model->not_sampled)))
		return 0;
	/* Cells are of equal time of what is compared: how often a neighbour had the CPU meanwhile is no matter. */
	while (recording->told / recording->cell_ns >= DIFF_CELLS)
		halve(diff, recording);
	cell = (uint32_t)(recording->told / recording->cell_ns);
	recording->told += ns;
	recording->time[cell] += (double)ns;
	recording->n_cells = cell >= recording->n_cells ? cell + 1 : recording->n_cells;
	recording->samples++;
	if (!++diff->stamp) { /* it wrapped */
		memset(diff->marks.data, 0, diff->marks.len);
		diff->stamp = 1;
	}
	if (diff__wants(diff, REPORT_CLASS))
		err = row_of_class(diff, model->class_now, &row) ?: add(diff, &recording->rows, row, cell, ns);
	if (!err && model->call_now != CALL_NONE)
		err = add(diff, &diff->nodes, unit_tree__call(&model->units, model->call_now)->node, cell, ns);
	return err ?: add_stack(diff, stack, cell, ns);
}

/* --- units --- */

static int add_series(struct diff_recording *recording, uint32_t row, const struct series *from)
{
	struct series *to = series__at(&recording->rows, row);
	float cells[DIFF_CELLS] = {};
	uint64_t total, samples;
	uint32_t i;
	int err = 0;

	if (!to)
		return -ENOMEM;
	total = to->total + from->total;
	samples = to->samples + from->samples;
	series__spread(to, cells);
	series__spread(from, cells);
	buf__clear(&to->points);
	for (i = 0; i < DIFF_CELLS && !err; i++) {
		const struct series_point point = {i, cells[i]};

		if (cells[i] > 0)
			err = buf__append(&to->points, &point, sizeof(point));
	}
	to->total = total;
	to->samples = samples;
	return err;
}

/* A node's own time, to the rows of its path: the report's rules (report/units.c). */
static int add_path(struct diff *diff, struct diff_recording *recording, uint32_t id, const struct series *series)
{
	static const enum report_by by[UNIT_KINDS] = {REPORT_UNIT, REPORT_PHASE, REPORT_PASS};
	struct unit_tree *tree = &diff->model->units;
	bool compile_met = false;
	uint32_t at, row;
	int err = 0;

	diff->stamp++;
	for (at = id; at && !err;) {
		struct unit_node node = unit_tree__node(tree, at);
		bool own = node.kind == UNIT_COMPILE ? !compile_met : at == id;
		struct diff_key key = {.name = *node.name ? node.name : "(name unknown)",
				       .place = node.compiler,
				       .detail = node.kind == UNIT_COMPILE ? node.signature : ""};
		uint32_t *mark;

		at = node.parent;
		if (node.kind >= UNIT_KINDS)
			continue;
		compile_met |= node.kind == UNIT_COMPILE;
		key.by = by[node.kind];
		if (!diff__wants(diff, key.by) || !(diff->options->inclusive || own))
			continue;
		err = diff__row(diff, &key, &row);
		mark = err ? NULL : cached(&diff->marks, row);
		if (!mark)
			return err ? err : -ENOMEM;
		if (*mark != diff->stamp)
			err = add_series(recording, row, series);
		*mark = diff->stamp;
	}
	return err;
}

int diff__add_units(struct diff *diff, struct diff_recording *recording)
{
	uint32_t i;
	int err = 0;

	for (i = 0; i < diff->nodes.len / sizeof(struct series) && !err; i++) {
		const struct series *series = &ITEM(diff->nodes, struct series, i);

		if (series->total)
			err = add_path(diff, recording, unit_tree__final(&diff->model->units, i), series);
	}
	return err;
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
		err = buf__append(&key, place, strlen(place) + 1) ?: buf__append(&key, frame.name, strlen(frame.name));
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

static int no_slice(struct model *model, struct model_thread *thread, uint32_t stack, uint64_t cpu, uint64_t ns)
{
	return 0;
}

static int no_epoch(struct model *model)
{
	return 0;
}

static void clear(struct diff *diff)
{
	size_t i;

	for (i = 0; i < REPORT_BY_COUNT; i++)
		buf__free(&diff->of_frame[i]);
	for (i = 0; i < diff->nodes.len / sizeof(struct series); i++)
		series__free(&ITEM(diff->nodes, struct series, i));
	buf__free(&diff->nodes);
	buf__free(&diff->of_class);
}

static int describe(struct diff *diff, struct diff_recording *recording, const char *name)
{
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
	int err;

	if (lseek(recording_fd, 0, SEEK_SET) < 0 && errno != ESPIPE)
		return -errno;
	how.lines = diff__wants(diff, REPORT_LINE);
	recording->after = after;
	recording->cell_ns = CELL_FIRST_NS;
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
	uint32_t i, row;

	if (!diff)
		return NULL;
	for (i = 0; i < diff->n_recordings; i++) {
		struct diff_recording *recording = &diff->recordings[i];

		for (row = 0; row < recording->rows.len / sizeof(struct series); row++)
			series__free(&ITEM(recording->rows, struct series, row));
		buf__free(&recording->rows);
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
	free(diff);
	return NULL;
}

const struct export_missing *diff__missing(const struct diff *diff)
{
	return &diff->missing;
}
