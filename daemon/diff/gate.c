/* SPDX-License-Identifier: MIT */
/* Limits of growth: reads them, and judges a finished comparison by them.
 *
 *     total>3%     all CPU time (in wall mode, all time) of a side's recordings, on average
 *     unit>5%      each compile's row, as the table has it: its share, or its time for each outermost compile
 *
 * A row that is new exceeds any limit. Neither counts where the row grew by less than `least` of all time.
 *
 * Totals need two recordings a side, as one says nothing of how runs differ. */
#include "diff/gate.h"

#include <stdlib.h>

#include "base/safe_text.h"
#include "base/stream.h"
#include "diff/internal.h"

static bool find_what(const char *name, size_t len, struct diff_limit *ret)
{
	for (int i = 0; i < DIFF_TOTALS; i++)
		if (strlen(diff_total_names[i].limit) == len && !strncmp(diff_total_names[i].limit, name, len)) {
			*ret = (struct diff_limit){.total = true, .what = i};
			return true;
		}
	for (int i = 0; i < REPORT_BY_COUNT; i++)
		if ((DIFF_TABLES >> i & 1) && strlen(report_names[i]) == len && !strncmp(report_names[i], name, len)) {
			*ret = (struct diff_limit){.what = i};
			return true;
		}
	return false;
}

const char *diff_limits__parse(const char *text, struct diff_limits *ret)
{
	static const char form[] = "is not of the form total>3%,unit>5%";
	struct diff_limit *limit;
	char *end;

	for (;;) {
		size_t len = strcspn(text, ">,");

		if (ret->n == DIFF_LIMITS_MAX)
			return "has more than 16 limits";
		limit = &ret->items[ret->n];
		if (text[len] != '>')
			return form;
		if (!find_what(text, len, limit))
			return "names something else than total, elapsed, compiles, compiling, class, unit, phase, pass, function, line, package, "
			       "module, file";
		text += len + 1;
		limit->growth = strtod(text, &end) / 100;
		/* A number that strtod() reads and nobody means, such as "inf", is refused, too. */
		if (end == text || *end != '%' || !(limit->growth >= 0 && limit->growth < 1e6))
			return form;
		ret->n++;
		if (!end[1])
			return NULL;
		if (end[1] != ',')
			return form;
		text = end + 2;
	}
}

const char *diff_limit__name(const struct diff_limit *limit)
{
	return limit->total ? diff_total_names[limit->what].limit : report_names[limit->what];
}

uint32_t diff_limits__tables(const struct diff_limits *limits)
{
	uint32_t tables = 0, i;

	for (i = 0; i < limits->n; i++)
		tables |= limits->items[i].total ? 0 : 1u << limits->items[i].what;
	return tables;
}

/* --- judging --- */

/* Of one whose margin is known. */
static bool exceeds(const struct comparison *c, double growth)
{
	return c->change - c->margin > growth * c->before && c->change > 0;
}

/* Of all time, as rows have it: 1, or ns per compile. */
static double all_time(const struct diff *diff)
{
	double time = 0, compiles = 0;

	if (diff->per == DIFF_SHARE)
		return 1;
	for (uint32_t i = 0; i < diff->read; i++) {
		const struct measure *measure = &diff->recordings[i].measures[DIFF_COMPILE];

		for (uint32_t cell = 0; cell < measure->n_cells; cell++)
			time += measure->time[cell] + measure->collector[cell];
		compiles += (double)measure->counted;
	}
	return compiles > 0 ? time / compiles : 0;
}

/* "12.400 % -> 15.000 %", "1.200 s -> 1.400 s". */
static int put_values(struct buf *out, const struct diff *diff, const struct diff_limit *limit, const struct comparison *c)
{
	const char *unit = limit->total ? diff__total_unit((enum diff_total_kind)limit->what) : diff__unit(diff);
	double scale = limit->total ? diff__total_scale((enum diff_total_kind)limit->what) : diff__scale(diff);
	int err = buf__printf(out, "%.3f%s -> %.3f%s", scale * c->before, unit, scale * c->after, unit);

	if (c->before > 0)
		err = err ?: buf__printf(out, ", %+.1f %%", 100 * c->change / c->before);
	if (c->before > 0 && c->margin >= 0)
		err = err ?: buf__printf(out, ", surely more than %+.1f %%", 100 * (c->change - c->margin) / c->before);
	return err ?: buf__printf(out, " (limit %g %%)", 100 * limit->growth);
}

