/* SPDX-License-Identifier: MIT */
/* Private to this directory:
 *   series.c  a row's time, cell by cell
 *   rows.c    matches the rows of both sides by name
 *   read.c    recording -> series
 *   whole.c   the same for complete compiles (--per=compile)
 *   units.c   the same for compiles, phases, passes
 *   compare.c series of both sides -> rows, those that differ first
 *   rest.c    a row's change relative to everything else
 *   totals.c  all time, all compiles; rows that one side alone has
 *   flame.c   stacks: a tree of functions, and what differs in it
 *   gate.c    limits of growth
 *   text.c, json.c, markdown.c, junit.c, svg.c, speedscope.c: output */
#pragma once

#include "base/buf.h"
#include "diff/diff.h"
#include "diff/estimate.h"
#include "export/model.h"

#define DIFF_CELLS 512u /* at most, per recording: in longer recordings cells are longer */

/* --- series.c --- */

/* A cell in which the row has time. Floats: 24 bits of precision are far below the noise of sampling, and a
 * series takes half the memory. */
struct series_point {
	uint32_t cell;
	float ns;
};
/* A row's time over one recording; zero-initialised is empty. Sparse: most rows have time in few cells.
 * `total` is exact, the points are rounded. */
struct series {
	struct buf points; /* struct series_point, in the order of cells */
	/* ns; number of samples that were added */
	uint64_t total, samples;
};
int series__add(struct series *series, uint32_t cell, uint64_t ns);
int series__add_samples(struct series *series, uint32_t cell, uint64_t ns, uint64_t samples);
/* Merges each pair of cells into one. */
void series__halve(struct series *series);
/* Adds the series to an array with a value for each cell. */
void series__spread(const struct series *series, float *ret_cells);
void series__free(struct series *series);
/* The i-th series of a buffer, which is lengthened if needed. NULL: out of memory. */
struct series *series__at(struct buf *all, uint32_t i);

/* --- the rest --- */

/* The class of time that comes in few long bursts, whatever runs at that moment. As a part of all time, it would be
 * most of the noise in all other shares. So it is a row of its own, and the other shares are of the time without it.
 * Per compile it is included in the compile's time, as with any clock. */
#define CLASS_COLLECTOR "GC"

/* What a series belongs to. */
enum series_kind {
	SERIES_ROW,    /* a row */
	SERIES_NODE,   /* while reading: a node of the unit tree; 0: outside of all compiles */
	SERIES_NATIVE, /* the part of SERIES_NODE in native code of the compiler */
	SERIES_COLLECTOR, /* the garbage collector's time in a node */
	SERIES_STACK, /* a branch of the tree of functions; after flame__finish() including its descendants */
	SERIES_KINDS
};

/* The times of rows in cells, each of equal time or of equally many compiles. */
struct measure {
	double against[DIFF_CELLS];   /* `counted` by cell: ns, or compiles begun */
	double time[DIFF_CELLS];      /* ns of all rows together, without the garbage collector */
	double collector[DIFF_CELLS]; /* ns of the garbage collector */
	uint64_t counted, cell;	      /* sum of `against`; how much makes a cell */
	uint32_t n_cells;
	struct buf series[SERIES_KINDS]; /* struct series by row, by node */
};

struct diff_recording {
	/* as the caller named the file; the target's command line; event_session.machine. Owned */
	char *name, *command, *machine;
	int32_t pid;
	bool after, cut;
	uint32_t rate;
	/* what passes the filters. samples: number; span: ns of the window; time: ns; compiles: outermost
	 * ones */
	uint64_t samples, span, time, compiles;
	uint64_t compiles_cut; /* of these: the recording began or ended during them */
	uint64_t collector; /* ns, part of time */
	uint64_t compiling; /* ns, part of time: in compiles */
	struct measure measures[DIFF_PER_COUNT];
};

/* Every recording of one side has the row, and none of the other, although it should have been sampled there. */
enum diff_only { DIFF_ONLY_NOT, DIFF_ONLY_BEFORE, DIFF_ONLY_AFTER };

/* A row of a table, on both sides. */
struct diff_row {
	uint32_t row;
	uint64_t samples; /* of both */
	struct comparison comparison;
	struct rest_change rest; /* per compile only; not for branches */
	enum diff_only only;
	bool too_few;
};

