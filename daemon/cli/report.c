/* SPDX-License-Identifier: MIT */
/* `cprofd report FILE...`: turns options into struct report_options, reads each recording, and prints the
 * report as text, JSON or CSV. Several recordings are several runs of the same: each time is then their mean,
 * with its deviation. */

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "cli/input.h"
#include "cli/write.h"
#include "export/hlo.h"
#include "rules/rules.h"

/* The tables without --by: those that answer the first questions. */
#define TABLES_DEFAULT                                                                             \
	(1u << REPORT_CLASS | 1u << REPORT_PROCESS | 1u << REPORT_THREAD | 1u << REPORT_UNIT | 1u << REPORT_PHASE | 1u << REPORT_PASS |           \
	 1u << REPORT_REPEAT |                                                                     \
	 1u << REPORT_FUNCTION | 1u << REPORT_LINE)

/* --callers, --callees and --tree add a table to those of --by; alone, each is the only one. -F and --lines
 * choose a table only if nothing else does: with --callers, --lines means that its rows are lines. */
static uint32_t tables_of(const struct cli_options *options)
{
	uint32_t tables = options->report_tables;

	if (options->tree)
		tables |= 1u << REPORT_TREE;
	if (options->annotate)
		tables |= 1u << REPORT_SOURCE_LINE;
	if (options->callers)
		tables |= 1u << REPORT_CALLERS;
	if (options->callees)
		tables |= 1u << REPORT_CALLEES;
	if (!tables && options->lines)
		tables = 1u << REPORT_LINE;
	else if (!tables && options->functions)
		tables = 1u << REPORT_FUNCTION;
	return tables ? tables : TABLES_DEFAULT;
}

/* A filter, or the function of --callers or --callees, matches nothing. `input`: "" if it is about all
 * recordings. */
static void print_missing(const struct report *report, const struct cli_options *options,
			 const char *input)
{
	const struct export_missing *missing = report__missing(report);
	bool callers = missing->option && !strcmp(missing->option, "callers");
	char hint[600];

	if (missing->option && !callers && strcmp(missing->option, "callees")) {
		write__missing(missing, options, input, *input ? input : options->operands[0]);
		return;
	}
	snprintf(hint, sizeof(hint), "is it one of these? %s", missing->close);
	say__failure(*missing->close ? hint
				     : "cprofd report --by=function --top 0 shows all there are",
		     "no sample has a function %s", callers ? options->callers : options->callees);
}

static int read_one(struct report *report, const struct cli_options *options, const char *path)
{
	_cleanup_close_ int fd = input__open_recording(path);
	int err;

	if (fd < 0)
		return CLI_COULD_NOT;
	err = report__read(report, fd, path);
	if (!err)
		return CLI_DONE;
	if (err == -ENOENT)
		print_missing(report, options, path);
	else
		input__print_failure(err, path);
	return CLI_COULD_NOT;
}

static int print(struct report *report, const struct cli_options *options)
{
	int err;

	if (options->json)
		err = report__json(report, stdout);
	else if (options->csv)
		err = report__csv(report, stdout);
	else
		err = report__text(report, stdout);
	if (err && err != -EPIPE && !input__print_limit(err, "the report"))
		say__failure("", "the report could not be written: %s", strerror(-err));
	return err ? CLI_COULD_NOT : CLI_DONE;
}

static int run(const struct cli_options *options, const struct rules *rules, struct hlo *hlo)
{
	struct report_options how = {
		.rules = rules,
		.filter = input__filters(options),
		.tables = tables_of(options),
		.callers = options->callers,
		.callees = options->callees,
		.sort = options->sort,
		/* Text for people: 20 rows, unless another option limits them. For programs: all rows. */
		.top = options->top_given ? options->top
		       : options->json || options->csv || options->until > 0 ||
				       options->min_share > 0
			       ? 0
			       : 20,
		.until = options->until,
		.min_share = options->min_share,
		.native_frames = options->native_frames,
		.depth = options->depth,
		.phases = options->phases,
		.open_source = options->annotate ? input__open_source : NULL,
		.width = options->verbose ? 0 : say__columns(STDOUT_FILENO),
		/* The report without options leaves empty tables out; one that was asked for is printed with
		 * its heading, even if empty. */
		.brief = tables_of(options) == TABLES_DEFAULT && !options->report_tables,
	};
	struct report *report;
	int i, err, status = CLI_DONE;
	bool empty;

	if (!options->no_limits)
		limits__begin();
	/* What input__filters() does not set, as only some readers have it. */
	how.filter.lines = options->lines;
	how.filter.hlo = hlo;
	how.filter.readable = !options->json;
	err = report__new(&how, (uint32_t)options->n_operands, &report);
	if (err) {
		say__failure("", "no report: %s", strerror(-err));
		return CLI_COULD_NOT;
	}
	for (i = 0; i < options->n_operands && status == CLI_DONE; i++)
		status = read_one(report, options, options->operands[i]);
	/* Here the tables are made. An error other than a limit means that --callers or --callees found
	 * nothing in any of the recordings. */
	err = status == CLI_DONE ? report__finish(report) : 0;
	if (err && !input__print_limit(err, "the report"))
		print_missing(report, options, "");
	status = err ? CLI_COULD_NOT : status;
	empty = status == CLI_DONE && report__empty(report);
	if (empty && write__filters(options))
		say("nothing to report: no sample passes the filters (%s %s long)",
		    options->n_operands > 1 ? "the longest recording is" : "the recording is", words__duration(report__span(report)));
	else if (empty)
		say("nothing to report: %s", report__cut(report) ? "the recording ends before its first sample" : "no sample was taken");
	if (empty && write__filters(options))
		status = CLI_COULD_NOT;
	else if (status == CLI_DONE)
		status = print(report, options);
	report__free(report);
	return status;
}

int report__run(const struct cli_options *options)
{
	struct rules *rules;
	struct hlo *hlo;
	int status;

	if (options->n_operands < 1) {
		say__failure("as in `cprofd report svd.cprof`", "which recording?");
		return CLI_USAGE;
	}
	if (options->json && options->csv) {
		say("--json and --csv: choose one");
		return CLI_USAGE;
	}
	if (options->annotate && options->csv) {
		say("--annotate is not a table: not with --csv");
		return CLI_USAGE;
	}
	if ((options->phases || options->depth) && !(tables_of(options) & 1u << REPORT_TREE)) {
		say__failure("add --tree", "%s is of the tree of compiles, which is not asked for", options->phases ? "--phases" : "--depth");
		return CLI_USAGE;
	}
	status = rules__all(options->rules, &rules);
	if (status != CLI_DONE)
		return status;
	status = input__hlo(options->hlo, &hlo);
	if (status == CLI_DONE)
		status = run(options, rules, hlo);
	input__print_hlo(options->hlo, hlo);
	hlo__free(hlo);
	rules__free(rules);
	return status;
}
