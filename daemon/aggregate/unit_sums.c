/* SPDX-License-Identifier: MIT */
/* Sums of compiles for the summary. The units of an epoch are kept until it ends, because names may arrive
 * late; then each unit's own time is added to its row and to the rows of the units around it.
 *
 *     svd(float64)          own 1 ms      exclusive 3 ms, inclusive 6 ms
 *       lowering            own 2 ms      exclusive 2 ms, inclusive 5 ms
 *         add(int64)        own 3 ms      exclusive 3 ms, inclusive 3 ms
 *
 * The exclusive time of a compile has that of its phases and passes: 1 + 2 ms. */
#include "aggregate/unit_sums.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "aggregate/rows.h"
#include "attribution/attribution.h"
#include "base/order.h"
#include "classes/classes.h"
#include "rules/rules.h"
#include "units/shares.h"

/* A unit of the current epoch. */
struct open_row {
	uint32_t parent, name, signature, compiler; /* parent: an id, 0: none; the others: texts */
	uint8_t kind;
	uint32_t line;          /* its row in the sums + 1; 0: not looked up yet, as its name may still arrive */
	uint64_t begin;
	uint64_t self;          /* wall time of samples whose innermost unit it is */
};

/* Larger ids of classes are ignored here. "compiler native" is among the first ids of an epoch. */
#define CLASSES_MAX 1024u

struct unit_sums {
	struct intern texts;
	struct buf open;                   /* struct open_row, by id - 1 */
	struct rows rows;                  /* the key is kind, name, signature, compiler */
	struct buf key;                    /* scratch buffer for such a key */
	struct buf lines;                  /* struct unit_line: the rows, sorted */
	uint64_t native[CLASSES_MAX / 64]; /* bits by class id: is it "compiler native" */
	struct shares shares;              /* of workers: by unit */
	uint64_t no_pass;                  /* ns of wall time in such code, in a compile, but in no known pass */
};

int unit_sums__new(struct unit_sums **ret)
{
	struct unit_sums *sums = calloc(1, sizeof(*sums));

	if (!sums)
		return -ENOMEM;
	sums->rows.columns = 1;
	*ret = sums;
	return 0;
}

struct unit_sums *unit_sums__free(struct unit_sums *sums)
{
	if (!sums)
		return NULL;
	intern__free(&sums->texts);
	buf__free(&sums->open);
	rows__free(&sums->rows);
	buf__free(&sums->key);
	buf__free(&sums->lines);
	shares__free(&sums->shares);
	free(sums);
	return NULL;
}

/* Ids of units begin at 1 in each epoch. */
static struct open_row *open_at(const struct unit_sums *sums, uint32_t id)
{
	return &ITEM(sums->open, struct open_row, id - 1);
}

/* With its NUL, which separates the texts of a key. */
static int append_text(struct unit_sums *sums, uint32_t text)
{
	size_t len;
	const char *at = intern__key(&sums->texts, text, &len);

	return buf__append(&sums->key, at, len);
}

/* The row of a unit, looked up once, when the epoch ends and its name is final. */
static int line_of(struct unit_sums *sums, struct open_row *row, uint32_t *ret)
{
	int err = 0;

	if (!row->line) {
		buf__clear(&sums->key);
		err = buf__append(&sums->key, &row->kind, 1) ?: append_text(sums, row->name) ?: append_text(sums, row->signature);
		err = err ?: append_text(sums, row->compiler) ?: rows__row(&sums->rows, sums->key.data, sums->key.len, &row->line);
		row->line = err ? 0 : row->line + 1;
	}
	*ret = row->line - 1;
	return err;
}

/* Adds the own time of each unit to the rows on its path. */
static int close_epoch(struct unit_sums *sums)
{
	uint32_t id, line, at;
	int err = 0;

	/* Rows are created in this order, which decides ties in the summary. */
	for (id = LENGTH(sums->open, struct open_row); id && !err; id--) {
		struct open_row *row = open_at(sums, id), *up;
		const struct times times = {.wall = row->self};
		bool compile_seen = false;

		/* It ended before this client subscribed (events.h); the row only keeps the ids consecutive. */
		if (row->kind == UNIT_OVER)
			continue;
		err = line_of(sums, row, &line);
		if (err)
			break;
		rows__times(&sums->rows, line, 0)->calls++;
		rows__stack(&sums->rows);
		for (at = row->self ? id : 0; at && !err; at = up->parent) {
			up = open_at(sums, at);
			err = line_of(sums, up, &line);
			if (err)
				break;
			rows__inclusive(&sums->rows, line, 0, &times);
			if (up->kind == RULE_UNIT ? !compile_seen : at == id)
				rows__exclusive(&sums->rows, line, 0, &times);
			compile_seen |= up->kind == RULE_UNIT;
		}
	}
	buf__clear(&sums->open);
	shares__free(&sums->shares);
	return err;
}

static int keep(struct unit_sums *sums, const char *text, uint32_t *ret)
{
	return intern__id(&sums->texts, text, strlen(text) + 1, ret);
}

static int add_rows(struct unit_sums *sums, const struct event_rows *rows)
{
	const struct unit_row *units = rows->rows;
	int err = 0;

	for (uint32_t i = 0; i < rows->n && !err; i++) {
		struct open_row row = {.parent = units[i].parent, .begin = units[i].time, .kind = units[i].kind};

		err = keep(sums, units[i].name, &row.name) ?: keep(sums, units[i].signature, &row.signature);
		err = err ?: keep(sums, units[i].compiler, &row.compiler) ?: buf__append(&sums->open, &row, sizeof(row));
	}
	return err;
}

