/* SPDX-License-Identifier: MIT */
/* A parser of XLA's HLO text, line by line: at the head of a module tables of files and lines, then
 * computations, each with its instructions. The text is copied and cut up in place: names point into it
 * (struct span), ended by NULs that overwrite what follows them.
 *
 *     HloModule jit_work, ...
 *     FileNames
 *     1 "/home/me/svd.py"
 *     FileLocations
 *     1 {file_name_id=1 function_name_id=1 line=10 end_line=10 column=4 end_column=20}
 *     StackFrames
 *     1 {file_location_id=1 parent_frame_id=0}
 *     %fused_computation (param_0: f32[8]) -> f32[8] {
 *       ROOT %tanh.1 = f32[8] tanh(%param_0), metadata={op_name="jit(work)/tanh" stack_frame_id=1}
 *     }
 *     ENTRY %main (x: f32[8]) -> f32[8] {
 *       ROOT %tanh_fusion = f32[8] fusion(%x), kind=kLoop, calls=%fused_computation
 *     }
 *
 * Older versions have source_file= and source_line= in the metadata in place of the tables. What is not
 * understood is skipped: XLA's printer (xla/hlo/ir/hlo_instruction.cc, hlo_module.cc) changes with each
 * release. Numbers and names are used only after a check of their range, as the file may be anything. */
#include "export/hlo.h"

#include <stdlib.h>

#include "base/buf.h"
#include "base/intern.h"

/* A function that XLA made, and the operation that it is for. */
struct row {
	const char *function;
	struct hlo_op op; /* name NULL: several operations use this name */
};

/* Also a stack frame: then of its innermost call. */
struct location {
	const char *file;
	uint32_t line;
};

/* What a computation does: the operation of its root, else of its last instruction that names one, preferably with a
 * line. */
struct computation {
	struct hlo_op op; /* name NULL: no instruction names one */
	enum { NO_OP, CALLED_OP, PLAIN_OP, OP_WITH_LINE, ROOT_OP } how;
};

struct hlo {
	char *text;      /* a copy; names in it are ended by NULs */
	struct buf rows; /* struct row, by function */
	uint32_t found;
};

/* State while a module is read: the tables at its head, whose rows count from 1, and its computations, each of which
 * comes before those that call it. */
struct tables {
	enum { NO_TABLE, FILES, LOCATIONS, FRAMES } at;
	struct buf files, locations, frames; /* const char *, struct location, struct location */
	struct buf computations;             /* struct computation; the last one is being read */
	struct intern names;                 /* of computations */
	struct buf latest;                   /* uint32_t by name: number of the last computation of it, from 1; 0: none */
};

struct span {
	char *start, *end;
};

/* Rows count from 1; NULL for 0 and for what is not there. */
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

/* Digits at the begin of the span; large numbers stop early, and are then no row of any table. */
static uint32_t number(struct span span)
{
	uint32_t value = 0;

	for (; span.start < span.end && *span.start >= '0' && *span.start <= '9' && value < UINT32_MAX / 10 - 1; span.start++)
		value = value * 10 + (uint32_t)(*span.start - '0');
	return value;
}

/* A quoted string, from behind its first quote. Escapes (\" and \\) are resolved in place. *at: behind the last
 * quote. */
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

/* The next item of `key="value" key=value ...}`. False: there is none. */
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

/* What follows `word` in the line; NULL: it is not in it. */
static char *behind(struct span line, const char *word)
{
	char *found = memmem(line.start, (size_t)(line.end - line.start), word, strlen(word));

	return found ? found + strlen(word) : NULL;
}

