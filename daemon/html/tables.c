/* SPDX-License-Identifier: MIT */
/* The tables of the page: each is a list of columns, with a function that writes a cell. To add a column: its
 * function and a row in the table's list; to add a table: a row in `sections`, and its bit in data.c.
 *
 *     <tr><th scope="row"><span class="name">run_pass</span></th>
 *     <td data-value="1234000000">1.23 s</td><td class="share">15.5 % <svg ...><rect width="100"/></svg></td> ...</tr>
 *
 * data-value is what tables.js sorts by; a bar is relative to the largest share of its column. */
#include "html/html.h"

#include <math.h>
#include <string.h>

#include "report/report.h"

/* --- cells --- */

/* The shares whose bars fill a cell: the largest of each column. */
struct scale {
	double exclusive, inclusive;
};

/* Time and its share: two cells, the second with a bar in proportion to `whole`. */
void tables__time(struct buf *out, const json_t *row, const char *which, double whole)
{
	char ns_key[32], share_key[32];
	double share;
	uint64_t ns;

	snprintf(ns_key, sizeof(ns_key), "%s_ns", which);
	snprintf(share_key, sizeof(share_key), "%s_share", which);
	ns = get__number(row, ns_key);
	share = get__share(row, share_key);
	buf__printf(out, "<td data-value=\"%llu\">", (unsigned long long)ns);
	html__duration(out, ns);
	buf__puts(out, "</td><td class=\"share\">");
	html__percent(out, share);
	buf__printf(out, "<svg viewBox=\"0 0 100 1\" preserveAspectRatio=\"none\" aria-hidden=\"true\"><rect width=\"%.2f\" height=\"1\"/></svg></td>",
		    share >= whole ? 100 : 100 * share / whole);
}

void tables__elapsed(struct buf *out, const json_t *row)
{
	const uint64_t ns = get__number(row, "elapsed_ns");

	buf__printf(out, "<td data-value=\"%llu\">", (unsigned long long)ns);
	/* Outside of compiles it is the sum of all threads, which mostly wait: that says nothing, and is not shown. */
	if (strcmp(get__text(row, "name"), REPORT_OUTSIDE))
		html__duration(out, ns);
	buf__puts(out, "</td>");
}

void tables__calls(struct buf *out, const json_t *row)
{
	uint64_t calls = get__number(row, "calls");

	buf__printf(out, "<td data-value=\"%llu\">", (unsigned long long)calls);
	/* An empty cell, not "0": rows such as "(outside of compiles)" have no number. */
	if (calls)
		html__count(out, calls);
	buf__puts(out, "</td>");
}

/* A signature only where a compiler made something of it; "()" is a signature, too. */
static void put_name(struct buf *out, const json_t *row, const struct scale *scale)
{
	const char *signature = json_string_value(json_object_get(row, "signature"));

	buf__puts(out, "<th scope=\"row\">");
	html__name(out, get__text(row, "name"), *get__text(row, "compiler") ? signature : NULL);
	buf__puts(out, "</th>");
}

static void put_class_name(struct buf *out, const json_t *row, const struct scale *scale)
{
	buf__puts(out, "<th scope=\"row\">");
	tables__swatch(out, get__text(row, "name"));
	html__text(out, get__text(row, "name"));
	buf__puts(out, "</th>");
}

static void put_pid(struct buf *out, const json_t *row, const struct scale *scale)
{
	buf__printf(out, "<td class=\"words\">%u</td>", (unsigned)get__number(row, "pid"));
}

static void put_exclusive(struct buf *out, const json_t *row, const struct scale *scale)
{
	tables__time(out, row, "exclusive", scale->exclusive);
}

static void put_inclusive(struct buf *out, const json_t *row, const struct scale *scale)
{
	tables__time(out, row, "inclusive", scale->inclusive);
}

static void put_elapsed(struct buf *out, const json_t *row, const struct scale *scale) { tables__elapsed(out, row); }

static void put_calls(struct buf *out, const json_t *row, const struct scale *scale) { tables__calls(out, row); }

/* For native code without a file, the module is all there is. */
static void put_location(struct buf *out, const json_t *row, const struct scale *scale)
{
	const char *module = get__text(row, "module");

	buf__puts(out, "<td class=\"words\">");
	html__location(out, get__text(row, "file"), get__number(row, "line"));
	if (*module) {
		buf__puts(out, " <span class=\"at module\">");
		html__text(out, module);
		buf__puts(out, "</span>");
	}
	buf__puts(out, "</td>");
}

/* The line that caused most of its compiles. */
static void put_trigger(struct buf *out, const json_t *row, const struct scale *scale)
{
	const json_t *triggers = json_object_get(row, "triggers"), *first = json_array_get(triggers, 0);

	buf__puts(out, "<td class=\"words\">");
	if (first) {
		html__name(out, get__text(first, "name"), NULL);
		buf__puts(out, " ");
		html__location(out, get__text(first, "file"), get__number(first, "line"));
	}
	if (json_array_size(triggers) > 1)
		buf__printf(out, " <span class=\"at\">and %zu more</span>", json_array_size(triggers) - 1);
	buf__puts(out, "</td>");
}

