/* SPDX-License-Identifier: MIT */
/* A parser of HLO text, line by line: tables of files and lines at its head, computations, instructions. The text
 * is kept and names point into it (struct span). */
#include "export/hlo.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"

struct row {
	const char *function;
	struct hlo_op op; /* name NULL: of several */
};

struct location {
	const char *file;
	uint32_t line;
};

/* What a computation is of, as far as it was read: of its root, else of the last instruction that says so, best with its line. */
struct computation {
	const char *name;
	size_t len;
	struct hlo_op op; /* name NULL: none of them says */
	enum { NO_OP, CALLED_OP, PLAIN_OP, OP_WITH_LINE, ROOT_OP } how;
};

struct hlo {
	char *text;      /* names end where they stand in it */
	struct buf rows; /* struct row, by function */
	uint32_t met;
};

/* Of one module: tables that stand before its instructions, row 1 is the first; computations, each before those that call it. */
struct tables {
	enum { NO_TABLE, FILES, LOCATIONS, FRAMES } at;
	struct buf files, locations, frames; /* const char *, struct location, struct location */
	struct buf computations;             /* struct computation; the last one is being read */
};


struct span {
	char *start, *end;
};

static void *row_of(struct buf *buf, size_t size, uint32_t number)
{
	return number && number <= buf->len / size ? buf->data + (number - 1) * size : NULL;
}

static bool is(struct span span, const char *word)
{
	return (size_t)(span.end - span.start) == strlen(word) && !memcmp(span.start, word, strlen(word));
}

static bool begins(struct span span, const char *word)
{
	return (size_t)(span.end - span.start) >= strlen(word) && !memcmp(span.start, word, strlen(word));
}

static uint32_t number(struct span span)
{
	uint32_t value = 0;

	for (; span.start < span.end && *span.start >= '0' && *span.start <= '9' && value < UINT32_MAX / 10 - 1; span.start++)
		value = value * 10 + (uint32_t)(*span.start - '0');
	return value;
}

/* In quotes, from behind the first one on, as they stand there: \" and \\ become one byte in place. *at: behind the last one. */
static struct span quoted(char **at, char *end)
{
	struct span span = {*at, *at};
	char *from = *at;

	for (; from < end && *from != '"'; from++) {
		from += *from == '\\' && from + 1 < end;
		*span.end++ = *from;
	}
	*at = from + (from < end);
	return span;
}

/* Of `key="value" key=value ...}` the next one. */
static bool next_item(char **at, char *end, struct span *ret_key, struct span *ret_value)
{
	while (*at < end && **at == ' ')
		++*at;
	for (ret_key->start = *at; *at < end && **at != '=' && **at != '}'; ++*at)
		;
	ret_key->end = *at;
	if (*at == end || *(*at)++ != '=')
		return false;
	if (*at < end && **at == '"') {
		++*at;
		*ret_value = quoted(at, end);
		return true;
	}
	for (ret_value->start = *at; *at < end && **at != ' ' && **at != '}'; ++*at)
		;
	ret_value->end = *at;
	return true;
}

/* Behind `word` in the line; NULL: it is not there. */
static char *behind(struct span line, const char *word)
{
	char *found = memmem(line.start, (size_t)(line.end - line.start), word, strlen(word));

	return found ? found + strlen(word) : NULL;
}

/* `N "file"`, `N {file_name_id=1 ... line=10 ...}`, `N {file_location_id=3 ...}`: rows count up from 1. */
static int table_row(struct tables *tables, struct span line)
{
	struct buf *const bufs[] = {NULL, &tables->files, &tables->locations, &tables->frames};
	const size_t sizes[] = {1, sizeof(const char *), sizeof(struct location), sizeof(struct location)};
	struct location location = {.file = ""}, *other;
	struct span key, value;
	char *at = memchr(line.start, ' ', (size_t)(line.end - line.start)), **file;

	if (!at || number(line) != bufs[tables->at]->len / sizes[tables->at] + 1)
		return 0;
	at += 2; /* the quote, the bracket: a line ends behind what it has */
	if (at >= line.end)
		return 0;
	if (tables->at == FILES) {
		value = quoted(&at, line.end);
		*value.end = '\0';
		return buf__append(&tables->files, &value.start, sizeof(value.start));
	}
	while (next_item(&at, line.end, &key, &value)) {
		if (is(key, "file_name_id") && (file = row_of(&tables->files, sizeof(*file), number(value))))
			location.file = *file;
		else if (is(key, "line"))
			location.line = number(value);
		else if (is(key, "file_location_id") && (other = row_of(&tables->locations, sizeof(*other), number(value))))
			location = *other;
	}
	return buf__append(bufs[tables->at], &location, sizeof(location));
}

