/* SPDX-License-Identifier: MIT */
/* Amounts as people type them: sizes ("64M", "1.5GiB") and durations ("30s", "10m", "500ms"). */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* The number that the text begins with, such as "1.5"; *ret_end: what follows it. */
bool amount__number(const char *text, double *ret, const char **ret_end);
/* A number and a unit, from `units`, to the end of `text`. The number may have a fraction; no sign, no blank before the
 * unit. False: it is none, or beyond 2^62. */
struct amount_unit {
	const char *name;        /* the row with "" says what a bare number means; without one it is refused */
	uint64_t factor;
};
bool amount__parse(const char *text, const struct amount_unit *units, uint64_t *ret);
/* Bytes: k, M, G, T are powers of 1000, as in what cprofd prints; Ki, Mi ... of 1024. A `B` may follow. */
bool amount__bytes(const char *text, uint64_t *ret);
/* ns: ms, s, m, h, d; a bare number is seconds. */
bool amount__ns(const char *text, uint64_t *ret);
