/* SPDX-License-Identifier: MIT */
/* The report as text: a summary of each recording, one table after another, and a legend of the columns. The
 * tables tree, chain and repeat are printed by units_text.c.
 *
 *     by function, CPU time, by exclusive time: 20 of 812 rows; % of 7.941 s
 *      exclusive      %  inclusive      %   sum %  function
 *          1.234  15.54      3.456  43.52   15.54  run_pass          .../core/compiler_machinery.py:285  numba
 *
 * Names are already safe for a terminal: the model replaces control characters (options.readable). What comes
 * from elsewhere, such as file names of recordings, goes through safe_text__put(). */
#include <inttypes.h>
#include <limits.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/safe_text.h"
#include "base/stream.h"
#include "base/style.h"
#include "report/fit.h"
#include "report/internal.h"

/* Columns of names and files, for terminals of some 160 columns; compiles have one long name with their
 * signature. */
#define NAME_WIDTH 56
#define UNIT_WIDTH 72
/* A terminal that is narrower has fewer columns of figures. */
#define SUMS_WIDTH 120
#define CLOCK_WIDTH 100
/* Rows that are printed below a row, such as the lines that called a callee. */
#define ROWS_BELOW 3

static double seconds(double ns)
{
	return ns / 1e9;
}

/* CPU time of threads and child processes that worked for calls of other threads. */
static void put_worked(const struct report_file *file, FILE *out)
{
	uint64_t all = 0;
	int how;

	for (how = ATTRIBUTION_OWN + 1; how < ATTRIBUTION_HOW_COUNT; how++)
		all += file->worked[how];
	if (!all)
		return;
	fprintf(out, "    of that, %.3f s in worker threads and children, for calls that wait for them; how the call is known:", seconds((double)all));
	for (how = ATTRIBUTION_OWN + 1, all = 0; how < ATTRIBUTION_HOW_COUNT; how++)
		if (file->worked[how])
			fprintf(out, "%s %.3f s %s", all++ ? "," : "", seconds((double)file->worked[how]), attribution__name((enum attribution_how)how));
	fputc('\n', out);
}

static void put_file(const struct report *report, const struct report_file *file, FILE *out)
{
	/* May wrap around in a damaged recording; then it is not used, see below. */
	const uint64_t waiting = file->wall - file->cpu;

	style__begin(out, STYLE_HEAD);
	safe_text__put(out, file->name);
	style__end(out);
	fprintf(out, ": %s", *file->command ? file->command : "?");
	if (file->pid) /* 0: of a host */
		fprintf(out, " (%d)", file->pid);
	fputc('\n', out);
	fprintf(out,
		"    %" PRIu64
		" samples%s at %u Hz in %.3f s: %.3f s of CPU in %u thread%s, %.3f s %s",
		file->seen, file->waits ? " and waits" : "", file->rate, seconds((double)file->span), seconds((double)file->cpu),
		file->threads, file->threads == 1 ? "" : "s",
		seconds((double)(file->wall > file->cpu ? waiting : 0)), file->waits ? "waiting" : "off CPU");
	if (file->samples)
		fprintf(out, "; whole stacks: %.2f %%",
			percent((double)file->whole, (double)file->samples));
	if (file->cut && file->samples && file->samples < file->seen)
		fprintf(out, " of the first %" PRIu64, file->samples);
	if (file->left_out.cpu || report->options->filter.class_name ||
	    report->options->filter.function || report->options->filter.module || report->options->filter.skip_first)
		fprintf(out,
			"\n    filtered: %.3f s of this CPU time are shown, %.3f s are left out",
			seconds((double)file->shown.cpu), seconds((double)file->left_out.cpu));
	if (file->waits && !report->wall)
		fputs("\n    the tables are of CPU time: `cprofd convert -i` draws the waits, --mode=wall records for tables of them",
		      out);
	fputs(file->fired.data, out);
	if (file->unsupported) {
		fputs("\n    ", out);
		style__begin(out, STYLE_WARN);
		safe_text__put(out, file->unsupported);
		fprintf(out, EVENT_UNSUPPORTED_FORMAT, py_versions);
		style__end(out);
	}
	if (file->cut) {
		fputs("\n    ", out);
		style__begin(out, STYLE_WARN);
		fputs("the recording ends in the middle; everything up to there is counted", out);
		style__end(out);
	}
	fputc('\n', out);
	put_worked(file, out);
}

