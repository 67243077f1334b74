/* SPDX-License-Identifier: MIT */
/* Processes whose memory the kernel does not let even root read. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* True if this process is root and may not open /proc/PID/mem or maps. Then `ret` says which file and why, and the
 * hint, a static string, names the possible causes. */
bool forbidden__to_root(pid_t pid, char *ret, size_t size, const char **ret_hint);

/* The same for an engine's answer (its code, NULL: none; its errno), if the client was root when it asked. */
bool forbidden__answered(pid_t pid, const char *code, int number, char *ret, size_t size, const char **ret_hint);
