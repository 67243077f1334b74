/* SPDX-License-Identifier: MIT */
/* The text of the tables that are not plain lists of rows: tree, chain, repeat.
 *
 *     by tree, CPU time, by inclusive time: 12 of 40 rows; % of 7.941 s
 *       exclusive  inclusive      %    elapsed   times  tree
 *           0.000      3.120  39.29      3.300          caused by <module>  svd.py:12
 *           1.020      3.120  39.29      3.300       1    svd(array(float64, 2d, C))  svd.py:4
 *
 *     by repeat, CPU time, by exclusive time: 1 of 1 rows; % of 7.941 s
 *       exclusive      %  inclusive    elapsed   times  repeat
 *           0.510   6.42      0.640      0.660       2  add(int64, int64)  util.py:7
 *                                                        the same types again: a cache that did not hold, ...
 *                                                        a cache would have saved: machine code 0.300 s, all 0.510 s
 */
#include <errno.h>
#include <stdlib.h>

#include "base/style.h"
#include "report/fit.h"
#include "report/internal.h"

#define UNIT_WIDTH 72
/* Columns before the names. */
#define TREE_AT 50
#define CHAIN_AT 55
#define REPEAT_AT 50
#define INDENT 2
#define INDENT_MAX 40 /* deeper rows are not indented further */

static const char *clock_of(const struct report *report)
{
	return report->wall ? "wall time" : "CPU time";
}

static void put_head(const struct report *report, const struct table *table, const char *order,
		     uint32_t shown, FILE *out)
{
	fputc('\n', out);
	style__begin(out, STYLE_HEAD);
	fprintf(out, "by %s", report_names[table->by]);
	style__end(out);
	fprintf(out, ", %s, %s: %u of %u rows; %% of %.3f s\n",
		clock_of(report), order, shown, table->n_rows, table->total / 1e9);
}

static void put_unit(const struct report *report, const struct row_key *key, int at, int width, FILE *out)
{
	const struct row_key place = {.file = key->file, .module = "", .line = key->line};
	struct fitted fitted;
	char name[1024];

	snprintf(name, sizeof(name), "%s(%s)", key->name, key->detail);
	fitted = text__fit(report, at, width, name, &place);
	fit__name(out, name, *key->file ? fitted.name : -abs(fitted.name));
	text__location(&place, fitted, out);
}

/* --- the tree --- */

/* Rows that are linked below `first` and its siblings: what --top, --depth and --min-share have left. */
static uint32_t count_shown(const struct report *report, uint32_t first)
{
	const struct table *table = &report->tables[REPORT_TREE];
	uint32_t n = 0;

	for (; first; first = ITEM(report->next, uint32_t, first - 1))
		n += 1 + count_shown(report,
				     ITEM(report->first, uint32_t, table->ranks[first - 1].row));
	return n;
}

static void put_branch(const struct report *report, uint32_t first, int indent, FILE *out)
{
	const struct table *table = &report->tables[REPORT_TREE];
	/* The names get narrower by the indent, so that the files beside them stay in one column. */
	const int right = indent < INDENT_MAX ? indent : INDENT_MAX;

	for (; first; first = ITEM(report->next, uint32_t, first - 1)) {
		const struct rank *rank = &table->ranks[first - 1];
		struct row_key key = table__key(table, rank->row);

		fprintf(out, "%11.3f%11.3f %6.2f ", rank->exclusive / 1e9, rank->inclusive / 1e9, percent(rank->inclusive, table->total));
		text__clock(table, rank, report->wall, out);
		fputc(' ', out);
		if (rank->calls > 0)
			fprintf(out, "%7.*f", rank->calls < 10 && table->files > 1, rank->calls);
		else
			fprintf(out, "%7s", "");
		fprintf(out, "  %*s", right, "");
		/* Three forms: a compile, or a phase with a subject, as name(detail) and place; a group
		 * without a parent or a phase by its name; a frame as "caused by". */
		if (key.kind >= KIND_PASS ? *key.detail : key.kind == KIND_GROUP && key.parent != ROW_NONE) {
			put_unit(report, &key, TREE_AT + right, UNIT_WIDTH - right, out);
		} else if (key.kind >= KIND_PASS) {
			fputs(key.name, out);
		} else {
			fputs("caused by ", out);
			text__caller(report, TREE_AT + right + 10, &key, out);
		}
		fputc('\n', out);
		put_branch(report, ITEM(report->first, uint32_t, rank->row), indent + INDENT, out);
	}
}

static void put_tree(const struct report *report, const struct table *table, FILE *out)
{
	put_head(report, table,
		 rank_order_words[rank__order(table, report->options)],
		 count_shown(report, report->top), out);
	if (!table->n_rows)
		fputs("    none\n", out);
	else
		fprintf(out, "%11s%11s %6s%11s %7s  tree\n", "exclusive", "inclusive", "%",
			report->wall ? "CPU" : "elapsed", "times");
	put_branch(report, report->top, 0, out);
}

/* --- chains --- */