static void put_reason(struct buf *out, const json_t *row, const struct scale *scale)
{
	buf__puts(out, "<td class=\"words\">");
	html__text(out, get__text(row, "reason"));
	buf__puts(out, "</td>");
}

/* What caches of single stages would have saved. A cache of everything would have saved the exclusive time. */
static void put_saved(struct buf *out, const json_t *row, const struct scale *scale)
{
	const json_t *saved;
	const char *comma = "";
	size_t i;

	buf__puts(out, "<td class=\"words\">");
	json_array_foreach(json_object_get(row, "saved"), i, saved) {
		if (!strcmp(get__text(saved, "stage"), "all"))
			continue;
		buf__puts(out, comma);
		html__text(out, get__text(saved, "stage"));
		buf__puts(out, " ");
		html__duration(out, get__number(saved, "exclusive_ns"));
		comma = ", ";
	}
	buf__puts(out, "</td>");
}

/* --- tables --- */

/* A column; lists end with a NULL head. Heads and hints are our own text and may hold no markup characters. */
struct column {
	const char *head, *hint; /* hint: tooltip */
	enum { WORDS, NUMBER, SHARE } kind; /* SHARE: a number and a second cell with its share */
	void (*put)(struct buf *out, const json_t *row, const struct scale *scale);
};

#define NAME(head) {head, "", WORDS, put_name}
#define EXCLUSIVE(hint) {"exclusive", hint, SHARE, put_exclusive}
#define INCLUSIVE {"inclusive", "and all that was in it", SHARE, put_inclusive}
#define ELAPSED {"elapsed", "inclusive, by the clock: with waiting", NUMBER, put_elapsed}
#define CALLS {"times", "how many were sampled", NUMBER, put_calls}

/* tree.c writes the rows of this table: these are only heads. */
static const struct column tree_columns[] = {
	{"line that caused compiles; compiles, phases and passes in each other", "", WORDS, NULL}, INCLUSIVE,
	EXCLUSIVE("of a compile: without the compiles in it, but with its phases and passes"), ELAPSED, CALLS,
	{"where", "of a line: where it is; of a compile: where what is compiled is defined", WORDS, NULL}, {},
};
static const struct column unit_columns[] = {
	NAME("function and signature"), EXCLUSIVE("without the compiles in it, but with its phases and passes"), INCLUSIVE, ELAPSED,
	CALLS, {"defined", "where what is compiled is defined", WORDS, put_location},
	{"caused by", "the line that caused most of it, or the outermost compile that it is in", WORDS, put_trigger}, {},
};
static const struct column stage_columns[] = {
	NAME("name"), EXCLUSIVE("without all that has a name in it"), INCLUSIVE, ELAPSED, CALLS, {},
};
static const struct column repeat_columns[] = {
	NAME("function and signature"), {"why", "", WORDS, put_reason},
	EXCLUSIVE("what a cache of all of it would have saved"), CALLS,
	{"of that", "what caches of a part would have saved", WORDS, put_saved},
	{"defined", "", WORDS, put_location}, {},
};
static const struct column class_columns[] = {
	{"class", "", WORDS, put_class_name}, EXCLUSIVE(""), {},
};
static const struct column process_columns[] = {
	NAME("command"), {"pid", "", WORDS, put_pid}, EXCLUSIVE(""), {},
};
static const struct column code_columns[] = {
	NAME("function"), EXCLUSIVE("in its own code"), INCLUSIVE, {"where", "", WORDS, put_location}, {},
};

/* In the order of the page: what was compiled first, then where the time went. */
static const struct section {
	const char *by, *id, *title, *note;
	const struct column *columns;
	void (*put)(struct buf *out, const json_t *table); /* writes the rows; NULL: one HTML row per row */
} sections[] = {
	{"tree", "tree", "Tree of compiles", "What was compiled inside of what, below the lines of code that caused it.", tree_columns, tables__tree},
	{"unit", "units", "Compiles", "Each function and signature, over all its compiles.", unit_columns, NULL},
	{"phase", "phases", "Phases", "", stage_columns, NULL},
	{"pass", "passes", "Passes", "", stage_columns, NULL},
	{"repeat", "repeats", "Compiled again", "Functions that this recording had seen compiled before.", repeat_columns, NULL},
	{"class", "classes", "Classes of time", "", class_columns, NULL},
	{"process", "processes", "Processes", "", process_columns, NULL},
	{"thread", "threads", "Threads", "", NULL, NULL},
	{"function", "functions", "Functions", "", code_columns, NULL},
	{"line", "lines", "Lines", "", code_columns, NULL},
};
#define SECTIONS (sizeof(sections) / sizeof(sections[0]))

