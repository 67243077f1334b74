/* SPDX-License-Identifier: MIT */
/* From a recording to the file that was asked for: what attach, record and
 * convert have in common. */
#ifndef CPROFD_CLI_WRITE_H
#define CPROFD_CLI_WRITE_H

#include "cli/cli.h"
#include "cli/output.h"
#include "export/export.h"

/* The canonical name of the format: asked for, or known by the end of the output's name, else speedscope. CLI_DONE, or
 * CLI_USAGE (said already) where the two contradict each other, or the name's end is none of any format. */
int write__format(const char *asked, const char *output, const char **ret);
/* Of a default file name, with its dot. */
const char *write__extension(const char *format);
/* A recording under this name: zstd, or plain lines (.ndjson, .jsonl, .json, not a regular file)? */
bool write__compressed(const struct output *output);

/* Would writing to `path` put an end to the open recording? */
bool write__is_input(int recording_fd, const char *path);
/* Is a part of the recording asked for? */
bool write__filters(const struct cli_options *options);

/* Those of --rules, for a format that takes them; else *ret is NULL. CLI_*, what is wrong was said. */
int write__rules(const char *format, const struct cli_options *options, struct rules **ret);
/* Writes it and gives it its name. -errno; -ENODATA: no sample passes the filters, and the name is not given. `rules`: of
 * write__rules(); `hlo`: of input__hlo(). */
int write__export(const char *format, const struct cli_options *options, const struct rules *rules, struct hlo *hlo, int recording_fd,
		  struct output *output, struct export_report *ret);
/* -ENOENT of an export, in words: which filter nothing answers to, and what is like it. `input`: in words, `path`: to be
 * typed. */
void write__missing(const struct export_missing *missing, const struct cli_options *options,
		    const char *input, const char *path);
/* -ENODATA of an export, in words. */
void write__nothing(const struct cli_options *options, const char *input, const struct export_report *report);
/* Where the file is, what was left out to keep it small, what opens it. */
void write__print(const char *format, const struct output *output, const struct export_report *report);

#endif
