/* SPDX-License-Identifier: MIT */
/* Sums over a recording: each unit by what it is. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "classes/classes.h"
#include "units/internal.h"
#include "units/shares.h"

struct open_row {
	uint32_t parent, name, signature, compiler;
	uint8_t kind;
	uint64_t begin;
	uint64_t self;          /* wall of the samples that have it as their innermost, from its begin on */
};

/* Ids of classes are of the epoch; a compiler's native code is among the first, or not told apart. */
#define CLASSES_MAX 1024u

struct units_table {
	struct texts texts;
	struct open_row *rows;  /* of the epoch */
	uint32_t n_rows, rows_capacity;
	struct units_line *lines;
	uint32_t n_lines, lines_capacity;
	struct slots slots;
	uint64_t native[CLASSES_MAX / 64]; /* classes of a compiler's native code: bits, by id */
	struct shares shares;              /* of workers: by unit */
	uint64_t no_pass;                  /* ns of wall time: in such code, in a compile, in no pass that is known */
};

int units_table__new(struct units_table **ret)
{
	struct units_table *table = calloc(1, sizeof(*table));
	int err = table ? hash_seed__draw(&table->texts.seed) : -ENOMEM;

	if (err) {
		free(table);
		return err;
	}
	*ret = table;
	return 0;
}

struct units_table *units_table__free(struct units_table *table)
{
	if (!table)
		return NULL;
	free(table->texts.texts);
	free(table->texts.slots.slots);
	arena__free(&table->texts.arena);
	free(table->rows);
	free(table->lines);
	free(table->slots.slots);
	shares__free(&table->shares);
	free(table);
	return NULL;
}

static uint64_t hash_words(const struct units_table *table, const char *compiler, const char *name,
			   const char *signature, uint8_t kind)
{
	const struct hash_seed *seed = &table->texts.seed;

	return hash__pair(seed, hash__bytes(seed, name, strlen(name)) + kind,
			  hash__bytes(seed, signature, strlen(signature)) ^
				  hash__bytes(seed, compiler, strlen(compiler)));
}

static bool hash_line(const void *holder, uint32_t i, uint64_t *ret)
{
	const struct units_table *table = holder;
	const struct units_line *line = &table->lines[i];

	*ret = hash_words(table, line->compiler, line->name, line->signature, line->kind);
	return true;
}

static uint32_t line_of(struct units_table *table, const struct open_row *row)
{
	const char *compiler = texts__get(&table->texts, row->compiler), *name = texts__get(&table->texts, row->name),
		   *signature = texts__get(&table->texts, row->signature);
	uint64_t hash = hash_words(table, compiler, name, signature, row->kind);
	uint32_t at, found;

	for (at = slots__first(&table->slots, hash); slots__row(&table->slots, at, &found);
	     at = slots__next(&table->slots, at)) {
		const struct units_line *line = &table->lines[found];

		if (line->kind == row->kind && !strcmp(line->name, name) && !strcmp(line->signature, signature) &&
		    !strcmp(line->compiler, compiler))
			return found;
	}
	if (array__reserve((void **)&table->lines, sizeof(*table->lines), table->n_lines, &table->lines_capacity) ||
	    slots__reserve(&table->slots, table->n_lines, hash_line, table))
		return UINT32_MAX;
	table->lines[table->n_lines] = (struct units_line){
		.compiler = compiler, .name = name, .signature = signature, .kind = row->kind};
	slots__enter(&table->slots, hash, table->n_lines);
	return table->n_lines++;
}

/* Children come after their parents: from the last to the first, each hands on what it has. */
static int close_epoch(struct units_table *table)
{
	uint32_t i, line, at;

	for (i = table->n_rows; i-- > 0;) {
		const struct open_row *row = &table->rows[i];
		bool compile_seen = false;

		if (row->kind == UNIT_OVER)
			continue;
		line = line_of(table, row);
		if (line == UINT32_MAX)
			return -ENOMEM;
		table->lines[line].count++;
		if (!row->self)
			continue;
		for (at = i + 1; at; at = table->rows[at - 1].parent) {
			const struct open_row *up = &table->rows[at - 1];
			uint32_t inner, up_line = line_of(table, up);

			if (up_line == UINT32_MAX)
				return -ENOMEM;
			/* One inside of itself counts once. */
			for (inner = i + 1; inner != at && (table->rows[inner - 1].kind != up->kind ||
							    line_of(table, &table->rows[inner - 1]) != up_line);
			     inner = table->rows[inner - 1].parent)
				;
			if (inner == at)
				table->lines[up_line].inclusive += row->self;
			if (up->kind == RULE_UNIT ? !compile_seen : at == i + 1)
				table->lines[up_line].exclusive += row->self;
			compile_seen |= up->kind == RULE_UNIT;
		}
	}
	table->n_rows = 0;
	shares__free(&table->shares);
	return 0;
}

static uint32_t keep(struct units_table *table, const char *text)
{
	return texts__keep(&table->texts, text, strlen(text));
}

