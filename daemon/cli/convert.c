#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "cli/cli.h"
#include "cli/input.h"
#include "cli/output.h"
#include "cli/write.h"

/* "a/svd.cprof" -> "svd" + extension, in the current directory. */
static void default_name(const char *input, const char *extension, char *out, size_t size)
{
	const char *slash = strrchr(input, '/');
	size_t len;

	input = slash ? slash + 1 : input;
	if (!strcmp(input, "-"))
		input = "cprofd";
	len = strlen(input);
	if (len > 6 && !strcmp(input + len - 6, ".cprof"))
		len -= 6;
	snprintf(out, size, "%.*s%s", (int)(len < 200 ? len : 200), input, extension);
}

static void tell_failure(int err, const char *input, const char *output,
			 const struct cli_options *options, const struct export_report *report)
{
	const struct export_missing *missing = &report->missing;

	if (err == -EBADMSG || err == -EPROTONOSUPPORT || err == -ESPIPE)
		input__tell_failure(err, input);
	else if (err == -ENOENT && missing->option)
		write__missing(missing, options, input, input);
	else if (err == -ENODATA)
		write__nothing(options, input, report);
	else
		say__failure("", "%s could not be written from %s: %s", output, input,
			     strerror(-err));
}

int convert__run(const struct cli_options *options)
{
	const char *format, *target;
	struct export_report report = {};
	struct output output;
	_cleanup_close_ int input = -1;
	const char *path;
	char name[256];
	int status, err;

	if (options->n_operands != 1) {
		say__failure("as in `cprofd convert svd.cprof`", "one recording, please");
		return CLI_USAGE;
	}
	status = write__format(options->format, options->output, &format);
	if (status != CLI_DONE)
		return status;
	if (options->unit_frames && (!strcmp(format, "speedscope") || !strcmp(format, "events"))) {
		say__failure(*format == 's' ? "leave it out: speedscope has a profile of each thread's compiles beside its samples" :
					      "leave it out: a recording has its compiles as events of their own",
			     "--units is for collapsed, svg, html and pprof, and this is %s", format);
		return CLI_USAGE;
	}
	path = options->operands[0];
	input = input__open(path);
	if (input < 0) {
		say__failure("", "%s cannot be read: %s", path, strerror(errno));
		return CLI_COULD_NOT;
	}
	default_name(path, write__extension(format), name, sizeof(name));
	target = options->output ? options->output : name;
	if (write__is_input(input, target)) {
		say__failure("choose another name with -o FILE; nothing was written", "%s is the recording that is to be read", target);
		return CLI_USAGE;
	}
	status = output__open(target, false, &output);
	if (status != CLI_DONE)
		return status;
	err = write__export(format, options, input, &output, &report);
	if (err)
		tell_failure(err, path, output.path, options, &report);
	else
		write__tell(format, &output, &report);
	if (!err && strcmp(format, "events") && !report.samples)
		say("nothing is in it: no sample was taken");
	output__close(&output);
	return err ? CLI_COULD_NOT : CLI_DONE;
}