static int put_line(FILE *out, const char *before_line, const struct buf *line)
{
	int err = stream__write(out, before_line, strlen(before_line)) ?: stream__write(out, line->data, line->len);

	return err ?: stream__write(out, "\n", 1);
}

/* Made safe here, as beside JSON names are the target's own bytes. */
int diff__put_key(struct buf *out, const struct diff_key *key)
{
	int err = safe_text__append(out, key->name, strlen(key->name)) ?: safe_text__append(out, key->detail, strlen(key->detail));

	if (key->by == REPORT_LINE)
		err = err ?: buf__printf(out, ":%u", key->line);
	return err;
}

static int put_total(struct buf *out, const struct diff *diff, const struct diff_limit *limit, const struct comparison *c)
{
	enum diff_total_kind kind = (enum diff_total_kind)limit->what;
	/* Of its own line, and not of the one before it in a table. */
	const char *words = kind == DIFF_TOTAL_COMPILING ? "time of compiles" : diff__total_words(diff, kind);

	return buf__printf(out, "%s: ", words) ?: put_values(out, diff, limit, c);
}

static int put_row(struct buf *out, const struct diff *diff, const struct diff_limit *limit, const struct diff_row *row)
{
	struct diff_key key = diff__key(diff, row->row);
	int err = buf__printf(out, "%s ", report_names[limit->what]) ?: diff__put_key(out, &key) ?: buf__puts(out, ": ");

	if (row->only == DIFF_ONLY_AFTER)
		return err ?: buf__printf(out, "new, %.3f s", diff__mean_time(diff, row->row, true) / 1e9);
	return err ?: put_values(out, diff, limit, &row->comparison);
}

/* Where one limit is exceeded. *ret_known: something can be said; a table without rows has nothing that could have grown, nor has one
 * whose rows all grew too little to count. */
static int judge(const struct diff *diff, const struct diff_limit *limit, double least, const char *before_line, FILE *out, struct diff_verdict *verdict,
		 bool *ret_known)
{
	const struct diff_table *table = limit->total ? NULL : &diff->tables[limit->what];
	double weight = table ? least * all_time(diff) : 0;
	uint32_t i, n = table ? table->n_rows : 1;
	bool all_light = true;
	_cleanup_(buf__free) struct buf line = {};
	int err = 0;

	*ret_known = !n;
	for (i = 0; i < n && !err; i++) {
		const struct diff_row *row = table ? &table->rows[i] : NULL;
		const struct comparison c = row ? row->comparison : diff__total(diff, (enum diff_total_kind)limit->what);
		bool new = row && row->only == DIFF_ONLY_AFTER, judged = c.margin >= 0 && !(row && row->too_few);

		*ret_known |= new || judged;
		all_light &= c.change < weight;
		if (!new && !(judged && exceeds(&c, limit->growth)))
			continue;
		if (c.change < weight) {
			verdict->light++;
			continue;
		}
		verdict->exceeded++;
		buf__clear(&line);
		err = row ? put_row(&line, diff, limit, row) : put_total(&line, diff, limit, &c);
		err = err ?: put_line(out, before_line, &line);
	}
	*ret_known |= all_light && weight > 0;
	return err;
}

int diff__judge(const struct diff *diff, const struct diff_limits *limits, const char *before_line, FILE *out, struct diff_verdict *ret)
{
	int err = 0;

	*ret = (struct diff_verdict){};
	for (uint32_t i = 0; i < limits->n && !err; i++) {
		const struct diff_limit *limit = &limits->items[i];
		bool known;

		err = judge(diff, limit, limits->least, before_line, out, ret, &known);
		if (!known && !ret->unknown)
			ret->unknown = diff_limit__name(limit);
	}
	return err;
}