static inline bool row__differs(const struct diff_row *row)
{
	return row->comparison.differs || row->rest.differs || row->only;
}

/* A branch of the tree of functions: a function, called by its parent. */
struct branch {
	uint32_t parent, row;
};
#define BRANCH_ROOT 0u
#define BRANCHES_MAX 20000u /* more frames make a browser slow; the narrowest are left out */

struct diff_table {
	struct diff_row *rows; /* those that differ first, then by weight */
	uint32_t n_rows, n_differ, n_too_few;
	uint32_t n_rest, n_rest_differ, n_either; /* relative to the rest: compared, differ; differ in any way */
	uint32_t n_only[3];                       /* by enum diff_only */
};

/* One comparison. The middle part belongs to the recording that is being read, and is emptied after it. */
struct diff {
	const struct diff_options *options;
	/* rows of all tables, by packed struct diff_key (rows.c) */
	struct intern keys;
	struct diff_recording *recordings;
	/* to be read; read so far, which is also the index of the one that is being read */
	uint32_t n_recordings, read;
	struct export_missing missing;
	bool wall;
	struct intern functions; /* Python functions outside of the standard library ... */
	struct buf sides;	 /* uint8_t for each: 1 before, 2 after */
	struct intern compiles;	 /* outermost ones by name and signature ... */
	struct buf counts;	 /* uint64_t [2] for each: before, after */
	enum diff_per per;	 /* how times are compared */
	struct diff_table tables[REPORT_BY_COUNT];

	/* of the recording that is being read */
	struct model *model;
	struct buf of_frame[REPORT_BY_COUNT]; /* uint32_t: frame -> row + 1 */
	struct buf of_class;		      /* uint32_t: class -> row + 1 */
	struct buf begun;		      /* uint32_t by node: outermost compiles */
	struct buf spent;		      /* uint64_t by node: all of its own time */
	uint64_t unsampled;		      /* CPU time that no sample represents yet (export/unsampled.h) */
	struct buf quiet;		      /* char by thread of the recording: it hardly ran (export/quiet.h) */
	struct buf stamps;		      /* uint32_t by row: the stamp that it was last counted for; 0: none */
	uint32_t stamp;			      /* number of the current sample, or path of units */
	struct buf open; /* struct open_compile *, by thread */
	struct staging *between, *staging; /* of the time between compiles; of the current sample */
	/* outermost compiles numbered so far (whole.c) */
	uint32_t numbered;
	struct buf of_stack; /* uint32_t: stack of the epoch -> branch + 1 */
	struct buf path;     /* uint32_t: scratch */
	char *script;        /* module of the script that was started; NULL: not seen yet */

	/* with options->flame */
	struct intern branches; /* struct branch; a parent's id is below its children's */
	struct diff_row *flame; /* by branch, inclusive times; after flame__finish() */
	bool *shown;            /* by branch: it is wide enough */
	double least;           /* narrower ones are not shown */
};

/* What makes rows of two recordings the same row. No paths and no first lines: these differ between versions
 * of a program. detail: "" if none. */
struct diff_key {
	enum report_by by;
	uint32_t line;
	const char *name, *module, *detail; /* module: of a compile its compiler; detail: its signature */
};
/* Finds or adds the row; ids are the same for both sides. The strings are copied. */
int diff__row(struct diff *diff, const struct diff_key *key, uint32_t *ret);
/* addresses.c: appends a name, or a signature, without the addresses in it, and its NUL. */
int diff__put_name(struct buf *out, const char *name);
/* Its strings are valid until a row is added. */
struct diff_key diff__key(const struct diff *diff, uint32_t row);
/* read.c: adds time to a series, in the current cell; per compile, in the compile's cell to come. */
int diff__add(struct diff *diff, enum series_kind kind, uint32_t what, uint64_t ns);
/* The measure's axis (time, or compiles) advances by `more`; the next sample falls into the cell that this ends in. */
void measure__advance(struct measure *measure, uint64_t more);
static inline uint32_t measure__cell(const struct measure *measure)
{
	return measure->n_cells ? measure->n_cells - 1 : 0;
}

