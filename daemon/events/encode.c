/* SPDX-License-Identifier: MIT */
/* Encodes an event as a line of NDJSON, by the tables of fields.c. Example of a batch of samples, in columns;
 * a column of zeros is left out:
 *
 *     {"ev":"samples","t":[5000000,1001000],"wall":[1000000,1001000],"cpu":[990000,998000],"stack":[7,8]}
 *
 * and of a table, in rows, where sparse fields at the end are left out:
 *
 *     {"ev":"functions","first":0,"rows":[["run_pass","/usr/lib/.../compiler_machinery.py",285,"",0],...]}
 *
 * The engine's main thread encodes the session's events once for all clients, and the tables for each late
 * joiner; exporters that write recordings call it, too. `"ev"` always comes first, as clients find the kind by
 * the first bytes of a line (line__is() in cli/connection.c). */

#include "events/fields.h"
#include "events/json.h"

/* Readers of JSON have signed 64-bit integers at best (jansson: long long). */
static int append_u64(struct buf *out, uint64_t value)
{
	return value > INT64_MAX ? -ERANGE : json__u64(out, value);
}

static int append_value(struct buf *out, const struct field *field, const void *base)
{
	const char *at = (const char *)base + field->offset;

	switch (field->type) {
	case FIELD_U8:
		return json__u64(out, *(const uint8_t *)at);
	case FIELD_U32:
		return json__u64(out, *(const uint32_t *)at);
	case FIELD_I32:
		return json__i64(out, *(const int32_t *)at);
	case FIELD_U64:
		return append_u64(out, *(const uint64_t *)at);
	case FIELD_BOOL:
		return buf__puts(out, *(const bool *)at ? "true" : "false");
	case FIELD_STRING:
		return json__string(out, *(const char *const *)at);
	}
	return -EINVAL;
}

static int append_key(struct buf *out, const char *key)
{
	return buf__append(out, ",\"", 2) ?: buf__puts(out, key) ?: buf__append(out, "\":", 2);
}

/* "[]" without any: readers expect the key. */
static int append_features(struct buf *out, const struct event_hello *hello)
{
	const char *const *feature = hello->features;
	int err = append_key(out, "features");
	const char *separator = "[";

	for (; !err && feature && *feature; feature++, separator = ",")
		err = buf__puts(out, separator) ?: json__string(out, *feature);
	return err ? err : buf__puts(out, *separator == '[' ? "[]" : "]");
}

static int append_losses(struct buf *out, const struct event_ledger *ledger)
{
	int err = append_key(out, "losses") ?: buf__append(out, "{", 1);

	for (uint32_t i = 0; !err && i < ledger->n; i++) {
		err = buf__puts(out, i ? "," : "") ?: json__string(out, ledger->lines[i].name);
		err = err ?: buf__append(out, ":", 1) ?: append_u64(out, ledger->lines[i].count);
	}
	return err ?: buf__append(out, "}", 1);
}

/* Is the value of a sparse field empty, so that it is left out? */
static bool is_empty(const struct field *field, const void *base)
{
	const void *at = (const char *)base + field->offset;
	const char *text;

	switch (field->type) {
	case FIELD_STRING:
		text = *(const char *const *)at;
		return !text || !*text;
	case FIELD_U32:
	case FIELD_I32:
		return !*(const uint32_t *)at;
	case FIELD_U64:
		return !*(const uint64_t *)at;
	default: /* there is none of another type: it would always be written */
		return false;
	}
}

/* Number of fields of a row, without empty sparse ones at its end. Only from the end: a field is identified
 * by its position. */
static size_t fields_of(const struct field_list *list, const void *row)
{
	size_t n = list->n;

	while (n && list->fields[n - 1].need == FIELD_SPARSE && is_empty(&list->fields[n - 1], row))
		n--;
	return n;
}

/* "rows":[[...],[...]] */
static int append_rows(struct buf *out, const char *key, const void *rows, uint32_t n,
		       const struct row_form *form)
{
	const char *row = rows;
	int err = append_key(out, key) ?: buf__append(out, "[", 1);
	size_t j, m;

	for (uint32_t i = 0; !err && i < n; i++, row += form->size) {
		err = buf__puts(out, i ? ",[" : "[");
		m = fields_of(&form->fields, row);
		for (j = 0; !err && j < m; j++)
			err = (j ? buf__append(out, ",", 1) : 0) ?: append_value(out, &form->fields.fields[j], row);
		err = err ?: buf__append(out, "]", 1);
	}
	return err ?: buf__append(out, "]", 1);
}

static int append_fields(struct buf *out, const struct event *event, const struct field_list *list)
{
	int err = 0;

	for (size_t i = 0; !err && i < list->n; i++) {
		if (list->fields[i].need != FIELD_SPARSE || !is_empty(&list->fields[i], event))
			err = append_key(out, list->fields[i].key) ?: append_value(out, &list->fields[i], event);
	}
	return err;
}

/* What fields.c cannot express:
 *
 *     "losses":{"tick_missed":1,"frame_half":1},"native":3,"native_whole":2,"stops_more":0,
 *     "stops":[["native_no_rule","libopenblas.so.0",1311768,1,"dgemm_kernel_HASWELL"]] */
static int append_ledger(struct buf *out, const struct event *event)
{
	const struct event_ledger *ledger = &event->ledger;
	int err = append_losses(out, ledger);

	/* Without native stacks these keys would be zeros. */
	if (err || !ledger->native)
		return err;
	return append_fields(out, event, &ledger_native_fields)
		       ?: append_rows(out, "stops", ledger->stops, ledger->n_stops, &ledger_stop_form);
}