void text__location(const struct row_key *key, struct fitted fitted, FILE *out)
{
	style__begin(out, STYLE_DIM);
	if (*key->file && fitted.file) {
		fputs("  ", out);
		fit__path(out, key->file, fitted.file);
		if (key->line)
			fprintf(out, ":%u", key->line);
	}
	if (*key->module && fitted.module)
		fprintf(out, "  %s", key->module);
	style__end(out);
}

void text__caller(const struct report *report, int at, const struct row_key *key, FILE *out)
{
	struct fitted fitted = text__fit(report, at, fit__letters(key->name) < NAME_WIDTH ? fit__letters(key->name) : NAME_WIDTH, key->name, key);

	if (report->options->width)
		fit__name(out, key->name, -abs(fitted.name));
	else
		fputs(key->name, out);
	text__location(key, fitted, out);
}

/* --- one table --- */

/* Which columns a table has. */
struct shape {
	bool alone;   /* rows divide the time among them, so exclusive and inclusive time are equal */
	bool ran;     /* with its CPU time: of processes, beside what their threads waited */
	bool counted; /* rows are compiles, phases, passes: with their time by the other clock ... */
	bool times;   /* ... and their number */
	bool typed;   /* rows are functions that were compiled: with the number of signatures */
	bool wall;    /* weights are wall time */
	bool sums, clock; /* "sum %", and compiles' time by the other clock: not on a narrow terminal */
};

static struct shape shape_of(const struct report *report, enum report_by by)
{
	return (struct shape){
		.alone = by == REPORT_CLASS || by == REPORT_PROCESS || by == REPORT_THREAD || by == REPORT_TRIGGER,
		.ran = by == REPORT_PROCESS && report->wall,
		.counted = rank__of_compiles(by),
		.times = rank__of_compiles(by) && by != REPORT_SOURCE_LINE,
		.typed = by == REPORT_SOURCE,
		.wall = report->wall,
		.sums = !text__is_narrow(report, SUMS_WIDTH),
		.clock = !text__is_narrow(report, CLOCK_WIDTH),
	};
}

/* Outside of compiles threads mostly wait, each of them all the time: that sum says nothing. */
void text__clock(const struct table *table, const struct rank *rank, bool wall, FILE *out)
{
	if (!wall && !strcmp(table__key(table, rank->row).name, ROW_OUTSIDE))
		fprintf(out, "%10s", "");
	else
		fprintf(out, "%10.3f", seconds(wall ? rank->cpu : rank->elapsed));
}

/* Column widths are those of put_heads(). */
static void put_times(const struct table *table, const struct rank *rank, struct shape shape, uint32_t signatures, FILE *out)
{
	if (!shape.alone) {
		fprintf(out, "%10.3f", seconds(rank->exclusive));
		if (table->files > 1)
			fprintf(out, " \xc2\xb1%7.3f", seconds(rank->exclusive_sd));
		fprintf(out, " %6.2f", percent(rank->exclusive, table->total));
	}
	fprintf(out, "%11.3f", seconds(rank->inclusive));
	if (table->files > 1)
		fprintf(out, " \xc2\xb1%7.3f", seconds(rank->inclusive_sd));
	fprintf(out, " %6.2f", percent(rank->inclusive, table->total));
	if (!shape.alone && shape.sums)
		fprintf(out, " %7.2f", percent(rank->running, table->total));
	if ((shape.counted || shape.ran) && shape.clock)
		text__clock(table, rank, shape.wall, out);
	if (shape.times && rank->calls > 0)
		fprintf(out, " %7.*f", rank->calls < 10 && table->files > 1, rank->calls);
	else if (shape.times)
		fprintf(out, " %7s", "");
	if (shape.typed && rank->calls > 0)
		fprintf(out, " %6u", signatures);
	else if (shape.typed)
		fprintf(out, "%7s", "");
	fputs("  ", out);
}

/* Returns the width of the columns before the names. */
static int put_heads(const struct table *table, struct shape shape, FILE *out)
{
	const char *sd = table->files > 1 ? "       sd" : "";
	int at = 2;

	style__begin(out, STYLE_DIM);
	if (!shape.alone)
		at += fprintf(out, "%10s%s %6s", "exclusive", sd, "%");
	at += fprintf(out, "%11s%s %6s", shape.alone ? "seconds" : "inclusive", sd, "%");
	if (!shape.alone && shape.sums)
		at += fprintf(out, " %7s", "sum %");
	if ((shape.counted || shape.ran) && shape.clock)
		at += fprintf(out, "%10s", shape.wall ? "CPU" : "elapsed");
	if (shape.times)
		at += fprintf(out, " %7s", "times");
	if (shape.typed)
		at += fprintf(out, " %6s", "types");
	fprintf(out, "  %s", report_names[table->by]);
	style__end(out);
	fputc('\n', out);
	return at;
}

