/* SPDX-License-Identifier: MIT */
/* CPU time of a process's children, for the hint to use -s: without it they are not recorded. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* CPU time in ns of all descendants of this process, also of those that it waited for. False: not known (the process
 * is gone, or there are too many threads). */
bool family__cpu(pid_t pid, uint64_t *ret);
