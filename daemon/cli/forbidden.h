/* SPDX-License-Identifier: MIT */
/* What the kernel does not let even root read of a process. */
#ifndef CPROFD_CLI_FORBIDDEN_H
#define CPROFD_CLI_FORBIDDEN_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* True if we are root and may not open what a profiler reads of `pid`. Then `ret` has which file and why not; what may be
 * the cause is the hint, which lives for ever. */
bool forbidden__to_root(pid_t pid, char *ret, size_t size, const char **ret_hint);

/* The same of an answer (its code, NULL: none, and its errno), by somebody who was root when they asked. */
bool forbidden__answered(pid_t pid, const char *code, int number, char *ret, size_t size, const char **ret_hint);

#endif
