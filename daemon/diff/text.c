/* The difference for people. */
#include <errno.h>
#include <inttypes.h>

#include "diff/internal.h"
#include "report/fit.h"

#define NAME_WIDTH 72

static const char *words_of(const struct diff_row *row)
{
	const struct comparison *c = &row->comparison;

	if (row->too_few)
		return "too few samples";
	if (c->margin < 0)
		return "not known";
	if (!c->differs)
		return "";
	return c->change > 0 ? "more" : "less";
}

static void put_recordings(const struct diff *diff, FILE *out)
{
	uint32_t i;

	for (i = 0; i < diff->read; i++) {
		const struct diff_recording *recording = &diff->recordings[i];

		fprintf(out,
			"%s  %s: %s (%d)\n        %" PRIu64
			" samples at %u Hz in %.3f s: %.3f s of %s, %" PRIu64
			" outermost compiles%s\n",
			recording->after ? "after " : "before", recording->name,
			*recording->command ? recording->command : "?", recording->pid,
			recording->samples, recording->rate, (double)recording->span / 1e9,
			(double)recording->time / 1e9, diff->wall ? "wall time" : "CPU time",
			recording->compiles, recording->cut ? "; it ends in the middle" : "");
	}
}

/* Percent, or ms a compile. */
static double shown(const struct diff *diff, double value)
{
	return diff->per == DIFF_SHARE ? 100 * value : value / 1e6;
}

static void put_row(const struct diff *diff, const struct diff_row *row, FILE *out)
{
	struct diff_key key = diff__key(diff, row->row);
	const struct comparison *c = &row->comparison;
	char name[1024], range[64] = "", ratio[32] = "";

	if (c->margin >= 0)
		snprintf(range, sizeof(range), "%+.3f to %+.3f", shown(diff, c->change - c->margin),
			 shown(diff, c->change + c->margin));
	if (c->before > 0 && c->after > 0)
		snprintf(ratio, sizeof(ratio), "x%.3f", c->after / c->before);
	fprintf(out, "%9.3f %9.3f %+9.3f  %20s %8s  %-5s ", shown(diff, c->before),
		shown(diff, c->after), shown(diff, c->change), range, ratio, words_of(row));
	snprintf(name, sizeof(name), key.by == REPORT_UNIT ? "%s(%s)" : "%s", key.name, key.detail);
	if (key.by == REPORT_FUNCTION || key.by == REPORT_LINE) {
		fit__name(out, name, NAME_WIDTH - 16);
		fprintf(out, "  %s", key.place);
		if (key.line)
			fprintf(out, ":%u", key.line);
	} else {
		fit__name(out, name, -NAME_WIDTH);
	}
	fputc('\n', out);
}

static void put_table(const struct diff *diff, enum report_by by, FILE *out)
{
	const struct diff_table *table = &diff->tables[by];
	uint32_t i, n = diff->options->top ? diff->options->top : table->n_differ;

	fprintf(out, "\nby %s: %u of %u rows differ", report_names[by], table->n_differ,
		table->n_rows - table->n_too_few);
	if (table->n_too_few)
		fprintf(out, "; %u more have fewer than %u samples and were not compared",
			table->n_too_few, DIFF_SAMPLES_MIN);
	fputc('\n', out);
	if (!n || !table->n_rows)
		return;
	fprintf(out, "%9s %9s %9s  %20s %8s        %s\n",
		diff->per == DIFF_SHARE ? "before %" : "before ms",
		diff->per == DIFF_SHARE ? "after %" : "after ms", "change", "surely", "",
		report_names[by]);
	for (i = 0; i < table->n_rows && i < n; i++)
		put_row(diff, &table->rows[i], out);
}

int diff__text(const struct diff *diff, FILE *out)
{
	bool unknown = false;
	uint32_t i;
	int by;

	errno = 0;
	put_recordings(diff, out);
	fprintf(out, "%s%s%s, %s; a row differs when that is sure to %.6g %%\n",
		diff->per == DIFF_SHARE ? "shares of the " : "milliseconds of ",
		diff->wall ? "wall time" : "CPU time",
		diff->per == DIFF_SHARE ? "" : " for each outermost compile",
		diff->options->inclusive ? "inclusive" : "exclusive", 100 * diff->options->level);
	for (by = 0; by < REPORT_BY_COUNT; by++) {
		if (!diff__wants(diff, (enum report_by)by) || !diff->tables[by].n_rows)
			continue;
		put_table(diff, (enum report_by)by, out);
		for (i = 0; i < diff->tables[by].n_rows; i++)
			unknown |= !diff->tables[by].rows[i].too_few &&
				   diff->tables[by].rows[i].comparison.margin < 0;
	}
	if (unknown)
		fputs("\nA recording is too short to tell how much it varies: record for longer, "
		      "or several times a side.\n",
		      out);
	fprintf(out,
		"\nChanges are %s. How sure they are comes from how blocks of each recording vary, "
		"and\n"
		"recordings of one side among each other; with one recording a side, what differs "
		"from one run to the next for\n"
		"no reason counts as a change.\n",
		diff->per == DIFF_SHARE ? "percentage points of the time"
					: "milliseconds a compile");
	if (fflush(out) || ferror(out))
		return errno ? -errno : -EIO;
	return 0;
}
