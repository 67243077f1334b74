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
	struct table callee_lines; /* Python lines; parent: the callee's row */
	struct table focus[2];	   /* one row: the function of callers, of callees */
	struct export_missing missing;
	bool wall; /* weights are wall time */

	/* of the recording that is being read */
	struct model *model;
	struct intern cells;   /* struct cell: what an epoch's samples add up to */
	struct buf cell_times; /* struct times */
	struct intern parts;   /* struct part: threads x classes */
	struct buf part_times;
	struct buf focused; /* uint8_t by frame: known, is of callers, of callees */
	struct buf stack;   /* uint32_t: frames, leaf first */
};

static inline bool report__wants(const struct report *report, enum report_by by)
{
	return report->options->tables >> by & 1;
}

/* stacks.c: hands the time of a stack to the rows of all tables. */
int stacks__add(struct report *report, uint32_t stack, const struct times *times);

/* The Python lines that called a callee, heaviest first: callee_lines.ranks. */
int report__rank_lines(struct report *report, uint32_t callee, uint32_t top);

/* print helpers: name of a row's kind, "" for a group. */
const char *kind__name(uint8_t kind);

#endif
