/* SPDX-License-Identifier: MIT */
/* Turns sums into ranked rows: means over the recordings, order, running totals, and the limits --top, --until and
 * --min-share. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "report/table.h"

/* By enum report_sort. The first one is never used: rank__order() resolves the default. */
const char *const rank_orders[] = {"", "exclusive", "inclusive", "start"};
const char *const rank_order_words[] = {"", "by exclusive time", "by inclusive time", "in the order of time"};

bool rank__of_compiles(enum report_by by)
{
	return by == REPORT_UNIT || by == REPORT_SOURCE || by == REPORT_SOURCE_LINE || by == REPORT_PHASE || by == REPORT_PASS || by == REPORT_TRIGGER ||
	       by == REPORT_TREE || by == REPORT_CHAIN || by == REPORT_REPEAT || by == REPORT_FAILED;
}

enum report_sort rank__order(const struct table *table, const struct report_options *options)
{
#define REPORT_INCLUSIVE(id, name, inclusive) inclusive,
	static const bool defaults[REPORT_BY_COUNT] = {REPORT_TABLES(REPORT_INCLUSIVE)};
#undef REPORT_INCLUSIVE

	if (table->by == REPORT_CHAIN && options->sort == REPORT_SORT_DEFAULT)
		return REPORT_SORT_START;
	if (options->sort == REPORT_SORT_DEFAULT || (options->sort == REPORT_SORT_START && !rank__of_compiles(table->by)))
		return defaults[table->by] ? REPORT_SORT_INCLUSIVE : REPORT_SORT_EXCLUSIVE;
	return options->sort;
}

/* Mean and standard deviation (of a sample, so n - 1) of one row's times. In two passes: the difference of
 * sums of squares would lose its digits where times are nearly equal. */
static void spread(const struct table *table, uint32_t row, bool wall, bool inclusive,
		   double *ret_mean, double *ret_sd)
{
	double sum = 0, squares = 0, mean;

	for (uint32_t i = 0; i < table->files; i++) {
		const struct row_times *times = table__times(table, row, i);

		sum += (double)times__weight(inclusive ? &times->inclusive : &times->exclusive,
					     wall);
	}
	mean = sum / table->files;
	for (uint32_t i = 0; i < table->files; i++) {
		const struct row_times *times = table__times(table, row, i);
		double off = (double)times__weight(
				     inclusive ? &times->inclusive : &times->exclusive, wall) -
			     mean;

		squares += off * off;
	}
	*ret_mean = mean;
	*ret_sd = table->files > 1 ? sqrt(squares / (table->files - 1)) : 0;
}

static void add_means(const struct table *table, struct rank *rank)
{
	for (uint32_t i = 0; i < table->files; i++) {
		const struct row_times *times = table__times(table, rank->row, i);

		/* `begun` is the earliest in any recording: times since the start of different recordings
		 * have no mean that says anything. */
		rank->elapsed += (double)times->inclusive.wall / table->files;
		rank->cpu += (double)times->inclusive.cpu / table->files;
		rank->calls += (double)times->calls / table->files;
		if (times->begun && (!rank->begun || times->begun < rank->begun))
			rank->begun = times->begun;
	}
}

/* Rows never compare as equal (ties: names, then row numbers), so the output is the same in every run. */
struct order {
	const struct table *table;
	bool inclusive, start;
};

static int compare(const void *left, const void *right, void *arg)
{
	const struct order *order = arg;
	const struct rank *a = left, *b = right;
	double x = order->inclusive ? a->inclusive : a->exclusive;
	double y = order->inclusive ? b->inclusive : b->exclusive;
	struct row_key p, q;
	int name;

	if (order->start && a->begun != b->begun) /* rows without a begin (0) come last: 0 - 1 is the largest */
		return a->begun - 1 < b->begun - 1 ? -1 : 1;
	if (x == y) {
		x = order->inclusive ? a->exclusive : a->inclusive;
		y = order->inclusive ? b->exclusive : b->inclusive;
	}
	if (x != y)
		return x > y ? -1 : 1;
	p = table__key(order->table, a->row);
	q = table__key(order->table, b->row);
	name = strcmp(p.name, q.name) ?: strcmp(p.file, q.file) ?: strcmp(p.detail, q.detail);
	if (name || p.line != q.line)
		return name ? name : p.line < q.line ? -1 : 1;
	return a->row < b->row ? -1 : a->row > b->row;
}

/* `running` is the sum of exclusive times in the order shown, whatever that order is: then --until means "rows that
 * make up 90 % of the time". Rows below --min-share do not count. */
static void cut(struct table *table, const struct report_options *options, const struct order *order)
{
	double running = 0;
	uint32_t i, kept = 0;

	for (i = 0; i < table->n_ranks; i++) {
		struct rank *rank = &table->ranks[i];
		double weight = order->inclusive ? rank->inclusive : rank->exclusive;

		if (options->top && kept == options->top)
			break;
		if (options->until > 0 && running >= options->until * table->total)
			break;
		/* Not `break`: in the order of time, a row below the limit may come before one above it. */
		if (weight < options->min_share * table->total)
			continue;
		running += rank->exclusive;
		rank->running = running;
		table->ranks[kept++] = *rank;
	}
	table->n_ranks = kept;
}

/* The next row after `row` (ROW_NONE: the first one) among those of the parent; with parent ROW_NONE among all rows. */
static uint32_t row_after(const struct table *table, uint32_t parent, uint32_t row)
{
	const struct buf *links = row == ROW_NONE ? &table->first : &table->next;
	uint32_t at = row == ROW_NONE ? parent : row;

	/* ROW_NONE + 1 is 0, so the first row needs no case of its own. */
	if (parent == ROW_NONE)
		return row + 1 < rows__n(&table->rows) ? row + 1 : ROW_NONE;
	/* Links hold row + 1, and 0 for "none", so that 0 - 1 is ROW_NONE. */
	return at < links->len / sizeof(uint32_t) ? ITEM(*links, const uint32_t, at) - 1 : ROW_NONE;
}

int table__rank(struct table *table, const struct report_options *options, bool wall,
		uint32_t parent)
{
	enum report_sort sort = rank__order(table, options);
	struct order order = {table, sort != REPORT_SORT_EXCLUSIVE, sort == REPORT_SORT_START};
	uint32_t i, n = 0;

	for (i = row_after(table, parent, ROW_NONE); i != ROW_NONE; i = row_after(table, parent, i))
		n++;
	free(table->ranks);
	/* Ranked again for each parent (report__rank_below), so what was there is replaced. */
	table->ranks = calloc((size_t)n + 1, sizeof(*table->ranks));
	if (!table->ranks)
		return -ENOMEM;
	table->n_ranks = table->n_rows = 0;
	table->total = 0;
	for (i = 0; i < table->files; i++)
		table->total += (double)times__weight(&table->totals[i], wall) / table->files;
	for (i = row_after(table, parent, ROW_NONE); i != ROW_NONE; i = row_after(table, parent, i)) {
		struct rank *rank = &table->ranks[table->n_ranks];

		rank->row = i;
		spread(table, i, wall, false, &rank->exclusive, &rank->exclusive_sd);
		spread(table, i, wall, true, &rank->inclusive, &rank->inclusive_sd);
		add_means(table, rank);
		/* A row without time and calls is not kept: the next one takes its place in the array. */
		table->n_ranks += rank->inclusive > 0 || rank->calls > 0;
	}
	table->n_rows = table->n_ranks;
	qsort_r(table->ranks, table->n_ranks, sizeof(*table->ranks), compare, &order);
	cut(table, options, &order);
	return 0;
}
