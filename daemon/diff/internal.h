/* Private to this folder:
 *   series.c  a row's time, cell by cell
 *   read.c    recording -> series
 *   compare.c series of both sides -> rows, what differs first
 *   text.c, json.c */
#ifndef CPROFD_DIFF_INTERNAL_H
#define CPROFD_DIFF_INTERNAL_H

#include "base/buf.h"
#include "diff/diff.h"
#include "diff/estimate.h"
#include "export/model.h"

#define DIFF_CELLS 512u /* of a recording, at most: cells grow as it goes on */

/* --- series.c --- */

struct series_point {
	uint32_t cell;
	float ns;
};
/* Zero-initialised is empty. */
struct series {
	struct buf points; /* struct series_point, cells rising */
	uint64_t total, samples;
};
int series__add(struct series *series, uint32_t cell, uint64_t ns);
/* Two cells become one. */
void series__halve(struct series *series);
/* Adds it to dense values by cell. */
void series__spread(const struct series *series, float *ret_cells);
void series__free(struct series *series);
/* The i-th of a buffer of series, which is made as long as that. NULL: out of memory. */
struct series *series__at(struct buf *all, uint32_t i);

/* --- the rest --- */

struct diff_recording {
	char *name, *command;
	int32_t pid;
	bool after, cut;
	uint32_t rate;
	uint64_t samples, span; /* ns; samples that pass */
	uint64_t cell_ns, told; /* told: of all samples so far */
	double time[DIFF_CELLS]; /* ns of all rows together */
	uint32_t n_cells;
	struct buf rows; /* struct series by row */
};

/* A row of a table, on both sides. */
struct diff_row {
	uint32_t row;
	uint64_t samples;	       /* of both */
	struct comparison comparison;
	bool too_few;
};

struct diff_table {
	struct diff_row *rows; /* what differs surely first, then by weight */
	uint32_t n_rows, n_differ, n_too_few;
};

struct diff {
	const struct diff_options *options;
	struct intern keys; /* rows of all tables */
	struct diff_recording *recordings;
	uint32_t n_recordings, read;
	struct export_missing missing;
	bool wall;
	struct intern functions; /* Python functions outside of the standard library ... */
	struct buf sides;	 /* uint8_t for each: 1 before, 2 after */
	struct diff_table tables[REPORT_BY_COUNT];

	/* of the recording that is being read */
	struct model *model;
	struct buf of_frame[REPORT_BY_COUNT]; /* uint32_t: frame -> row + 1 */
	struct buf of_class;		      /* uint32_t: class -> row + 1 */
	struct buf nodes;		      /* struct series by node of the tree of units */
	struct buf marks;		      /* uint32_t by row: the sample it was counted for */
	uint32_t stamp;
};

struct diff_key {
	enum report_by by;
	uint32_t line;
	const char *name, *place, *detail; /* detail: a compile's signature */
};
int diff__row(struct diff *diff, const struct diff_key *key, uint32_t *ret);
struct diff_key diff__key(const struct diff *diff, uint32_t row);
/* read.c: after the reading, the time of units to their rows. */
int diff__add_units(struct diff *diff, struct diff_recording *recording);

static inline bool diff__wants(const struct diff *diff, enum report_by by)
{
	return diff->options->tables >> by & 1;
}

#endif
