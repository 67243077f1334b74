/* SPDX-License-Identifier: MIT */
/* The comparison in Markdown, for the comment of a merge request:
 *
 *     **cprofd diff: 1 above the limit**
 *     - `unit foo(int64): 12.400 % -> 15.000 %, +21.0 %, surely more than +8.1 % (limit 5 %)`
 *
 *     | | before | after | change | surely |
 *     |---|--:|--:|--:|---|
 *     | CPU time | 1.234 s | 1.300 s | +5.3 % | +1.0 to +9.6 % |
 *
 * Names come from anybody's program: they are code spans, in which nothing is markup. */
#include <string.h>

#include "base/cleanup.h"
#include "base/stream.h"
#include "diff/gate.h"
#include "diff/internal.h"

#define ROWS_MAX 20u

/* A code span: a backtick would end it, and '|' a cell of the table. */
static int put_code(struct buf *out, const char *text)
{
	int err = buf__puts(out, "`");

	for (; *text && !err; text++)
		err = *text == '`' ? buf__puts(out, "'") : *text == '|' ? buf__puts(out, "\\|") : buf__append(out, text, 1);
	return err ?: buf__puts(out, "`");
}

/* Cells of a change; `scale` makes the unit of its values. */
static int put_change(struct buf *out, const struct diff *diff, const struct comparison *c, double scale, const char *unit, double most)
{
	double low, high;
	int err = buf__printf(out, " | %.3f%s | %.3f%s | ", scale * c->before, unit, scale * c->after, unit);

	if (c->before > 0)
		err = err ?: buf__printf(out, "%+.1f %%", 100 * c->change / c->before);
	err = err ?: buf__puts(out, " | ");
	if (c->margin < 0 || c->before <= 0)
		return err ?: buf__puts(out, "|\n");
	comparison__range(c, most, &low, &high);
	return err ?: buf__printf(out, "%+.1f to %+.1f %%%s |\n", 100 * low / c->before, 100 * high / c->before, c->differs ? "" : " (not sure)");
}

static int put_head(struct buf *out, const char *what)
{
	return buf__printf(out, "\n| %s | before | after | change | surely |\n|---|--:|--:|--:|---|\n", what);
}

static int put_totals(struct buf *out, const struct diff *diff)
{
	int kind, err = put_head(out, "");

	for (kind = 0; kind < DIFF_TOTALS && !err; kind++) {
		const struct comparison c = diff__total(diff, (enum diff_total_kind)kind);

		err = buf__printf(out, "| %s", diff__total_words(diff, (enum diff_total_kind)kind));
		err = err ?: put_change(out, diff, &c, diff__total_scale((enum diff_total_kind)kind), diff__total_unit((enum diff_total_kind)kind), 0);
	}
	return err;
}

static int put_machines(struct buf *out, const struct diff *diff)
{
	const char *first, *other = diff__other_machine(diff, &first);

	if (!other)
		return 0;
	return buf__puts(out, "\nNot all recordings are of one machine: ") ?: put_code(out, *first ? first : "not known") ?: buf__puts(out, "; ")
	       ?: put_code(out, *other ? other : "not known") ?: buf__puts(out, ". What differs may be the machine.\n");
}

/* The rows that differ stand first. */
static int put_table(struct buf *out, const struct diff *diff, enum report_by by)
{
	const struct diff_table *table = &diff->tables[by];
	_cleanup_(buf__free) struct buf name = {};
	int err = 0;

	for (uint32_t i = 0; i < table->n_rows && i < (diff->options->top ?: ROWS_MAX) && !err; i++) {
		const struct diff_row *row = &table->rows[i];
		struct diff_key key = diff__key(diff, row->row);

		if (!diff->options->top && !row__differs(row))
			break;
		if (!i)
			err = put_head(out, report_names[by]);
		buf__clear(&name);
		err = err ?: diff__put_key(&name, &key) ?: buf__append(&name, "", 1);
		err = err ?: buf__puts(out, "| ") ?: put_code(out, name.data);
		if (row->only)
			err = err ?: buf__printf(out, " **%s**", row->only == DIFF_ONLY_AFTER ? "new" : "gone");
		err = err ?: put_change(out, diff, &row->comparison, diff__scale(diff), diff__unit(diff), diff__most(diff));
	}
	return err;
}

/* Lines of what exceeds a limit, each in a code span. */
static int put_verdict(struct buf *out, const struct diff *diff, const struct diff_limits *limits)
{
	_cleanup_free_ char *text = NULL;
	struct diff_verdict verdict;
	size_t len;
	char *line, *next;
	FILE *lines = open_memstream(&text, &len);
	int err = lines ? diff__judge(diff, limits, "", lines, &verdict) : -errno;

	if (lines && fclose(lines) && !err)
		err = -errno;
	if (err || !limits->n)
		return err ?: buf__puts(out, "**cprofd diff**\n");
	err = verdict.exceeded ? buf__printf(out, "**cprofd diff: %u above the limit**\n", verdict.exceeded)
	      : verdict.unknown ? buf__printf(out, "**cprofd diff: too few recordings to judge %s**\n", verdict.unknown)
				: buf__puts(out, "**cprofd diff: nothing surely grew by more than its limit**\n");
	for (line = text; *line && !err; line = next) {
		next = line + strcspn(line, "\n");
		if (*next)
			*next++ = '\0';
		err = buf__puts(out, "- ") ?: put_code(out, line) ?: buf__puts(out, "\n");
	}
	if (verdict.light)
		err = err ?: buf__printf(out, "\nNot counted: %u more, by less than %g %% of all time each.\n", verdict.light, 100 * limits->least);
	return err;
}

int diff__markdown(const struct diff *diff, const struct diff_limits *limits, FILE *out)
{
	_cleanup_(buf__free) struct buf text = {};
	int by, err = put_verdict(&text, diff, limits) ?: put_totals(&text, diff);

	for (by = 0; by < REPORT_BY_COUNT && !err; by++)
		if (diff__wants(diff, (enum report_by)by))
			err = put_table(&text, diff, (enum report_by)by);
	err = err ?: put_machines(&text, diff);
	err = err ?: buf__printf(&text, "\nTimes are %s, rows %s; \"surely\" is %g %%.\n", diff->wall ? "wall time" : "CPU time",
				 diff->per == DIFF_SHARE ? "shares of it" : "for each outermost compile", 100 * diff->options->level);
	return err ?: stream__write(out, text.data, text.len) ?: stream__flush(out);
}
