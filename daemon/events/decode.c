/* SPDX-License-Identifier: MIT */
/* Decodes a line into an event. The tables of fields.c define the members. What a table cannot express is
 * checked here: ids count up by one, and a row refers only to earlier rows. So readers of events need no
 * checks of their own.
 *
 *     {"ev":"stacks","first":2,"rows":[[1,5],[2,7]]}      stack 2: frame 5 on stack 1; stack 3: frame 7 on stack 2
 *     allowed if the next stack is 2, and frames 5 and 7 exist
 *
 * A recording may come from anyone, so every number is out of range until it was checked, and every
 * allocation is bounded by the length of the line (EVENTS_LINE_MAX) or by EVENTS_ROWS_MAX. */

#include "base/arena.h"
#include "base/cleanup.h"
#include "base/safe_text.h"
#include "events/fields.h"
#include "events/json_read.h"

/* Ids of one epoch stay below this, so that arithmetic on them cannot overflow: readers add 1, or use the upper bits
 * for flags of their own, without a check. */
#define IDS_MAX (1u << 30)

/* Memory that is reused from line to line, and what must be known of earlier lines to check the next. */
struct event_decoder {
	/* For each kind of row: the next id in this epoch. */
	uint32_t next[EVENT_KIND_COUNT];
	struct json_reader json; /* the current line */
	struct buf scratch; /* rows of the current event */
	struct buf depths;  /* uint16_t: depth of each stack of this epoch, from id 1 */
	/* strings are escaped for people: event_decoder__readable() */
	bool readable;
	struct arena words; /* escaped strings of the current event */
};

/* Stacks, classes, units and lines begin at 1, as 0 means "none" there; the other tables at 0. */
static void start_epoch(struct event_decoder *decoder)
{
	for (int kind = 0; kind < EVENT_KIND_COUNT; kind++)
		decoder->next[kind] = event_rows_form[kind].base;
	buf__clear(&decoder->depths);
}

int event_decoder__new(struct event_decoder **ret)
{
	struct event_decoder *decoder = calloc(1, sizeof(*decoder));

	if (!decoder)
		return -ENOMEM;
	start_epoch(decoder);
	*ret = decoder;
	return 0;
}

struct event_decoder *event_decoder__free(struct event_decoder *decoder)
{
	if (!decoder)
		return NULL;
	json_reader__free(&decoder->json);
	buf__free(&decoder->scratch);
	buf__free(&decoder->depths);
	arena__free(&decoder->words);
	free(decoder);
	return NULL;
}

void event_decoder__readable(struct event_decoder *decoder)
{
	decoder->readable = true;
}

/* The text as it may be shown to people, if that was asked for. NULL: out of memory. */
static const char *readable(struct event_decoder *decoder, const struct json_value *value)
{
	_cleanup_(buf__free) struct buf safe = {};
	const char *text = value->string;
	char *copy;

	if (!decoder->readable || value->safe || safe_text__is(text))
		return text;
	if (safe_text__append(&safe, text, strlen(text)) || buf__append(&safe, "", 1))
		return NULL;
	copy = arena__take(&decoder->words, safe.len);
	return copy ? memcpy(copy, safe.data, safe.len) : NULL;
}

static int read_integer(const struct json_value *value, int64_t min, int64_t max, int64_t *ret)
{
	if (!json_value__is(value, JSON_OF_INTEGER))
		return -EBADMSG;
	*ret = value->integer;
	return *ret < min || *ret > max ? -EBADMSG : 0;
}

