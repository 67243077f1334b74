/* SPDX-License-Identifier: MIT */
/* A directory that recordings go into, one after another: cprofd-20260131T120000.000Z-4242.cprof, time first, so that the
 * order of names is that of time. */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define FOLDER_END ".cprof"

/* "cprofd-20260131T120000.000Z-4242", `end`, and nothing else: what somebody has put aside, or named alike, is none of ours. */
bool folder__names(const char *name, const char *end);
/* Makes it if it is not there; with the calling user's rights. A descriptor, or -errno. */
int folder__open(const char *path);
/* ret: the path of a recording of `now`, ms since 1970. *named: that of the last name (0: none); the next one is later,
 * whatever the clock does. */
void folder__name(const char *path, pid_t pid, uint64_t now, uint64_t *named, char ret[PATH_MAX]);
