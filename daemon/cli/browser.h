/* SPDX-License-Identifier: MIT */
/* What --open does: a file that was written, in the calling user's browser. */
#ifndef CPROFD_CLI_BROWSER_H
#define CPROFD_CLI_BROWSER_H

#include "cli/cli.h"

/* Before anything is done: can a browser show it? Of --open without a format the page is meant, *format. CLI_DONE or CLI_USAGE. */
int browser__judge(const struct cli_options *options, const char **format);
/* By xdg-open, as the calling user, without waiting for it. Where there is none, or no screen, the address is said. */
void browser__open(const char *path);

#endif
