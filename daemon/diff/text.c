/* SPDX-License-Identifier: MIT */
/* The comparison as text: totals, one table after another, a verdict, and notes on certainty.
 *
 *     by phase: 1 of 12 rows differ
 *      before s   after s   before %   after %    change              interval    ratio
 *         1.234     1.890     15.540    23.800    +8.260     +6.100 to +10.420   x1.532  more    typing
 *
 * A narrow terminal has no seconds, then no ratio either, and half of the interval (+-2.160) for both ends of it. */
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/safe_text.h"
#include "base/stream.h"
#include "base/style.h"
#include "diff/internal.h"
#include "report/fit.h"

/* Columns of names and of sentences without a terminal. */
#define NAME_WIDTH 72
#define NOTE_WIDTH 118
/* A terminal that is narrower has fewer columns. */
#define SECONDS_WIDTH 130
#define RANGE_WIDTH 110
#define NAME_LEAST 24

static bool is_narrow(const struct diff *diff, int width)
{
	return diff->options->width && diff->options->width < width;
}

static bool has_seconds(const struct diff *diff)
{
	return diff->per == DIFF_SHARE && !is_narrow(diff, SECONDS_WIDTH);
}

/* Sentences, broken between words. */
__attribute__((format(printf, 3, 4))) static void put_note(const struct diff *diff, FILE *out, const char *format, ...)
{
	_cleanup_free_ char *text = NULL;
	va_list list;
	int len;

	va_start(list, format);
	len = vasprintf(&text, format, list);
	va_end(list);
	if (len >= 0)
		fit__lines(out, text, diff->options->width ?: NOTE_WIDTH);
	else
		text = NULL;
}

/* What three digits show as 0 has no sign. */
static double plain(double number)
{
	return fabs(number) < 0.0005 ? 0 : number;
}

static double shown(const struct diff *diff, double value)
{
	return plain(diff__scale(diff) * value);
}

/* The name at the end of a row, from column `at` on. */
static void put_name(const struct diff *diff, const char *name, int at, FILE *out)
{
	int width = NAME_WIDTH;

	if (is_narrow(diff, at + NAME_WIDTH))
		width = diff->options->width - at > NAME_LEAST ? diff->options->width - at : NAME_LEAST;
	fit__name(out, name, -width);
}

/* What a change may be, and its ratio. `change` NULL: the columns' heads. Returns their width. */
static int put_interval(const struct diff *diff, const struct comparison *change, double most, double scale, int digits, FILE *out)
{
	const bool narrow = is_narrow(diff, RANGE_WIDTH);
	char range[64] = "", ratio[32] = "";
	double low, high;

	if (!change) {
		snprintf(range, sizeof(range), "%s", narrow ? "+-" : "interval");
	} else if (change->margin >= 0 && narrow) {
		snprintf(range, sizeof(range), "%.*f", digits, scale * change->margin);
	} else if (change->margin >= 0) {
		comparison__range(change, most, &low, &high);
		snprintf(range, sizeof(range), "%+.*f to %+.*f", digits, plain(scale * low), digits, plain(scale * high));
	}
	if (change && change->before > 0 && change->after > 0)
		snprintf(ratio, sizeof(ratio), "x%.3f", change->after / change->before);
	return narrow ? fprintf(out, " %8s  ", range) : fprintf(out, "  %20s %8s  ", range, ratio);
}

/* The verdict on a row, most specific first. "": nothing is sure, which is the usual case and needs no word. */
static const char *words_of(const struct diff_row *row)
{
	const struct comparison *c = &row->comparison;

	if (row->only)
		return row->only == DIFF_ONLY_BEFORE ? "gone" : "new";
	if (row->too_few)
		return "too few";
	if (c->margin < 0)
		return "unknown";
	if (!c->differs)
		return "";
	return c->change > 0 ? "more" : "less";
}

/* The verdict on a row, coloured if it differs. */
static void put_word(FILE *out, const char *word, int width)
{
	bool more = !strcmp(word, "more") || !strcmp(word, "new"), less = !strcmp(word, "less") || !strcmp(word, "gone");

	if (more || less)
		style__begin(out, more ? STYLE_MORE : STYLE_LESS);
	fprintf(out, "%-*s", width, word);
	if (more || less)
		style__end(out);
}

