/* The report for people. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "report/internal.h"

#define NAME_WIDTH 56
#define FILE_WIDTH 52
#define LINES_OF_CALLEE 3

static double seconds(double ns)
{
	return ns / 1e9;
}

static double percent(double part, double whole)
{
	return whole > 0 ? 100 * part / whole : 0;
}

/* Padded to `width` letters; a longer one ends in an ellipsis. */
static void put_name(FILE *out, const char *name, int width)
{
	const char *at, *cut = name;
	int letters = 0;

	for (at = name; *at; at++) {
		letters += ((unsigned char)*at & 0xc0) != 0x80;
		if (letters <= width - 1)
			cut = at + 1;
	}
	if (letters <= width)
		fprintf(out, "%s%*s", name, width - letters, "");
	else
		fprintf(out, "%.*s\xe2\x80\xa6", (int)(cut - name), name);
}

/* The end of a path tells more than its begin. */
static const char *tail(const char *path)
{
	size_t len = strlen(path);
	const char *slash = len > FILE_WIDTH ? strchr(path + len - FILE_WIDTH, '/') : NULL;

	return len <= FILE_WIDTH ? path : slash ? slash + 1 : path + len - FILE_WIDTH;
}

static void put_file(const struct report *report, const struct report_file *file, FILE *out)
{
	const uint64_t waiting = file->wall - file->cpu;

	fprintf(out, "%s: %s (%d)\n", file->name, *file->command ? file->command : "?", file->pid);
	fprintf(out,
		"    %" PRIu64
		" samples at %u Hz in %.3f s: %.3f s of CPU in %u thread%s, %.3f s idle",
		file->samples, file->rate, seconds((double)file->span), seconds((double)file->cpu),
		file->threads, file->threads == 1 ? "" : "s",
		seconds((double)(file->wall > file->cpu ? waiting : 0)));
	if (file->samples)
		fprintf(out, "; whole stacks: %.2f %%",
			percent((double)file->whole, (double)file->samples));
	if (file->left_out.cpu || report->options->filter.class_name ||
	    report->options->filter.function || report->options->filter.module)
		fprintf(out,
			"\n    filtered: %.3f s of this CPU time are shown, %.3f s are left out",
			seconds((double)file->shown.cpu), seconds((double)file->left_out.cpu));
	if (file->cut)
		fputs("\n    the recording ends in the middle; everything up to there is counted",
		      out);
	fputc('\n', out);
}

static void put_place(const struct row_key *key, FILE *out)
{
	if (*key->file)
		fprintf(out, "  %s", tail(key->file));
	if (*key->file && key->line)
		fprintf(out, ":%u", key->line);
	if (*key->module)
		fprintf(out, "  %s", key->module);
}

static void put_times(const struct table *table, const struct rank *rank, bool inclusive_alone,
		      FILE *out)
{
	if (!inclusive_alone) {
		fprintf(out, "%10.3f", seconds(rank->exclusive));
		if (table->files > 1)
			fprintf(out, " \xc2\xb1%7.3f", seconds(rank->exclusive_sd));
		fprintf(out, " %6.2f", percent(rank->exclusive, table->total));
	}
	fprintf(out, "%11.3f", seconds(rank->inclusive));
	if (table->files > 1)
		fprintf(out, " \xc2\xb1%7.3f", seconds(rank->inclusive_sd));
	fprintf(out, " %6.2f", percent(rank->inclusive, table->total));
	if (!inclusive_alone)
		fprintf(out, " %9.2f", percent(rank->running, table->total));
	fputs("  ", out);
}

static void put_heads(const struct table *table, const char *what, bool inclusive_alone, FILE *out)
{
	const char *sd = table->files > 1 ? "       sd" : "";

	if (!inclusive_alone)
		fprintf(out, "%10s%s %6s", "exclusive", sd, "%");
	fprintf(out, "%11s%s %6s", inclusive_alone ? "seconds" : "inclusive", sd, "%");
	if (!inclusive_alone)
		fprintf(out, " %9s", "running %");
	fprintf(out, "  %s\n", what);
}

static int put_lines(struct report *report, uint32_t callee, const struct table *callees, FILE *out)
{
	struct table *lines = &report->callee_lines;
	int err = report__rank_lines(report, callee, LINES_OF_CALLEE);
	uint32_t i;

	for (i = 0; i < lines->n_ranks && !err; i++) {
		struct row_key key = table__key(lines, lines->ranks[i].row);

		fprintf(out, "%*s%6.2f %%  called by %s", callees->files > 1 ? 70 : 47, "",
			percent(lines->ranks[i].inclusive, callees->total), key.name);
		put_place(&key, out);
		fputc('\n', out);
	}
	return err;
}

static int put_table(struct report *report, struct table *table, FILE *out)
{
	/* Rows that share the time among them: the two columns would be the same. */
	bool alone = table->by == REPORT_CLASS || table->by == REPORT_THREAD;
	bool focused = table->by == REPORT_CALLERS || table->by == REPORT_CALLEES;
	const char *weight = report->wall ? "wall time" : "CPU time";
	uint32_t i;
	int err = 0;

	fprintf(out, "\nby %s", report_names[table->by]);
	if (focused)
		fprintf(out, " of %s",
			table->by == REPORT_CALLERS ? report->options->callers
						    : report->options->callees);
	fprintf(out, ", %s: %u of %u rows; %% of %.3f s of %s\n",
		alone					     ? "heaviest first"
		: rank__by_inclusive(table, report->options) ? "by inclusive time"
							     : "by exclusive time",
		table->n_ranks, table->n_rows, seconds(table->total), weight);
	if (!table->n_ranks) {
		fputs("    none\n", out);
		return 0;
	}
	put_heads(table, report_names[table->by], alone, out);
	for (i = 0; i < table->n_ranks && !err; i++) {
		struct row_key key = table__key(table, table->ranks[i].row);

		put_times(table, &table->ranks[i], alone, out);
		if (*key.file || *key.module) {
			put_name(out, key.name, NAME_WIDTH);
			put_place(&key, out);
		} else {
			fputs(key.name, out);
		}
		fputc('\n', out);
		if (table->by == REPORT_CALLEE)
			err = put_lines(report, table->ranks[i].row, table, out);
	}
	return err;
}

int report__text(struct report *report, FILE *out)
{
	uint32_t i;
	int err = 0;

	errno = 0;
	for (i = 0; i < report->read; i++)
		put_file(report, &report->file[i], out);
	if (report->files > 1)
		fprintf(out,
			"times are means of %u recordings, sd is the standard deviation between "
			"them\n",
			report->files);
	for (i = 0; i < REPORT_BY_COUNT && !err; i++)
		if (report__wants(report, (enum report_by)i))
			err = put_table(report, &report->tables[i], out);
	fputs("\nTimes are in seconds, from samples. How often something was called is not "
	      "sampled, and not "
	      "told.\n",
	      out);
	if (fflush(out) || ferror(out))
		return errno ? -errno : -EIO;
	return err;
}
