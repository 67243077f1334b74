/* SPDX-License-Identifier: MIT */
/* Limits of growth: reads them, and judges a finished comparison by them.
 *
 *     total>3%     all CPU time (in wall mode, all time) of a side's recordings, on average
 *     unit>5%      each compile's row, as the table has it: its share, or its time for each outermost compile
 *
 * Totals need two recordings a side, as one says nothing of how runs differ. */
#include "diff/gate.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/safe_text.h"
#include "base/stream.h"
#include "diff/internal.h"

static bool find_what(const char *name, size_t len, struct diff_limit *ret)
{
	static const char *const totals[DIFF_TOTALS] = {
		[DIFF_TOTAL_TIME] = "total", [DIFF_TOTAL_SPAN] = "elapsed", [DIFF_TOTAL_COMPILES] = "compiles", [DIFF_TOTAL_COMPILING] = "compiling"};
	int i;

	for (i = 0; i < DIFF_TOTALS; i++)
		if (strlen(totals[i]) == len && !strncmp(totals[i], name, len)) {
			*ret = (struct diff_limit){.total = true, .what = i};
			return true;
		}
	for (i = 0; i < REPORT_BY_COUNT; i++)
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

uint32_t diff_limits__tables(const struct diff_limits *limits)
{
	uint32_t tables = 0, i;

	for (i = 0; i < limits->n; i++)
		tables |= limits->items[i].total ? 0 : 1u << limits->items[i].what;
	return tables;
}

/* --- judging --- */

static bool exceeds(const struct comparison *c, double growth)
{
	return c->margin >= 0 && c->change - c->margin > growth * c->before && c->change > 0;
}

/* "12.400 % -> 15.000 %", "1.200 s -> 1.400 s". */
static int put_values(struct buf *out, const struct diff *diff, const struct diff_limit *limit, const struct comparison *c)
{
	bool count = limit->total && limit->what == DIFF_TOTAL_COMPILES;
	const char *unit = count ? "" : limit->total ? " s" : diff->per == DIFF_SHARE ? " %" : " ms";
	double scale = count ? 1 : limit->total ? 1e-9 : diff->per == DIFF_SHARE ? 100 : 1e-6;
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

static int judge_total(const struct diff *diff, const struct diff_limit *limit, struct buf *line, bool *ret_known, bool *ret_exceeds)
{
	const struct comparison c = diff__total(diff, (enum diff_total_kind)limit->what);
	const char *words = diff_total_names[limit->what].words;

	*ret_known = c.margin >= 0;
	*ret_exceeds = exceeds(&c, limit->growth);
	buf__clear(line);
	return buf__printf(line, "%s: ", limit->what == DIFF_TOTAL_COMPILING ? "time of compiles" : words ?: diff->wall ? "all time" : "CPU time") ?:
	       put_values(line, diff, limit, &c);
}

static int judge_row(const struct diff *diff, const struct diff_limit *limit, const struct diff_row *row, struct buf *line, bool *ret_exceeds)
{
	struct diff_key key = diff__key(diff, row->row);
	bool new = row->only == DIFF_ONLY_AFTER;
	int err;

	*ret_exceeds = new || (!row->too_few && exceeds(&row->comparison, limit->growth));
	buf__clear(line);
	err = buf__printf(line, "%s ", report_names[limit->what]) ?: diff__put_key(line, &key) ?: buf__puts(line, ": ");
	return err ?: new ? buf__printf(line, "new, %.3f s", diff__mean_time(diff, row->row, true) / 1e9) : put_values(line, diff, limit, &row->comparison);
}

int diff__judge(const struct diff *diff, const struct diff_limits *limits, const char *before_line, FILE *out, struct diff_verdict *ret)
{
	struct buf line = {};
	uint32_t i, row;
	int err = 0;

	*ret = (struct diff_verdict){};
	for (i = 0; i < limits->n && !err; i++) {
		const struct diff_limit *limit = &limits->items[i];
		const struct diff_table *table = limit->total ? NULL : &diff->tables[limit->what];
		uint32_t n = table ? table->n_rows : 1;
		bool known = false, more;

		for (row = 0; row < n && !err; row++) {
			if (table) {
				err = judge_row(diff, limit, &table->rows[row], &line, &more);
				known |= more || (!table->rows[row].too_few && table->rows[row].comparison.margin >= 0);
			} else {
				err = judge_total(diff, limit, &line, &known, &more);
			}
			if (err || !more)
				continue;
			ret->exceeded++;
			err = put_line(out, before_line, &line);
		}
		/* A table without rows has nothing that could have grown. */
		if (!known && n && !ret->unknown)
			ret->unknown = table ? report_names[limit->what] : limit->what == DIFF_TOTAL_COMPILES ? "compiles" : "total";
	}
	buf__free(&line);
	return err;
}