/* A name in the text ends at any of these. */
static struct span name_at(char *at, char *end)
{
	struct span name;

	at += at < end && *at == '%';
	for (name.start = at; at < end && !strchr(" ,(){}\n", *at); at++)
		;
	name.end = at;
	return name;
}

/* Behind `metadata={`: name NULL: it has no op_name. */
static void operation(struct tables *tables, char *at, char *line_end, struct hlo_op *ret)
{
	struct location *location;
	struct span key, value, end = {}, file = {};

	*ret = (struct hlo_op){.file = ""};
	while (next_item(&at, line_end, &key, &value)) {
		if (is(key, "op_name"))
			end = value;
		else if (is(key, "source_file"))
			file = value;
		else if (is(key, "source_line"))
			ret->line = number(value);
		else if (is(key, "stack_frame_id") && (location = row_of(&tables->frames, sizeof(*location), number(value)))) {
			ret->file = location->file;
			ret->line = location->line;
		}
	}
	if (end.end == end.start)
		return;
	ret->name = end.start;
	*end.end = '\0';
	if (file.start) {
		ret->file = file.start;
		*file.end = '\0';
	}
}

/* Read already; NULL: none of that name. */
static const struct computation *computation_of(const struct tables *tables, struct span name)
{
	const struct computation *all = (const struct computation *)tables->computations.data;
	uint32_t i;

	for (i = LENGTH(tables->computations, struct computation); i--;)
		if (all[i].len == (size_t)(name.end - name.start) && !memcmp(all[i].name, name.start, all[i].len))
			return &all[i];
	return NULL;
}

/* `%fused_computation.1 (x: f32[8]) -> f32[8] {`: what follows is of it. */
static int begin_computation(struct tables *tables, struct span line)
{
	const struct span name = name_at(line.start + (begins(line, "ENTRY ") ? 6 : 0), line.end);
	const struct computation computation = {.name = name.start, .len = (size_t)(name.end - name.start)};

	return buf__append(&tables->computations, &computation, sizeof(computation));
}

/* An instruction of the computation that is being read is of this. */
static void emit_computation(struct tables *tables, const struct hlo_op *op, bool is_root, bool is_called)
{
	const uint32_t n = LENGTH(tables->computations, struct computation);
	struct computation *computation = n ? (struct computation *)tables->computations.data + n - 1 : NULL;
	int how = is_root ? ROOT_OP : is_called ? CALLED_OP : op->line ? OP_WITH_LINE : PLAIN_OP;

	if (!computation || how < (int)computation->how)
		return;
	computation->op = *op;
	computation->how = how;
}

/* `%tanh.2 = f32[8] tanh(%x), ..., metadata={op_name="jit(work)/tanh" stack_frame_id=5}`, calls=%... or to_apply=%... before it.
 * One without an op_name is of what it calls: XLA makes fusions of operations that it had split before. */
static int instruction(struct hlo *hlo, struct tables *tables, struct span line)
{
	const struct computation *called = NULL;
	const bool is_root = begins(line, "ROOT ");
	struct row row = {.op.file = ""};
	struct span names[3];
	char *at, *metadata, *applied;
	size_t i, n = 1;
	int err = 0;

	line.start += is_root ? 5 : 0;
	names[0] = name_at(line.start, line.end);
	if (line.end - names[0].end < 3 || memcmp(names[0].end, " = ", 3))
		return 0;
	metadata = behind(line, "metadata={");
	at = metadata ?: line.end;
	applied = behind((struct span){line.start, at}, " to_apply=");
	if (applied)
		names[n++] = name_at(applied, line.end);
	applied = behind((struct span){line.start, at}, " calls=");
	if (applied)
		names[n++] = name_at(applied, line.end);
	/* An argument's name is no operation. */
	if (metadata && !behind((struct span){line.start, at}, " parameter("))
		operation(tables, metadata, line.end, &row.op);
	if (!row.op.name && n > 1)
		called = computation_of(tables, names[n - 1]);
	if (called)
		row.op = called->op;
	if (!row.op.name)
		return 0;
	emit_computation(tables, &row.op, is_root, called);
	for (i = 0; i < n && !err; i++) {
		row.function = names[i].start;
		*names[i].end = '\0';
		err = buf__append(&hlo->rows, &row, sizeof(row));
	}
	return err;
}

