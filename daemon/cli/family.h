/* SPDX-License-Identifier: MIT */
/* What a process's children cost, for a hint: they are not recorded unless that is asked for. */
#ifndef CPROFD_CLI_FAMILY_H
#define CPROFD_CLI_FAMILY_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* CPU time, in ns, of all processes that descend from this one, those that it waited for included. False: it is not known
 * (the process is gone, or there are too many). */
bool family__cpu(pid_t pid, uint64_t *ret);

#endif
