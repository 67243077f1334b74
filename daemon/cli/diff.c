/* SPDX-License-Identifier: MIT */
/* `cprofd diff`: compares two recordings (`A B`), or several on each side (`A A A vs B B B`). This file sorts
 * the operands into sides, reads the recordings one by one, and prints; the statistics are in daemon/diff. */
#include "diff/diff.h"

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "cli/input.h"
#include "cli/write.h"

#define VERSUS "vs"
/* Without --by: from coarse to fine. Lines and files are left out, as they are the first to differ between
 * two versions of a program. */
#define TABLES_DEFAULT                                                                             \
	(1u << REPORT_CLASS | 1u << REPORT_UNIT | 1u << REPORT_PHASE | 1u << REPORT_PASS |         \
	 1u << REPORT_FUNCTION)

/* Adds one recording to a side. `diff` keeps sums, not samples, so memory does not grow with the length of a
 * recording. */
static int read_one(struct diff *diff, const struct cli_options *options, const char *path,
		    bool after)
{
	_cleanup_close_ int fd = input__open_recording(path);
	int err;

	if (fd < 0)
		return CLI_COULD_NOT;
	err = diff__read(diff, fd, path, after);
	if (!err)
		return CLI_DONE;
	if (err == -ENOENT)
		write__missing(diff__missing(diff), options, path, path);
	else if (err == -EXDEV)
		say__failure("record both with --mode=wall, or both without",
			     "%s cannot be compared with what is before it: the one is of CPU time, the other of wall time", path);
	else
		input__print_failure(err, path);
	return CLI_COULD_NOT;
}

/* Index of the first operand of the second side, or of the word `vs` (then *ret_word); 0: the operands make no two
 * sides. */
static int second_side(const struct cli_options *options, bool *ret_word)
{
	int i, at = 0;

	/* A second `vs` is an error: 0. So is a `vs` in front, because then `at` is 0 and the first side is
	 * empty. */
	for (i = 0; i < options->n_operands; i++) {
		if (strcmp(options->operands[i], VERSUS))
			continue;
		if (at)
			return 0;
		at = i;
	}
	*ret_word = at > 0;
	if (at)
		return at + 1 < options->n_operands ? at : 0;
	return options->n_operands == 2 && strcmp(options->operands[0], VERSUS) ? 1 : 0;
}

typedef int (*put_picture)(const struct diff *diff, FILE *out);

/* The writer for this ending; NULL: no picture has it. */
static put_picture picture_of(const char *name)
{
	static const struct {
		const char *ending;
		put_picture put;
	} pictures[] = {{".svg", diff__svg}, {".html", diff__html}, {".speedscope.json", diff__speedscope}};
	size_t i, len = strlen(name);

	for (i = 0; i < sizeof(pictures) / sizeof(pictures[0]); i++) {
		size_t ending = strlen(pictures[i].ending);

		if (len > ending && !strcmp(name + len - ending, pictures[i].ending))
			return pictures[i].put;
	}
	return NULL;
}

/* Returns -errno after printing the error. */
static int write_picture(const struct diff *diff, struct output *output)
{
	FILE *out = output__stream(output);
	/* diff__run() has refused names without a picture, so this is never NULL. */
	int err = out ? picture_of(output->path)(diff, out) : -errno;
	if (out && fclose(out) && !err)
		err = -errno;
	err = err ?: output__commit(output);
	if (err && !input__print_limit(err, "the comparison"))
		say__failure("", "%s could not be written: %s", output->path, strerror(-err));
	else if (!err)
		say("wrote %s", output->path);
	return err;
}

/* What exceeds a limit is said on stderr, as JSON and Markdown go to stdout. */
static int judge(const struct diff *diff, const struct diff_limits *limits)
{
	struct diff_verdict verdict;

	if (!limits->n)
		return CLI_DONE;
	if (diff__judge(diff, limits, "cprofd: grew: ", stderr, &verdict))
		return CLI_COULD_NOT;
	if (verdict.light)
		say__note("not counted: %u more, by less than %g %% of all time each (--min-growth)", verdict.light, 100 * limits->least);
	if (verdict.exceeded)
		return CLI_GREW;
	if (!verdict.unknown)
		return CLI_DONE;
	say__failure("give several of each side, with the word " VERSUS " between them", "these recordings cannot say whether %s surely grew", verdict.unknown);
	return CLI_COULD_NOT;
}