static int take(struct hlo *hlo, struct tables *tables, struct span line)
{
	static const char *const heads[] = {NULL, "FileNames", "FileLocations", "StackFrames"};
	size_t i;

	while (line.start < line.end && *line.start == ' ')
		line.start++;
	if (begins(line, "HloModule ")) {
		buf__clear(&tables->files);
		buf__clear(&tables->locations);
		buf__clear(&tables->frames);
		buf__clear(&tables->computations);
	}
	for (i = 1; i < sizeof(heads) / sizeof(heads[0]); i++)
		if (is(line, heads[i])) {
			tables->at = i;
			return 0;
		}
	if (line.start < line.end && *line.start >= '0' && *line.start <= '9')
		return tables->at == NO_TABLE ? 0 : table_row(tables, line);
	if (line.start < line.end)
		tables->at = is(line, "FunctionNames") ? NO_TABLE : tables->at;
	if (line.end > line.start && line.end[-1] == '{' && !behind(line, " = "))
		return begin_computation(tables, line);
	return instruction(hlo, tables, line);
}

static int by_function(const void *left, const void *right)
{
	const struct row *a = left, *b = right;

	return strcmp(a->function, b->function);
}

static bool same_op(const struct hlo_op *a, const struct hlo_op *b)
{
	return a->name && !strcmp(a->name, b->name) && !strcmp(a->file, b->file) && a->line == b->line;
}

/* One row a function. */
static void merge(struct buf *rows)
{
	struct row *row = (struct row *)rows->data;
	uint32_t i, n = 0, all = LENGTH(*rows, struct row);

	qsort(row, all, sizeof(*row), by_function);
	for (i = 0; i < all; i++) {
		if (!n || strcmp(row[n - 1].function, row[i].function))
			row[n++] = row[i];
		else if (!same_op(&row[n - 1].op, &row[i].op))
			row[n - 1].op.name = NULL;
	}
	rows->len = n * sizeof(*row);
}

int hlo__new(const char *text, size_t len, struct hlo **ret)
{
	struct hlo *hlo = calloc(1, sizeof(*hlo));
	struct tables tables = {};
	struct span line;
	int err = 0;

	if (hlo)
		hlo->text = malloc(len + 1);
	if (!hlo || !hlo->text) {
		hlo__free(hlo);
		return -ENOMEM;
	}
	memcpy(hlo->text, text, len);
	hlo->text[len] = '\0';
	for (line.start = hlo->text; line.start < hlo->text + len && !err; line.start = line.end + 1) {
		line.end = memchr(line.start, '\n', (size_t)(hlo->text + len - line.start));
		line.end = line.end ?: hlo->text + len;
		err = take(hlo, &tables, line);
	}
	buf__free(&tables.files);
	buf__free(&tables.locations);
	buf__free(&tables.frames);
	buf__free(&tables.computations);
	if (!err && !hlo->rows.len)
		err = -EBADMSG;
	if (err) {
		hlo__free(hlo);
		return err;
	}
	merge(&hlo->rows);
	*ret = hlo;
	return 0;
}

static const struct row *find(const struct hlo *hlo, const char *function)
{
	const struct row key = {.function = function};

	return bsearch(&key, hlo->rows.data, LENGTH(hlo->rows, struct row), sizeof(key), by_function);
}

/* XLA's CPU backend calls some functions by the instruction and this. */
#define KERNEL "_kernel"

const struct hlo_op *hlo__find(struct hlo *hlo, const char *function)
{
	const size_t len = strlen(function), kernel = sizeof(KERNEL) - 1;
	const struct row *row = find(hlo, function);
	char *instruction;

	if (!row && len > kernel && !strcmp(function + len - kernel, KERNEL)) {
		instruction = strndup(function, len - kernel);
		row = instruction ? find(hlo, instruction) : NULL;
		free(instruction);
	}
	if (!row || !row->op.name)
		return NULL;
	hlo->met++;
	return &row->op;
}

uint32_t hlo__met(const struct hlo *hlo)
{
	return hlo->met;
}

struct hlo *hlo__free(struct hlo *hlo)
{
	if (!hlo)
		return NULL;
	buf__free(&hlo->rows);
	free(hlo->text);
	free(hlo);
	return NULL;
}