/* Truncates a name, unless the result would look like that of a row above: then it is printed in full. `shown` NULL:
 * truncates it in any case. */
static void put_distinct(struct intern *shown, const char *name, int width, FILE *out)
{
	uint32_t before = shown ? shown->n : 0, id;
	char *text = NULL;
	size_t len = 0;
	FILE *fitted = open_memstream(&text, &len);
	bool whole = !fitted || fit__name(fitted, name, width);

	if (fitted)
		fclose(fitted);
	if (!text || (!whole && shown && (intern__id(shown, text, len, &id) || shown->n == before)))
		fputs(name, out);
	else
		fputs(text, out);
	free(text);
}

/* Five kinds of rows: a compile with its signature; a function with file or module; a process with its number; a
 * thread with its process; a group with a name alone. */
static void put_name(const struct report *report, const struct table *table, const struct row_key *key, int at, struct intern *shown, FILE *out)
{
	struct row_key place;
	struct fitted fitted;
	char name[1024];

	if (((table->by == REPORT_UNIT || table->by == REPORT_FAILED) && (*key->detail || *key->file)) || ((table->by == REPORT_SOURCE || table->by == REPORT_SOURCE_LINE) && *key->file)) {
		snprintf(name, sizeof(name), table->by == REPORT_SOURCE ? "%s" : table->by == REPORT_SOURCE_LINE ? "%s %s" : "%s(%s)", key->name, key->detail);
		place = (struct row_key){.file = key->file, .module = "", .line = key->line ?: key->defined};
		fitted = text__fit(report, at, UNIT_WIDTH, name, &place);
		put_distinct(shown, name, fitted.name, out);
		text__location(&place, fitted, out);
	} else if (*key->file || (*key->module && table->by != REPORT_PHASE && table->by != REPORT_PASS &&
				  table->by != REPORT_UNIT && table->by != REPORT_SOURCE && table->by != REPORT_SOURCE_LINE && table->by != REPORT_FAILED)) {
		/* Native code without debug information has long names and no file: use that column, too. */
		fitted = text__fit(report, at, *key->file || strlen(key->name) <= NAME_WIDTH ? NAME_WIDTH : NAME_WIDTH + TEXT_FILE_WIDTH - 16, key->name, key);
		put_distinct(shown, key->name, *key->file || strlen(key->name) <= NAME_WIDTH ? fitted.name : -abs(fitted.name), out);
		text__location(key, fitted, out);
	} else if (table->by == REPORT_PROCESS) {
		at += key->pid ? fprintf(out, "%-8d", key->pid) : 0;
		fit__name(out, key->name, -text__room(report, at, INT_MAX));
	} else if (*key->detail) { /* a thread and its process */
		fprintf(out, "%-24s  ", key->name);
		fit__name(out, key->detail, text__room(report, at + 26, TEXT_FILE_WIDTH));
	} else if (report->options->width) {
		fit__name(out, key->name, -text__room(report, at, INT_MAX));
	} else {
		fputs(key->name, out);
	}
	fputc('\n', out);
}

/* Was the same single cause printed for the row before? Then it is not repeated. */
static bool is_printed(const struct table *causes, struct row_key *before)
{
	struct row_key key;
	bool same;

	if (causes->n_ranks != 1) {
		*before = (struct row_key){};
		return false;
	}
	key = table__key(causes, causes->ranks[0].row);
	same = before->name && !strcmp(before->name, key.name) && !strcmp(before->file, key.file) &&
	       before->line == key.line;
	*before = key;
	return same;
}

