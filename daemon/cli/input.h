/* SPDX-License-Identifier: MIT */
/* A recording that a command reads, in the calling user's name. */
#ifndef CPROFD_CLI_INPUT_H
#define CPROFD_CLI_INPUT_H

#include <stdbool.h>

#include "cli/cli.h"
#include "export/export.h"

/* "-" is stdin. The fd, or -1 with errno. */
int input__open(const char *path);
/* ... and what it may make us spend is limited (base/limits.h), unless --no-limits was given. */
int input__open_recording(const char *path);
/* In words: it met a limit. False: that is not why. */
bool input__print_limit(int err, const char *path);
/* In words: why reading a recording failed. */
void input__print_failure(int err, const char *path);

/* Which samples and frames of a recording are asked for: what is the same in `convert`, `report` and `diff`. Borrows the options. */
struct export_options input__filters(const struct cli_options *options);

struct hlo;
/* For --hlo: NULL without it. CLI_DONE; else it was said what is wrong. */
int input__hlo(const char *path, struct hlo **ret);
/* Says so if it named nothing. */
void input__print_hlo(const char *path, const struct hlo *hlo);

#endif
