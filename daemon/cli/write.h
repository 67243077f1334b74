/* SPDX-License-Identifier: MIT */
/* From a recording to a file of another format: what attach, record and convert have in common. */
#pragma once

#include "cli/cli.h"
#include "cli/output.h"

/* The canonical name of the format: asked for, or known by the end of the output's name, else speedscope.
 * CLI_DONE, or CLI_USAGE after printing why: the two contradict each other, or the name has an ending that no
 * format has. */
int write__format(const char *asked, const char *output, const char **ret);
/* The ending of a default file name, with its dot. */
const char *write__extension(const char *format);
/* Is a recording of this name compressed with zstd? False: plain lines (.ndjson, .jsonl, .json, or no regular file). */
bool write__compressed(const struct output *output);

/* Is `path` the open recording itself, which writing would destroy? */
bool write__is_input(int recording_fd, const char *path);
/* Do the options select only a part of the samples? --exclude is none of them: it hides frames, and leaves
 * every sample in. */
bool write__filters(const struct cli_options *options);

/* The rules of --rules, for a format that takes them; else *ret is NULL. CLI_*; an error was already printed. */
int write__rules(const char *format, const struct cli_options *options, struct rules **ret);
/* Writes the file and renames it to its final name. -errno; -ENODATA: no sample passes the filters; then it is not
 * renamed. `rules`: of write__rules(); `hlo`: of input__hlo(). */
int write__export(const char *format, const struct cli_options *options, const struct rules *rules, struct hlo *hlo, int recording_fd,
		  struct output *output, struct export_report *ret);
/* Prints what -ENOENT of an export means: which filter matches nothing, and similar names. `input`: for the message;
 * `path`: for a command to be typed. */
void write__missing(const struct export_missing *missing, const struct cli_options *options,
		    const char *input, const char *path);
/* Prints what -ENODATA of an export means. */
void write__nothing(const struct cli_options *options, const char *input, const struct export_report *report);
/* Prints where the file is, what was left out to keep it small, and what opens it. */
void write__print(const char *format, const struct output *output, const struct export_report *report);
