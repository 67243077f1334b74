/* SPDX-License-Identifier: MIT */
/* Reports: tables of where the time went, from one or several recordings.
 *
 * A report is created for a list of tables, fed with recordings one by one, then ranked and printed. Memory: the
 * tables of one epoch of one recording, and one row for each function (line, ...) that occurred; not the samples.
 *
 * Weights are the CPU and wall time (ns) of samples, never their number. A function that is in a stack several times
 * counts once in inclusive time. Idle time has no stack: it is in no row, but in `idle` of the recording. Samples
 * cannot tell how often a function was called.
 *
 * Owner: the report owns all text, valid until report__free(). Threading: none kept. Errors: -errno; -EBADMSG for a
 * damaged recording, -ENOENT for a name that nothing matches (report__missing()). */
#pragma once

#include "export/export.h"

/* X(id, name, ordered by inclusive time by default): --by, and "by" in the JSON. */
#define REPORT_TABLES(X)                                                                           \
	X(CLASS, "class", false) /* class of time of the leaf */                                   \
	X(PROCESS, "process", false) /* an image of one: its command line and number */           \
	X(THREAD, "thread", false) /* and below it the classes of its time */                      \
	X(UNIT, "unit", false)	    /* a compile: function and signature; below it what caused it */ \
	X(SOURCE, "source", false) /* a function, of all its signatures; below it these */          \
	X(SOURCE_LINE, "source-line", true) /* a line of such a function that the compiler was at; below it the phases */ \
	X(PHASE, "phase", false)   /* of compiles */                                               \
	X(PASS, "pass", false)	    /* of an optimiser */                                           \
	X(TRIGGER, "trigger", false) /* the line that caused compiles */                            \
	X(TREE, "tree", true)	    /* compiles in compiles, below the lines that caused them */    \
	X(CHAIN, "chain", false)    /* each outermost compile, in the order of time */              \
	X(REPEAT, "repeat", false)  /* compiles of functions that had been compiled before */       \
	X(FAILED, "failed", false)  /* compiles that ended before their last stage; below it the phases where */ \
	X(FUNCTION, "function", false)                                                             \
	X(LINE, "line", false)	     /* a line of a function */                                    \
	X(PACKAGE, "package", false) /* export/places.h */                                         \
	X(MODULE, "module", false)                                                                 \
	X(FILE, "file", false)                                                                     \
	X(CALLEE, "callee", false)  /* native code that Python code called */                      \
	X(CALLERS, "callers", true) /* of the outermost frame of a function */                     \
	X(CALLEES, "callees", true) /* of the innermost frame of a function */

#define REPORT_ENUM(id, name, inclusive) REPORT_##id,
enum report_by { REPORT_TABLES(REPORT_ENUM) REPORT_BY_COUNT };
#undef REPORT_ENUM
extern const char *const report_names[REPORT_BY_COUNT];
/* Rows for time outside of all compiles, of a compile at no line, and outside of all passes. */
#define REPORT_OUTSIDE "(outside of compiles)"
#define REPORT_NO_LINE "(no line)"
#define REPORT_NO_PASS "(in no known pass)"

/* Version of the JSON: docs/report.md. */
#define REPORT_MAJOR 3
#define REPORT_MINOR 16

/* START: rows of compiles, by when the first of them began; other tables as DEFAULT. */
enum report_sort { REPORT_SORT_DEFAULT, REPORT_SORT_EXCLUSIVE, REPORT_SORT_INCLUSIVE, REPORT_SORT_START };

/* What a report shows. Borrowed by the report until report__free(), with all strings. */
struct report_options {
	struct export_options filter;  /* `lines`: callers and callees are lines */
	uint32_t tables;	       /* 1 << enum report_by */
	const char *callers, *callees; /* pattern of the function; with the table of that name */
	enum report_sort sort;
	uint32_t top;		 /* rows of a table; 0: all */
	double until, min_share; /* of the total, 0 to 1; until 0: no limit */
	bool native_frames;	 /* interpreter frames are rows, too (export/shown.h) */
	uint32_t depth;		 /* of the tree; 0: all of it */
	bool phases;		 /* the tree has phases and passes, too */
	const struct rules *rules; /* borrowed: stages of compiles, whose results a cache could hold; NULL: not shown */
	int width;		 /* text: of the terminal; 0: names have columns of fixed widths */
	/* Opens a source with the rights of who asks: a descriptor, or -errno. NULL: no listings of sources. */
	int (*open_source)(const char *path);
	bool brief;		 /* no --by: text leaves out tables that say nothing */
};

struct report;
/* `files`: how many recordings will be read. The options are borrowed. */
int report__new(const struct report_options *options, uint32_t files, struct report **ret);
/* Reads the next recording; the output calls it `name`. -ENOENT: a filter matches nothing in it
 * (report__missing()). After an error the report can only be freed. The caller keeps the descriptor. */
int report__read(struct report *report, int recording_fd, const char *name);
/* After the last one: computes and ranks the rows. -ENOENT: no recording has the function of --callers or --callees. */
int report__finish(struct report *report);
/* After -ENOENT: which option; it may be "callers" or "callees". */
const struct export_missing *report__missing(const struct report *report);
void report__free(struct report *report);

/* Each writes the whole report. -errno of the stream. */
int report__text(struct report *report, FILE *out);
int report__json(struct report *report, FILE *out);
int report__csv(struct report *report, FILE *out);

/* True: no time of any recording passes the filters. */
bool report__empty(const struct report *report);
/* True: one of them is incomplete. */
bool report__cut(const struct report *report);
/* Length of the longest recording in ns, whatever the window is. */
uint64_t report__span(const struct report *report);