const json_t *tables__find(const json_t *report, const char *by)
{
	const json_t *table;
	size_t i;

	json_array_foreach(json_object_get(report, "tables"), i, table)
		if (!strcmp(get__text(table, "by"), by))
			return json_array_size(json_object_get(table, "rows")) ? table : NULL;
	return NULL;
}

static bool has_compiles(const json_t *report)
{
	const json_t *row;
	size_t i;

	json_array_foreach(json_object_get(tables__find(report, "unit"), "rows"), i, row)
		if (*get__text(row, "compiler"))
			return true;
	return false;
}

/* Tables of compiles are left out if their only row would be "(outside of compiles)", that of processes if there is one. */
static const json_t *table_of(const json_t *report, const struct section *section)
{
	const json_t *table = tables__find(report, section->by);
	/* Other tables have no row at all without compiles. */
	const bool compiles = section->columns == tree_columns || section->columns == unit_columns;

	if (section->columns == process_columns && json_array_size(json_object_get(table, "rows")) < 2)
		return NULL;
	return compiles && !has_compiles(report) ? NULL : table;
}

void tables__links(struct buf *out, const json_t *report)
{
	for (size_t i = 0; i < SECTIONS; i++)
		if (table_of(report, &sections[i]))
			buf__printf(out, "<a href=\"#%s\">%s</a>\n", sections[i].id, sections[i].title);
}

static void put_heads(struct buf *out, const struct column *column)
{
	buf__puts(out, "<thead><tr>");
	for (; column->head; column++) {
		buf__printf(out, "<th scope=\"col\" title=\"%s\"%s>%s</th>", column->hint,
			    column->kind == WORDS ? " class=\"words\"" : "", column->head);
		if (column->kind == SHARE)
			buf__puts(out, "<td></td>");
	}
	buf__puts(out, "</tr></thead>\n");
}

static void put_rows(struct buf *out, const json_t *rows, const struct column *columns)
{
	/* Never 0, as shares are divided by it. */
	struct scale scale = {1e-9, 1e-9};
	const json_t *row;
	size_t i;

	json_array_foreach(rows, i, row) {
		scale.exclusive = fmax(scale.exclusive, get__share(row, "exclusive_share"));
		scale.inclusive = fmax(scale.inclusive, get__share(row, "inclusive_share"));
	}
	json_array_foreach(rows, i, row) {
		buf__puts(out, "<tr>");
		for (const struct column *column = columns; column->head; column++)
			column->put(out, row, &scale);
		buf__puts(out, "</tr>\n");
	}
}

static size_t count_rows(const json_t *rows)
{
	const json_t *row;
	size_t i, n = 0;

	json_array_foreach(rows, i, row) {
		n += 1 + count_rows(json_object_get(row, "rows"));
	}
	return n;
}

/* The line below the heading: what the table shows, what 100 % is, and how many rows a limit left out. */
static void put_note(struct buf *out, const struct section *section, const json_t *table, const char *weight)
{
	/* "rows_all" counts rows before any limit: that of the report, and those of data.c. */
	size_t shown = count_rows(json_object_get(table, "rows")), all = get__number(table, "rows_all");

	buf__printf(out, "<p class=\"note\">%s%s100\u00a0%% are ", section->note, *section->note ? " " : "");
	html__duration(out, get__number(table, "total_ns"));
	buf__printf(out, " of %s time.", weight);
	if (shown < all) {
		buf__puts(out, " The ");
		html__count(out, shown);
		buf__puts(out, " heaviest rows of ");
		html__count(out, all);
		buf__puts(out, "; the others are left out here, not in <code>cprofd report</code>.");
	}
	buf__puts(out, "</p>\n");
}

/* The box scrolls sideways on narrow screens; with a tabindex it can be scrolled by keyboard. */
static void put_section(struct buf *out, const json_t *report, const struct section *section, const json_t *table)
{
	const char *weight = strcmp(get__text(report, "weight"), "wall") ? "CPU" : "wall";

	buf__printf(out, "<section id=\"%s\">\n<h2>%s</h2>\n", section->id, section->title);
	put_note(out, section, table, weight);
	buf__printf(out, "<div class=\"box\" tabindex=\"0\" role=\"region\" aria-label=\"%s\">\n<table data-by=\"%s\">\n", section->title, section->by);
	if (!section->columns) {
		tables__threads(out, table, tables__find(report, "class"));
	} else {
		put_heads(out, section->columns);
		buf__puts(out, "<tbody>\n");
		if (section->put)
			section->put(out, table);
		else
			put_rows(out, json_object_get(table, "rows"), section->columns);
		buf__puts(out, "</tbody>");
	}
	buf__puts(out, "</table>\n</div>\n</section>\n");
}

void tables__put(struct buf *out, const json_t *report)
{
	for (size_t i = 0; i < SECTIONS; i++) {
		const json_t *table = table_of(report, &sections[i]);

		if (table)
			put_section(out, report, &sections[i], table);
	}
}
