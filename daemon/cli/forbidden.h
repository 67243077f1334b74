/* SPDX-License-Identifier: MIT */
/* Processes whose memory the kernel does not let the caller read: which of its rules that is. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* True if this process is root and may not open /proc/PID/mem or maps. Then `ret` says which file and why, and the
 * hint, a static string, names the possible causes. */
bool forbidden__to_root(pid_t pid, char *ret, size_t size, const char **ret_hint);

/* True if this process is a user's and /proc shows it that process: then `ret` says what is in the way. */
bool forbidden__to_user(pid_t pid, char *ret, size_t size, const char **ret_hint);

/* The one that applies, for an engine's answer (its code, NULL: none; its errno). */
bool forbidden__answered(pid_t pid, const char *code, int number, char *ret, size_t size, const char **ret_hint);
