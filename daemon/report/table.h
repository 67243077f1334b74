/* SPDX-License-Identifier: MIT */
/* One table of a report: rows, and each recording's times in them. Private to
 * this folder. Errors: -errno. */
#ifndef CPROFD_REPORT_TABLE_H
#define CPROFD_REPORT_TABLE_H

#include "export/model.h"
#include "report/report.h"

#define ROW_NONE UINT32_MAX
/* Kind of a row that stands for several functions. */
#define KIND_GROUP 255u

/* What a row is called. No two rows of a table are equal in all of it. */
struct row_key {
	const char *name, *file, *module; /* module of a compile, phase or pass: its compiler */
	const char *detail; /* NULL or "": none; of a compile its signature, of a thread its process */
	uint32_t line;	 /* 0: none */
	uint32_t parent; /* row that it belongs to, or ROW_NONE */
	uint8_t kind;	 /* enum function_kind, or KIND_GROUP */
};

struct times {
	uint64_t cpu, wall; /* ns; waiting, where its stack is known, is in wall */
};

struct row_times {
	struct times exclusive, inclusive;
	uint64_t calls; /* of compiles, phases, passes: how many there were */
	uint64_t begun; /* ... when the first of them began, ns since the recording's start, + 1; 0: there was none */
};

/* A row, ready to be shown: means over the recordings, in ns. */
struct rank {
	uint32_t row;
	double exclusive, inclusive;	   /* of the report's weight */
	double exclusive_sd, inclusive_sd; /* standard deviation between recordings */
	double running;			   /* exclusive time of the rows up to here */
	double elapsed, calls;		   /* inclusive wall time; of compiles, phases and passes their number */
	double cpu;			   /* inclusive CPU time */
	uint64_t begun;			   /* the earliest of the recordings; as in row_times */
};

struct table {
	enum report_by by;
	bool lines; /* of callers and callees: a row is a line */
	uint32_t files, file;
	struct intern keys;
	struct buf times;    /* struct row_times [row * files + file] */
	struct buf marks;    /* uint32_t by row: the stack it was counted for last */
	struct buf first, next; /* uint32_t by parent, by row: the next row that belongs to that parent, + 1; 0: none */
	struct buf of_frame; /* of this recording: uint32_t frame -> row + 1; 0: not known yet */
	uint32_t stamp;
	struct times *totals; /* by file: what the shares are shares of */
	/* made by rank.c */
	struct rank *ranks;
	uint32_t n_ranks, n_rows;
	double total;
};

int table__init(struct table *table, enum report_by by, uint32_t files);
void table__free(struct table *table);
/* The next recording. */
void table__next(struct table *table, uint32_t file);
int table__row(struct table *table, const struct row_key *key, uint32_t *ret);
struct row_key table__key(const struct table *table, uint32_t row);
struct row_times *table__times(const struct table *table, uint32_t row, uint32_t file);
/* A new stack: each row counts once for it. */
void table__stack(struct table *table);
/* Inclusive time, unless the row has had it for this stack: false. */
bool table__inclusive(struct table *table, uint32_t row, const struct times *times);
void table__exclusive(struct table *table, uint32_t row, const struct times *times);
/* What a line of a function is called. */
struct row_key table__frame_key(const struct model_frame *frame);
/* The row of a frame by the table's own grouping; lines: of the line. */
int table__frame(struct table *table, const struct model *model, uint32_t frame, uint32_t *ret);

/* rank.c: orders the rows and cuts by top, until and min_share. */
int table__rank(struct table *table, const struct report_options *options, bool wall,
		uint32_t parent);
/* Are its rows compiles, phases, passes, or what caused them? Then they are counted, and have begun. */
bool rank__of_compiles(enum report_by by);
/* None is REPORT_SORT_DEFAULT. */
enum report_sort rank__order(const struct table *table, const struct report_options *options);
extern const char *const rank_orders[]; /* by that: "exclusive" ... */
extern const char *const rank_order_words[]; /* "by exclusive time" ... */

static inline uint64_t times__weight(const struct times *times, bool wall)
{
	return wall ? times->wall : times->cpu;
}

/* More of a row's compiles, phases or passes, the first of which began at `begun`. */
static inline void times__count(struct row_times *times, uint64_t calls, uint64_t begun)
{
	times->calls += calls;
	if (calls && (!times->begun || begun < times->begun - 1))
		times->begun = begun + 1;
}

static inline void times__add(struct times *to, const struct times *times)
{
	to->cpu += times->cpu;
	to->wall += times->wall;
}

#endif
