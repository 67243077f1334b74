/* SPDX-License-Identifier: MIT */
/* Private to this folder:
 *   series.c  a row's time, cell by cell
 *   rows.c    what is compared with what
 *   read.c    recording -> series
 *   whole.c   ... of compiles that are in it from their begin to their end
 *   units.c   ... of compiles, phases, passes
 *   compare.c series of both sides -> rows, what differs first
 *   rest.c    ... a row against all else, once compiles are alike
 *   totals.c  all time, all compiles; rows of one side alone
 *   flame.c   stacks: a tree of functions, and what differs in it
 *   text.c, json.c, svg.c, speedscope.c */
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
int series__add_samples(struct series *series, uint32_t cell, uint64_t ns, uint64_t samples);
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
 * other shares are of the time without it. Per compile, what a compile took has it in it, as any clock would. */
#define CLASS_COLLECTOR "GC"

/* What a series is of. */
enum series_kind {
	SERIES_ROW,    /* a row */
	SERIES_NODE,   /* while it is read: a node of the tree of units, 0: the time outside of all */
	SERIES_NATIVE, /* ... and of that, native code of a compiler */
	SERIES_COLLECTOR, /* a node: the garbage collector's */
	SERIES_STACK, /* a branch of the tree of functions: its own; from flame__finish() on, with what is below it */
	SERIES_KINDS
};

/* The time of rows, in cells of equal time, or of equally many compiles each. */
struct measure {
	double against[DIFF_CELLS];   /* what `counted` is: time, or compiles begun */
	double time[DIFF_CELLS];      /* ns of all rows together, without the garbage collector */
	double collector[DIFF_CELLS]; /* ns of the garbage collector */
	uint64_t counted, cell;	      /* of that so far; how much of it is a cell */
	uint32_t n_cells;
	struct buf series[SERIES_KINDS]; /* struct series by row, by node */
};

struct diff_recording {
	char *name, *command;
	int32_t pid;
	bool after, cut;
	uint32_t rate;
	uint64_t samples, span, time,
		compiles;   /* ns; samples and time that pass, outermost compiles */
	uint64_t compiles_cut; /* of these: it began or ended in the middle of them */
	uint64_t collector; /* ns, part of time */
	uint64_t compiling; /* ns of time that compiles have */
	struct measure measures[DIFF_PER_COUNT];
};

/* Every recording of one side has it, none of the other, where it would be seen. */
enum diff_only { DIFF_ONLY_NOT, DIFF_ONLY_BEFORE, DIFF_ONLY_AFTER };

/* A row of a table, on both sides. */
struct diff_row {
	uint32_t row;
	uint64_t samples; /* of both */
	struct comparison comparison;
	struct rest_change rest; /* per compile; of a branch it is not known */
	enum diff_only only;
	bool too_few;
};

static inline bool row__differs(const struct diff_row *row)
{
	return row->comparison.differs || row->rest.differs || row->only;
}

/* A branch of the tree of functions: its function, called by its parent. */
struct branch {
	uint32_t parent, row;
};
#define BRANCH_ROOT 0u
#define BRANCHES_MAX 20000u /* more frames than this make a browser slow; the narrowest are left out */

struct diff_table {
	struct diff_row *rows; /* what differs surely first, then by weight */
	uint32_t n_rows, n_differ, n_too_few;
	uint32_t n_rest, n_rest_differ, n_either; /* against the rest: known, differ; rows that differ this way or that */
	uint32_t n_only[3];                       /* by enum diff_only */
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
	struct buf begun;		      /* uint32_t by node: outermost compiles */
	struct buf spent;		      /* uint64_t by node: all of its own time */
	uint64_t unmet;			      /* CPU time that no sample stood for yet */
	struct buf quiet;		      /* char by thread of the recording: it hardly ran (export/quiet.h) */
	struct buf marks;		      /* uint32_t by row: the sample it was counted for */
	uint32_t stamp;
	struct buf open; /* struct open_compile *, by thread */
	struct staging *between, *staging; /* of the time between compiles; the sample's */
	uint32_t numbered;
	struct buf of_stack; /* uint32_t: stack of the epoch -> branch + 1 */
	struct buf path;     /* uint32_t: scratch */
	char *script;        /* the module that the program was started by; NULL: not met yet */