static void put_recordings(const struct diff *diff, FILE *out)
{
	for (uint32_t i = 0; i < diff->read; i++) {
		const struct diff_recording *recording = &diff->recordings[i];

		fputs(recording->after ? "after   " : "before  ", out);
		safe_text__put(out, recording->name);
		fprintf(out,
			": %s (%d)\n        %" PRIu64
			" samples at %u Hz in %.3f s: %.3f s of %s, %" PRIu64
			" outermost compile%s%s\n",
			*recording->command ? recording->command : "?", recording->pid,
			recording->samples, recording->rate, (double)recording->span / 1e9,
			(double)recording->time / 1e9, diff->wall ? "wall time" : "CPU time",
			recording->compiles, recording->compiles == 1 ? "" : "s", recording->cut ? "; it ends in the middle" : "");
		if (diff->per == DIFF_COMPILE && recording->compiles_cut)
			fprintf(out, "        %" PRIu64 " of these it has not from begin to end: left out\n", recording->compiles_cut);
	}
}

/* Nothing in the samples tells a slower machine from a slower program. */
static void put_machines(const struct diff *diff, FILE *out)
{
	const char *first, *other = diff__other_machine(diff, &first);

	if (other)
		put_note(diff, out, "Not all are of one machine: %s; %s. What differs may be the machine.\n", *first ? first : "not known", *other ? other : "not known");
}

static void put_total(const struct diff *diff, enum diff_total_kind kind, FILE *out)
{
	const struct comparison total = diff__total(diff, kind);
	bool count = kind == DIFF_TOTAL_COMPILES;
	double unit = count ? 1 : 1e9;
	int digits = count ? 1 : 3;
	char name[64];
	int at;

	at = fprintf(out, "%9.*f %9.*f %+9.*f", digits, total.before / unit, digits, total.after / unit, digits, total.change / unit);
	at += put_interval(diff, &total, 0, 1 / unit, digits, out);
	put_word(out, !total.differs ? "" : total.change > 0 ? "more" : "less", 5);
	snprintf(name, sizeof(name), "%s%s", diff__total_words(diff, kind), count ? "" : ", s");
	fputc(' ', out);
	put_name(diff, name, at + 6, out);
	fputc('\n', out);
}

/* Totals come before all rows: shares do not show whether everything became slower. */
static void put_totals(const struct diff *diff, FILE *out)
{
	bool compiles = diff__total(diff, DIFF_TOTAL_COMPILES).before > 0 || diff__total(diff, DIFF_TOTAL_COMPILES).after > 0;

	fprintf(out, "\n%9s %9s %9s", "before", "after", "change");
	put_interval(diff, NULL, 0, 1, 0, out);
	fprintf(out, "%5s per recording\n", "");
	for (int kind = 0; kind < DIFF_TOTALS; kind++)
		if (compiles || kind < DIFF_TOTAL_COMPILES)
			put_total(diff, kind, out);
	if (diff__total(diff, DIFF_TOTAL_TIME).margin < 0)
		put_note(diff, out, "With two recordings a side or more, it is known how sure these changes are.\n");
	fputc('\n', out);
}

/* Columns relative to the rest: ratio, its interval, verdict. NULL: their heads. Returns their width. */
static int put_rest(const struct diff *diff, const struct rest_change *rest, FILE *out)
{
	const bool narrow = is_narrow(diff, RANGE_WIDTH), known = rest && rest->known;
	char range[32] = "", ratio[16] = "";
	int at;

	if (known) {
		snprintf(ratio, sizeof(ratio), "x%.3f", rest->ratio);
		snprintf(range, sizeof(range), "x%.3f to x%.3f", rest->low, rest->high);
	}
	at = fprintf(out, "%8s ", rest ? ratio : "to rest");
	if (!narrow)
		at += fprintf(out, " %18s ", rest ? range : "interval");
	put_word(out, !rest || !rest->differs ? "" : rest->ratio > 1 ? "more" : "less", 4);
	return at + 4 + fprintf(out, "  ");
}

