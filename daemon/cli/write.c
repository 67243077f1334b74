/* SPDX-License-Identifier: MIT */
/* What attach, record and convert share: chooses the format by -f or by the file's name, runs the export, and
 * explains filters that match nothing.
 *
 *     -f     name            format
 *     svg    x.svg           svg
 *     -      x.svg           svg, by its ending
 *     svg    x.html          refused: they contradict each other
 *     svg    x.txt           svg: .txt is the ending of many things
 *     -      x.txt           collapsed, the only format that may have that ending
 *     -      x.dat           refused: the name seems to mean a format that is not known
 *     -      none            speedscope */
#include "cli/write.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/ending.h"
#include "cli/input.h"
#include "cli/user.h"

/* The ending of a name: ".txt", or "" if it has none. */
static const char *end_of(const char *path)
{
	const char *name = basename(path), *dot = strrchr(name, '.');

	/* ".bashrc" and "file." have none. */
	return dot && dot > name && dot[1] ? dot : "";
}

/* With the user's rights, as the file will be opened: root would see files that the user may not know of. */
static bool user_stat(const char *path, struct stat *ret)
{
	const struct user *user = user__calling();
	bool there;

	if (user__enter(user))
		return false;
	there = !stat(path, ret);
	user__leave(user);
	return there;
}

/* Refuses an unknown ending without -f: the name seems to mean a format. */
static int refuse_end(const char *output)
{
	char hint[512];
	const char *at;
	struct stat status;
	size_t len;

	if (!*end_of(output) || (user_stat(output, &status) && !S_ISREG(status.st_mode)))
		return CLI_DONE; /* a pipe, a device */
	len = (size_t)snprintf(hint, sizeof(hint), "endings are");
	for (const struct exporter *exporter = exporters; exporter->name; exporter++) {
		len += (size_t)snprintf(hint + len, sizeof(hint) - len, "%s ", exporter == exporters ? "" : ",");
		/* `endings` is a list, such as ".svg .html ?.txt", with a '?' before one that other programs
		 * use, too (export/export.h). */
		for (at = exporter->endings; *at && len < sizeof(hint) - 1; at++)
			if (*at != '?')
				hint[len++] = *at;
		len += (size_t)snprintf(hint + len, sizeof(hint) - len, " (%s)", exporter->name);
	}
	snprintf(hint + len, sizeof(hint) - len, "; with -f FORMAT any name will do");
	say__failure(hint, "%s: no format has the ending %s", output, end_of(output));
	return CLI_USAGE;
}

int write__format(const char *asked, const char *output, const char **ret)
{
	const struct exporter *want = asked ? exporter__find(asked) : NULL, *named = NULL;
	bool sure = false;

	if (output)
		named = exporter__of_name(output, &sure);
	*ret = want ? want->name : named ? named->name : "speedscope";
	/* ".json" is not sure: several formats are JSON. */
	if (want && named != want && sure) {
		say__failure("leave -f out, or choose another name", "-f %s, but %s is a name for %s", asked, output,
			     named->name);
		return CLI_USAGE;
	}
	return !asked && output && !named && strcmp(output, "-") ? refuse_end(output) : CLI_DONE;
}

/* The same inode, so also through links and other paths. */
bool write__is_input(int recording_fd, const char *path)
{
	struct stat in, out;

	return !fstat(recording_fd, &in) && S_ISREG(in.st_mode) && user_stat(path, &out) && in.st_dev == out.st_dev &&
	       in.st_ino == out.st_ino;
}

bool write__filters(const struct cli_options *options)
{
	return options->thread || options->process || options->from_ns || options->to_ns || options->class_name || options->function ||
	       options->module || options->skip_first;
}

const char *write__extension(const char *format)
{
	return exporter__find(format)->extension;
}

bool write__compressed(const struct output *output)
{
	static const char *const plain[] = {".ndjson", ".jsonl", ".json"};

	for (size_t i = 0; i < sizeof(plain) / sizeof(plain[0]); i++)
		if (ends_in(output->path, plain[i]))
			return false;
	/* A pipe's reader, such as jq, expects lines. */
	return output->directory >= 0;
}

int write__rules(const char *format, const struct cli_options *options, struct rules **ret)
{
	*ret = NULL;
	return options->rules && exporter__find(format)->rules ? rules__all(options->rules, ret) : CLI_DONE;
}

int write__export(const char *format, const struct cli_options *options, const struct rules *rules, struct hlo *hlo, int recording_fd,
		  struct output *output, struct export_report *ret)
{
	struct export_options how = input__filters(options);
	FILE *file = output__stream(output);
	int err;

