/* The report itself. Private to this folder. */
#ifndef CPROFD_REPORT_INTERNAL_H
#define CPROFD_REPORT_INTERNAL_H

#include "report/table.h"

/* What is told of each recording. */
struct report_file {
	char *name, *command, *mode, *reason;
	int32_t pid;
	uint32_t rate, threads;
	uint64_t realtime, span;      /* ns; span: of the window */
	uint64_t samples, whole;      /* by the ledger */
	uint64_t cpu, wall;	      /* of the threads shown */
	uint64_t idle, not_recorded;  /* parts of wall */
	struct times shown, left_out; /* left_out: by filters of samples */
	struct buf losses;	      /* JSON: the members of an object */
	bool cut;
};

struct report {
	const struct report_options *options;
	uint32_t files, read;
	struct report_file *file;
	struct table tables[REPORT_BY_COUNT];
	/* Rows that belong to rows: the Python lines that called a callee, the classes of a thread's time, the lines
	 * that caused a compile. Of the other tables: none. */
	struct table below[REPORT_BY_COUNT];
	struct table focus[2];	   /* one row: the function of callers, of callees */
	struct export_missing missing;
	bool wall;	/* weights are wall time */
	bool compiles;	/* there were some */
	bool has_native; /* a recording has native stacks, so classes say something */

	/* of the recording that is being read */
	struct model *model;
	struct intern cells;   /* struct cell: what an epoch's samples add up to */
	struct buf cell_times; /* struct times */
	struct intern parts;   /* struct part: threads x classes */
	struct buf part_times;
	struct intern compiled; /* struct compiled_key: threads x nodes of the unit tree */
	struct buf compiled_times; /* struct compiled */
	struct buf focused; /* uint8_t by frame: known, is of callers, of callees */
	struct buf stack;   /* uint32_t: frames, leaf first */
	struct buf calls;   /* of that stack: scratch of stacks.c */
};

static inline bool report__wants(const struct report *report, enum report_by by)
{
	return report->options->tables >> by & 1;
}

/* stacks.c: hands the time of a stack to the rows of all tables. */
int stacks__add(struct report *report, uint32_t stack, const struct times *times);

/* What belongs to a row, heaviest first: its ranks; NULL: nothing can. */
int report__rank_below(struct report *report, enum report_by by, uint32_t row, uint32_t top, const struct table **ret);

/* units.c: the time of compiles. A model's `sampled`; and after the reading, to the rows of the tables. */
bool units__wanted(const struct report *report);
int units__sampled(struct model *model, struct model_thread *thread, uint32_t stack, uint64_t ran, uint64_t shown);
int units__add(struct report *report);

/* print helpers: name of a row's kind, "" for a group. */
const char *kind__name(uint8_t kind);

#endif