/* Prints the rows that belong to the row above. `at`: the column where names begin. */
static int put_below(struct report *report, const struct table *above, uint32_t row, int at, struct row_key *before,
		     FILE *out)
{
	bool threads = above->by == REPORT_THREAD;
	const struct table *table;
	int err;

	at = text__below(report, at);
	/* Without native stacks nearly all time has no class. */
	if (threads && !report->has_native)
		return 0;
	err = report__rank_below(report, above->by, row, threads ? 0 : ROWS_BELOW, &table);
	if (!err && above->by == REPORT_UNIT && (!table->n_ranks || is_printed(table, before)))
		return 0;
	if (!err && above->by == REPORT_SOURCE && table->n_ranks < 2)
		return 0;
	for (uint32_t i = 0; !err && table && i < table->n_ranks; i++) {
		const struct rank *rank = &table->ranks[i];
		struct row_key key = table__key(table, rank->row);

		/* It would be printed as 0.00 %. */
		if (threads && (percent(rank->inclusive, above->total) < 0.005 || !strcmp(key.name, CLASS_NOT_DETERMINED)))
			continue;
		if (threads) {
			put_times(table, &(struct rank){.inclusive = rank->inclusive, .inclusive_sd = rank->inclusive_sd},
				  (struct shape){.alone = true}, 0, out);
			fprintf(out, "    %s", key.name);
		} else if (above->by == REPORT_SOURCE || above->by == REPORT_PHASE) {
			fprintf(out, "%*s%6.2f %%  %s ", at, "", percent(rank->inclusive, above->total), above->by == REPORT_SOURCE ? "for" : "on");
			fit__name(out, *key.name ? key.name : "()", -text__room(report, at + 14, UNIT_WIDTH));
		} else if (above->by == REPORT_SOURCE_LINE) {
			fprintf(out, "%*s%6.2f %%  %s", at, "", percent(rank->inclusive, above->total), key.name);
		} else if (above->by == REPORT_FAILED) {
			fprintf(out, "%*s%6.2f %%  left in %s", at, "", percent(rank->inclusive, above->total), key.name);
		} else if (key.kind != FUNCTION_NOTE) {
			fprintf(out, "%*s%6.2f %%  %s by ", at, "", percent(rank->inclusive, above->total),
				above->by == REPORT_UNIT ? "caused" : "called");
			text__caller(report, at + 20, &key, out);
		} else {
			continue;
		}
		fputc('\n', out);
	}
	return err;
}

static const char *order_of(const struct report *report, const struct table *table, struct shape shape)
{
	enum report_sort sort = rank__order(table, report->options);

	return shape.alone && sort != REPORT_SORT_START ? "heaviest first" : rank_order_words[sort];
}

/* The number of threads that hardly ran, and their wall time: the mean over the recordings, as all times are. */
static uint32_t quiet_threads(const struct report *report, double *ret_wall)
{
	uint32_t i, n = 0;

	*ret_wall = 0;
	for (i = 0; i < report->read; i++) {
		n += report->file[i].quiet_threads;
		*ret_wall += (double)report->file[i].quiet_wall / report->read;
	}
	return n;
}

static int put_table(struct report *report, struct table *table, FILE *out)
{
	double quiet_wall = 0;
	bool focused = table->by == REPORT_CALLERS || table->by == REPORT_CALLEES;
	uint32_t quiet = table->by != REPORT_PROCESS && table->by != REPORT_THREAD && !focused && report->wall ? quiet_threads(report, &quiet_wall) : 0;
	/* `aside`: quiet threads were kept out of the rows. From a pipe only the table of classes can do
	 * that, as it is made after the reading. */
	bool aside = table->by == REPORT_CLASS || !report->quiet_unknown;
	struct shape shape = shape_of(report, table->by);
	struct row_key before = {};
	const struct table *below = NULL;
	_cleanup_(intern__free) struct intern shown = {};
	int err = 0, at;

	if (quiet && table->by == REPORT_CLASS)
		table = &report->ran;
	fputc('\n', out);
	style__begin(out, STYLE_HEAD);
	fprintf(out, "by %s", report_names[table->by]);
	if (focused)
		fprintf(out, " of %s",
			table->by == REPORT_CALLERS ? report->options->callers
						    : report->options->callees);
	style__end(out);
	fprintf(out, ", %s, %s: %u of %u rows; %% of %.3f s\n", report->wall ? "wall time" : "CPU time",
		order_of(report, table, shape), table->n_ranks, table->n_rows, seconds(table->total));
	if (quiet)
		fprintf(out, aside ? "    (threads that ran; the others are the last line)\n" : "    (with threads that hardly ran: see the last line)\n");
	if (!table->n_ranks) {
		fputs("    none\n", out);
		return 0;
	}
	at = put_heads(table, shape, out);
	for (uint32_t i = 0; i < table->n_ranks && !err; i++) {
		struct row_key key = table__key(table, table->ranks[i].row);

		if (shape.typed)
			err = report__rank_below(report, table->by, table->ranks[i].row, 0, &below);
		put_times(table, &table->ranks[i], shape, below ? below->n_ranks : 0, out);
		put_name(report, table, &key, at, report->options->width ? NULL : &shown, out);
		err = err ?: put_below(report, table, table->ranks[i].row, at, &before, out);
	}
	if (quiet)
		fprintf(out, "%11.3f %6s  in %u thread%s that hardly ran: %s\n", seconds(quiet_wall), "", quiet, quiet == 1 ? "" : "s",
			aside ? "no part of these shares" : "part of these shares, as this was read from a pipe");
	/* `each` is of the last recording: not empty means that there were compiles. */
	if (table->by == REPORT_UNIT && report->each.len) {
		at = text__below(report, at);
		fprintf(out, "%*s", at, "");
		units_text__chains(report, out);
		fputs("; --by=chain, --tree\n", out);
		if (rows__n(&report->tables[REPORT_FAILED].rows))
			fprintf(out, "%*scompiles of %u of them ended before their last stage, as by an exception: --by=failed\n", at,
				"", rows__n(&report->tables[REPORT_FAILED].rows));
	}
	return err;
}