/* `value` NULL: the member is missing. Optional members are then 0, false or "". */
static int read_value(struct event_decoder *decoder, const struct json_value *value, const struct field *field, void *base)
{
	static const struct {
		int64_t min, max;
	} range[] = {
		[FIELD_U8] = {0, UINT8_MAX},
		[FIELD_U32] = {0, UINT32_MAX},
		[FIELD_I32] = {INT32_MIN, INT32_MAX},
		/* Readers in other languages have signed numbers. */
		[FIELD_U64] = {0, INT64_MAX},
	};
	char *at = (char *)base + field->offset;
	int64_t number = 0;

	if (field->type == FIELD_STRING) {
		if (value && value->kind != JSON_OF_STRING)
			return -EBADMSG;
		/* In the reader's memory, or in `words`: valid until the next line. */
		*(const char **)at = value ? readable(decoder, value) : "";
		if (!*(const char **)at)
			return -ENOMEM;
	} else if (field->type == FIELD_BOOL) {
		if (value && value->kind != JSON_OF_TRUE && value->kind != JSON_OF_FALSE)
			return -EBADMSG;
		*(bool *)at = json_value__is(value, JSON_OF_TRUE);
	} else if (value &&
		   read_integer(value, range[field->type].min, range[field->type].max, &number)) {
		return -EBADMSG;
	} else if (field->type == FIELD_U8) {
		*(uint8_t *)at = (uint8_t)number;
	} else if (field->type == FIELD_U64) {
		*(uint64_t *)at = (uint64_t)number;
	} else { /* 32 bits, either sign */
		*(uint32_t *)at = (uint32_t)number;
	}
	return !value && field->need == FIELD_REQUIRED ? -EBADMSG : 0;
}

/* Zeroed memory for n items of `size` bytes; valid until the next event. One byte more than needed, so that
 * an empty batch has a pointer, too. */
static void *scratch(struct event_decoder *decoder, size_t n, size_t size)
{
	struct buf *buf = &decoder->scratch;

	buf__clear(buf);
	if (buf__reserve(buf, n * size + 1))
		return NULL;
	return memset(buf->data, 0, n * size + 1);
}

static int read_features(struct event_decoder *decoder, const struct json_value *line,
			 struct event_hello *hello)
{
	const struct json_value *features = json_value__member(line, "features"), *at;
	size_t i, n = features && features->kind == JSON_OF_ARRAY ? features->n : 0;
	const char **names;

	if (features && features->kind != JSON_OF_ARRAY)
		return -EBADMSG;
	/* The last one stays NULL. */
	names = scratch(decoder, n + 1, sizeof(*names));
	if (!names)
		return -ENOMEM;
	for (i = 0, at = n ? json_value__first(features) : NULL; i < n; i++, at = json_value__next(at)) {
		if (at->kind != JSON_OF_STRING)
			return -EBADMSG;
		names[i] = at->string;
	}
	hello->features = names;
	return 0;
}

/* Rows are arrays. Missing elements at the end are optional or sparse fields; additional ones are of a newer
 * minor version, and skipped. */
static int read_row(struct event_decoder *decoder, const struct json_value *row, const struct field_list *fields, void *base)
{
	const struct json_value *at;
	size_t i;

	if (row->kind != JSON_OF_ARRAY)
		return -EBADMSG;
	for (i = 0, at = json_value__first(row); i < fields->n; i++) {
		if (read_value(decoder, i < row->n ? at : NULL, &fields->fields[i], base))
			return -EBADMSG;
		at = i < row->n ? json_value__next(at) : at;
	}
	return 0;
}

static int read_losses(struct event_decoder *decoder, const struct json_value *losses, struct ledger_line *lines, uint32_t *ret_n)
{
	const struct json_value *name;
	uint32_t i, n = losses ? losses->n : 0;
	int64_t count;

	/* name + 1 is the member's value (json_read.h). */
	for (i = 0, name = n ? json_value__first(losses) : NULL; i < n; i++, name = json_value__next(name + 1)) {
		if (read_integer(name + 1, 0, INT64_MAX, &count))
			return -EBADMSG;
		lines[*ret_n] = (struct ledger_line){readable(decoder, name), (uint64_t)count};
		if (!lines[(*ret_n)++].name)
			return -ENOMEM;
	}
	return 0;
}

/* Number of elements of an array or members of an object; 0 for other values. */
static size_t size_of(const struct json_value *value)
{
	return json_value__is(value, JSON_OF_ARRAY) || json_value__is(value, JSON_OF_OBJECT) ? value->n : 0;
}

