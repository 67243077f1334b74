/* SPDX-License-Identifier: MIT */
/* "Did you mean ...": the few names that are spelled most like one that does not exist. Names are offered one by one
 * and only the best are kept, so memory is bounded. Zero-initialised, except the first two. Pure. */
#pragma once

#include <stddef.h>

#include "export/export.h"

#define CLOSE_NAMES 3
#define CLOSE_LENGTH 128 /* longer names are compared and shown truncated */

struct close {
	const char *option; /* for close__missing() */
	const char *want;
	bool matched;
	struct {
		char name[CLOSE_LENGTH];
		unsigned distance; /* in edits; counts only where name is not "" */
	} best[CLOSE_NAMES];
};

#define CLOSE(option_, want_, matched_) ((struct close){.option = option_, .want = want_, .matched = matched_})

/* The name is copied, truncated; one that is offered again has no effect. */
void close__offer(struct close *close, const char *name);
/* "a, b, c", best first; "" when nothing is close. */
void close__text(const struct close *close, char *out, size_t size);

/* One that does not match, is offered until one matches. Returns `match`. */
bool close__tried(struct close *close, bool match, const char *name);
/* 0 if one matched; else -ENOENT, and all of *ret but its name. */
int close__missing(const struct close *close, struct export_missing *ret);
