/* SPDX-License-Identifier: MIT */
/* A process by its name, as an operand. Reads /proc. */
#ifndef CPROFD_CLI_FIND_H
#define CPROFD_CLI_FIND_H

#include <sys/types.h>

/* The only process whose name (/proc/PID/comm) this is, else whose command has a word that is it or a file of that name, else
 * whose command has it anywhere; never this process or who started it. CLI_DONE, or CLI_USAGE: none, or several, which was said. */
int find__process(const char *name, pid_t *ret);

#endif