static int read_ledger(struct event_decoder *decoder, const struct json_value *line, struct event *event)
{
	const struct field_list *fields = &ledger_native_fields;
	const struct json_value *losses = json_value__member(line, "losses"), *stops = json_value__member(line, "stops"), *at;
	size_t n = size_of(losses), n_stops = size_of(stops), i;
	struct event_ledger *ledger = &event->ledger;
	struct ledger_stop *rows;

	if ((losses && losses->kind != JSON_OF_OBJECT) || (stops && stops->kind != JSON_OF_ARRAY) ||
	    n_stops > EVENTS_ROWS_MAX)
		return -EBADMSG;
	/* Stops and losses share the scratch memory. */
	rows = scratch(decoder, 1, n_stops * sizeof(*rows) + n * sizeof(struct ledger_line));
	if (!rows)
		return -ENOMEM;
	ledger->stops = rows;
	ledger->n_stops = (uint32_t)n_stops;
	ledger->lines = (struct ledger_line *)(rows + n_stops);
	for (i = 0; i < fields->n; i++)
		if (read_value(decoder, json_value__member(line, fields->fields[i].key), &fields->fields[i], event))
			return -EBADMSG;
	for (i = 0, at = n_stops ? json_value__first(stops) : NULL; i < n_stops; i++, at = json_value__next(at))
		if (read_row(decoder, at, &ledger_stop_form.fields, &rows[i]))
			return -EBADMSG;
	return read_losses(decoder, losses, (struct ledger_line *)ledger->lines, &ledger->n);
}

/* Does the row refer only to ids that exist already? */
static bool row_refers_back(const struct event_decoder *decoder, enum event_kind kind, uint32_t id,
			    const void *row)
{
	const struct frame_row *frame = row;
	const struct stack_row *stack = row;
	const struct unit_row *unit = row;
	const struct source_line_row *line = row;

	if (kind == EVENT_FRAMES)
		return frame->function < decoder->next[EVENT_FUNCTIONS];
	/* parent < id makes the tree free of cycles: following parents always ends. */
	if (kind == EVENT_STACKS)
		return stack->parent < id && stack->frame < decoder->next[EVENT_FRAMES];
	if (kind == EVENT_UNITS)
		return unit->parent < id && unit->thread < decoder->next[EVENT_THREAD] &&
		       unit->trigger < decoder->next[EVENT_STACKS];
	return kind != EVENT_LINES || line->parent < id;
}

_Static_assert(EVENTS_DEPTH_MAX <= UINT16_MAX, "a depth is kept in 16 bits");

/* Records the depth of new stacks, whose rows were checked. */
static int note_depths(struct event_decoder *decoder, const struct event_rows *rows)
{
	const struct stack_row *row = rows->rows;
	int err = 0;

	for (uint32_t i = 0; i < rows->n && !err; i++) {
		/* The parent's depth is there already: it is an earlier row, perhaps of this event. */
		uint16_t depth = row[i].parent ? ITEM(decoder->depths, const uint16_t, row[i].parent - 1) : 0;

		if (depth++ == EVENTS_DEPTH_MAX)
			return -EOVERFLOW;
		err = buf__append(&decoder->depths, &depth, sizeof(depth));
	}
	return err;
}

static int read_rows(struct event_decoder *decoder, const struct json_value *line, struct event *event)
{
	const struct row_form *form = &event_rows_form[event->kind];
	const struct json_value *rows = json_value__member(line, "rows"), *at;
	uint32_t first = event->rows.first, i;
	size_t n = size_of(rows);
	char *row;

	/* A gap in the ids would make all rows after it mean something else: refused. */
	if (!json_value__is(rows, JSON_OF_ARRAY) || n > EVENTS_ROWS_MAX || first != decoder->next[event->kind] ||
	    n > IDS_MAX - first)
		return -EBADMSG;
	row = scratch(decoder, n, form->size);
	if (!row)
		return -ENOMEM;
	event->rows.n = (uint32_t)n;
	event->rows.rows = row;
	for (i = 0, at = json_value__first(rows); i < n; i++, row += form->size, at = json_value__next(at))
		if (read_row(decoder, at, &form->fields, row) ||
		    !row_refers_back(decoder, event->kind, first + i, row))
			return -EBADMSG;
	decoder->next[event->kind] = first + event->rows.n;
	return event->kind == EVENT_STACKS ? note_depths(decoder, &event->rows) : 0;
}

