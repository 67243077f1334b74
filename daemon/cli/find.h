/* SPDX-License-Identifier: MIT */
/* Finds a process by name, for operands such as `cprofd attach compile.py`. Reads /proc. */
#pragma once

#include <sys/types.h>

/* The only process with this name (/proc/PID/comm); else the only one with it as a word or file name in its command
 * line; else the only one with it anywhere there. Never this process or an ancestor. CLI_DONE, or CLI_USAGE when
 * none or several match, after printing so. */
int find__process(const char *name, pid_t *ret);
