/* SPDX-License-Identifier: MIT */
/* Compares two sides, each of one or more recordings: which shares of the time differ, and how certain that is.
 *
 * A diff is created for a list of tables, fed with recordings one by one, and finished. Rows of the two sides are
 * matched by name and module (not by path or line number, which differ between versions of a program; rows of lines
 * also by number). What is compared is the CPU time (in wall mode the wall time) that passes the filters: as a share
 * of all of it, or per outermost compile if both sides compile the same functions repeatedly (or in several
 * recordings). estimate.h has the statistics. Memory: each row's time by cell of each recording, 8 bytes per cell,
 * at most DIFF_CELLS cells.
 *
 * Owner: options are borrowed. Threading: none kept. Errors: -errno; -EBADMSG for a damaged recording; -ENOENT for a
 * filter that matches nothing (diff__missing()); -ENODATA: the sides have nothing in common; -EDOM: they do not
 * compile the same, which DIFF_COMPILE needs; -EXDEV: one recording is of CPU time, another of wall time. */
#pragma once

#include "export/export.h"
#include "report/report.h"

/* Version of the JSON: docs/diff.md. */
#define DIFF_MAJOR 1
#define DIFF_MINOR 5
/* Rows with fewer samples on both sides together are not compared. */
#define DIFF_SAMPLES_MIN 30u

/* What times are related to: all time, or the number of compiles. */
enum diff_per { DIFF_SHARE, DIFF_COMPILE, DIFF_PER_COUNT };
extern const char *const diff_per_names[DIFF_PER_COUNT]; /* "share", "compile" */

/* Borrowed until diff__free(), with all strings. */
struct diff_options {
	struct export_options filter;
	uint32_t tables; /* 1 << enum report_by, of DIFF_TABLES */
	bool inclusive;	 /* inclusive times are compared; false: exclusive */
	enum diff_per per;
	double level; /* confidence level for "differs", such as 0.999 */
	uint32_t top; /* text: number of rows, whether they differ or not; 0: only those that differ */
	int width;    /* text: of the terminal; 0: every column, names in full width */
	bool flame;   /* compare stacks, too, for the pictures below */
};
#define DIFF_TABLES                                                                                \
	(1u << REPORT_CLASS | 1u << REPORT_UNIT | 1u << REPORT_PHASE | 1u << REPORT_PASS |         \
	 1u << REPORT_FUNCTION | 1u << REPORT_LINE | 1u << REPORT_PACKAGE | 1u << REPORT_MODULE |  \
	 1u << REPORT_FILE)

struct diff;
int diff__new(const struct diff_options *options, uint32_t recordings, struct diff **ret);
void diff__free(struct diff *diff);
/* Reads the next recording, of the side before or after. The output calls it `name`, which is copied. The
 * caller keeps the descriptor. After an error the diff can only be freed. */
int diff__read(struct diff *diff, int recording_fd, const char *name, bool after);
/* After the last recording: compares all rows. */
int diff__finish(struct diff *diff);
const struct export_missing *diff__missing(const struct diff *diff);
/* After the last recording: NULL if all are of one machine, else the first that is another one than the first recording's.
 * *ret_first: that one. "": not known. */
const char *diff__other_machine(const struct diff *diff, const char **ret_first);
/* After diff__finish(): number of rows with enough samples, in all tables. */
uint32_t diff__compared(const struct diff *diff);

/* Each writes the whole comparison. -errno of the stream. */
int diff__text(const struct diff *diff, FILE *out);
int diff__json(const struct diff *diff, FILE *out);
/* With options.flame. A flame graph of both sides together, coloured where they differ: as a picture, or as a page
 * with the text below it. diff__speedscope: four profiles: before, after, what increased, what decreased. */
int diff__svg(const struct diff *diff, FILE *out);
int diff__html(const struct diff *diff, FILE *out);
int diff__speedscope(const struct diff *diff, FILE *out);