/* The column "t": the first time, then differences. */
static int read_times(const struct json_value *times, const struct column_form *form, char *rows, size_t n)
{
	const struct json_value *at = json_value__first(times);
	int64_t time = 0, delta;

	for (size_t i = 0; i < n; i++, at = json_value__next(at)) {
		/* A difference may be negative, their sum may not. */
		if (read_integer(at, INT64_MIN, INT64_MAX, &delta) ||
		    __builtin_add_overflow(time, delta, &time) || time < 0)
			return -EBADMSG;
		*(uint64_t *)(rows + i * form->size + form->time) = (uint64_t)time;
	}
	return 0;
}

static int read_column(struct event_decoder *decoder, const struct json_value *values, const struct field *column, char *rows, size_t size, size_t n)
{
	const struct json_value *at;
	size_t i;

	if (!values)
		return 0;
	/* A column that is left out is zero throughout; one that is there has a value for each row. */
	if (values->kind != JSON_OF_ARRAY ? n : values->n != n)
		return -EBADMSG;
	for (i = 0, at = json_value__first(values); i < n; i++, at = json_value__next(at))
		if (read_value(decoder, at, column, rows + i * size))
			return -EBADMSG;
	return 0;
}

/* Decodes a batch in columns into rows. NULL: see *ret_err. */
static void *read_columns(struct event_decoder *decoder, const struct json_value *line, enum event_kind kind, uint32_t *ret_n, int *ret_err)
{
	const struct column_form *form = &event_columns_form[kind];
	const struct json_value *times = json_value__member(line, "t");
	size_t i, n = size_of(times);
	/* The number of times is the number of rows: every other column is compared with it. */
	bool good = json_value__is(times, JSON_OF_ARRAY) && n <= EVENTS_ROWS_MAX;
	char *rows = good ? scratch(decoder, n, form->size) : NULL;

	*ret_err = good ? -ENOMEM : -EBADMSG;
	if (!rows)
		return NULL;
	*ret_err = -EBADMSG;
	if (read_times(times, form, rows, n))
		return NULL;
	for (i = 0; i < form->fields.n; i++) {
		const struct field *column = &form->fields.fields[i];

		if (read_column(decoder, json_value__member(line, column->key), column, rows, form->size, n))
			return NULL;
	}
	*ret_n = (uint32_t)n;
	return rows;
}

static int read_samples(struct event_decoder *decoder, const struct json_value *line, struct event_samples *samples)
{
	const struct sample_row *rows;
	int err;

	samples->rows = rows = read_columns(decoder, line, EVENT_SAMPLES, &samples->n, &err);
	if (!rows)
		return err;
	/* Ids of stacks, units and calls may be 0; of threads 0 is the first one, which must exist. */
	for (uint32_t i = 0; i < samples->n; i++)
		if (rows[i].thread >= decoder->next[EVENT_THREAD] ||
		    rows[i].stack >= decoder->next[EVENT_STACKS] ||
		    rows[i].unit >= decoder->next[EVENT_UNITS] || rows[i].caller >= decoder->next[EVENT_THREAD] ||
		    rows[i].call >= decoder->next[EVENT_STACKS] || rows[i].line >= decoder->next[EVENT_LINES])
			return -EBADMSG;
	return 0;
}

static int read_unit_ends(struct event_decoder *decoder, const struct json_value *line, struct event_unit_ends *ends)
{
	int err;

	ends->rows = read_columns(decoder, line, EVENT_UNIT_ENDS, &ends->n, &err);
	if (!ends->rows)
		return err;
	for (uint32_t i = 0; i < ends->n; i++)
		if (!ends->rows[i].id || ends->rows[i].id >= decoder->next[EVENT_UNITS])
			return -EBADMSG;
	return 0;
}