/* Ids of classes begin again in each epoch, so a bit may have to be cleared. */
static void add_classes(struct unit_sums *sums, const struct event_rows *rows)
{
	const struct class_row *classes = rows->rows;
	uint32_t i, id;

	for (i = 0; i < rows->n && rows->first + i < CLASSES_MAX; i++) {
		id = rows->first + i;
		sums->native[id / 64] &= ~(1ull << id % 64);
		if (!strcmp(classes[i].name, class__name(CLASS_COMPILER)))
			sums->native[id / 64] |= 1ull << id % 64;
	}
}

/* Adds native code of a compiler that is in a compile but in no pass. */
static void add_no_pass(struct unit_sums *sums, uint32_t unit, uint32_t class_id, uint64_t wall)
{
	uint32_t at = unit;

	if (class_id >= CLASSES_MAX || !(sums->native[class_id / 64] >> class_id % 64 & 1))
		return;
	/* Up to the compile; a pass on the way means that the time is in a known pass. */
	for (; at && open_at(sums, at)->kind != RULE_UNIT; at = open_at(sums, at)->parent)
		if (open_at(sums, at)->kind == RULE_PASS)
			return;
	if (at)
		sums->no_pass += wall;
}

/* Adds wall time that ends at `time` to the units it belongs to: what is before the begin of a unit belongs to the
 * unit around it. */
static void add_time(struct unit_sums *sums, uint32_t unit, uint64_t time, uint64_t wall)
{
	uint64_t given = 0;

	for (uint32_t at = unit; at; at = open_at(sums, at)->parent) {
		struct open_row *row = open_at(sums, at);
		uint64_t own = time > row->begin ? time - row->begin : 0;

		if (own > wall)
			own = wall;
		/* `own` grows from the inside out, as an outer unit began earlier; each unit gets what the
		 * ones inside of it could not take. Time before the outermost unit belongs to none. */
		if (own > given) {
			row->self += own - given;
			given = own;
		}
	}
}

/* A worker's time is kept until its caller's next sample, which then shares its waiting time with it
 * (units/shares.h). */
static int add_sample(struct unit_sums *sums, const struct sample_row *sample)
{
	uint64_t idle = sample->wall > sample->cpu ? sample->wall - sample->cpu : 0, left = sample->wall;
	const struct share *share;
	uint32_t n, i;

	if (attribution__is_given(sample->how))
		return shares__add(&sums->shares, sample->caller, (uint64_t)sample->class_id << 32 | sample->unit, sample->cpu);
	share = shares__divide(&sums->shares, sample->thread, idle, &n);
	for (i = 0; i < n; i++) {
		add_time(sums, (uint32_t)share[i].of, sample->time, share[i].cpu);
		add_no_pass(sums, (uint32_t)share[i].of, (uint32_t)(share[i].of >> 32), share[i].cpu);
		left -= share[i].cpu;
	}
	add_time(sums, sample->unit, sample->time, left);
	add_no_pass(sums, sample->unit, sample->class_id, left);
	return 0;
}

int unit_sums__event(struct unit_sums *sums, const struct event *event)
{
	const struct event_samples *samples = &event->samples;
	const uint32_t n_open = LENGTH(sums->open, struct open_row);
	struct open_row *row;
	int err;

	switch (event->kind) {
	case EVENT_SESSION:
	case EVENT_EPOCH:
	case EVENT_END:
		return close_epoch(sums);
	case EVENT_UNITS:
		return add_rows(sums, &event->rows);
	case EVENT_UNIT_NAME:
	case EVENT_UNIT_END:
		if (!event->unit_end.id || event->unit_end.id > n_open || !*event->unit_end.name)
			return 0;
		row = open_at(sums, event->unit_end.id);
		return keep(sums, event->unit_end.name, &row->name) ?: keep(sums, event->unit_end.signature, &row->signature);
	case EVENT_CLASSES:
		add_classes(sums, &event->rows);
		return 0;
	case EVENT_SAMPLES:
		for (uint32_t i = 0; i < samples->n; i++)
			if (samples->rows[i].unit <= n_open && (err = add_sample(sums, &samples->rows[i])))
				return err;
		return 0;
	default:
		return 0;
	}
}

static struct unit_line line_at(const struct unit_sums *sums, uint32_t row)
{
	const struct row_times *times = rows__times(&sums->rows, row, 0);
	const char *key = rows__key(&sums->rows, row);
	struct unit_line line = {.row = row,
				 .kind = (uint8_t)*key,
				 .name = key + 1,
				 .count = (uint32_t)times->calls,
				 .inclusive = times->inclusive.wall,
				 .exclusive = times->exclusive.wall};

	line.signature = line.name + strlen(line.name) + 1;
	line.compiler = line.signature + strlen(line.signature) + 1;
	return line;
}

/* Equal times keep the order in which rows were created. */
static int compare(const void *a, const void *b)
{
	const struct unit_line *x = a, *y = b;

	return ORDER(y->inclusive, x->inclusive) ?: ORDER(x->row, y->row);
}

uint64_t unit_sums__no_pass(const struct unit_sums *sums)
{
	return sums->no_pass;
}

int unit_sums__lines(struct unit_sums *sums, uint8_t kind, const struct unit_line **ret, uint32_t *ret_n)
{
	int err = close_epoch(sums);

	buf__clear(&sums->lines);
	for (uint32_t i = 0; i < rows__n(&sums->rows) && !err; i++) {
		const struct unit_line line = line_at(sums, i);

		if (line.kind == kind)
			err = buf__append(&sums->lines, &line, sizeof(line));
	}
	if (!err && sums->lines.len)
		qsort(sums->lines.data, LENGTH(sums->lines, struct unit_line), sizeof(struct unit_line), compare);
	*ret = (const struct unit_line *)sums->lines.data;
	*ret_n = err ? 0 : LENGTH(sums->lines, struct unit_line);
	return err;
}
