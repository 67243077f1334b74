/* SPDX-License-Identifier: MIT */
/* Levenshtein distance, computed with one row of the usual table. A wanted name is also compared with the last part
 * of qualified names: `run_pas` is close to `PassManager.run_pass`. */
#include "export/close.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

static unsigned least(unsigned a, unsigned b)
{
	return a < b ? a : b;
}

/* Edits (insert, delete, replace) from one text to the other, ignoring case. row[j] is the distance of a's
 * first i characters to b's first j; `diagonal` is row[j - 1] of the row before. At most 128 x 128 steps. */
static unsigned edits(const char *a, size_t a_len, const char *b, size_t b_len)
{
	unsigned row[CLOSE_LENGTH + 1], i, j;

	for (j = 0; j <= b_len; j++)
		row[j] = j;
	for (i = 1; i <= a_len; i++) {
		unsigned diagonal = row[0];

		row[0] = i;
		for (j = 1; j <= b_len; j++) {
			unsigned change = tolower((unsigned char)a[i - 1]) !=
					  tolower((unsigned char)b[j - 1]);
			unsigned cost = least(diagonal + change, least(row[j - 1], row[j]) + 1);

			diagonal = row[j];
			row[j] = cost;
		}
	}
	return row[b_len];
}

/* Where the last part of a qualified name begins: "llvm::Pass::run(Module&)" -> "run(Module&)". Dots and
 * colons in the arguments do not count. */
static const char *last_part(const char *name)
{
	const char *end = name + strcspn(name, "("), *at = end;

	while (at > name && !strchr(".:", at[-1]))
		at--;
	return at < end ? at : name;
}

/* A distance that no name has: not close. */
#define FAR 1000u

/* 0 if the name contains what is wanted; else the edits, if there are at most a third of its length + 1. */
static unsigned distance(const char *want, const char *name)
{
	size_t want_len = strnlen(want, CLOSE_LENGTH), len = strnlen(name, CLOSE_LENGTH);
	const char *part = last_part(name);
	size_t part_len = strcspn(part, "(");
	unsigned best;

	/* Shorter texts are part of too many names. */
	if (want_len >= 3 && strcasestr(name, want))
		return 0;
	best = edits(want, want_len, name, len);
	if (part != name && part_len <= CLOSE_LENGTH)
		best = least(best, edits(want, want_len, part, part_len));
	/* One edit for "fo", three for "run_pass". */
	return best <= want_len / 3 + 1 ? best : FAR;
}

/* Inserts a name into the sorted list of the best, unless it is there or too far. */
void close__offer(struct close *close, const char *name)
{
	unsigned far;
	size_t i, at = CLOSE_NAMES;

	for (i = 0; i < CLOSE_NAMES; i++)
		if (!strncmp(close->best[i].name, name, CLOSE_LENGTH - 1))
			return;
	far = *name ? distance(close->want, name) : FAR;
	if (far == FAR)
		return;
	/* Insertion sort; of equal distances the first one offered stays in front. */
	while (at && (!*close->best[at - 1].name || far < close->best[at - 1].distance))
		at--;
	if (at == CLOSE_NAMES)
		return;
	memmove(&close->best[at + 1], &close->best[at],
		(CLOSE_NAMES - 1 - at) * sizeof(close->best[0]));
	snprintf(close->best[at].name, CLOSE_LENGTH, "%s", name);
	close->best[at].distance = far;
}

void close__text(const struct close *close, char *out, size_t size)
{
	size_t i, len = 0;

	*out = '\0';
	for (i = 0; i < CLOSE_NAMES && *close->best[i].name && len < size; i++)
		len += (size_t)snprintf(out + len, size - len, "%s%s", i ? ", " : "",
					close->best[i].name);
}

bool close__tried(struct close *close, bool match, const char *name)
{
	close->matched |= match;
	if (!close->matched)
		close__offer(close, name);
	return match;
}

int close__missing(const struct close *close, struct export_missing *ret)
{
	if (close->matched)
		return 0;
	ret->option = close->option;
	close__text(close, ret->close, sizeof(ret->close));
	return -ENOENT;
}
