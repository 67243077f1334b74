/* SPDX-License-Identifier: MIT */
/* Opens the recordings that a command reads, with the calling user's rights, and has the sentences for all
 * that can be wrong with them, so that convert, report and diff say the same about the same file. */
#pragma once

#include "cli/cli.h"

/* "-" is stdin. The fd, or -1: the error was printed. Limits what reading it may cost (base/limits.h), unless --no-limits was
 * given. */
int input__open_recording(const char *path);
/* If err says that a limit was exceeded, prints that and returns true. */
bool input__print_limit(int err, const char *path);
/* Prints why opening or reading a recording failed. `err`: the -errno of that; `path`: as the user gave it. */
void input__print_failure(int err, const char *path);

/* A source, whose path comes from a recording, as the user who called sudo: a descriptor, or -errno. */
int input__open_source(const char *path);

/* The filters that `convert`, `report` and `diff` have in common. Borrows strings of the options. */
struct export_options input__filters(const struct cli_options *options);

/* Reads --hlo FILE; *ret is NULL without that option. CLI_DONE; otherwise the error was already printed. */
int input__hlo(const char *path, struct hlo **ret);
/* Warns if no name of the file occurred in the recording. */
void input__print_hlo(const char *path, const struct hlo *hlo);