/* A table row: `1 "file"`, `1 {file_name_id=1 ... line=10 ...}`, `1 {file_location_id=3 ...}`. Rows count up from 1. */
static int table_row(struct tables *tables, struct span line)
{
	struct buf *const bufs[] = {NULL, &tables->files, &tables->locations, &tables->frames};
	const size_t sizes[] = {1, sizeof(const char *), sizeof(struct location), sizeof(struct location)};
	struct location location = {.file = ""}, *other;
	struct span key, value;
	char *at = memchr(line.start, ' ', (size_t)(line.end - line.start)), **file;

	/* A row out of order is skipped, and with it all that follow: better no location than a wrong one. */
	if (!at || number(line) != bufs[tables->at]->len / sizes[tables->at] + 1)
		return 0;
	at += 2; /* skip the blank, and the quote or bracket */
	if (at >= line.end)
		return 0;
	if (tables->at == FILES) {
		value = quoted(&at, line.end);
		/* Overwrites the quote or what follows it: the line was parsed up to there. */
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

/* A name ends at any of these characters. */
static struct span name_at(char *at, char *end)
{
	struct span name;

	at += at < end && *at == '%';
	for (name.start = at; at < end && !strchr(" ,(){}\n", *at); at++)
		;
	name.end = at;
	return name;
}

/* Parses what follows `metadata={`. name NULL: there is no op_name. */
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

static uint32_t *latest_of(struct tables *tables, struct span name)
{
	return intern__item(&tables->names, name.start, (size_t)(name.end - name.start), &tables->latest, sizeof(uint32_t));
}

/* The last one of that name that was read before; NULL: none, or out of memory. */
static const struct computation *computation_of(struct tables *tables, struct span name)
{
	const uint32_t *latest = latest_of(tables, name);

	return latest ? row_of(&tables->computations, sizeof(struct computation), *latest) : NULL;
}

/* `%fused_computation.1 (x: f32[8]) -> f32[8] {`: the instructions that follow belong to it. */
static int begin_computation(struct tables *tables, struct span line)
{
	static const struct computation computation;
	uint32_t *latest = latest_of(tables, name_at(line.start + (begins(line, "ENTRY ") ? 6 : 0), line.end));

	if (!latest || buf__append(&tables->computations, &computation, sizeof(computation)))
		return -ENOMEM;
	*latest = LENGTH(tables->computations, struct computation);
	return 0;
}

/* The computation that is being read has an instruction of this operation: keep the best one (`how`). The
 * order of enum `how` is the order of preference; of equal ones the last instruction wins, as it is nearest
 * to the result. */
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

/* `%tanh.2 = f32[8] tanh(%x), ..., metadata={op_name="jit(work)/tanh" stack_frame_id=5}`, with calls=%... or
 * to_apply=%... before the metadata. An instruction without an op_name gets that of the computation that it calls:
 * XLA builds such fusions from operations that it had split. */
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
	/* Not an instruction: a closing bracket, or a line of another kind. */
	if (line.end - names[0].end < 3 || memcmp(names[0].end, " = ", 3))
		return 0;
	metadata = behind(line, "metadata={");
	/* Attributes before the metadata: a quoted name in it may contain " calls=". */
	at = metadata ?: line.end;
	applied = behind((struct span){line.start, at}, " to_apply=");
	if (applied)
		names[n++] = name_at(applied, line.end);
	applied = behind((struct span){line.start, at}, " calls=");
	if (applied)
		names[n++] = name_at(applied, line.end);
	/* The op_name of a parameter is an argument's name, not an operation. */
	if (metadata && !behind((struct span){line.start, at}, " parameter("))
		operation(tables, metadata, line.end, &row.op);
	if (!row.op.name && n > 1)
		called = computation_of(tables, names[n - 1]);
	if (called)
		row.op = called->op;
	if (!row.op.name)
		return 0;
	emit_computation(tables, &row.op, is_root, called);
	/* The function may be named after the instruction or after the computation that it applies. */
	for (i = 0; i < n && !err; i++) {
		row.function = names[i].start;
		/* Only now, as the spans may overlap with what was searched above. */
		*names[i].end = '\0';
		err = buf__append(&hlo->rows, &row, sizeof(row));
	}
	return err;
}

/* One line. What kind it is follows from its first characters, and from the table that was begun before. */
static int take(struct hlo *hlo, struct tables *tables, struct span line)
{
	static const char *const heads[] = {NULL, "FileNames", "FileLocations", "StackFrames"};

	while (line.start < line.end && *line.start == ' ')
		line.start++;
	/* The next module of a file with several: ids and computations are its own. */
	if (begins(line, "HloModule ")) {
		buf__clear(&tables->files);
		buf__clear(&tables->locations);
		buf__clear(&tables->frames);
		buf__clear(&tables->computations);
		buf__clear(&tables->latest);
		intern__free(&tables->names);
	}
	for (size_t i = 1; i < sizeof(heads) / sizeof(heads[0]); i++)
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

/* Leaves one row per function: one with different operations becomes nameless. Sorted, so that find() can
 * search in O(log n). */
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
	buf__free(&tables.latest);
	intern__free(&tables.names);
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

/* XLA's CPU backend names some functions after the instruction, plus this. */
#define KERNEL "_kernel"

const struct hlo_op *hlo__find(struct hlo *hlo, const char *function)
{
	const size_t len = strlen(function), kernel = sizeof(KERNEL) - 1;
	const struct row *row = find(hlo, function);

	if (!row && len > kernel && !strcmp(function + len - kernel, KERNEL)) {
		char *instruction = strndup(function, len - kernel);

		row = instruction ? find(hlo, instruction) : NULL;
		free(instruction);
	}
	if (!row || !row->op.name)
		return NULL;
	/* For the warning that nothing was found: input__print_hlo(). */
	hlo->found++;
	return &row->op;
}

uint32_t hlo__found(const struct hlo *hlo)
{
	return hlo->found;
}

void hlo__free(struct hlo *hlo)
{
	if (!hlo)
		return;
	buf__free(&hlo->rows);
	free(hlo->text);
	free(hlo);
}
