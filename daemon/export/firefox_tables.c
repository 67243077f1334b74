/* SPDX-License-Identifier: MIT */
/* A thread's tables, column by column. A row is numbered when a sample first needs it, so they are written after the
 * samples; a stack's caller has a smaller number than the stack. */
#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "base/limits.h"
#include "export/firefox.h"

/* Rows, and of the first two the keys. No padding: their bytes are compared. */
struct node_cells {
	uint32_t prefix, frame; /* prefix: UINT32_MAX: the frame is outermost */
};
struct frame_key {
	uint32_t frame, category; /* frame: of the model */
};
struct frame_cells {
	uint32_t function, category, line, column;
};
struct function_cells {
	uint32_t name, file, line, resource;
};

/* A column: a field of the rows, or what all rows have alike. */
struct column {
	const char *key;
	size_t field;	       /* where it is in the row */
	const char *otherwise; /* text for UINT32_MAX */
	const char *always;    /* NULL: the field counts */
};

int firefox_tables__string(struct firefox_tables *tables, const char *string, uint32_t *ret)
{
	return intern__id(&tables->strings, string, strlen(string) + 1, ret);
}

/* --- rows --- */

/* `*ret_new`: it was not there, and its row is to be appended. */
static int add_key(struct firefox_table *table, const void *key, size_t len, uint32_t *ret, bool *ret_new)
{
	uint32_t known = table->keys.n;
	int err = intern__id(&table->keys, key, len, ret);

	*ret_new = !err && *ret == known;
	return err;
}

/* The string's number, or UINT32_MAX if it is empty. */
static int string_or_none(struct firefox_tables *tables, const char *string, uint32_t *ret)
{
	*ret = UINT32_MAX;
	return *string ? firefox_tables__string(tables, string, ret) : 0;
}

static int add_resource(struct firefox_tables *tables, const char *module, uint32_t *ret)
{
	uint32_t name;
	bool new;
	int err = string_or_none(tables, module, &name);

	*ret = UINT32_MAX;
	if (err || name == UINT32_MAX)
		return err;
	err = add_key(&tables->resources, &name, sizeof(name), ret, &new);
	return err || !new ? err : buf__append(&tables->resources.rows, &name, sizeof(name));
}

static uint32_t or_none(uint32_t number)
{
	return number ? number : UINT32_MAX;
}

static int add_function(struct firefox_tables *tables, const struct model_frame *frame, uint32_t *ret)
{
	struct function_cells row = {.line = or_none(frame->first_line)};
	bool new;
	int err = add_key(&tables->functions, &frame->function, sizeof(frame->function), ret, &new);

	if (err || !new)
		return err;
	err = firefox_tables__string(tables, frame->name, &row.name) ?: string_or_none(tables, frame->source, &row.file);
	err = err ?: add_resource(tables, frame->module, &row.resource);
	return err ?: buf__append(&tables->functions.rows, &row, sizeof(row));
}

static int add_frame(struct firefox_tables *tables, const struct firefox *firefox, const struct frame_key *key, uint32_t *ret)
{
	bool new;
	int err = add_key(&tables->frames, key, sizeof(*key), ret, &new);

	if (!err && new) {
		struct model_frame frame = model__frame(&firefox->model, key->frame);
		struct frame_cells row = {.category = key->category, .line = or_none(frame.line), .column = or_none(frame.column)};

		err = add_function(tables, &frame, &row.function) ?: buf__append(&tables->frames.rows, &row, sizeof(row));
	}
	return err;
}

/* *node: its caller's, then its own. */
static int add_node(struct firefox_tables *tables, const struct firefox *firefox, const struct frame_key *frame, uint32_t *node)
{
	struct node_cells row = {.prefix = *node};
	bool new;
	int err = add_frame(tables, firefox, frame, &row.frame) ?: add_key(&tables->nodes, &row, sizeof(row), node, &new);

	if (err || !new)
		return err;
	return buf__append(&tables->nodes.rows, &row, sizeof(row));
}

/* The leaf has the category of the time, as Firefox Profiler takes a sample's category from there; its callers have
 * those of firefox__categories(). */
