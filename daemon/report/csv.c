/* SPDX-License-Identifier: MIT */
/* The report for spreadsheets: CSV as in RFC 4180, one header line, all tables one after another with the
 * same columns. A column that a table does not have is empty; numbers are plain, times are nanoseconds.
 *
 *     table,name,file,line,module,kind,class,process,exclusive_ns,...
 *     "function","run_pass","/usr/lib/.../compiler_machinery.py",285,"numba","python","","",123456789,...
 *
 * Names come from a recording, which a stranger may have made; see is_formula(). */
#include <inttypes.h>
#include <string.h>

#include "base/stream.h"
#include "report/internal.h"

/* Spreadsheets treat a cell that begins with one of these as a formula, even a quoted one. An apostrophe makes it
 * text, as spreadsheets do themselves. Control characters were removed before (options.readable). */
static bool is_formula(const char *text)
{
	return *text && strchr("=+-@", *text);
}

/* A quoted field and the comma after it. A quote inside is doubled (RFC 4180, section 2, rule 7). */
static void put_field(FILE *out, const char *text)
{
	fputs(is_formula(text) ? "\"'" : "\"", out);
	for (; *text; text++) {
		if (*text == '"')
			fputc('"', out);
		fputc(*text, out);
	}
	fputs("\",", out);
}

/* `below`: the row belongs to the row `name` of the table `by`. */
static void put_row(enum report_by by, const struct table *table, const struct rank *rank, const char *name, bool below,
		    double total, uint32_t depth, uint32_t signatures, FILE *out)
{
	struct row_key key = table__key(table, rank->row);

	put_field(out, report_names[by]);
	put_field(out, below ? name : key.name);
	put_field(out, key.file);
	fprintf(out, "%u,", key.line);
	put_field(out, key.module);
	put_field(out, by == REPORT_TREE ? tree__kind(&key) : by == REPORT_REPEAT ? "" : kind__name(key.kind));
	put_field(out, below ? key.name : "");
	put_field(out, by == REPORT_THREAD ? key.detail : "");
	fprintf(out, "%.0f,%.0f,%.9f,%.9f,%.9f,%.0f,%.0f,", rank->exclusive, rank->inclusive,
		total > 0 ? rank->exclusive / total : 0, total > 0 ? rank->inclusive / total : 0,
		total > 0 ? rank->running / total : 0, rank->exclusive_sd, rank->inclusive_sd);
	put_field(out, by == REPORT_UNIT || by == REPORT_TREE || by == REPORT_REPEAT || by == REPORT_FAILED ? key.detail : "");
	fprintf(out, "%.6g,%.0f,", rank->calls, rank->elapsed);
	if (by == REPORT_TREE)
		fprintf(out, "%u", depth);
	putc(',', out);
	/* put_field() writes the comma before start_ns. */
	put_field(out, by == REPORT_REPEAT ? reason_names[key.kind] : "");
	if (rank->begun)
		fprintf(out, "%" PRIu64, rank->begun - 1);
	putc(',', out);
	if (by == REPORT_SOURCE)
		fprintf(out, "%u", signatures);
	putc(',', out);
	if (key.pid)
		fprintf(out, "%d", key.pid);
	fputs("\r\n", out);
}

/* The tree in the order of depth-first traversal; `depth` begins at 1. A reader finds a row's parent as the
 * last row before it with a smaller depth. */
static void put_branch(const struct report *report, uint32_t first, uint32_t depth, FILE *out)
{
	const struct table *table = &report->tables[REPORT_TREE];

	for (; first; first = ITEM(report->next, const uint32_t, first - 1)) {
		const struct rank *rank = &table->ranks[first - 1];

		put_row(REPORT_TREE, table, rank, "", false, table->total, depth, 0, out);
		put_branch(report, ITEM(report->first, const uint32_t, rank->row), depth + 1, out);
	}
}

/* Chains are no rows of a table: they have the same columns, most of them empty. exclusive_ns and
 * inclusive_ns are equal, as a chain is a whole. */
static void put_chains(const struct report *report, FILE *out)
{
	const struct chain *chain = (const struct chain *)report->chains.data;
	uint32_t i, n = (uint32_t)(report->chains.len / sizeof(*chain)), top = report->options->top;

	for (i = 0; i < n && (!top || i < top); i++) {
		struct row_key key = table__key(&report->tables[REPORT_UNIT], chain[i].compile);
		double ns = (double)times__weight(&chain[i].times, report->wall);
		size_t len;

		put_field(out, report_names[REPORT_CHAIN]);
		put_field(out, key.name);
		put_field(out, key.file);
		fprintf(out, "%u,", key.line);
		put_field(out, key.module);
		fputs("\"\",\"\",", out);
		put_field(out, intern__key(&report->thread_names, chain[i].thread, &len));
		fprintf(out, "%.0f,%.0f,,,,,,", ns, ns);
		put_field(out, key.detail);
		fprintf(out, "%u,%" PRIu64 ",,\"\",%" PRIu64 ",,\r\n", chain[i].compiles, chain[i].end - chain[i].begin, chain[i].begin);
	}
}

static int put_table(struct report *report, const struct table *table, FILE *out)
{
	const struct table *below = NULL;
	int err = 0;

	for (uint32_t row = 0; row < table->n_ranks && !err; row++) {
		struct row_key key = table__key(table, table->ranks[row].row);

		/* Threads: one row for each class of its time follows. Functions: only the number of
		 * signatures is needed. */
		if (table->by == REPORT_THREAD || table->by == REPORT_SOURCE)
			err = report__rank_below(report, table->by, table->ranks[row].row, 0, &below);
		if (err)
			return err;
		put_row(table->by, table, &table->ranks[row], "", false, table->total, 0, below ? below->n_ranks : 0, out);
		if (table->by != REPORT_THREAD)
			continue;
		for (uint32_t i = 0; below && i < below->n_ranks; i++)
			put_row(table->by, below, &below->ranks[i], key.name, true, table->total, 0, 0, out);
	}
	return err;
}

int report__csv(struct report *report, FILE *out)
{
	int err = 0;

	errno = 0;
	fputs("table,name,file,line,module,kind,class,process,exclusive_ns,inclusive_ns,exclusive_"
	      "share,"
	      "inclusive_share,running_share,exclusive_sd_ns,inclusive_sd_ns,signature,calls,elapsed_ns,depth,reason,start_ns,signatures,pid\r\n",
	      out);
	for (uint32_t i = 0; i < REPORT_BY_COUNT && !err; i++) {
		if (!report__wants(report, (enum report_by)i))
			continue;
		if (i == REPORT_TREE)
			put_branch(report, report->top, 1, out);
		else if (i == REPORT_CHAIN)
			put_chains(report, out);
		else
			err = put_table(report, report__table(report, (enum report_by)i), out);
	}
	return err ?: stream__flush(out);
}
