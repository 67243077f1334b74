/* SPDX-License-Identifier: MIT */
/* One table of a report: its rows, and the times of each recording in them. Private to this directory. Errors:
 * -errno. */
#pragma once

#include "aggregate/rows.h"
#include "export/model.h"
#include "report/report.h"

#define ROW_NONE UINT32_MAX
/* Kind of a row that is a group of functions. */
#define KIND_GROUP 255u

/* What identifies a row. No two rows of a table have equal keys. */
struct row_key {
	const char *name, *file, *module; /* module of a compile, phase or pass: its compiler */
	const char *detail; /* NULL or "": none; of a compile its signature, of a thread its process */
	uint32_t line;	 /* 0: none */
	uint32_t parent; /* row that it belongs to, or ROW_NONE */
	uint8_t kind;	 /* enum function_kind, or KIND_GROUP */
	uint32_t defined; /* of a line that a compiler was at: where its function begins; else 0 */
	int32_t pid;	  /* of a process or a thread of one recording; else 0 */
};

/* Of a row that has a name alone. */
static inline struct row_key row_key__named(const char *name, uint8_t kind)
{
	return (struct row_key){.name = name, .file = "", .module = "", .parent = ROW_NONE, .kind = kind};
}

/* A row ready to be printed: means over the recordings, in ns. Doubles, as means of several recordings are no
 * whole nanoseconds. */
struct rank {
	uint32_t row;
	double exclusive, inclusive;	   /* of the report's weight */
	double exclusive_sd, inclusive_sd; /* standard deviation between recordings */
	double running;			   /* exclusive time of the rows up to here */
	double elapsed, calls;		   /* inclusive wall time; the number of compiles, phases or passes */
	double cpu;			   /* inclusive CPU time */
	uint64_t begun;			   /* the earliest in any recording, as in row_times */
};

/* A zeroed table is not valid: table__init(). */
struct table {
	enum report_by by;
	bool lines; /* callers and callees: rows are lines */
	/* columns; the one that is being read */
	uint32_t files, file;
	struct rows rows;       /* a column for each file; of_frame is of the current one */
	struct buf first, next; /* uint32_t by parent, by row: the next row of the same parent + 1; 0: none */
	/* by file: what is 100 % in shares. Set by who adds the times, as not all of it is in rows */
	struct times *totals;
	/* made by rank.c */
	struct rank *ranks;
	/* rows in `ranks`, after limits; and without limits */
	uint32_t n_ranks, n_rows;
	/* mean of totals, in the report's weight, ns */
	double total;
};

int table__init(struct table *table, enum report_by by, uint32_t files);
void table__free(struct table *table);
/* Starts the next recording. */
void table__next(struct table *table, uint32_t file);
/* Finds or adds the row. The strings of the key are copied. */
int table__row(struct table *table, const struct row_key *key, uint32_t *ret);
/* Its strings are valid until a row is added. */
struct row_key table__key(const struct table *table, uint32_t row);
struct row_times *table__times(const struct table *table, uint32_t row, uint32_t file);
/* As in aggregate/rows.h, for the recording that is being read. */
void table__stack(struct table *table);
bool table__inclusive(struct table *table, uint32_t row, const struct times *times);
void table__exclusive(struct table *table, uint32_t row, const struct times *times);
/* The key of a row for this function and line. */
struct row_key table__frame_key(const struct model_frame *frame);
/* The row of a frame, grouped as the table does; with `lines` that of the line. */
int table__frame(struct table *table, const struct model *model, uint32_t frame, uint32_t *ret);

/* rank.c: orders the rows and applies top, until and min_share. Fills ranks, n_ranks, n_rows and total.
 * `parent`: only the rows that belong to this one; ROW_NONE: all. Replaces an earlier ranking. O(n log n) in
 * the rows. -ENOMEM. */
int table__rank(struct table *table, const struct report_options *options, bool wall,
		uint32_t parent);
/* Are the rows compiles, phases, passes, or what caused them? Such rows have a count and a begin. */
bool rank__of_compiles(enum report_by by);
/* The order that is used: never REPORT_SORT_DEFAULT. */
enum report_sort rank__order(const struct table *table, const struct report_options *options);
extern const char *const rank_orders[]; /* by that: "exclusive" ... */
extern const char *const rank_order_words[]; /* "by exclusive time" ... */

/* Counts more compiles, phases or passes of a row, the first of which began at `begun` (stored + 1; 0: none). */
static inline void times__count(struct row_times *times, uint64_t calls, uint64_t begun)
{
	times->calls += calls;
	if (calls && (!times->begun || begun < times->begun - 1))
		times->begun = begun + 1;
}
