/* SPDX-License-Identifier: MIT */
/* The JSON of the tables that are not plain lists of rows: tree, chain, repeat. docs/report.md is the schema.
 * Each function appends to *out and returns 0 or -ENOMEM; the caller's object is open. */
#include <string.h>

#include "events/json.h"
#include "report/internal.h"

static int put_location(struct buf *out, const struct row_key *key)
{
	return json__member(out, "file", key->file) ?: json__number(out, "line", key->line);
}

static int put_unit(struct buf *out, const struct row_key *key)
{
	int err = json__member(out, "name", key->name) ?: json__member(out, "compiler", key->module);

	return err ?: json__member(out, "signature", key->detail) ?: put_location(out, key);
}

/* A line of code. */
static int put_line(struct buf *out, const struct row_key *key)
{
	int err = json__member(out, "name", key->name) ?: put_location(out, key);

	return err ?: json__member(out, "module", key->module) ?: json__member(out, "kind", kind__name(key->kind));
}

static int put_comma(struct buf *out)
{
	return buf__puts(out, out->data[out->len - 1] == '[' ? "{" : ",\n{");
}

/* --- the tree --- */

static int put_row_name(struct buf *out, const struct row_key *key)
{
	const char *what = tree__kind(key);
	int err = json__member(out, "what", what);

	if (!strcmp(what, "trigger"))
		return err ?: put_line(out, key);
	if (!strcmp(what, "unit"))
		return err ?: put_unit(out, key);
	err = err ?: json__member(out, "name", key->name);
	if (*key->detail)
		err = err ?: json__member(out, "signature", key->detail);
	return err || !*key->module ? err : json__member(out, "compiler", key->module);
}

/* {"what":"unit",...,"rows":[...]}: rows within rows. Recursion is as deep as the tree, which has the depth
 * of nested units. */
static int put_branch(const struct report *report, uint32_t first, struct buf *out)
{
	const struct table *table = &report->tables[REPORT_TREE];
	int err = json__key(out, "rows") ?: buf__puts(out, "[");

	for (; first && !err; first = ITEM(report->next, uint32_t, first - 1)) {
		const struct rank *rank = &table->ranks[first - 1];
		struct row_key key = table__key(table, rank->row);

		err = put_comma(out) ?: put_row_name(out, &key) ?: put__times(out, table, table->total, rank, true);
		err = err ?: put_branch(report, ITEM(report->first, uint32_t, rank->row), out) ?: buf__puts(out, "}");
	}
	return err ?: buf__puts(out, "]");
}

/* --- chains --- */

static int put_chain(const struct report *report, const struct chain *chain, struct buf *out)
{
	const struct row_key compile = table__key(&report->tables[REPORT_UNIT], chain->compile),
			     trigger = table__key(&report->tables[REPORT_TRIGGER], chain->trigger);
	size_t len;
	int err = put_comma(out) ?: json__number(out, "recording", chain->file);

	err = err
		      ?: json__member(out, "thread",
				     intern__key(&report->thread_names, chain->thread, &len));
	err = err ?: put_unit(out, &compile);
	err = err ?: json__number(out, "start_ns", chain->begin) ?: json__number(out, "elapsed_ns", chain->end - chain->begin);
	err = err ?: json__number(out, "inclusive_ns", times__weight(&chain->times, report->wall));
	err = err ?: json__number(out, "compiles", chain->compiles);
	/* The first chain of a thread has none before it. */
	if (chain->after != UINT64_MAX)
		err = err ?: json__number(out, "after_ns", chain->after);
	err = err ?: json__key(out, "trigger") ?: buf__puts(out, "{") ?: put_line(out, &trigger);
	return err ?: buf__puts(out, "}}");
}

static int put_chains(const struct report *report, struct buf *out)
{
	uint32_t i, n = LENGTH(report->chains, struct chain), top = report->options->top;
	int err = json__key(out, "rows") ?: buf__puts(out, "[");

	for (i = 0; i < n && (!top || i < top) && !err; i++)
		err = put_chain(report, &ITEM(report->chains, struct chain, i), out);
	return err ?: buf__puts(out, "]");
}

/* --- repeats --- */

/* "saved": for each stage whose result a cache could hold, the time that this would have saved. */
static int put_saved(const struct report *report, const struct row_key *key,
		     const struct rank *rank, struct buf *out)
{
	const struct compiler *compiler = repeats__compiler(report, key->module);
	int err = json__key(out, "saved") ?: buf__puts(out, "[");

	for (uint32_t i = 0; compiler && i < compiler->n_stages && !err; i++) {
		double sum = 0;

		for (uint32_t f = 0; f < report->files; f++)
			sum += (double)times__weight(
				&repeats__stages(report, rank->row, f)->times[i], report->wall);
		err = put_comma(out) ?: json__member(out, "stage", compiler->stages[i].name);
		err = err ?: put__ns(out, "exclusive_ns", sum / report->files) ?: buf__puts(out, "}");
	}
	err = err ?: put_comma(out) ?: json__member(out, "stage", "all");
	return err ?: put__ns(out, "exclusive_ns", rank->exclusive) ?: buf__puts(out, "}]");
}

static int put_repeats(const struct report *report, const struct table *table, struct buf *out)
{
	int err = json__key(out, "rows") ?: buf__puts(out, "[");

	for (uint32_t i = 0; i < table->n_ranks && !err; i++) {
		const struct rank *rank = &table->ranks[i];
		struct row_key key = table__key(table, rank->row);

		err = put_comma(out) ?: put_unit(out, &key) ?: json__member(out, "reason", reason_names[key.kind]);
		err = err ?: put_saved(report, &key, rank, out) ?: put__times(out, table, table->total, rank, true);
		err = err ?: buf__puts(out, "}");
	}
	return err ?: buf__puts(out, "]");
}

int units_json__table(struct report *report, struct table *table, struct buf *out)
{
	const bool chains = table->by == REPORT_CHAIN;
	enum report_sort order = rank__order(table, report->options);
	/* Chains have one time, which is inclusive: it is what "longest first" means. */
	const char *sort = rank_orders[chains && order == REPORT_SORT_EXCLUSIVE ? REPORT_SORT_INCLUSIVE : order];
	int err = buf__puts(out, out->data[out->len - 1] == '[' ? "\n{" : ",\n{");

	err = err ?: json__member(out, "by", report_names[table->by]) ?: json__member(out, "sort", sort);
	err = err ?: put__ns(out, "total_ns", table->total);
	err = err
		      ?: json__number(out, "rows_all",
				     chains ? LENGTH(report->chains, struct chain) : table->n_rows);
	if (err)
		return err;
	err = chains			 ? put_chains(report, out)
	      : table->by == REPORT_TREE ? put_branch(report, report->top, out)
					 : put_repeats(report, table, out);
	return err ?: buf__puts(out, "}");
}
