/* SPDX-License-Identifier: MIT */
/* The sources of the functions of the table `source-line`, each line with what the compiler took for it:
 *
 *     f  t1.py
 *       exclusive  inclusive      %    line
 *                                         3  def f(a, b):
 *           0.188      0.388   7.33       4      y = np.sin(a) * np.cos(b)
 *
 * The path of a source comes from a recording, and its bytes from the file that lies there now: neither is trusted. Figures
 * are printed whatever is wrong with the file. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/safe_text.h"
#include "base/style.h"
#include "events/json.h"
#include "report/fit.h"
#include "report/internal.h"

#define SOURCE_MAX (16u << 20)
/* Lines around one with figures; what is between two such groups is left out. */
#define AROUND 2u
#define TAB 8u
#define LINE_WIDTH 200
#define FIGURES_AT 38

struct source_text {
	char *text;
	size_t len;
	struct buf starts; /* size_t: where each line begins */
	char wrong[160];   /* a sentence; "": nothing is */
};

/* Of a line of one function: index of its row's rank. */
struct annotated {
	uint32_t line, rank;
};

/* As Python counts: a line ends with \n, \r\n or \r. */
static void find_lines(struct source_text *source)
{
	const char *text = source->text;
	size_t at = 0, len = source->len;

	while (at < len) {
		if (buf__append(&source->starts, &at, sizeof(at)))
			return;
		while (at < len && text[at] != '\n' && text[at] != '\r')
			at++;
		at += at + 1 < len && text[at] == '\r' && text[at + 1] == '\n' ? 2 : 1;
	}
}

static bool is_utf8(const char *text, size_t len)
{
	uint32_t character;
	size_t size;

	for (; len; text += size, len -= size) {
		size = utf8__character(text, len, &character);
		if (!size)
			return false;
	}
	return true;
}

/* `until`: ns since 1970 at which the recording ended; 0: not known. */
static void read_source(const struct report *report, const char *path, uint64_t until, struct source_text *ret)
{
	const bool generated = *path == '<'; /* "<string>", "<ipython-input-3-...>" */
	_cleanup_close_ int fd = generated ? -ENOENT : report->options->open_source(path);
	struct stat stat;
	ssize_t len;

	*ret = (struct source_text){};
	if (generated) {
		snprintf(ret->wrong, sizeof(ret->wrong), "this was code of exec, -c, a prompt or a notebook, which is in no file");
	} else if (fd < 0 || fstat(fd, &stat) < 0) {
		snprintf(ret->wrong, sizeof(ret->wrong), "the source cannot be read: %s", strerror(fd < 0 ? -fd : errno));
	} else if (!S_ISREG(stat.st_mode)) {
		snprintf(ret->wrong, sizeof(ret->wrong), "this is no file with a source");
	} else if (stat.st_size > SOURCE_MAX) {
		snprintf(ret->wrong, sizeof(ret->wrong), "the source is larger than %u MiB, and is not shown", SOURCE_MAX >> 20);
	} else {
		ret->text = malloc((size_t)stat.st_size + 1);
		len = ret->text ? file__read(fd, ret->text, (size_t)stat.st_size) : -ENOMEM;
		ret->len = len > 0 ? (size_t)len : 0;
		if (len < 0)
			snprintf(ret->wrong, sizeof(ret->wrong), "the source cannot be read: %s", strerror((int)-len));
		else if (until && (uint64_t)stat.st_mtim.tv_sec * 1000000000u + (uint64_t)stat.st_mtim.tv_nsec > until)
			snprintf(ret->wrong, sizeof(ret->wrong), "the source was changed after the recording: its lines may be others by now");
		else if (!is_utf8(ret->text, ret->len))
			snprintf(ret->wrong, sizeof(ret->wrong), "the source is not UTF-8: other bytes are shown as \\x..");
	}
	find_lines(ret);
}

static void free_source(struct source_text *source)
{
	free(source->text);
	buf__free(&source->starts);
}