static void put_row(const struct diff *diff, const struct diff_row *row, bool rest, FILE *out)
{
	struct diff_key key = diff__key(diff, row->row);
	const struct comparison *c = &row->comparison;
	char name[1024];
	int at = 0;

	if (has_seconds(diff))
		at += fprintf(out, "%9.3f %9.3f  ", diff__mean_time(diff, row->row, false) / 1e9, diff__mean_time(diff, row->row, true) / 1e9);
	at += fprintf(out, "%9.3f %9.3f %+9.3f", shown(diff, c->before), shown(diff, c->after), shown(diff, c->change));
	at += put_interval(diff, c, diff__most(diff), diff__scale(diff), 3, out);
	put_word(out, words_of(row), 7);
	fputc(' ', out);
	at += 8 + (rest ? put_rest(diff, &row->rest, out) : 0);
	snprintf(name, sizeof(name), key.by == REPORT_UNIT && *key.name != '(' ? "%s(%s)" : "%s", key.name, key.detail);
	if ((key.by == REPORT_FUNCTION || key.by == REPORT_LINE) && !is_narrow(diff, at + NAME_WIDTH)) {
		fit__name(out, name, NAME_WIDTH - 16);
		style__begin(out, STYLE_DIM);
		fprintf(out, "  %s", key.module);
		if (key.line)
			fprintf(out, ":%u", key.line);
		style__end(out);
	} else {
		size_t len = strlen(name);

		if (key.line)
			snprintf(name + len, sizeof(name) - len, ":%u", key.line);
		put_name(diff, name, at, out);
	}
	fputc('\n', out);
}

/* How large a change must be to be detected: the median and the largest margin of the rows that matter. */
#define MATTERS 0.01 /* of the heaviest row */

struct sight {
	double middle, worst;
	struct diff_key key; /* of the worst */
	uint32_t n;
};

static int rising(const void *left, const void *right)
{
	const double *a = left, *b = right;

	return *a < *b ? -1 : *a > *b;
}

static double weight_of(const struct diff_row *row)
{
	return row->too_few || row->comparison.margin < 0 ? 0 : fmax(row->comparison.before, row->comparison.after);
}

/* Over all tables, as a reader wants to know the method's resolution, not a table's. `middle`: the median. */
static int see(const struct diff *diff, struct sight *ret)
{
	_cleanup_free_ double *margins = NULL;
	double heaviest = 0;
	uint32_t i, n = 0;

	*ret = (struct sight){};
	for (int by = 0; by < REPORT_BY_COUNT; by++)
		for (i = 0; i < diff->tables[by].n_rows; i++, n++)
			heaviest = fmax(heaviest, weight_of(&diff->tables[by].rows[i]));
	margins = calloc(n + 1, sizeof(*margins));
	if (!margins)
		return -ENOMEM;
	for (int by = 0; by < REPORT_BY_COUNT; by++)
		for (i = 0; i < diff->tables[by].n_rows; i++) {
			const struct diff_row *row = &diff->tables[by].rows[i];

			if (!weight_of(row) || weight_of(row) < MATTERS * heaviest)
				continue;
			margins[ret->n++] = row->comparison.margin;
			if (row->comparison.margin <= ret->worst)
				continue;
			ret->worst = row->comparison.margin;
			ret->key = diff__key(diff, row->row);
		}
	qsort(margins, ret->n, sizeof(*margins), rising);
	ret->middle = margins[ret->n / 2];
	return 0;
}

/* What was compared, and how many rows have an unknown variance. */
struct compared {
	uint32_t rows, unknown, differ, too_few;
	uint32_t rest, rest_differ; /* relative to the rest */
	uint32_t only[3];           /* by enum diff_only */
};

static void put_only(const uint32_t only[3], FILE *out)
{
	if (only[DIFF_ONLY_BEFORE])
		fprintf(out, ", %u %s gone", only[DIFF_ONLY_BEFORE], only[DIFF_ONLY_BEFORE] == 1 ? "is" : "are");
	if (only[DIFF_ONLY_AFTER])
		fprintf(out, ", %u %s new", only[DIFF_ONLY_AFTER], only[DIFF_ONLY_AFTER] == 1 ? "is" : "are");
}