/* Checks the id of a process or thread: the next one, or a known one that is emitted again (its name changed). */
static int admit(struct event_decoder *decoder, enum event_kind kind, uint32_t id)
{
	if (id > decoder->next[kind] || id >= IDS_MAX)
		return -EBADMSG;
	if (id == decoder->next[kind])
		decoder->next[kind]++;
	return 0;
}

/* What the members in event_fields do not cover: rows, columns, and checks of ids. */
static int read_rest(struct event_decoder *decoder, const struct json_value *line, struct event *event)
{
	switch (event->kind) {
	case EVENT_HELLO:
		/* A newer minor version is read: it has additions only, which are skipped. */
		if (event->hello.major != EVENTS_MAJOR)
			return -EPROTONOSUPPORT;
		return read_features(decoder, line, &event->hello);
	/* All tables begin anew. */
	case EVENT_SESSION:
	case EVENT_EPOCH:
		start_epoch(decoder);
		return 0;
	case EVENT_PROCESS:
		return admit(decoder, EVENT_PROCESS, event->process.id);
	case EVENT_THREAD:
		if (event->thread.process >= decoder->next[EVENT_PROCESS])
			return -EBADMSG;
		return admit(decoder, EVENT_THREAD, event->thread.id);
	case EVENT_MODULES:
	case EVENT_FUNCTIONS:
	case EVENT_FRAMES:
	case EVENT_STACKS:
	case EVENT_CLASSES:
	case EVENT_UNITS:
	case EVENT_LINES:
		return read_rows(decoder, line, event);
	case EVENT_SAMPLES:
		return read_samples(decoder, line, &event->samples);
	case EVENT_UNIT_NAME:
	case EVENT_UNIT_END:
		return event->unit_end.id && event->unit_end.id < decoder->next[EVENT_UNITS] ? 0 : -EBADMSG;
	case EVENT_UNIT_ENDS:
		return read_unit_ends(decoder, line, &event->unit_ends);
	case EVENT_THREAD_END:
		return event->ending.id < decoder->next[EVENT_THREAD] ? 0 : -EBADMSG;
	case EVENT_PROCESS_END:
		return event->ending.id < decoder->next[EVENT_PROCESS] ? 0 : -EBADMSG;
	case EVENT_LEDGER:
		return read_ledger(decoder, line, event);
	case EVENT_GAP:
	case EVENT_PART:
	case EVENT_TRIGGER:
	case EVENT_END:
	case EVENT_KIND_COUNT:
		break;
	}
	return 0;
}

/* EVENT_KIND_COUNT: an event of a newer minor version. */
static enum event_kind find_kind(const char *name)
{
	int kind = 0;

	while (kind < EVENT_KIND_COUNT && strcmp(event_names[kind], name))
		kind++;
	return kind;
}

int event_decoder__line(struct event_decoder *decoder, const char *line, size_t len,
			struct event_sink *sink)
{
	const struct json_value *json, *name;
	const struct field_list *list;
	struct event event;
	int err;

	if (len > EVENTS_LINE_MAX)
		return -EBADMSG;
	err = json_reader__read(&decoder->json, line, len, &json);
	if (err)
		return err;
	/* Readers may not rely on its being the first member, so it is looked for. */
	name = json_value__member(json, "ev");
	if (!json_value__is(name, JSON_OF_STRING))
		return -EBADMSG;
	memset(&event, 0, sizeof(event));
	arena__free(&decoder->words);
	event.kind = find_kind(name->string);
	/* Skipped, as the protocol demands of readers. */
	if (event.kind == EVENT_KIND_COUNT)
		return 0;
	/* Members first, then rows and columns, which need the first ones ("first"). */
	list = &event_fields[event.kind];
	for (size_t i = 0; i < list->n; i++)
		if (read_value(decoder, json_value__member(json, list->fields[i].key), &list->fields[i], &event))
			return -EBADMSG;
	err = read_rest(decoder, json, &event);
	return err ? err : sink->event(sink, &event);
}
