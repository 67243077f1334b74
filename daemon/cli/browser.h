/* SPDX-License-Identifier: MIT */
/* --open: shows a file that was just written in the calling user's browser. */
#pragma once

#include "cli/cli.h"

/* Before anything is done: can a browser show this format? With --open and neither -f nor -o, *format becomes
 * "html". CLI_DONE or CLI_USAGE. */
int browser__judge(const struct cli_options *options, const char **format);
/* Runs xdg-open as the calling user and does not wait for it. Without xdg-open or a display, prints the file://
 * address. */
void browser__open(const char *path);