static struct compared count(const struct diff_table *table)
{
	struct compared ret = {table->n_rows - table->n_too_few, 0, table->n_differ, table->n_too_few, table->n_rest, table->n_rest_differ, {}};

	memcpy(ret.only, table->n_only, sizeof(ret.only));
	for (uint32_t i = 0; i < table->n_rows; i++)
		ret.unknown += !table->rows[i].too_few && table->rows[i].comparison.margin < 0;
	return ret;
}

static void put_table(const struct diff *diff, enum report_by by, FILE *out)
{
	const struct diff_table *table = &diff->tables[by];
	const struct compared compared = count(table);
	uint32_t i, n = diff->options->top ? diff->options->top : table->n_either;

	fputc('\n', out);
	style__begin(out, STYLE_HEAD);
	fprintf(out, "by %s", report_names[by]);
	style__end(out);
	fputs(": ", out);
	if (!compared.rows)
		fputs("nothing could be compared", out);
	else if (compared.unknown == compared.rows)
		fprintf(out, "%u row%s, of which it is not known whether they differ", compared.rows, compared.rows == 1 ? "" : "s");
	else
		fprintf(out, "%u of %u rows differ", compared.differ, compared.rows);
	put_only(compared.only, out);
	if (compared.rest)
		fprintf(out, ", %u of %u against the rest", compared.rest_differ, compared.rest);
	if (compared.too_few)
		fprintf(out, "; %u%s have fewer than %u samples", compared.too_few, compared.rows ? " more" : "", DIFF_SAMPLES_MIN);
	fputc('\n', out);
	if (!n || !table->n_rows)
		return;
	style__begin(out, STYLE_DIM);
	if (has_seconds(diff))
		fprintf(out, "%9s %9s  ", "before s", "after s");
	fprintf(out, "%9s %9s %9s", diff->per == DIFF_SHARE ? "before %" : "before ms", diff->per == DIFF_SHARE ? "after %" : "after ms", "change");
	put_interval(diff, NULL, 0, 1, 0, out);
	fprintf(out, "%8s", "");
	if (compared.rest)
		put_rest(diff, NULL, out);
	fputs(report_names[by], out);
	style__end(out);
	fputc('\n', out);
	for (i = 0; i < table->n_rows && i < n; i++)
		put_row(diff, &table->rows[i], compared.rest, out);
}

static bool totals_differ(const struct diff *diff)
{
	bool differ = false;

	for (int kind = 0; kind < DIFF_TOTALS; kind++)
		differ |= diff__total(diff, kind).differs;
	return differ;
}

/* One sentence, if no table has a row to show. */
static void put_verdict(const struct diff *diff, const struct compared *all, FILE *out)
{
	if (!all->rows)
		put_note(diff, out, "\nNothing could be compared: no row has %u samples on both sides together. Record for longer.\n",
			DIFF_SAMPLES_MIN);
	else if (all->unknown == all->rows)
		put_note(diff, out,
			 "\nWhether anything differs is not known: a recording is too short to tell how much it varies. Record for longer, "
			 "or several times a side.\n");
	else if (!all->differ && !all->rest_differ && !all->only[DIFF_ONLY_BEFORE] && !all->only[DIFF_ONLY_AFTER] && !totals_differ(diff))
		put_note(diff, out, "\nNothing surely differs: %u row%s compared.%s This does not say that they are equal.\n",
			all->rows - all->unknown, all->rows - all->unknown == 1 ? " was" : "s were",
			diff->options->top ? "" : " --top 10 shows the heaviest all the same.");
	if (all->unknown && all->unknown < all->rows)
		put_note(diff, out,
			 "\nOf some rows a recording is too short to tell how much they vary: record for longer, or several times a side.\n");
}

static void put_sight(const struct diff *diff, FILE *out)
{
	const char *unit = diff->per == DIFF_SHARE ? "points" : "ms a compile";
	struct sight sight;

	if (see(diff, &sight) || !sight.n)
		return;
	put_note(diff, out,
		 "\nOf these recordings, a change can be distinguished from chance if it is larger than %.2g %s (half of the rows that weigh "
		 "something), and than %.2g %s in all of them, the widest: %s %s. More recordings a side, or longer ones, see smaller "
		 "changes. What a program does once (it starts, it imports) or in turn is seen as chance, and makes this large: leave it "
		 "out with --window, or record it several times a side.\n",
		 shown(diff, sight.middle), unit, shown(diff, sight.worst), unit, report_names[sight.key.by], sight.key.name);
}

