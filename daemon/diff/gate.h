/* SPDX-License-Identifier: MIT */
/* Limits of growth, for scripts: `--fail-on 'total>3%,unit>5%'`. A limit is exceeded where something surely grew by
 * more: where the whole interval of its change lies above it (estimate.h), and where a row is new. Of rows only those that grew
 * by a least part of all time count: what is new with a few ms, or three times what was nearly nothing, is no reason to stop a change.
 *
 * Errors: -errno. Threading: none kept. */
#pragma once

#include "diff/diff.h"

#define DIFF_LIMITS_MAX 16u

struct diff_limit {
	bool total;    /* of the totals; false: of the rows of a table */
	int what;      /* enum diff_total_kind, or enum report_by */
	double growth; /* 0.05: 5 % of what it was before */
};

#define DIFF_LEAST 0.002

struct diff_limits {
	struct diff_limit items[DIFF_LIMITS_MAX];
	uint32_t n;
	double least; /* of rows: by which part of all time they must have grown. DIFF_LEAST, if nobody says otherwise; 0: any */
};

/* "WHAT>PERCENT%,..."; WHAT: total, elapsed, compiles, compiling, or a table. NULL, or why not: half a sentence. */
const char *diff_limits__parse(const char *text, struct diff_limits *ret);
/* What it is a limit of, as in the option: "total", "unit". */
const char *diff_limit__name(const struct diff_limit *limit);
/* The tables that the limits need: 1 << enum report_by. */
uint32_t diff_limits__tables(const struct diff_limits *limits);

/* Of the limits: how many things exceed one; how many would, but for `least`; and the first limit of which nothing can be said
 * (then more recordings a side are needed); NULL: there is none. Valid as long as the program. */
struct diff_verdict {
	uint32_t exceeded, light;
	const char *unknown;
};
/* Writes a line for each that exceeds a limit, after `before_line`. */
int diff__judge(const struct diff *diff, const struct diff_limits *limits, const char *before_line, FILE *out, struct diff_verdict *ret);

/* The comparison in Markdown, as GitHub and GitLab show it: totals, what differs, and what exceeds the limits. */
int diff__markdown(const struct diff *diff, const struct diff_limits *limits, FILE *out);
/* The limits as JUnit's XML: a test case for each. */
int diff__junit(const struct diff *diff, const struct diff_limits *limits, FILE *out);
