/* Private to this folder:
 *   series.c  a row's time, cell by cell
 *   rows.c    what is compared with what
 *   read.c    recording -> series
 *   units.c   ... of compiles, phases, passes
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

/* The class of time that comes in few long bursts, whoever happens to be at work then: as part of
 * all time it would be most of the noise of every other share. So it is a row of its own, and the
 * other shares are of the time without it. */
#define CLASS_COLLECTOR "GC"

/* The time of rows, in cells of equal time, or of equally many compiles each. */
struct measure {
	double against[DIFF_CELLS];   /* what `told` counts: time, or compiles begun */
	double time[DIFF_CELLS];      /* ns of all rows together, without the garbage collector */
	double collector[DIFF_CELLS]; /* ns of the garbage collector */
	uint64_t told, cell;	      /* of that so far; how much of it is a cell */
	uint32_t n_cells;
	struct buf rows;  /* struct series by row */
	struct buf nodes; /* while it is read: struct series by node of the tree of units */
};

struct diff_recording {
	char *name, *command;
	int32_t pid;
	bool after, cut;
	uint32_t rate;
	uint64_t samples, span, time,
		compiles;   /* ns; samples and time that pass, outermost compiles */
	uint64_t collector; /* ns, part of time */
	struct measure measures[DIFF_PER_COUNT];
};

/* A row of a table, on both sides. */
struct diff_row {
	uint32_t row;
	uint64_t samples; /* of both */
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
	struct intern compiles;	 /* outermost ones by name and signature ... */
	struct buf counts;	 /* uint64_t [2] for each: before, after */
	enum diff_per per;	 /* the measure that was taken */
	struct diff_table tables[REPORT_BY_COUNT];

	/* of the recording that is being read */
	struct model *model;
	struct buf of_frame[REPORT_BY_COUNT]; /* uint32_t: frame -> row + 1 */
	struct buf of_class;		      /* uint32_t: class -> row + 1 */
	struct buf begun;		      /* uint64_t by node: outermost compiles */
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
/* units.c: after the reading, the time of units to their rows, and which compiles there were. */
int diff__add_units(struct diff *diff, struct diff_recording *recording);
/* rows.c: the row that `id` (a frame, a class, a row's mark) has in a cache of uint32_t, 0 at
 * first; NULL: out of memory. */
uint32_t *diff__cached(struct buf *cache, uint32_t id);
int diff__row_of_frame(struct diff *diff, enum report_by by, uint32_t frame, uint32_t *ret);
int diff__row_of_class(struct diff *diff, uint32_t class_id, uint32_t *ret);

/* A share is of 1 at most, time a compile of no end. */
static inline double diff__most(const struct diff *diff)
{
	return diff->per == DIFF_SHARE ? 1 : 0;
}

static inline bool diff__wants(const struct diff *diff, enum report_by by)
{
	return diff->options->tables >> by & 1;
}

#endif
