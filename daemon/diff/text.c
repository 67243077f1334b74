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
		double time = 0;
		uint32_t cell;

		for (cell = 0; cell < recording->n_cells; cell++)
			time += recording->time[cell];
		fprintf(out, "%s  %s: %s (%d)\n        %" PRIu64 " samples at %u Hz in %.3f s: %.3f s of %s%s\n",
			recording->after ? "after " : "before", recording->name, *recording->command ? recording->command : "?",
			recording->pid, recording->samples, recording->rate, (double)recording->span / 1e9, time / 1e9,
			diff->wall ? "wall time" : "CPU time", recording->cut ? "; it ends in the middle" : "");
	}
}

static void put_row(const struct diff *diff, const struct diff_row *row, FILE *out)
{
	struct diff_key key = diff__key(diff, row->row);
	const struct comparison *c = &row->comparison;
	char name[1024], range[64] = "", ratio[32] = "";

	if (c->margin >= 0)
		snprintf(range, sizeof(range), "%+.2f to %+.2f", 100 * (c->change - c->margin), 100 * (c->change + c->margin));
	if (c->before > 0 && c->after > 0)
		snprintf(ratio, sizeof(ratio), "x%.3f", c->after / c->before);
	fprintf(out, "%9.2f %9.2f %+9.2f  %18s %8s  %-5s ", 100 * c->before, 100 * c->after, 100 * c->change, range, ratio,
		words_of(row));
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

	fprintf(out, "\nby %s: %u of %u rows differ", report_names[by], table->n_differ, table->n_rows - table->n_too_few);
	if (table->n_too_few)
		fprintf(out, "; %u more have fewer than %u samples and were not compared", table->n_too_few, DIFF_SAMPLES_MIN);
	fputc('\n', out);
	if (!n || !table->n_rows)
		return;
	fprintf(out, "%9s %9s %9s  %18s %8s        %s\n", "before %", "after %", "change", "surely", "", report_names[by]);
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
	fprintf(out, "shares of the %s, %s; a row differs when that is sure to %.6g %%\n", diff->wall ? "wall time" : "CPU time",
		diff->options->inclusive ? "inclusive" : "exclusive", 100 * diff->options->level);
	for (by = 0; by < REPORT_BY_COUNT; by++) {
		if (!diff__wants(diff, (enum report_by)by) || !diff->tables[by].n_rows)
			continue;
		put_table(diff, (enum report_by)by, out);
		for (i = 0; i < diff->tables[by].n_rows; i++)
			unknown |= !diff->tables[by].rows[i].too_few && diff->tables[by].rows[i].comparison.margin < 0;
	}
	if (unknown)
		fputs("\nA recording is too short to tell how much its shares vary: record for longer, or several times a side.\n",
		      out);
	fputs("\nChanges are percentage points of the time. How sure they are comes from how blocks of each recording vary,\n"
	      "and recordings of one side among each other; with one recording a side, what differs from one run to the\n"
	      "next for no reason counts as a change.\n",
	      out);
	if (fflush(out) || ferror(out))
		return errno ? -errno : -EIO;
	return 0;
}
