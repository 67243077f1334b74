/* SPDX-License-Identifier: MIT */
/* `cprofd convert FILE`: reads one recording and writes it in another format (export/). No engine and no
 * privileges: what a recording holds is all there is.
 *
 *     svd.cprof -> svd.speedscope.json, svd.html, svd.svg, svd.pb.gz, svd.collapsed, or again events */
#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "cli/input.h"
#include "cli/progress.h"
#include "cli/write.h"
#include "export/hlo.h"
#include "rules/rules.h"

/* "a/svd.cprof" -> "svd" + extension, in the current directory. */
static void default_name(const char *input, const char *extension, char *out, size_t size)
{
	size_t len;

	input = basename(input);
	if (!strcmp(input, "-"))
		input = "cprofd";
	len = strlen(input);
	if (len > 6 && !strcmp(input + len - 6, ".cprof"))
		len -= 6;
	snprintf(out, size, "%.*s%s", (int)(len < 200 ? len : 200), input, extension);
}

/* Turns what export/ returned into a sentence. The order matters: errors about the input first, because they
 * have a wording that names the damage; what is left over is a problem with the output. */
static void print_failure(int err, const char *input, const char *output,
			 const struct cli_options *options, const struct export_report *report)
{
	const struct export_missing *missing = &report->missing;

	if (err == -EBADMSG || err == -ENOMSG || err == -EPROTONOSUPPORT || err == -ESPIPE)
		input__print_failure(err, input);
	else if (err == -ENOENT && missing->option)
		write__missing(missing, options, input, input);
	else if (input__print_limit(err, input))
		return;
	else if (err == -ENODATA)
		write__nothing(options, input, report);
	else
		say__failure("", "%s could not be written from %s: %s", strcmp(output, "-") ? output : "stdout", input,
			     strerror(-err));
}

/* The names of the formats for which takes() holds: "html", or "collapsed, svg ...". */
static const char *takers(bool (*takes)(const struct exporter *exporter))
{
	static char names[128];
	size_t len = 0;

	*names = '\0';
	for (const struct exporter *exporter = exporters; exporter->name; exporter++)
		if (takes(exporter) && len < sizeof(names))
			len += (size_t)snprintf(names + len, sizeof(names) - len, "%s%s", len ? ", " : "", exporter->name);
	return names;
}

static bool takes_units(const struct exporter *exporter)
{
	return !exporter->no_units;
}

static bool takes_rules(const struct exporter *exporter)
{
	return exporter->rules;
}

/* An option that the format cannot honour is refused, never silently ignored. */
static bool refuses(const struct exporter *exporter, const struct cli_options *options)
{
	char hint[160];

	if (options->unit_frames && exporter->no_units) {
		snprintf(hint, sizeof(hint), "leave it out: %s", exporter->no_units);
		say__failure(hint, "--units is for %s, and this is %s", takers(takes_units), exporter->name);
		return true;
	}
	if (options->hlo && !strcmp(exporter->name, "events")) {
		say__failure("convert that one with --hlo", "--hlo is not for recordings: they keep the names that XLA gave");
		return true;
	}
	if (options->annotate && strcmp(exporter->name, "html")) {
		say__failure("`cprofd report --annotate` shows the sources as text", "--annotate is for html, and this is %s", exporter->name);
		return true;
	}
	if (options->rules && !exporter->rules) {
		say__failure("record with `--rules FILE`",
			     "--rules is for %s here, and this is %s. What a compile, phase or pass is was decided when it was recorded, from values "
			     "of the target's variables, which a recording does not have",
			     takers(takes_rules), exporter->name);
		return true;
	}
	return false;
}

static int run(const struct cli_options *options, const char *format, const struct rules *rules, struct hlo *hlo)
{
	const char *path = options->operands[0], *target;
	struct export_report report = {};
	struct progress progress;
	struct output output;
	_cleanup_close_ int input = input__open_recording(path);
	char name[256];
	int status, err;

	if (input < 0)
		return CLI_COULD_NOT;
	default_name(path, write__extension(format), name, sizeof(name));
	target = options->output ? options->output : name;
	/* Before the output is opened: opening "svd.cprof" for writing would truncate what is to be read. */
	if (write__is_input(input, target)) {
		say__failure("choose another name with -o FILE; nothing was written", "%s is the recording that is to be read", target);
		return CLI_USAGE;
	}
	status = output__open(target, false, false, &output);
	if (status != CLI_DONE)
		return status;
	progress__begin(&progress, input, path);
	err = write__export(format, options, rules, hlo, input, &output, &report);
	progress__end(&progress);
	if (err)
		print_failure(err, path, output.path, options, &report);
	else
		write__print(format, &output, &report);
	if (!err && options->open)
		browser__open(target);
	/* The events format copies lines and counts no samples. */
	if (!err && strcmp(format, "events") && !report.samples)
		say("nothing is in it: no sample was taken");
	output__close(&output);
	return err ? CLI_COULD_NOT : CLI_DONE;
}

int convert__run(const struct cli_options *options)
{
	struct rules *rules;
	struct hlo *hlo;
	const char *format;
	int status;

	if (options->n_operands != 1) {
		say__failure("as in `cprofd convert svd.cprof`", options->n_operands ? "one recording at a time" : "which recording?");
		return CLI_USAGE;
	}
	status = write__format(options->format, options->output, &format) ?: browser__judge(options, &format);
	if (status != CLI_DONE)
		return status;
	/* A hostile or damaged recording must not take all memory or run forever (base/limits.h). */
	if (!options->no_limits)
		limits__begin();
	if (refuses(exporter__find(format), options))
		return CLI_USAGE;
	status = write__rules(format, options, &rules);
	if (status != CLI_DONE)
		return status;
	status = input__hlo(options->hlo, &hlo);
	if (status == CLI_DONE)
		status = run(options, format, rules, hlo);
	input__print_hlo(options->hlo, hlo);
	hlo__free(hlo);
	rules__free(rules);
	return status;
}
