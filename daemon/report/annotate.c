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

/* With spaces for tabs, in the columns that are left. */
static void put_source(const struct report *report, const struct source_text *source, uint32_t line, FILE *out)
{
	_cleanup_(buf__free) struct buf spaced = {}, safe = {};
	const size_t *starts = (const size_t *)source->starts.data;
	const uint32_t n = LENGTH(source->starts, size_t);
	size_t at, end;

	if (line > n) {
		if (source->text)
			fputs("(the file ends before this line)", out);
		return;
	}
	end = line < n ? starts[line] : source->len;
	while (end > starts[line - 1] && (source->text[end - 1] == '\n' || source->text[end - 1] == '\r'))
		end--;
	for (at = starts[line - 1]; at < end && spaced.len < 4 * LINE_WIDTH; at++) {
		size_t size = source->text[at] == '\t' ? TAB - spaced.len % TAB : 1;

		if (buf__append(&spaced, source->text[at] == '\t' ? "        " : source->text + at, size))
			return;
	}
	if (safe_text__append(&safe, spaced.data ?: "", spaced.len) || buf__append(&safe, "", 1))
		return;
	fit__name(out, safe.data, -text__room(report, FIGURES_AT + 9, LINE_WIDTH));
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

static void put_lines(const struct report *report, const struct table *table, const struct source_text *source, const struct annotated *lines,
		      uint32_t n, FILE *out)
{
	uint32_t i = 0, line, last = lines[n - 1].line;

	fprintf(out, "%10s%11s %6s%10s\n", "exclusive", "inclusive", "%", "line");
	for (line = lines[0].line > AROUND ? lines[0].line - AROUND : 1; line <= last + AROUND; line++) {
		const struct rank *rank = i < n && lines[i].line == line ? &table->ranks[lines[i].rank] : NULL;

		/* Far from the lines with figures: on to the next of them. */
		if (!rank && i < n && lines[i].line > line + AROUND && i && line > lines[i - 1].line + AROUND) {
			fprintf(out, "%*s\n", FIGURES_AT, "...");
			line = lines[i].line - AROUND - 1;
			continue;
		}
		if (!rank && line > LENGTH(source->starts, size_t))
			continue;
		if (rank)
			fprintf(out, "%10.3f%11.3f %6.2f", rank->exclusive / 1e9, rank->inclusive / 1e9, percent(rank->inclusive, table->total));
		fprintf(out, "%*u  ", rank ? 10 : FIGURES_AT, line);
		put_source(report, source, line, out);
		fputc('\n', out);
		i += rank != NULL;
	}
}

/* `all`: the table without limits. */
static int put_function(const struct report *report, const struct table *all, const struct row_key *key, FILE *out)
{
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
	fputc('\n', out);
	style__begin(out, STYLE_HEAD);
	fputs(key->name, out);
	style__end(out);
	fprintf(out, "  %s\n", key->file);
	if (*source.wrong) {
		fputs("    ", out);
		style__begin(out, STYLE_WARN);
		fputs(source.wrong, out);
		style__end(out);
		fputc('\n', out);
	}
	put_lines(report, all, &source, (const struct annotated *)lines.data, LENGTH(lines, struct annotated), out);
	return 0;
}

int annotate__put(struct report *report, FILE *out)
{
	const struct report_options everything = {.sort = report->options->sort};
	struct table *table = &report->tables[REPORT_SOURCE_LINE];
	_cleanup_(buf__free) struct buf shown = {}; /* uint32_t: rows that --top and the like leave */
	int err = 0;

	for (uint32_t i = 0; i < table->n_ranks && !err; i++)
		err = buf__append(&shown, &table->ranks[i].row, sizeof(uint32_t));
	/* A function's listing has all of its lines. */
	err = err ?: table__rank(table, &everything, report->wall, ROW_NONE);
	for (uint32_t i = 0; i < LENGTH(shown, uint32_t) && !err; i++) {
		const struct row_key key = table__key(table, ITEM(shown, uint32_t, i));
		bool again = !key.line;

		for (uint32_t before = 0; before < i && !again; before++) {
			const struct row_key other = table__key(table, ITEM(shown, uint32_t, before));

			again = is_of(&key, &other);
		}
		if (!again)
			err = put_function(report, table, &key, out);
	}
	return err;
}
