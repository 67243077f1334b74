/* SPDX-License-Identifier: MIT */
/* A live table of where the time goes: what `cprofd top` shows.
 *
 * A sink of events as they come from the socket. Each row has the CPU time of the turn before (a second or so: what the
 * screen calls "now") and that since the begin or the last reset, exclusive ("own": the row's was the innermost frame)
 * and inclusive ("total": it was anywhere in the stack; once a stack). The interpreter's own native
 * frames are no rows: their time is that of the Python frame around them.
 *
 * Owner: all text is the table's, valid until the next event. Memory: tables of one epoch, and a row for each function
 * (line, ...) that was met. Threading: none. Errors: -errno.
 */
#ifndef CPROFD_TOP_H
#define CPROFD_TOP_H

#include <stdbool.h>
#include <stdint.h>

#include "events/events.h"

/* X(id, key, name): the views, and the key that leads there. */
#define TOP_VIEWS(X)                                                                                                   \
	X(FUNCTION, 'f', "functions")                                                                                  \
	X(LINE, 'l', "lines")                                                                                          \
	X(CALLEE, 'c', "C callees") /* what Python code called, nearest to its caller */                               \
	X(THREAD, 't', "threads")                                                                                      \
	X(CLASS, 'k', "classes of time")                                                                               \
	X(UNIT, 'u', "compile units")

#define TOP_ENUM(id, key, name) TOP_##id,
enum top_view { TOP_VIEWS(TOP_ENUM) TOP_VIEW_COUNT };
#undef TOP_ENUM

enum top_sort { TOP_OWN_NOW, TOP_TOTAL_NOW, TOP_OWN, TOP_TOTAL, TOP_SORT_COUNT };

struct top_row {
	const char *name, *place; /* place: file, module or signature; "" */
	uint32_t line;            /* 0: none */
	double now[2];            /* own, total: of one CPU, in the last turn */
	uint64_t since[2];        /* own, total: ns since the begin or the reset */
};

/* What the head of the screen says. */
struct top_head {
	int32_t pid;
	uint32_t rate, threads;   /* rate asked for; threads that ran in the last turn */
	uint64_t samples, lost;   /* of the ledger; lost: samples that are not there */
	double reached;           /* samples a second of CPU time, in the last turn */
	double cpus;              /* CPU time of the last turn, in CPUs */
	uint64_t gap;             /* events that came too fast to be shown */
	const char *command;
	char unit[256];           /* what was being compiled at the last sample: unit > phase > pass; "" */
	bool ended;
	const char *reason, *detail; /* of its end */
};

struct top;
/* thread: a tid or a name, or NULL: all. Borrowed. */
int top__new(const char *thread, struct top **ret);
struct top *top__free(struct top *top); /* NULL */
struct event_sink *top__sink(struct top *top);

/* Now ends the turn that rows tell of, and the next one begins: CLOCK_MONOTONIC ns. Between two turns rows stay as
 * they are; a turn that is left out (pause) makes the next one longer. */
void top__turn(struct top *top, uint64_t time);
/* Sums since the begin start afresh. */
void top__reset(struct top *top);

/* The rows of a view in order, without those that were never met; pattern: only names and places that have it in them
 * ("": all). Owned by the table, valid until the next call. */
int top__rows(struct top *top, enum top_view view, enum top_sort sort, const char *pattern, const struct top_row **ret,
	      uint32_t *ret_n);
void top__head(struct top *top, struct top_head *ret);

#endif