static int finish(struct diff *diff, const struct cli_options *options, struct output *output)
{
	const char *first, *other = options->one_machine ? diff__other_machine(diff, &first) : NULL;
	int err;

	if (other) {
		say__failure("save a baseline of this machine under a name of its own, or give --any-machine",
			     "the baseline and these recordings are not of one machine (%s; %s): what differs may be the machine", *first ? first : "not known",
			     *other ? other : "not known");
		return CLI_COULD_NOT;
	}
	err = diff__finish(diff);
	if (err == -ENODATA) {
		say__failure("are they recordings of the same program?",
			     "the two sides have nothing in common: no Python function of the one "
			     "(outside of the standard library) is "
			     "in the other");
		return CLI_COULD_NOT;
	}
	/* Not a failure of the machine: --per=compile divides by the number of compiles, and only compiles of
	 * both sides can be compared. */
	if (err == -EDOM) {
		say__failure("--per=share compares shares of the time",
			     "the two sides do not compile the same (or nothing at all), so "
			     "times per compile cannot be compared");
		return CLI_COULD_NOT;
	}
	if (!err && options->output && write_picture(diff, output))
		return CLI_COULD_NOT;
	err = err ?: options->json	? diff__json(diff, stdout)
		     : options->markdown ? diff__markdown(diff, &options->fail_on, stdout)
		     : options->junit	? diff__junit(diff, &options->fail_on, stdout)
					: diff__text(diff, stdout);
	if (err && err != -EPIPE && !input__print_limit(err, "the comparison"))
		say__failure("", "the comparison could not be written: %s", strerror(-err));
	/* The text has it itself. */
	if (!err && !diff__compared(diff) && (options->json || options->markdown || options->junit))
		say__failure("record for longer", "nothing could be compared: no row has %u samples on both sides together", DIFF_SAMPLES_MIN);
	return err || !diff__compared(diff) ? CLI_COULD_NOT : judge(diff, &options->fail_on);
}

int diff__run(const struct cli_options *options)
{
	uint32_t tables = (options->report_tables ? options->report_tables : TABLES_DEFAULT) | diff_limits__tables(&options->fail_on);
	struct diff_options how = {
		.filter = input__filters(options),
		.tables = tables,
		.inclusive = options->sort == REPORT_SORT_INCLUSIVE,
		.per = options->per && !strcmp(options->per, diff_per_names[DIFF_COMPILE])
			       ? DIFF_COMPILE
			       : DIFF_SHARE,
		.level = options->level > 0 ? options->level : 0.999,
		.top = options->top,
		.width = options->verbose ? 0 : say__columns(STDOUT_FILENO),
		.flame = options->output,
	};
	struct output output = OUTPUT_NONE;
	struct diff *diff;
	bool word = false;
	int at = second_side(options, &word), i, status = CLI_DONE;

	if (!at) {
		say__failure("as in `cprofd diff before.cprof after.cprof`, or `cprofd diff "
			     "a1.cprof a2.cprof " VERSUS " b1.cprof b2.cprof`",
			     "which recordings? one for each side, or several with the word " VERSUS
			     " between the sides");
		return CLI_USAGE;
	}
	if (tables & ~DIFF_TABLES) {
		say("--by: process, thread, source, trigger, tree, chain, repeat, failed and callee are tables of report; diff compares class, "
		    "unit, phase, pass, function, line, "
		    "package, module, file");
		return CLI_USAGE;
	}
	if (options->json + options->markdown + options->junit > 1) {
		say__failure("run it twice", "--json, --markdown and --junit all go to stdout");
		return CLI_USAGE;
	}
	if (options->junit && !options->fail_on.n) {
		say__failure("as in --fail-on 'total>3%,unit>5%'", "--junit reports limits, and --fail-on has none");
		return CLI_USAGE;
	}
	if (options->output && !picture_of(options->output)) {
		say__failure("endings are .html, .svg and .speedscope.json", "%s: no picture of a difference has this ending", options->output);
		return CLI_USAGE;
	}
	if (!options->no_limits)
		limits__begin();
	/* A table for people shortens names and hides control characters; JSON has the exact names. */
	how.filter.readable = !options->json;
	if (diff__new(&how, (uint32_t)options->n_operands, &diff)) {
		say__failure("", "no comparison: %s", strerror(ENOMEM));
		return CLI_COULD_NOT;
	}
	for (i = 0; i < options->n_operands && status == CLI_DONE; i++)
		if (!word || i != at)
			status = read_one(diff, options, options->operands[i], i >= at);
	if (status == CLI_DONE && options->output)
		/* Opened only after all input was read without error: a failing command leaves an older
		 * picture alone. */
		status = output__open(options->output, false, false, &output);
	if (status == CLI_DONE)
		status = finish(diff, options, &output);
	output__close(&output);
	diff__free(diff);
	return status;
}