/* Which time the shares are of, when the garbage collector is a row of its own. */
static void put_base(const struct diff *diff, FILE *out)
{
	uint64_t collector[2] = {}, time[2] = {};

	for (uint32_t i = 0; i < diff->read; i++) {
		collector[diff->recordings[i].after] += diff->recordings[i].collector;
		time[diff->recordings[i].after] += diff->recordings[i].time;
	}
	if (!(collector[0] + collector[1]) || !time[0] || !time[1])
		return;
	if (diff->per != DIFF_SHARE) {
		put_note(diff, out, "  the time of " CLASS_COLLECTOR " is in its own row of class, and in the compiles' (unit): in no other row\n");
		return;
	}
	put_note(diff, out,
		 "  " CLASS_COLLECTOR " is a share of all of it; every other row is a share of the time without " CLASS_COLLECTOR
		 " (%.3f s before, %.3f s after), so that a column with " CLASS_COLLECTOR
		 " is more than 100 %%, and shares are larger than those of `cprofd report`\n",
		 (double)(time[0] - collector[0]) / 1e9, (double)(time[1] - collector[1]) / 1e9);
}

static void put_rest_note(const struct diff *diff, bool known, FILE *out)
{
	if (known)
		put_note(diff, out,
			 "`to rest` is a row's time after to that before, beside all else: a machine that was slower for both has no part in it. "
			 "If a row that is much of the time changes, `to rest` of all others changes the other way.\n");
	else if (diff->per == DIFF_COMPILE)
		put_note(diff, out, "With %d recordings a side or more, rows are also compared with the rest: without the machine's own speed.\n",
			ESTIMATE_BESIDE_MIN);
}

static int put_all(void *of, FILE *out)
{
	const struct diff *diff = *(const struct diff **)of;
	struct compared all = {};

	errno = 0;
	put_recordings(diff, out);
	put_machines(diff, out);
	put_totals(diff, out);
	fprintf(out, "%s%s%s, %s; a row differs when that is sure to %.6g %%\n",
		diff->per == DIFF_SHARE ? "shares of the " : "milliseconds of ",
		diff->wall ? "wall time" : "CPU time",
		diff->per == DIFF_SHARE ? "" : " for each outermost compile",
		diff->options->inclusive ? "inclusive" : "exclusive", 100 * diff->options->level);
	put_base(diff, out);
	for (int by = 0; by < REPORT_BY_COUNT; by++) {
		struct compared compared;

		if (!diff__wants(diff, (enum report_by)by) || !diff->tables[by].n_rows)
			continue;
		put_table(diff, (enum report_by)by, out);
		compared = count(&diff->tables[by]);
		all.rows += compared.rows;
		all.unknown += compared.unknown;
		all.differ += compared.differ;
		all.only[DIFF_ONLY_BEFORE] += compared.only[DIFF_ONLY_BEFORE];
		all.only[DIFF_ONLY_AFTER] += compared.only[DIFF_ONLY_AFTER];
		all.rest += compared.rest;
		all.rest_differ += compared.rest_differ;
	}
	put_verdict(diff, &all, out);
	put_sight(diff, out);
	put_note(diff, out,
		 "\nChanges are %s. How sure they are comes from how blocks of each recording vary, and recordings of one side among each "
		 "other; with one recording a side, what differs from one run to the next for no reason counts as a change.\n",
		 diff->per == DIFF_SHARE ? "percentage points of the time" : "milliseconds a compile");
	if (all.only[DIFF_ONLY_BEFORE] || all.only[DIFF_ONLY_AFTER])
		put_note(diff, out, "`gone` and `new`: every recording of one side has it, none of the other.\n");
	put_rest_note(diff, all.rest, out);
	return stream__flush(out);
}

int diff__text(const struct diff *diff, FILE *out)
{
	return fit__terminal(diff->options->width, put_all, &diff, out);
}