	if (!file)
		return -errno;
	how.lines = options->lines;
	/* A recording keeps all frames: later conversions decide for themselves. */
	how.fold_interpreter = !options->interpreter_frames && strcmp(format, "events");
	how.thread_names = options->thread_names;
	how.units = options->unit_frames;
	how.idle = options->idle;
	how.rules = rules;
	how.hlo = hlo;
	how.open_source = options->annotate ? input__open_source : NULL;
	how.compress = write__compressed(output);
	err = export__run(format, recording_fd, &how, file, ret);
	/* Some file systems (NFS) report a full disk only at close. */
	if (fclose(file) && !err)
		err = -errno;
	/* Without filters, an empty recording gives an empty file; the message of the caller says so. */
	if (!err && write__filters(options) && !ret->samples)
		err = -ENODATA;
	return err ? err : output__commit(output);
}

void write__missing(const struct export_missing *missing, const struct cli_options *options,
		    const char *input, const char *path)
{
	const char *const wants[] = {options->thread, options->process, options->class_name, options->function,
				     options->module};
	static const char *const names[] = {"thread", "process", "class", "function", "module"};
	char hint[600], listing[600];

	if (!strcmp(missing->option, "exclude")) {
		snprintf(hint, sizeof(hint), *missing->close ? "is it one of these? %s" : "`cprofd report` shows what there is", missing->close);
		say__failure(hint, "%s has no function, module or file %s (--exclude)", input, missing->name);
		return;
	}
	if (!strcmp(missing->option, "skip-first")) {
		say__failure("`cprofd rules list` shows which compilers are known", "%s has no compile, so none is a first one: leave --skip-first out", input);
		return;
	}
	snprintf(listing, sizeof(listing), "`cprofd report %.500s --by=%s` shows what there is", path,
		 !strcmp(missing->option, "process") ? "process" : !strcmp(missing->option, "thread") ? "thread" : "function,module,class");
	snprintf(hint, sizeof(hint), "is it one of these? %s", missing->close);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (!strcmp(missing->option, names[i]))
			say__failure(*missing->close ? hint : listing,
				     "%s has no %s %s", input, names[i], wants[i]);
}

void write__nothing(const struct cli_options *options, const char *input, const struct export_report *report)
{
	bool window = options->from_ns || options->to_ns;

	say__failure(window ? "--window is in seconds since its start; nothing was written" : "nothing was written",
		     "%s: no sample passes the filters%s%s%s", input, window ? " (it is " : "",
		     window ? words__duration(report->span) : "", window ? " long)" : "");
}

void write__print(const char *format, const struct output *output,
		 const struct export_report *report)
{
	struct stat status;

	if (report->bin)
		say__note("to keep the file small, samples within %s were merged (exact: a recording "
		    "with -f events, "
		    "then convert --window)",
		    words__duration(report->bin));
	if (report->folded_below)
		say__note("to keep the file small, stacks lighter than %s were folded into their callers%s",
		    words__duration(report->folded_below), strcmp(format, "collapsed") ? "" : " (-f pprof has all)");
	/* The other formats say it in the file itself. */
	if (report->quiet_threads && (!strcmp(format, "collapsed") || !strcmp(format, "pprof")))
		say__note("%u thread%s that hardly ran waited %s: not in the file, as no part of the shares", report->quiet_threads,
			  report->quiet_threads == 1 ? "" : "s", words__duration(report->quiet_wall));
	if (report->no_waits)
		say__note("-i shows nothing more: this recording was made without -i and --mode=wall, so where threads waited is not in it");
	if (report->cut)
		say__note("the recording ends in the middle; everything up to there is in the file");
	/* stdout, a pipe: no name to print. */
	if (output->directory < 0)
		return;
	if (say__is_quiet())
		return;
	if (fstat(output->fd, &status) < 0)
		status.st_size = 0;
	if (!strcmp(format, "speedscope"))
		say__done("open it at " CLI_SPEEDSCOPE, "wrote %s (%s, %s)", output->path, words__bytes((uint64_t)status.st_size), format);
	else if (!strcmp(format, "events"))
		say__done("`cprofd report FILE`: tables of it; `cprofd convert FILE`: other formats", "wrote %s (%s, a recording)",
			     output->path, words__bytes((uint64_t)status.st_size));
	else
		say__note("wrote %s (%s, %s)", output->path, words__bytes((uint64_t)status.st_size), format);
}