int firefox_tables__stack(struct firefox_tables *tables, struct firefox *firefox, uint32_t place, uint32_t *ret)
{
	struct firefox_place key = firefox__place(firefox, place);
	uint32_t *made = buf__at(&tables->stacks, sizeof(*made), place), i, node = UINT32_MAX;
	int err = made ? 0 : -ENOMEM;

	if (made && *made) {
		*ret = *made - 1;
		return 0;
	}
	err = err ?: model__path(&firefox->model, key.stack, &tables->path);
	err = err ?: limits__walk(tables->path.len);
	for (i = LENGTH(tables->path, uint32_t); i-- && !err;) {
		struct frame_key frame = {.frame = ITEM(tables->path, uint32_t, i)};

		frame.category = i ? ITEM(firefox->categories, uint8_t, frame.frame) : key.category;
		err = add_node(tables, firefox, &frame, &node);
	}
	if (err)
		return err;
	*made = node + 1;
	*ret = node;
	return 0;
}

/* --- columns --- */

static void put_table(struct firefox *firefox, const char *name, const struct buf *rows, size_t row, const struct column *column)
{
	uint32_t i, n = (uint32_t)(rows->len / row), number;

	firefox__put(firefox, "\"%s\":{\"length\":%u", name, n);
	for (; column->key; column++) {
		firefox__put(firefox, ",\n\"%s\":[", column->key);
		for (i = 0; i < n; i++) {
			memcpy(&number, rows->data + i * row + column->field, sizeof(number));
			if (column->always || number == UINT32_MAX)
				firefox__put(firefox, "%s%s", i ? "," : "", column->always ?: column->otherwise);
			else
				firefox__item(firefox, i, number);
		}
		firefox__put(firefox, "]");
	}
	firefox__put(firefox, "},\n");
}

#define FIELD(key, row, field, otherwise) {key, offsetof(struct row, field), otherwise, NULL}
#define ALWAYS(key, value) {key, 0, NULL, value}

static const struct column node_columns[] = {FIELD("frame", node_cells, frame, ""), FIELD("prefix", node_cells, prefix, "null"), {}};
static const struct column frame_columns[] = {
	FIELD("func", frame_cells, function, ""), FIELD("category", frame_cells, category, ""), FIELD("line", frame_cells, line, "null"),
	FIELD("column", frame_cells, column, "null"), ALWAYS("address", "-1"), ALWAYS("inlineDepth", "0"), ALWAYS("subcategory", "0"),
	ALWAYS("nativeSymbol", "null"), ALWAYS("innerWindowID", "null"), {}};
static const struct column function_columns[] = {
	FIELD("name", function_cells, name, ""), FIELD("fileName", function_cells, file, "null"), FIELD("lineNumber", function_cells, line, "null"),
	FIELD("resource", function_cells, resource, "-1"), ALWAYS("isJS", "false"), ALWAYS("relevantForJS", "false"), ALWAYS("columnNumber", "null"), {}};
/* type 1: a library */
static const struct column resource_columns[] = {{"name", 0, "", NULL}, ALWAYS("lib", "null"), ALWAYS("host", "null"), ALWAYS("type", "1"), {}};
static const struct column symbol_columns[] = {ALWAYS("libIndex", ""), ALWAYS("address", ""), ALWAYS("name", ""), ALWAYS("functionSize", ""), {}};

void firefox_tables__put(const struct firefox_tables *tables, struct firefox *firefox)
{
	const struct buf none = {};

	put_table(firefox, "stackTable", &tables->nodes.rows, sizeof(struct node_cells), node_columns);
	put_table(firefox, "frameTable", &tables->frames.rows, sizeof(struct frame_cells), frame_columns);
	put_table(firefox, "funcTable", &tables->functions.rows, sizeof(struct function_cells), function_columns);
	put_table(firefox, "resourceTable", &tables->resources.rows, sizeof(uint32_t), resource_columns);
	put_table(firefox, "nativeSymbols", &none, sizeof(uint32_t), symbol_columns);
	firefox__put(firefox, "\"stringArray\":[");
	for (uint32_t i = 0; i < tables->strings.n; i++) {
		size_t len;

		firefox__put(firefox, "%s", i ? "," : "");
		firefox__string(firefox, intern__key(&tables->strings, i, &len));
	}
	firefox__put(firefox, "]");
}

void firefox_tables__free(struct firefox_tables *tables)
{
	struct firefox_table *const all[] = {&tables->nodes, &tables->frames, &tables->functions, &tables->resources};

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		intern__free(&all[i]->keys);
		buf__free(&all[i]->rows);
	}
	intern__free(&tables->strings);
	buf__free(&tables->stacks);
	buf__free(&tables->path);
}