	/* with options->flame */
	struct intern branches; /* struct branch; a parent's id is below its children's */
	struct diff_row *flame; /* by branch, inclusive times; after flame__finish() */
	bool *shown;            /* by branch: it is wide enough */
	double least;           /* narrower ones are not */
};

struct diff_key {
	enum report_by by;
	uint32_t line;
	const char *name, *place, *detail; /* detail: a compile's signature */
};
int diff__row(struct diff *diff, const struct diff_key *key, uint32_t *ret);
struct diff_key diff__key(const struct diff *diff, uint32_t row);
/* read.c: `what` of the kind has more time, in the cell of now; per compile, in the one that is to come. */
int diff__add(struct diff *diff, enum series_kind kind, uint32_t what, uint64_t ns);
/* `more` of what the measure is against; the sample that follows is of the cell that this is in. */
void measure__advance(struct measure *measure, uint64_t more);
static inline uint32_t measure__cell(const struct measure *measure)
{
	return measure->n_cells ? measure->n_cells - 1 : 0;
}

/* whole.c: per compile, what counts is compiles that the recording (or the window) has from their begin to their end, and
 * the time between them. So the time of a compile waits until it has ended. */
struct staging;
/* Each sample of a thread, whether it passes or not: which compile it is of. `sampled`: it is one, and not the time after
 * the last; `shown`: it has time in the window. */
int whole__follow(struct diff *diff, const struct model_thread *thread, bool sampled, bool shown);
int whole__stage(struct staging *staging, enum series_kind kind, uint32_t what, uint64_t ns);
void whole__time(struct diff *diff, uint64_t ns, bool collector);
int whole__finish(struct diff *diff); /* after the last sample */
void whole__free(struct diff *diff);
static inline bool diff__by_compile(const struct diff *diff)
{
	return diff->options->per == DIFF_COMPILE;
}

/* units.c: after the reading, the time of units to their rows, and which compiles there were. */
int diff__add_units(struct diff *diff, struct diff_recording *recording);
/* rows.c: the row that `id` (a frame, a class, a row's mark) has in a cache of uint32_t, 0 at
 * first; NULL: out of memory. */
uint32_t *diff__cached(struct buf *cache, uint32_t id);
int diff__row_of_frame(struct diff *diff, enum report_by by, uint32_t frame, uint32_t *ret);
int diff__row_of_class(struct diff *diff, uint32_t class_id, uint32_t *ret);

/* series.c, by way of all cells. */
int series__join(struct series *to, const struct series *from);

/* compare.c: both sides of a row (SERIES_ROW) or a branch (SERIES_STACK). */
int diff__compare(const struct diff *diff, enum series_kind kind, uint32_t what, struct diff_row *ret);
/* The measure whose cells tell how much it varies. */
struct measure *diff__measure(const struct diff *diff, struct diff_recording *recording);

/* totals.c */
enum diff_total_kind { DIFF_TOTAL_TIME, DIFF_TOTAL_SPAN, DIFF_TOTAL_COMPILES, DIFF_TOTAL_COMPILING, DIFF_TOTALS };
extern const struct diff_total_name {
	const char *key, *words;
} diff_total_names[DIFF_TOTALS];
/* Of the mean of a side's recordings: ns, or a number. margin < 0: a side has one recording. */
struct comparison diff__total(const struct diff *diff, enum diff_total_kind kind);
/* ns a recording. */
double diff__mean_time(const struct diff *diff, uint32_t row, bool after);
enum diff_only diff__only(const struct diff *diff, uint32_t row);

/* flame.c */
int flame__add(struct diff *diff, uint32_t stack, uint64_t ns);
void flame__epoch(struct diff *diff); /* stacks are about to have other ids */
int flame__finish(struct diff *diff);
struct branch flame__branch(const struct diff *diff, uint32_t id);
/* The width of a branch: the mean of both sides, so that what is on one alone is seen, and widths add up. */
double flame__width(const struct diff *diff, uint32_t id);

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
