#include "cli/write.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"

static bool ends_in(const char *name, const char *ending)
{
	size_t len = strlen(name), ending_len = strlen(ending);

	return len >= ending_len && !strcmp(name + len - ending_len, ending);
}

int write__format(const char *asked, const char *output, const char **ret)
{
	const struct exporter *want = asked ? exporter__find(asked) : NULL, *named = NULL;
	bool sure = false;

	if (output)
		named = exporter__of_name(output, &sure);
	*ret = want ? want->name : named ? named->name : "speedscope";
	if (want && named != want && sure) {
		say__failure("leave -f out, or choose another name", "-f %s, but %s is a name for %s", asked, output,
			     named->name);
		return CLI_USAGE;
	}
	if (!asked && output && ends_in(output, ".html")) {
		say__failure("a picture that a browser opens by itself is an .svg",
			     "%s: this version writes no HTML (formats: %s)", output, exporter__names());
		return CLI_USAGE;
	}
	return CLI_DONE;
}

const char *write__extension(const char *format)
{
	return exporter__find(format)->extension;
}

bool write__compressed(const struct output *output)
{
	static const char *const plain[] = {".ndjson", ".jsonl", ".json"};
	size_t i;

	for (i = 0; i < sizeof(plain) / sizeof(plain[0]); i++)
		if (ends_in(output->path, plain[i]))
			return false;
	return output->directory >= 0;
}

int write__export(const char *format, const struct cli_options *options, int recording_fd,
		  struct output *output, struct export_report *ret)
{
	const struct export_options how = {
		.lines = options->lines,
		.thread_names = options->thread_names,
		.thread = options->thread,
		.idle = options->idle,
		.from = options->from_ns,
		.to = options->to_ns,
		.class_name = options->class_name,
		.function = options->function,
		.module = options->module,
		.compress = write__compressed(output),
	};
	int fd = fcntl(output->fd, F_DUPFD_CLOEXEC, 3), err;
	FILE *file = fd < 0 ? NULL : fdopen(fd, "w");

	if (!file) {
		err = -errno;
		if (fd >= 0)
			close(fd);
		return err;
	}
	err = export__run(format, recording_fd, &how, file, ret);
	/* Some file systems tell of a full disk at the close only. */
	if (fclose(file) && !err)
		err = -errno;
	return err ? err : output__commit(output);
}

void write__missing(const struct export_missing *missing, const struct cli_options *options,
		    const char *input)
{
	const char *const wants[] = {options->thread, options->class_name, options->function,
				     options->module};
	static const char *const names[] = {"thread", "class", "function", "module"};
	char hint[600];
	size_t i;

	snprintf(hint, sizeof(hint), "is it one of these? %s", missing->close);
	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (!strcmp(missing->option, names[i]))
			say__failure(*missing->close ? hint
				     : i ? "cprofd report --by=function,module,class shows what there is"
					 : "`cprofd report --by=thread` shows names and numbers",
				     "%s has no %s %s", input, names[i], wants[i]);
}

void write__tell(const char *format, const struct output *output,
		 const struct export_report *report)
{
	struct stat status;

	if (report->bin)
		say("to keep the file small, samples within %s were merged (exact: a recording "
		    "with -f events, "
		    "then convert --window)",
		    words__duration(report->bin));
	if (report->folded_below)
		say("stacks lighter than %s were folded into their callers",
		    words__duration(report->folded_below));
	if (report->no_waits)
		say("-i shows nothing more: this recording was made without -i and --mode=wall, so where threads waited is not in it");
	if (report->cut)
		say("the recording ends in the middle; everything up to there is in the file");
	if (output->directory < 0)
		return;
	if (fstat(output->fd, &status) < 0)
		status.st_size = 0;
	if (!strcmp(format, "speedscope"))
		say("wrote %s (%s): open it at %s", output->path,
		    words__bytes((uint64_t)status.st_size), CLI_SPEEDSCOPE);
	else if (!strcmp(format, "events"))
		say__failure("`cprofd report` tells more of it in tables, and `cprofd help report` what they mean",
			     "wrote %s (%s): `cprofd convert %s` makes a file for %s", output->path,
			     words__bytes((uint64_t)status.st_size), output->path, CLI_SPEEDSCOPE);
	else
		say("wrote %s (%s)", output->path, words__bytes((uint64_t)status.st_size));
}
