/* SPDX-License-Identifier: MIT */
/* The summary after a recording, on stderr. By default it fits a terminal of 24 lines: the tables share the
 * lines that the head leaves. With --verbose its length is not limited.
 *
 *     cprofd: 7,931 samples in 8.12 s: 7.94 s of CPU in 3 threads          } summary_head.c
 *             999 samples/s of CPU time, asked for 999; whole stacks: 99.97 %
 *             CPU time by class: compiler native 61.2 %, interpreter 22.4 %, ...
 *             nothing was lost
 *
 *     exclusive  inclusive  CPU time by function:                           } print_functions()
 *        12.3 %     40.1 %  run_pass  numba/core/compiler_machinery.py
 *
 *     exclusive  inclusive  times  Wall time by compile (4 of 12):          } units.c */
#include "cli/summary.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/cleanup.h"
#include "cli/units.h"
#include "report/fit.h"

/* A terminal of 24 lines; the shell's prompt needs the last one. */
#define SCREEN_LINES 23
/* One line on how the process or command ended; an empty line; two on the file that was written. */
#define LINES_AROUND 4
/* An empty line and the table's heading. */
#define TABLE_LINES 2
#define COMPILES_MAX 4
#define FUNCTIONS_MAX 5
#define FUNCTIONS_VERBOSE 10
/* Each table has at least this many rows, however long the head is. */
#define ROWS_LEAST 2
/* Columns before a function's name, and of the ":LINE" after its file. */
#define SHARES_WIDTH 22
#define LINE_WIDTH 6

static uint32_t within(uint32_t rows, uint32_t least, uint32_t most)
{
	return rows < least ? least : rows > most ? most : rows;
}

static void print_functions(const struct tally_result *result, uint32_t rows)
{
	/* Two columns share what the shares leave: the name and the file. */
	const int width = (say__width() - SHARES_WIDTH - LINE_WIDTH - 2) / 2;

	if (!result->seen && !result->waits)
		return;
	fputc('\n', stderr);
	style__begin(stderr, STYLE_HEAD);
	fprintf(stderr, "exclusive  inclusive  %s by %s%s:", result->waits ? "Time" : "CPU time", result->lines ? "line" : "function",
		result->waits ? ", waiting included" : "");
	style__end(stderr);
	fputc('\n', stderr);
	for (uint32_t i = 0; i < result->n_functions && i < rows; i++) {
		const struct tally_function *function = &result->functions[i];

		fprintf(stderr, "%7.1f %%  %7.1f %%  ", percent(function->self, summary__whole(result)),
			percent(function->total, summary__whole(result)));
		/* Native functions have no file here; their name may take both columns. Negative: fit__name()
		 * does not pad. */
		if (!*function->file) {
			fit__name(stderr, function->name, -(2 * width));
			fputc('\n', stderr);
			continue;
		}
		fit__name(stderr, function->name, width);
		style__begin(stderr, STYLE_DIM);
		fputs("  ", stderr);
		fit__path(stderr, function->file, width);
		if (function->line)
			fprintf(stderr, ":%" PRIu32, function->line);
		style__end(stderr);
		fputc('\n', stderr);
	}
}

/* How many terminal lines the text takes, wrapped lines included. */
static uint32_t lines_of(const char *text)
{
	const int width = say__width();
	uint32_t lines = 0;

	while (*text) {
		size_t len = strcspn(text, "\n");

		lines += len ? (uint32_t)((int)len + width - 1) / (uint32_t)width : 1;
		text += len + (text[len] != '\0');
	}
	return lines;
}

/* The first line is printed in the warning colour if it is a warning (summary_head.h). */
static void put_head(const char *head, bool warns)
{
	const size_t first = warns ? strcspn(head, "\n") : 0;

	say__clear_progress();
	if (warns)
		style__begin(stderr, STYLE_WARN);
	fwrite(head, 1, first, stderr);
	if (warns)
		style__end(stderr);
	fputs(head + first, stderr);
}

/* The head is printed into memory first, as its length decides how many rows the tables may have. The
 * compiles get up to half of what is left, functions the rest: a program without compiles has more functions. */
static int print(const struct tally_result *result, struct units_summary *units, bool verbose)
{
	const uint32_t compiles = units_summary__compiles(units);
	_cleanup_free_ char *head = NULL;
	uint32_t left, rows;
	size_t size;
	bool warns;
	FILE *out = open_memstream(&head, &size);

	if (!out)
		return -ENOMEM;
	warns = summary__head(out, result, verbose);
	if (fclose(out))
		return -ENOMEM;
	put_head(head, warns);
	left = lines_of(head) + LINES_AROUND + TABLE_LINES * (1 + (compiles != 0)) + units_summary__note_lines(units);
	/* Lines that are used so far -> lines that are left. */
	left = left < SCREEN_LINES ? SCREEN_LINES - left : 0;
	rows = within(left / 2, ROWS_LEAST, compiles < COMPILES_MAX ? compiles : COMPILES_MAX);
	print_functions(result, verbose ? FUNCTIONS_VERBOSE : within(left > rows ? left - rows : 0, ROWS_LEAST, FUNCTIONS_MAX));
	units_summary__print(units, summary__without_gil(result), verbose ? 0 : rows);
	fputc('\n', stderr);
	units_summary__print_notes(units);
	if (!result->seen && result->waits)
		say("the target did not use the CPU meanwhile: it only waited");
	else if (!result->seen)
		say__failure("`--mode=wall` shows where it waits, and `cprofd dump` where it is now",
			     "no sample was taken: the target did not use the CPU meanwhile");
	return 0;
}

static int read_from_start(int recording_fd, struct event_sink *sink)
{
	bool cut;

	return lseek(recording_fd, 0, SEEK_SET) < 0 ? -errno : recording__read(recording_fd, true, sink, &cut);
}

/* One pass over the recording, or two in wall mode: which threads hardly ran must be known before their waits are
 * added up. */
int summary__print(int recording_fd, const struct cli_options *options, uint64_t *ret_cpu)
{
	struct units_summary units = {};
	struct thread_sums thread_sums;
	struct tally_result result;
	struct tally *tally = NULL;
	int err = 0;

	*ret_cpu = 0;
	thread_sums__init(&thread_sums);
	if (options->wall)
		err = read_from_start(recording_fd, &thread_sums.sink);
	err = err ?: tally__new(options->lines, options->wall ? &thread_sums : NULL, &tally);
	err = err ?: units_summary__init(&units, options->rules, tally__sink(tally));
	err = err ?: read_from_start(recording_fd, &units.sink) ?: tally__finish(tally, &result);
	if (!err)
		*ret_cpu = result.cpu;
	if (!err && !say__is_quiet())
		err = print(&result, &units, options->verbose);
	if (err)
		say("the summary could not be made: %s", strerror(-err));
	units_summary__free(&units);
	tally__free(tally);
	thread_sums__free(&thread_sums);
	return err;
}