/* --- all of them --- */

/* Is the table wanted? Without --by, tables without content are left out, and a
 * process that is the only one. */
static bool is_shown(const struct report *report, enum report_by by)
{
	const struct table *table = &report->tables[by];

	if (!report__wants(report, by))
		return false;
	if (!report->options->brief)
		return true;
	if (!table->n_rows || (by == REPORT_CLASS && !report->has_native))
		return false;
	if (by == REPORT_PROCESS)
		return table->n_rows > 1;
	return by != REPORT_UNIT || report->compiles;
}

static void put_legend(const struct report *report, FILE *out)
{
	const char *clock = report->wall ? "wall time (waiting included)" : "CPU time";
	/* A terminal has breaks where its lines end. */
	const char *end = report->options->width ? " " : "\n";
	bool compiles = false;

	for (int by = 0; by < REPORT_BY_COUNT; by++)
		compiles |= shape_of(report, (enum report_by)by).counted && is_shown(report, (enum report_by)by) &&
			    report->tables[by].n_ranks;
	fprintf(out,
		"\nSeconds of %s, from samples. Exclusive: in the row's own code; inclusive: also in what it called, "
		"however%soften it is in the stack. Samples cannot show how often something was called.\n",
		clock, end);
	if (compiles)
		fprintf(out, "Of compiles, phases and passes `times` is how many were seen (shorter ones than a sampling period may "
			     "not be), and%s%s\n",
			end,
			report->wall ? "`CPU` is the inclusive CPU time, that of worker threads included, whose time by the clock is their caller's."
				     : "`elapsed` is the inclusive time by the clock: wall time, waiting included; of worker threads, that of their caller.");
	if (is_shown(report, REPORT_SOURCE) && report->tables[REPORT_SOURCE].n_ranks)
		fputs("`types` is how many signatures a function was compiled for.\n", out);
	if (report->gil)
		fputs("What ran without the GIL has no stacks (-g): it counts for the compile that went on, and for no phase, pass or "
		      "function.\n",
		      out);
	if (!report->has_native)
		fprintf(out,
			"Classes of time (interpreter, C calls, GC, compiler ...), native frames and passes of optimisers need a "
			"recording%swith native stacks: this one was made with --native=off.\n",
			end);
}

static int put_all(void *of, FILE *out)
{
	struct report *report = of;
	int err = 0;

	errno = 0;
	for (uint32_t i = 0; i < report->read; i++)
		put_file(report, &report->file[i], out);
	if (report->files > 1)
		fprintf(out,
			"times are means of %u recordings, sd is the standard deviation between "
			"them\n",
			report->files);
	for (uint32_t i = 0; i < REPORT_BY_COUNT && !err; i++)
		if (is_shown(report, (enum report_by)i))
			err = i == REPORT_TREE || i == REPORT_CHAIN || i == REPORT_REPEAT
				      ? units_text__table(report, &report->tables[i], out)
				      : put_table(report, &report->tables[i], out);
	if (!err && report->options->open_source)
		err = annotate__text(report, out);
	put_legend(report, out);
	return stream__flush(out) ?: err;
}

/* On a terminal rows fit already; sentences are broken between words. */
int report__text(struct report *report, FILE *out)
{
	return fit__terminal(report->options->width, put_all, report, out);
}
