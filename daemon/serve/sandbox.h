/* SPDX-License-Identifier: MIT */
/* The engine's sandbox: the files and the system calls that an engine needs, and no others. */
#ifndef CPROFD_SERVE_SANDBOX_H
#define CPROFD_SERVE_SANDBOX_H

#include <stddef.h>

/* For good, for this thread and all that it starts. `directories` (fds, -1: none) may be written in.
 * Landlock is left out where the kernel has none; -errno when the rest cannot be had. */
int sandbox__enter(const int *directories, size_t n);

#endif
