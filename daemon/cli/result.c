/* SPDX-License-Identifier: MIT */
/* The output of a session: opened before it begins, so that an unwritable place costs no samples; made from
 * the recording after it. Two cases:
 *
 *     -o svd.cprof    the recording is the output: written under svd.cprof.part, renamed at the end
 *     -o svd.svg      the recording is another file beside it, cprofd-4242-20260131T120000Z.cprof, which is converted
 *                     and removed; if the conversion fails, it is kept, and the user learns its name */
#include "cli/result.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#include "cli/write.h"
#include "rules/rules.h"

void result__stem(pid_t pid, char *ret, size_t size)
{
	char utc[32];
	time_t now = time(NULL);
	struct tm parts;

	/* ISO 8601, basic form: sorts by time and has no ':' , which some file systems refuse. */
	strftime(utc, sizeof(utc), "%Y%m%dT%H%M%SZ", gmtime_r(&now, &parts));
	snprintf(ret, size, "cprofd-%d-%s", pid, utc);
}

int result__open(struct result *result, const struct cli_options *options, pid_t pid)
{
	int status;

	result->options = options;
	result->write_file = !options->stream || options->output;
	if (options->stream && options->output && !strcmp(options->output, "-")) {
		say("--stream and `-o -` would both write to stdout: choose one");
		return CLI_USAGE;
	}
	if (!result->write_file && (options->open || options->format)) {
		say__failure("name one with -o", "%s is of a file, and --stream writes none", options->open ? "--open" : "--format");
		return CLI_USAGE;
	}
	if (!result->write_file)
		return CLI_DONE;
	status = write__format(options->format, options->output, &result->format) ?: browser__judge(options, &result->format);
	if (status != CLI_DONE)
		return status;
	result->recording_is_output = !strcmp(result->format, "events");
	result__stem(pid, result->stem, sizeof(result->stem));
	snprintf(result->default_path, sizeof(result->default_path), "%s%s", result->stem,
		 write__extension(result->format));
	/* `part`: an incomplete recording is useful, an incomplete SVG is not. */
	status = output__open(options->output ? options->output : result->default_path, true,
			      result->recording_is_output, &result->output);
	if (status == CLI_DONE && !result->recording_is_output)
		status = recording_file__open(&result->output, result->stem, &result->file);
	return status;
}

int result__recording(const struct result *result)
{
	return result->recording_is_output ? result->output.fd : result->file.fd;
}

/* The recording beside an output is always compressed: nobody but convert reads it. */
bool result__compressed(const struct result *result)
{
	return !result->recording_is_output || write__compressed(&result->output);
}

/* The conversion failed: says where the recording is, so that no samples are lost. */
static void keep_recording(struct result *result, const char *why, int err)
{
	if (result->file.fd < 0)
		return;
	if (why)
		say__failure("", "%s: %s", why, strerror(-err));
	say__more("the recording is kept: %s", result->file.path);
	say__more("`cprofd convert %s -o FILE` makes a profile of it", result->file.path);
	recording_file__close(&result->file);
}

int result__finish(struct result *result)
{
	const struct cli_options *options = result->options;
	struct export_report report = {};
	struct rules *rules = NULL;
	int err = 0;

	/* write__rules() prints its own errors. The rules were checked before the session, so it fails only
	 * if the file was changed meanwhile. */
	if (result->recording_is_output)
		err = output__commit(&result->output);
	else if (write__rules(result->format, options, &rules) != CLI_DONE)
		err = -EINVAL;
	else
		err = write__export(result->format, options, rules, NULL, result->file.fd, &result->output,
				    &report);
	rules__free(rules);
	/* Who reads stdout has enough, as `head` does. */
	if (err == -EPIPE) {
		recording_file__remove(&result->file);
		return CLI_DONE;
	}
	if (err) {
		if (err == -ENOENT && report.missing.option)
			write__missing(&report.missing, options, "the recording", result->file.path);
		else if (err == -ENODATA)
			write__nothing(options, "the recording", &report);
		/* NULL: the reason was printed above. */
		keep_recording(result, report.missing.option || err == -ENODATA ? NULL : "the file could not be written", err);
		return CLI_COULD_NOT;
	}
	write__print(result->format, &result->output, &report);
	if (options->open)
		browser__open(result->output.path);
	recording_file__remove(&result->file);
	return CLI_DONE;
}

void result__close(struct result *result)
{
	output__close(&result->output);
	recording_file__remove(&result->file); /* no effect on one that keep_recording() kept: it is closed */
}