static int add_rows(struct units_table *table, const struct event_rows *rows)
{
	const struct unit_row *units = rows->rows;
	uint32_t i;

	for (i = 0; i < rows->n; i++) {
		if (array__reserve((void **)&table->rows, sizeof(*table->rows), table->n_rows, &table->rows_capacity))
			return -ENOMEM;
		table->rows[table->n_rows++] = (struct open_row){.parent = units[i].parent,
								 .name = keep(table, units[i].name),
								 .signature = keep(table, units[i].signature),
								 .compiler = keep(table, units[i].compiler),
								 .begin = units[i].time,
								 .kind = units[i].kind};
	}
	return 0;
}

static void add_classes(struct units_table *table, const struct event_rows *rows)
{
	const struct class_row *classes = rows->rows;
	uint32_t i, id;

	for (i = 0; i < rows->n && rows->first + i < CLASSES_MAX; i++) {
		id = rows->first + i;
		table->native[id / 64] &= ~(1ull << id % 64);
		if (!strcmp(classes[i].name, class__name(CLASS_COMPILER)))
			table->native[id / 64] |= 1ull << id % 64;
	}
}

static void add_no_pass(struct units_table *table, uint32_t unit, uint32_t class_id, uint64_t wall)
{
	uint32_t at = unit;

	if (class_id >= CLASSES_MAX || !(table->native[class_id / 64] >> class_id % 64 & 1))
		return;
	for (; at && table->rows[at - 1].kind != RULE_UNIT; at = table->rows[at - 1].parent)
		if (table->rows[at - 1].kind == RULE_PASS)
			return;
	if (at)
		table->no_pass += wall;
}

/* Wall time that ends at `time`, to the units that it is of: what was before the begin of one is of the unit around it. */
static void add_time(struct units_table *table, uint32_t unit, uint64_t time, uint64_t wall)
{
	uint64_t given = 0;
	uint32_t at;

	for (at = unit; at; at = table->rows[at - 1].parent) {
		struct open_row *row = &table->rows[at - 1];
		uint64_t own = time > row->begin ? time - row->begin : 0;

		if (own > wall)
			own = wall;
		if (own > given) {
			row->self += own - given;
			given = own;
		}
	}
}

static int add_sample(struct units_table *table, const struct sample_row *sample)
{
	uint64_t idle = sample->wall > sample->cpu ? sample->wall - sample->cpu : 0, left = sample->wall;
	const struct share *share;
	uint32_t n, i;

	if (attribution__is_given(sample->how))
		return shares__add(&table->shares, sample->caller, (uint64_t)sample->class_id << 32 | sample->unit, sample->cpu);
	share = shares__divide(&table->shares, sample->thread, idle, &n);
	for (i = 0; i < n; i++) {
		add_time(table, (uint32_t)share[i].of, sample->time, share[i].cpu);
		add_no_pass(table, (uint32_t)share[i].of, (uint32_t)(share[i].of >> 32), share[i].cpu);
		left -= share[i].cpu;
	}
	add_time(table, sample->unit, sample->time, left);
	add_no_pass(table, sample->unit, sample->class_id, left);
	return 0;
}

int units_table__event(struct units_table *table, const struct event *event)
{
	const struct event_samples *samples = &event->samples;
	struct open_row *row;
	uint32_t i;
	int err;

	switch (event->kind) {
	case EVENT_SESSION:
	case EVENT_EPOCH:
	case EVENT_END:
		return close_epoch(table);
	case EVENT_UNITS:
		return add_rows(table, &event->rows);
	case EVENT_UNIT_NAME:
	case EVENT_UNIT_END:
		row = event->unit_end.id <= table->n_rows ? &table->rows[event->unit_end.id - 1] : NULL;
		if (row && *event->unit_end.name) {
			row->name = keep(table, event->unit_end.name);
			row->signature = keep(table, event->unit_end.signature);
		}
		return 0;
	case EVENT_CLASSES:
		add_classes(table, &event->rows);
		return 0;
	case EVENT_SAMPLES:
		for (i = 0; i < samples->n; i++)
			if (samples->rows[i].unit <= table->n_rows && (err = add_sample(table, &samples->rows[i])))
				return err;
		return 0;
	default:
		return 0;
	}
}

static int compare(const void *a, const void *b)
{
	const struct units_line *x = a, *y = b;

	if (x->kind != y->kind)
		return x->kind < y->kind ? -1 : 1;
	return x->inclusive < y->inclusive ? 1 : x->inclusive > y->inclusive ? -1 : 0;
}

uint64_t units_table__no_pass(const struct units_table *table)
{
	return table->no_pass;
}

int units_table__lines(struct units_table *table, uint8_t kind, const struct units_line **ret, uint32_t *ret_n)
{
	uint32_t first = 0, end;
	int err = close_epoch(table);

	if (err)
		return err;
	free(table->slots.slots); /* the order changes: nothing is looked up any more */
	table->slots = (struct slots){};
	if (table->n_lines)
		qsort(table->lines, table->n_lines, sizeof(*table->lines), compare);
	while (first < table->n_lines && table->lines[first].kind < kind)
		first++;
	for (end = first; end < table->n_lines && table->lines[end].kind == kind; end++)
		;
	*ret = table->lines + first;
	*ret_n = end - first;
	return 0;
}