/* whole.c: per compile, only compiles count that the recording (or window) contains from begin to end, and the time
 * between them. So a compile's time is staged until its end is seen. */
struct staging;
/* Notes each sample of a thread, whether it passes filters or not: which compile it belongs to. `sampled`: it is a
 * sample, not the time after the last one; `shown`: it has time in the window. */
int whole__follow(struct diff *diff, const struct model_thread *thread, bool sampled, bool shown);
int whole__stage(struct staging *staging, enum series_kind kind, uint32_t what, uint64_t ns);
void whole__time(struct diff *diff, uint64_t ns, bool collector);
int whole__finish(struct diff *diff); /* after the last sample */
void whole__free(struct diff *diff);
static inline bool diff__by_compile(const struct diff *diff)
{
	return diff->options->per == DIFF_COMPILE;
}

/* units.c: after reading, adds the time of units to their rows, and counts compiles. */
int diff__add_units(struct diff *diff, struct diff_recording *recording);
/* rows.c: the entry of `id` in a cache of uint32_t that starts with zeros; NULL: out of memory. */
uint32_t *diff__cached(struct buf *cache, uint32_t id);
int diff__row_of_frame(struct diff *diff, enum report_by by, uint32_t frame, uint32_t *ret);
int diff__row_of_class(struct diff *diff, uint32_t class_id, uint32_t *ret);

/* series.c: adds `from` to `to`, cell by cell. */
int series__join(struct series *to, const struct series *from);

/* compare.c: compares both sides of a row (SERIES_ROW) or a branch (SERIES_STACK). */
int diff__compare(const struct diff *diff, enum series_kind kind, uint32_t what, struct diff_row *ret);
/* The measure whose cells the variance is estimated from. */
struct measure *diff__measure(const struct diff *diff, struct diff_recording *recording);

/* totals.c */
enum diff_total_kind { DIFF_TOTAL_TIME, DIFF_TOTAL_SPAN, DIFF_TOTAL_COMPILES, DIFF_TOTAL_COMPILING, DIFF_TOTALS };
extern const struct diff_total_name {
	const char *key, *limit, *words; /* in the JSON, of --fail-on, in the text (diff__total_words) */
} diff_total_names[DIFF_TOTALS];
/* Compares the mean of the sides' recordings, in ns or a number. margin < 0: a side has one recording. */
struct comparison diff__total(const struct diff *diff, enum diff_total_kind kind);
/* Mean ns per recording. */
double diff__mean_time(const struct diff *diff, uint32_t row, bool after);
enum diff_only diff__only(const struct diff *diff, uint32_t row);

/* totals.c: what a total is called. */
const char *diff__total_words(const struct diff *diff, enum diff_total_kind kind);

/* gate.c: the name of a compile with its signature, of a line with its number; not terminated. */
int diff__put_key(struct buf *out, const struct diff_key *key);

/* flame.c */
int flame__add(struct diff *diff, uint32_t stack, uint64_t ns);
void flame__epoch(struct diff *diff); /* ids of stacks change */
int flame__finish(struct diff *diff);
struct branch flame__branch(const struct diff *diff, uint32_t id);
/* A branch is as wide as the mean of both sides: so branches of one side are visible, and widths add up. */
double flame__width(const struct diff *diff, uint32_t id);

/* The largest possible value: 1 for a share, 0 (no limit) for time per compile. */
static inline double diff__most(const struct diff *diff)
{
	return diff->per == DIFF_SHARE ? 1 : 0;
}

/* Rows are percent, or ms per compile. */
static inline double diff__scale(const struct diff *diff)
{
	return diff->per == DIFF_SHARE ? 100 : 1e-6;
}

static inline const char *diff__unit(const struct diff *diff)
{
	return diff->per == DIFF_SHARE ? " %" : " ms";
}

/* Totals are seconds, or a number. */
static inline double diff__total_scale(enum diff_total_kind kind)
{
	return kind == DIFF_TOTAL_COMPILES ? 1 : 1e-9;
}

static inline const char *diff__total_unit(enum diff_total_kind kind)
{
	return kind == DIFF_TOTAL_COMPILES ? "" : " s";
}

static inline bool diff__wants(const struct diff *diff, enum report_by by)
{
	return diff->options->tables >> by & 1;
}
