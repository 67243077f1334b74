/* SPDX-License-Identifier: MIT */
/* A live table of where the time goes, which `cprofd top` shows.
 *
 * It is a sink for events from the socket. Each row has its CPU time in the last turn (about a second; "now" in this
 * header), and since the start or the last reset: exclusive ("own": the row was the innermost frame) and inclusive
 * ("total": it was anywhere in the stack; counted once per stack). Native frames of the interpreter are not rows:
 * their time goes to the Python frame around them.
 *
 * Owner: the table owns all text, valid until the next event. Memory: the tables of one epoch, and a row for each
 * function (line, ...) that occurred. Threading: none. Errors: -errno. */
#pragma once

#include "events/events.h"

/* X(id, key, name): the views, and the key that selects each. */
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

/* Columns to order by, the largest first: own and total of the last turn; own and total since the start or
 * reset. */
enum top_sort { TOP_OWN_NOW, TOP_TOTAL_NOW, TOP_OWN, TOP_TOTAL, TOP_SORT_COUNT };

struct top_row {
	const char *name, *place; /* place: file, module or signature; "" */
	uint32_t line;            /* 0: none */
	double now[2];            /* own, total: of one CPU, in the last turn */
	uint64_t since[2];        /* own, total: ns since the start or the reset */
};

/* The head of the screen. */
struct top_head {
	int32_t pid;
	uint32_t rate, threads;   /* requested rate, Hz; threads that ran in the last turn */
	uint64_t samples, lost;   /* by the ledger */
	double reached;           /* samples a second of CPU time, in the last turn */
	double cpus;              /* CPU time of the last turn, in CPUs */
	uint64_t gap;             /* events that came too fast to be shown */
	const char *command;
	char unit[256];           /* the units of the last sample: unit > phase > pass; "" */
	bool ended;
	const char *reason, *detail; /* of its end */
};

struct top;
/* thread: a tid or a name; NULL: all. Borrowed. */
int top__new(const char *thread, struct top **ret);
struct top *top__free(struct top *top); /* NULL */
/* Give it all events of one session, in order. An error ends the view. */
struct event_sink *top__sink(struct top *top);

/* Ends a turn and starts the next one; time: CLOCK_MONOTONIC ns. Rows show the turn that just ended, until the next
 * call. A skipped call (pause) makes the next turn longer. */
void top__turn(struct top *top, uint64_t time);
/* Sets the sums since the start to zero. */
void top__reset(struct top *top);

/* The rows of a view in order, without those that have no time; pattern: only rows with this text in their name or
 * location ("": all). Owned by the table, valid until the next call. */
int top__rows(struct top *top, enum top_view view, enum top_sort sort, const char *pattern, const struct top_row **ret,
	      uint32_t *ret_n);
/* Strings are owned by the table, valid until the next event. */
void top__head(struct top *top, struct top_head *ret);
