/* SPDX-License-Identifier: MIT */
/* "Did you mean ...": the few names that are spelled most like one that does not exist. Names are offered one by one
 * and only the best are kept, so memory is bounded. Zero-initialised, except `want`. Pure. */
#pragma once

#include <stddef.h>

#define CLOSE_NAMES 3
#define CLOSE_LENGTH 128 /* longer names are compared and shown truncated */

struct close {
	const char *want;
	struct {
		char name[CLOSE_LENGTH];
		unsigned distance; /* in edits; counts only where name is not "" */
	} best[CLOSE_NAMES];
};

/* The name is copied, truncated; one that is offered again has no effect. */
void close__offer(struct close *close, const char *name);
/* "a, b, c", best first; "" when nothing is close. */
void close__text(const struct close *close, char *out, size_t size);