/* Printable, with spaces for tabs; long lines are cut. */
static int get_line(const struct source_text *source, uint32_t line, struct buf *ret)
{
	_cleanup_(buf__free) struct buf spaced = {};
	const size_t *starts = (const size_t *)source->starts.data;
	const uint32_t n = LENGTH(source->starts, size_t);
	size_t at, end;

	if (line > n)
		return source->text ? buf__puts(ret, "(the file ends before this line)") : 0;
	end = line < n ? starts[line] : source->len;
	while (end > starts[line - 1] && (source->text[end - 1] == '\n' || source->text[end - 1] == '\r'))
		end--;
	for (at = starts[line - 1]; at < end && (spaced.len < 4 * LINE_WIDTH || utf8__continues(source->text[at])); at++) {
		size_t size = source->text[at] == '\t' ? TAB - spaced.len % TAB : 1;

		if (buf__append(&spaced, source->text[at] == '\t' ? "        " : source->text + at, size))
			return -ENOMEM;
	}
	return safe_text__append(ret, spaced.data ?: "", spaced.len);
}

static int compare(const void *a, const void *b)
{
	const struct annotated *x = a, *y = b;

	return x->line < y->line ? -1 : x->line > y->line;
}

static bool is_of(const struct row_key *a, const struct row_key *b)
{
	return b->line && a->defined == b->defined && !strcmp(a->name, b->name) && !strcmp(a->file, b->file) && !strcmp(a->module, b->module);
}

/* --- what listings are written as --- */

/* `line`: rank NULL: a line without figures. Errors: -errno. */
struct writer {
	const struct report *report;
	const struct table *table;
	int (*begin)(struct writer *self, const struct row_key *key, const char *wrong);
	int (*line)(struct writer *self, uint32_t line, const struct rank *rank, const char *text);
	int (*gap)(struct writer *self); /* lines are left out here */
	int (*end)(struct writer *self);
	FILE *text;
	struct buf *json;
	const char *comma;
};

static int text_begin(struct writer *self, const struct row_key *key, const char *wrong)
{
	FILE *out = self->text;

	fputc('\n', out);
	style__begin(out, STYLE_HEAD);
	fputs(key->name, out);
	style__end(out);
	fprintf(out, "  %s\n", key->file);
	if (*wrong) {
		fputs("    ", out);
		style__begin(out, STYLE_WARN);
		fputs(wrong, out);
		style__end(out);
		fputc('\n', out);
	}
	fprintf(out, "%10s%11s %6s%10s\n", "exclusive", "inclusive", "%", "line");
	return 0;
}

static int text_line(struct writer *self, uint32_t line, const struct rank *rank, const char *text)
{
	if (rank)
		fprintf(self->text, "%10.3f%11.3f %6.2f", rank->exclusive / 1e9, rank->inclusive / 1e9, percent(rank->inclusive, self->table->total));
	fprintf(self->text, "%*u  ", rank ? 10 : FIGURES_AT, line);
	fit__name(self->text, text, -text__room(self->report, FIGURES_AT + 9, LINE_WIDTH));
	fputc('\n', self->text);
	return 0;
}

static int text_gap(struct writer *self)
{
	fprintf(self->text, "%*s\n", FIGURES_AT, "...");
	return 0;
}

static int json_begin(struct writer *self, const struct row_key *key, const char *wrong)
{
	int err = buf__printf(self->json, "%s\n{", self->comma);

	self->comma = ",";
	err = err ?: json__member(self->json, "name", key->name) ?: json__member(self->json, "file", key->file);
	err = err ?: json__number(self->json, "defined", key->defined);
	if (*wrong)
		err = err ?: json__member(self->json, "warning", wrong);
	return err ?: json__key(self->json, "lines") ?: buf__puts(self->json, "[");
}

static int json_line(struct writer *self, uint32_t line, const struct rank *rank, const char *text)
{
	struct buf *out = self->json;
	int err = buf__puts(out, out->data[out->len - 1] == '[' ? "{" : ",\n{");

	err = err ?: json__number(out, "line", line) ?: json__member(out, "text", text);
	if (rank)
		err = err ?: put__times(out, self->table, self->table->total, rank, false);
	return err ?: buf__puts(out, "}");
}

