/* SPDX-License-Identifier: MIT */
/* The engine's sandbox: the files and the system calls that an engine needs, and no others. */
#pragma once

#include <stddef.h>

/* Enters the sandbox, for good: this thread, and all that it starts. `directories` (descriptors, -1: none) may be
 * written in. Landlock is left out where the kernel has none; -errno if the rest cannot be had. Call it before there
 * are other threads. */
int sandbox__enter(const int *directories, size_t n);