/* A batch in columns. */
struct batch {
	const struct column_form *form;
	uint32_t n;
	const void *rows;
};

/* Two kinds of events are batches: samples and ends of units. */
static struct batch batch_of(const struct event *event)
{
	if (event->kind == EVENT_UNIT_ENDS)
		return (struct batch){&event_columns_form[event->kind], event->unit_ends.n, event->unit_ends.rows};
	return (struct batch){&event_columns_form[event->kind], event->samples.n, event->samples.rows};
}

static const char *row_of(const struct batch *batch, uint32_t i)
{
	return (const char *)batch->rows + i * batch->form->size;
}

static int append_times(struct buf *out, const struct batch *batch)
{
	uint64_t last = 0;
	int err = append_key(out, "t");

	for (uint32_t i = 0; !err && i < batch->n; i++) {
		uint64_t time = *(const uint64_t *)(row_of(batch, i) + batch->form->time);

		/* So that no difference overflows, either. */
		if (time > INT64_MAX)
			return -ERANGE;
		/* Differences: a tick of 1 ms is 7 digits in place of 14. They may be negative, as samples of several
		 * CPUs are only nearly in order. */
		err = buf__append(out, i ? "," : "[", 1) ?: json__i64(out, (int64_t)(time - last));
		last = time;
	}
	return err ? err : buf__puts(out, batch->n ? "]" : "[]");
}

/* Columns are of two types; fields.c has no other. */
static uint64_t column_value(const struct batch *batch, const struct field *column, uint32_t i)
{
	const char *at = row_of(batch, i) + column->offset;

	return column->type == FIELD_U64 ? *(const uint64_t *)at : *(const uint32_t *)at;
}

/* A column that is zero throughout is left out. */
static int append_column(struct buf *out, const struct batch *batch, const struct field *column)
{
	uint32_t i;
	int err;

	for (i = 0; i < batch->n && !column_value(batch, column, i); i++)
		;
	if (i == batch->n)
		return 0;
	err = append_key(out, column->key);
	for (i = 0; !err && i < batch->n; i++)
		err = buf__append(out, i ? "," : "[", 1) ?: append_u64(out, column_value(batch, column, i));
	return err ? err : buf__append(out, "]", 1);
}

static int append_columns(struct buf *out, const struct event *event)
{
	struct batch batch = batch_of(event);
	int err = append_times(out, &batch);

	for (size_t i = 0; !err && i < batch.form->fields.n; i++)
		err = append_column(out, &batch, &batch.form->fields.fields[i]);
	return err;
}

static int append_event(struct buf *out, const struct event *event)
{
	const struct row_form *form = &event_rows_form[event->kind];
	int err = buf__puts(out, "{\"ev\":\"") ?: buf__puts(out, event_names[event->kind]) ?: buf__append(out, "\"", 1);

	err = err ?: append_fields(out, event, &event_fields[event->kind]);
	if (!err && form->size)
		err = append_rows(out, "rows", event->rows.rows, event->rows.n, form);
	else if (!err && event->kind == EVENT_HELLO)
		err = append_features(out, &event->hello);
	else if (!err && event->kind == EVENT_LEDGER)
		err = append_ledger(out, event);
	else if (!err && event_columns_form[event->kind].size)
		err = append_columns(out, event);
	return err ? err : buf__append(out, "}\n", 2);
}

/* 0: the event has no rows. */
static uint32_t batch_rows(const struct event *event)
{
	if (event_rows_form[event->kind].size)
		return event->rows.n;
	return event_columns_form[event->kind].size ? batch_of(event).n : 0;
}

/* Splits a batch that is too long for a line into halves; -EMSGSIZE: it is not a batch. */
static int split_event(const struct event *event, struct event *ret_a, struct event *ret_b)
{
	size_t size = event_rows_form[event->kind].size;

	*ret_a = *ret_b = *event;
	/* The second half of a table continues its ids. */
	if (size && event->rows.n > 1) {
		ret_a->rows.n = event->rows.n / 2;
		ret_b->rows.n -= ret_a->rows.n;
		ret_b->rows.first += ret_a->rows.n;
		ret_b->rows.rows = (const char *)event->rows.rows + size * ret_a->rows.n;
		return 0;
	}
	if (event->kind == EVENT_SAMPLES && event->samples.n > 1) {
		ret_a->samples.n = event->samples.n / 2;
		ret_b->samples.n -= ret_a->samples.n;
		ret_b->samples.rows += ret_a->samples.n;
		return 0;
	}
	if (event->kind == EVENT_UNIT_ENDS && event->unit_ends.n > 1) {
		ret_a->unit_ends.n = event->unit_ends.n / 2;
		ret_b->unit_ends.n -= ret_a->unit_ends.n;
		ret_b->unit_ends.rows += ret_a->unit_ends.n;
		return 0;
	}
	return -EMSGSIZE;
}

int event__encode(const struct event *event, struct buf *ret_out)
{
	size_t before = ret_out->len;
	struct event a, b;
	int err = 0;

	if ((unsigned)event->kind >= EVENT_KIND_COUNT)
		return -EINVAL;
	/* Too many rows are not even tried; too long a line is taken back. Either way the batch is split into
	 * halves, recursively: at most some 16 levels. */
	if (batch_rows(event) <= EVENTS_ROWS_MAX)
		err = append_event(ret_out, event);
	if (!err && (ret_out->len == before || ret_out->len - before > EVENTS_LINE_MAX)) {
		ret_out->len = before;
		err = split_event(event, &a, &b) ?: event__encode(&a, ret_out) ?: event__encode(&b, ret_out);
	}
	/* Nothing half is left behind: the caller goes on with the same buffer. */
	if (err)
		ret_out->len = before;
	return err;
}