static int json_end(struct writer *self)
{
	return buf__puts(self->json, "]}");
}

/* --- the walk over the lines of a function --- */

static int put_lines(struct writer *writer, const struct source_text *source, const struct annotated *lines, uint32_t n)
{
	uint32_t i = 0, line, last = lines[n - 1].line;
	int err = 0;

	for (line = lines[0].line > AROUND ? lines[0].line - AROUND : 1; line <= last + AROUND && !err; line++) {
		const struct rank *rank = i < n && lines[i].line == line ? &writer->table->ranks[lines[i].rank] : NULL;
		_cleanup_(buf__free) struct buf text = {};

		/* Far from the lines with figures: on to the next of them. */
		if (!rank && i < n && lines[i].line > line + AROUND && i && line > lines[i - 1].line + AROUND) {
			err = writer->gap ? writer->gap(writer) : 0;
			line = lines[i].line - AROUND - 1;
			continue;
		}
		if (!rank && line > LENGTH(source->starts, size_t))
			continue;
		err = get_line(source, line, &text) ?: buf__append(&text, "", 1) ?: writer->line(writer, line, rank, text.data);
		i += rank != NULL;
	}
	return err;
}

static int put_function(struct writer *writer, const struct row_key *key)
{
	const struct report *report = writer->report;
	const struct table *all = writer->table;
	const struct report_file *file = &report->file[report->read - 1];
	const uint64_t until = file->realtime ? file->realtime + file->whole_span : 0;
	_cleanup_(buf__free) struct buf lines = {};
	_cleanup_(free_source) struct source_text source;
	int err = 0;

	for (uint32_t i = 0; i < all->n_ranks && !err; i++) {
		const struct row_key row = table__key(all, all->ranks[i].row);

		if (is_of(key, &row))
			err = buf__append(&lines, &(struct annotated){row.line, i}, sizeof(struct annotated));
	}
	read_source(report, key->file, until, &source);
	if (err || !lines.len)
		return err;
	qsort(lines.data, LENGTH(lines, struct annotated), sizeof(struct annotated), compare);
	err = writer->begin(writer, key, source.wrong);
	err = err ?: put_lines(writer, &source, (const struct annotated *)lines.data, LENGTH(lines, struct annotated));
	return err || !writer->end ? err : writer->end(writer);
}

/* Ranks the table again: a function's listing has all of its lines. */
static int put_functions(struct report *report, struct writer *writer)
{
	const struct report_options everything = {.sort = report->options->sort};
	struct table *table = &report->tables[REPORT_SOURCE_LINE];
	_cleanup_(buf__free) struct buf shown = {}; /* uint32_t: rows that --top and the like leave */
	int err = 0;

	for (uint32_t i = 0; i < table->n_ranks && !err; i++)
		err = buf__append(&shown, &table->ranks[i].row, sizeof(uint32_t));
	err = err ?: table__rank(table, &everything, report->wall, ROW_NONE);
	for (uint32_t i = 0; i < LENGTH(shown, uint32_t) && !err; i++) {
		const struct row_key key = table__key(table, ITEM(shown, uint32_t, i));
		bool again = !key.line;

		for (uint32_t before = 0; before < i && !again; before++) {
			const struct row_key other = table__key(table, ITEM(shown, uint32_t, before));

			again = is_of(&key, &other);
		}
		if (!again)
			err = put_function(writer, &key);
	}
	return err;
}

int annotate__text(struct report *report, FILE *out)
{
	struct writer writer = {.report = report, .table = &report->tables[REPORT_SOURCE_LINE], .begin = text_begin, .line = text_line, .gap = text_gap, .text = out};

	return put_functions(report, &writer);
}

int annotate__json(struct report *report, struct buf *out)
{
	struct writer writer = {.report = report, .table = &report->tables[REPORT_SOURCE_LINE], .begin = json_begin, .line = json_line, .end = json_end, .json = out, .comma = ""};

	return json__key(out, "sources") ?: buf__puts(out, "[") ?: put_functions(report, &writer) ?: buf__puts(out, "]");
}
