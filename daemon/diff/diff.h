/* SPDX-License-Identifier: MIT */
/* Two sides, one or more recordings each: which shares of the time differ, and how sure that is.
 *
 * A diff is made for a list of tables, fed with recordings one by one, and finished. Rows of the
 * two sides are the same by name and module (not by path or line, which another version of a
 * program has elsewhere; a line: by its number too). What is compared is the CPU time (in a
 * wall-clock recording, wall time) that passes the filters: as a share of it all, or for each
 * outermost compile, where both sides compile the same again and again (or in several recordings).
 * estimate.h has the statistics. Memory: a row's time by cell of each recording, 8 bytes for each
 * of at most DIFF_CELLS.
 *
 * Owner: options are borrowed. Threading: none kept. Errors: -errno; -EBADMSG for a damaged
 * recording; -ENOENT for a filter that nothing answers to (diff__missing()); -ENODATA: the sides
 * have nothing in common, -EDOM: they do not compile the same, which per compile needs; -EXDEV: one recording is of
 * CPU time, another of wall time. */
#ifndef CPROFD_DIFF_H
#define CPROFD_DIFF_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "export/export.h"
#include "report/report.h"

/* The JSON's version: docs/diff.md. */
#define DIFF_MAJOR 1
#define DIFF_MINOR 4
/* Rows with fewer samples, of both sides together, are not compared. */
#define DIFF_SAMPLES_MIN 30u

/* What times are compared as. */
enum diff_per { DIFF_SHARE, DIFF_COMPILE, DIFF_PER_COUNT };
extern const char *const diff_per_names[DIFF_PER_COUNT]; /* "share", "compile" */

struct diff_options {
	struct export_options filter;
	uint32_t tables; /* 1 << enum report_by, of DIFF_TABLES */
	bool inclusive;	 /* inclusive times are compared; false: exclusive */
	enum diff_per per;
	double level; /* 0.999: so sure is what differs */
	uint32_t top; /* in text: so many rows, surely different or not; 0: those that are */
	bool flame;   /* stacks are compared, too, for the formats below */
};
#define DIFF_TABLES                                                                                \
	(1u << REPORT_CLASS | 1u << REPORT_UNIT | 1u << REPORT_PHASE | 1u << REPORT_PASS |         \
	 1u << REPORT_FUNCTION | 1u << REPORT_LINE | 1u << REPORT_PACKAGE | 1u << REPORT_MODULE |  \
	 1u << REPORT_FILE)

struct diff;
int diff__new(const struct diff_options *options, uint32_t recordings, struct diff **ret);
struct diff *diff__free(struct diff *diff); /* NULL */
/* The next recording, of the side before or after. */
int diff__read(struct diff *diff, int recording_fd, const char *name, bool after);
int diff__finish(struct diff *diff);
const struct export_missing *diff__missing(const struct diff *diff);
/* Rows with enough samples, of all tables. After diff__finish(). */
uint32_t diff__compared(const struct diff *diff);

/* Each writes the whole. -errno of the stream. */
int diff__text(const struct diff *diff, FILE *out);
int diff__json(const struct diff *diff, FILE *out);
/* A flame graph of both sides together, in which what surely differs has a colour: as a picture; as a page, with the
 * text below it. And stacks for speedscope: before, after, what is more, what is less. With options.flame. */
int diff__svg(const struct diff *diff, FILE *out);
int diff__html(const struct diff *diff, FILE *out);
int diff__speedscope(const struct diff *diff, FILE *out);

#endif
