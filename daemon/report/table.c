/* SPDX-License-Identifier: MIT */
/* Rows of one table. A row's key is a string of everything that distinguishes it, stored by aggregate/rows.c:
 *
 *     line (4 bytes) parent (4) defined (4) pid (4) kind (1) name NUL file NUL module NUL detail NUL
 *
 * So a row is found by one hash lookup, and its texts need no storage of their own: table__key() points into
 * the key. */
#include "report/table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "export/places.h"

#define REPORT_NAME(id, name, inclusive) name,
const char *const report_names[REPORT_BY_COUNT] = {REPORT_TABLES(REPORT_NAME)};
#undef REPORT_NAME

int table__init(struct table *table, enum report_by by, uint32_t files)
{
	*table = (struct table){.by = by, .files = files, .rows.columns = files};
	table->totals = calloc(files, sizeof(*table->totals));
	return table->totals ? 0 : -ENOMEM;
}

void table__free(struct table *table)
{
	rows__free(&table->rows);
	buf__free(&table->first);
	buf__free(&table->next);
	free(table->totals);
	free(table->ranks);
}

void table__next(struct table *table, uint32_t file)
{
	table->file = file;
	rows__clear_frames(&table->rows);
}

/* Links a new row to its parent: lists in two arrays of indices, as arrays may move. The newest row comes first; the
 * order does not matter, as rows are ranked later. */
static int link_row(struct table *table, uint32_t row, uint32_t parent)
{
	uint32_t *first;
	int err = buf__lengthen(&table->next, ((size_t)row + 1) * sizeof(uint32_t));

	if (err || parent == ROW_NONE)
		return err;
	err = buf__lengthen(&table->first, ((size_t)parent + 1) * sizeof(uint32_t));
	if (err)
		return err;
	first = (uint32_t *)table->first.data + parent;
	ITEM(table->next, uint32_t, row) = *first;
	*first = row + 1;
	return 0;
}

int table__row(struct table *table, const struct row_key *key, uint32_t *ret)
{
	const uint32_t known = rows__n(&table->rows);
	_cleanup_(buf__free) struct buf text = {};
	int err = buf__append(&text, &key->line, sizeof(key->line));

	err = err ?: buf__append(&text, &key->parent, sizeof(key->parent));
	err = err ?: buf__append(&text, &key->defined, sizeof(key->defined));
	err = err ?: buf__append(&text, &key->pid, sizeof(key->pid));
	err = err ?: buf__append(&text, &key->kind, 1);
	err = err ?: buf__append(&text, key->name, strlen(key->name) + 1);
	err = err ?: buf__append(&text, key->file, strlen(key->file) + 1);
	err = err ?: buf__append(&text, key->module, strlen(key->module) + 1);
	if (key->detail)
		err = err ?: buf__puts(&text, key->detail);
	/* The end of `detail`, which may be NULL. */
	err = err ?: buf__append(&text, "", 1);
	err = err ?: rows__row(&table->rows, text.data, text.len, ret);
	return err || rows__n(&table->rows) == known ? err : link_row(table, *ret, key->parent);
}

struct row_key table__key(const struct table *table, uint32_t row)
{
	struct row_key key = {};
	const char *at = rows__key(&table->rows, row);

	/* Not aligned: keys of any length follow each other. */
	memcpy(&key.line, at, sizeof(key.line));
	memcpy(&key.parent, at + sizeof(key.line), sizeof(key.parent));
	at += sizeof(key.line) + sizeof(key.parent);
	memcpy(&key.defined, at, sizeof(key.defined));
	at += sizeof(key.defined);
	memcpy(&key.pid, at, sizeof(key.pid));
	at += sizeof(key.pid);
	key.kind = (uint8_t)*at++;
	key.name = at;
	key.file = key.name + strlen(key.name) + 1;
	key.module = key.file + strlen(key.file) + 1;
	key.detail = key.module + strlen(key.module) + 1;
	return key;
}

struct row_times *table__times(const struct table *table, uint32_t row, uint32_t file)
{
	return rows__times(&table->rows, row, file);
}

void table__stack(struct table *table)
{
	rows__stack(&table->rows);
}

bool table__inclusive(struct table *table, uint32_t row, const struct times *times)
{
	return rows__inclusive(&table->rows, row, table->file, times);
}

void table__exclusive(struct table *table, uint32_t row, const struct times *times)
{
	rows__exclusive(&table->rows, row, table->file, times);
}

/* --- rows of frames --- */

struct row_key table__frame_key(const struct model_frame *frame)
{
	return (struct row_key){.name = frame->name, .file = frame->source, .module = frame->module, .line = frame->line, .parent = ROW_NONE, .kind = frame->kind};
}

static int make_row(struct table *table, const struct model *model, uint32_t frame_id,
		    uint32_t *ret)
{
	struct model_frame frame = model__frame(model, frame_id);
	struct row_key key = table__frame_key(&frame);
	bool lines = table->by == REPORT_LINE || table->lines;
	char group[1024];

	switch (table->by) {
	/* Groups have no file and line: frames of many functions share the row. */
	case REPORT_PACKAGE:
		place__package(frame.kind, frame.source, frame.module, group, sizeof(group));
		key = row_key__named(group, KIND_GROUP);
		break;
	case REPORT_MODULE:
		place__module(frame.kind, frame.source, frame.module, group, sizeof(group));
		key = row_key__named(group, KIND_GROUP);
		break;
	case REPORT_FILE: /* for native code without debug information, frame.file is the module */
		key = row_key__named(*frame.file ? frame.file : PLACE_NOTES, KIND_GROUP);
		break;
	default:
		key.line = lines ? frame.line : frame.first_line;
		break;
	}
	return table__row(table, &key, ret);
}

int table__frame(struct table *table, const struct model *model, uint32_t frame, uint32_t *ret)
{
	uint32_t *known = rows__of_frame(&table->rows, frame);
	int err = 0;

	if (!known)
		return -ENOMEM;
	if (!*known) {
		err = make_row(table, model, frame, ret);
		/* The cache makes the cost of a frame an array access: keys are built once per frame and
		 * epoch, not per stack. */
		*known = err ? 0 : *ret + 1;
		return err;
	}
	*ret = *known - 1;
	return 0;
}