void units_text__chains(const struct report *report, FILE *out)
{
	const struct chain *chain = (const struct chain *)report->chains.data;
	uint32_t i, n = LENGTH(report->chains, struct chain), lines = 0;
	const struct table *triggers = &report->tables[REPORT_TRIGGER];
	uint64_t between = 0;

	for (i = 0; i < n; i++)
		between += chain[i].after == UINT64_MAX ? 0 : chain[i].after;
	/* Lines without a file are not known, and are not counted. */
	for (i = 0; i < rows__n(&triggers->rows); i++)
		lines += *table__key(triggers, i).file != '\0';
	fprintf(out,
		"%u outermost compile%s, caused by %u line%s",
		n, n == 1 ? "" : "s", lines, lines == 1 ? "" : "s");
	if (between)
		fprintf(out, "; the threads spent %.3f s between one and the next",
			(double)between / 1e9);
}

static void put_chain(const struct report *report, const struct chain *chain, FILE *out)
{
	struct row_key compile = table__key(&report->tables[REPORT_UNIT], chain->compile),
		       trigger = table__key(&report->tables[REPORT_TRIGGER], chain->trigger);
	size_t len;

	fprintf(out, "%11.3f%11.3f%11.3f", (double)chain->begin / 1e9,
		(double)(chain->end - chain->begin) / 1e9,
		(double)times__weight(&chain->times, report->wall) / 1e9);
	if (chain->after == UINT64_MAX)
		fprintf(out, "%11s", "");
	else
		fprintf(out, "%11.3f", (double)chain->after / 1e9);
	fprintf(out, "%9u  ", chain->compiles);
	put_unit(report, &compile, CHAIN_AT, UNIT_WIDTH, out);
	fprintf(out, "\n%*scaused by ", text__below(report, CHAIN_AT), "");
	text__caller(report, text__below(report, CHAIN_AT) + 10, &trigger, out);
	fprintf(out, "  in %s",
		(const char *)intern__key(&report->thread_names, chain->thread, &len));
	if (report->files > 1)
		fprintf(out, " of %s", report->file[chain->file].name);
	fputc('\n', out);
}

static void put_chains(const struct report *report, FILE *out)
{
	uint32_t i, n = LENGTH(report->chains, struct chain), top = report->options->top;

	fprintf(out, "\nby chain, %s, %s: ", clock_of(report),
		rank__order(&report->tables[REPORT_CHAIN], report->options) == REPORT_SORT_START ? "in the order of time"
												 : "longest first");
	units_text__chains(report, out);
	if (top && top < n)
		fprintf(out, "; %u of them", top);
	fputc('\n', out);
	if (n)
		fprintf(out, "%11s%11s%11s%11s%9s  chain\n", "start", "elapsed", "seconds", "after",
			"compiles");
	for (i = 0; i < n && (!top || i < top); i++)
		put_chain(report, &ITEM(report->chains, struct chain, i), out);
}

/* --- repeats --- */

/* Means over the recordings, as all times are. */
static void put_saved(const struct report *report, const struct row_key *key,
		      const struct rank *rank, FILE *out)
{
	const struct compiler *compiler = repeats__compiler(report, key->module);
	const int at = text__below(report, REPEAT_AT - 1);

	fprintf(out, "%*s%s\n%*s", at, "", reason_words[key->kind], at, "");
	fputs("a cache would have saved: ", out);
	for (uint32_t i = 0; compiler && i < compiler->n_stages; i++) {
		double sum = 0;

		for (uint32_t f = 0; f < report->files; f++)
			sum += (double)times__weight(
				&repeats__stages(report, rank->row, f)->times[i], report->wall);
		fprintf(out, "%s %.3f s, ", compiler->stages[i].name, sum / report->files / 1e9);
	}
	fprintf(out, "all %.3f s\n", rank->exclusive / 1e9);
}

static void put_repeats(const struct report *report, const struct table *table, FILE *out)
{
	put_head(report, table,
		 rank_order_words[rank__order(table, report->options)],
		 table->n_ranks, out);
	if (!table->n_ranks) {
		fputs("    none\n", out);
		return;
	}
	fprintf(out, "%11s %6s%11s%11s %7s  repeat\n", "exclusive", "%", "inclusive",
		report->wall ? "CPU" : "elapsed", "times");
	for (uint32_t i = 0; i < table->n_ranks; i++) {
		const struct rank *rank = &table->ranks[i];
		struct row_key key = table__key(table, rank->row);

		fprintf(out, "%11.3f %6.2f%11.3f%11.3f %7.*f  ", rank->exclusive / 1e9,
			percent(rank->exclusive, table->total), rank->inclusive / 1e9,
			(report->wall ? rank->cpu : rank->elapsed) / 1e9, rank->calls < 10 && table->files > 1, rank->calls);
		put_unit(report, &key, REPEAT_AT, UNIT_WIDTH, out);
		fputc('\n', out);
		put_saved(report, &key, rank, out);
	}
}

int units_text__table(struct report *report, struct table *table, FILE *out)
{
	if (table->by == REPORT_TREE)
		put_tree(report, table, out);
	else if (table->by == REPORT_CHAIN)
		put_chains(report, out);
	else
		put_repeats(report, table, out);
	return ferror(out) ? -EIO : 0;
}
