/* SPDX-License-Identifier: MIT */
/* struct report, which the files of this directory share. Private to it.
 *
 * The way of a sample: the model (export/model.h) reads the recording and calls back with each sample, as
 * stack and time. report.c adds it up by stack, and by thread and class; units.c by node of the unit tree,
 * and compiles.c by single compile. At the end of an epoch stacks.c adds the sums of stacks to rows; at the
 * end of the recording units.c, tree.c, failed.c and repeats.c add theirs. After the last recording rank.c
 * makes ranked rows of the tables, which text.c, json.c and csv.c print. */
#pragma once

#include "aggregate/sums.h"
#include "attribution/attribution.h"
#include "report/table.h"
#include "rules/rules.h"
#include "units/shares.h"

/* What is printed about each recording. */
struct report_file {
	/* owned: as the caller named the file; of the target; "cpu" or "wall"; why the session ended */
	char *name, *command, *mode, *reason;
	char *unsupported;	      /* an unsupported Python version that ran; NULL: none */
	/* of the session's first process */
	int32_t pid;
	/* requested, Hz; threads that are shown */
	uint32_t rate, threads;
	uint64_t realtime, span;      /* ns; span: of the window */
	uint64_t whole_span;	      /* ns; whatever the window is */
	/* by the last ledger: all samples of the session, and those with a whole stack; 0: the file has no
	 * ledger */
	uint64_t samples, whole;
	uint64_t seen;		      /* in the window */
	/* sums over the threads shown, also of time that has no sample */
	uint64_t cpu, wall;
	/* parts of wall: no stack as it was idle; no stack as the recording was made without waits */
	uint64_t idle, not_recorded;
	uint32_t quiet_threads;       /* how many of them hardly ran; wall mode only */
	uint64_t quiet_wall;	      /* their part of wall */
	struct times shown, left_out; /* left_out: by filters of samples */
	uint64_t worked[ATTRIBUTION_HOW_COUNT]; /* CPU time of threads without Python, by attribution */
	struct buf losses;	      /* JSON: the member "losses" */
	struct buf triggers, fired;   /* JSON: the member "triggers"; the same as lines of text. Empty: nothing fired */
	bool cut;
	bool waits; /* it has samples of waits, too */
};

/* One compile: the times of its own samples, without compiles inside of it. */
struct compile {
	uint32_t thread, node; /* node: as known at its begin */
	/* number of the compile around it, always smaller than its own; 0: none */
	uint32_t parent;
	uint32_t call;	       /* in the tree of units */
	uint32_t last;	       /* node of its own last sample (not of compiles inside), as known then */
	uint64_t begin, end;   /* ns since the start; end: its last sample */
	struct times self, stages[RULES_STAGES_MAX];
	bool unnamed;	       /* some of its phases have unknown names */
	bool failed;	       /* it ended before its last stage */
};

/* An outermost compile with all compiles inside of it. */
struct chain {
	/* index of the recording; of its thread's name, in thread_names */
	uint32_t file, thread;
	uint32_t compile, trigger;  /* rows of UNIT, of TRIGGER */
	uint64_t begin, end, after; /* after: ns since the thread's previous chain; UINT64_MAX: there is none */
	struct times times;
	uint32_t compiles;
};

/* Why a function is compiled again; the kind of a row of REPEAT. X(id, name, words) */
#define REPORT_REASONS(X)                                                                                              \
	X(TYPES, "new types", "types of the arguments that it had not been compiled for")                             \
	X(OBJECT, "other object", "the same types by another function object: a decorator that ran again, a closure")  \
	X(DISPATCHER, "same address", "the same types of the function object at the same address: decorated again, compiled anew, or a new one where it lay") \
	X(AGAIN, "same types", "the same types again: a cache that did not hold, if it is the same function object")   \
	X(FAILED, "failed before", "the same types again: that compile had ended before its last stage")              \
	X(MEANWHILE, "meanwhile", "the same types, while that was still being compiled")                              \
	X(UNKNOWN, "not known", "it may be another function: where it is defined is not known, or is no file")
#define REPORT_REASON_ENUM(id, name, words) REASON_##id,
enum reason { REPORT_REASONS(REPORT_REASON_ENUM) REASON_COUNT };
#undef REPORT_REASON_ENUM

/* By stage of the compiler's rules, in their order. What a cache of that stage's result would have saved. */
struct stage_times {
	struct times times[RULES_STAGES_MAX];
};

/* All of a report. The first part lasts for all recordings; the second one is emptied by start_file(), and by
 * fold() at the end of an epoch. */
struct report {
	const struct report_options *options;
	/* recordings to be read, and read so far: also the index of the one that is being read, the column of
	 * its times */
	uint32_t files, read;
	struct report_file *file;
	struct table tables[REPORT_BY_COUNT];
	/* Rows that belong to a row of the table: the Python lines that called a callee, the classes of a thread's
	 * time, the lines that caused a compile. Empty for the other tables. */
	struct table below[REPORT_BY_COUNT];
	/* The table of classes without threads that hardly ran. Shown in place of the other one in wall mode,
	 * where such threads would have most of the time. */
	struct table ran;
	struct table focus[2];	   /* one row each: the function of --callers, of --callees */
	struct export_missing missing;
	struct intern thread_names;
	struct buf chains;   /* struct chain, of all recordings */
	struct buf repeated; /* struct stage_times [row of REPEAT * files + file] */
	struct buf first, next; /* the tree: rank + 1 of the first child (by row), of the next sibling (by rank) */
	uint32_t top;	 /* rank + 1 of the first root */
	/* times that order rows and make shares are wall time: a recording was made in wall mode */
	bool wall;
	bool compiles;	/* there were compiles */
	bool has_native; /* a recording has native stacks, without which classes mean little */
	bool quiet_unknown; /* a recording came from a pipe: quiet threads are in all rows */
	bool gil;        /* a recording was made with --gil: without it there are no stacks */

	/* Of the recording that is being read. The model is on the stack of report__read(), NULL between
	 * recordings. */
	struct model *model;
	struct buf quiet;     /* char by thread: it hardly ran, and is only in the rows of classes and threads */
	/* by struct cell (report.c): the epoch's sums by stack */
	struct sums cells;
	struct sums parts;     /* by struct part: threads x classes */
	struct intern compiled; /* struct compiled_key: threads x nodes of the unit tree */
	struct buf compiled_times; /* struct compiled */
	struct shares shares;      /* of workers, since their callers' last samples (units.c) */
	struct buf each;      /* struct compile, by number - 1 */
	struct buf last_samples; /* uint64_t by thread: its last sample, ns since the start */
	struct sums unnamed;  /* by compile number x node without a name yet */
	struct buf stages;    /* uint8_t by node: 0 not computed yet, 1 none, else the stage + 2 */
	struct buf focused; /* uint8_t by frame: bits FOCUS_* (stacks.c) */
	/* uint32_t: the shown frames of the stack at hand, leaf first; scratch of stacks.c */
	struct buf stack;
	struct buf calls;   /* of that stack; scratch of stacks.c */
};

static inline bool report__wants(const struct report *report, enum report_by by)
{
	return report->options->tables >> by & 1;
}

/* The table that is shown: of classes the one without quiet threads, if there are some. */
const struct table *report__table(const struct report *report, enum report_by by);

/* stacks.c: adds the time of a stack to the rows of all tables. */
int stacks__add(struct report *report, uint32_t stack, const struct times *times);

/* Ranks the rows that belong to a row, heaviest first; NULL: this table has none. */
int report__rank_below(struct report *report, enum report_by by, uint32_t row, uint32_t top, const struct table **ret);

/* units.c: the time of compiles. units__wanted(): a table needs compiles, so the model must keep the unit
 * tree. units__sampled(): the model's callback `sampled`. units__add(): after reading, adds it to the rows of
 * the tables. */
bool units__wanted(const struct report *report);
int units__sampled(struct model *model, struct model_thread *thread, uint32_t stack, uint64_t ran, uint64_t shown);
int units__add(struct report *report);

/* Adds time to a row below another. `own`: to its exclusive time, too; `fresh`: the row was not yet counted in this stack. */
void units__below(struct report *report, struct table *below, uint32_t row, const struct times *times, bool own, bool fresh);
/* source_lines.c: adds the time of a node of the tree of compiles to the lines that these were at. */
int source_lines__add(struct report *report, uint32_t node, uint32_t line, const struct times *times);

/* annotate.c: the listings of sources, as text and as a member of the JSON; both rank the table `source-line` again. */
int annotate__text(struct report *report, FILE *out);
int annotate__json(struct report *report, struct buf *out);

/* compiles.c: each single compile. Adds a sample of `call`, the innermost compile, phase or pass. */
bool compiles__wanted(const struct report *report);
int compiles__sampled(struct report *report, uint32_t thread, uint32_t call, const struct times *times);
/* After a recording was read: makes chains and repeats. */
int compiles__add(struct report *report);
void compiles__sort(struct report *report); /* the chains, longest first */
/* failed.c: finds the compiles that failed, and makes their rows. */
int failed__sampled(struct report *report, uint32_t thread); /* notes a sample of the thread, in whatever compile */
int failed__find(struct report *report, const struct times *inclusive);
/* Is this compile inside of another one of the same row? Then that one's inclusive time has it. `rows` by number -
 * 1. */
bool compiles__in_its_row(const struct report *report, uint32_t number, const uint32_t *rows);
/* repeats.c: goes through the compiles in the order of their begin. `inclusive` by number - 1. */
int repeats__add(struct report *report, const struct times *inclusive);
struct stage_times *repeats__stages(const struct report *report, uint32_t row, uint32_t file);
/* The compiler's rules, which define its stages; NULL: not known. */
const struct compiler *repeats__compiler(const struct report *report, const char *name);
extern const char *const reason_names[REASON_COUNT], *const reason_words[REASON_COUNT];

/* tree.c: the rows of the table "tree". */
int tree__calls(struct report *report, uint32_t node, uint64_t calls, uint64_t begun);
int tree__times(struct report *report, uint32_t node, const struct times *times);
/* After ranking: links parents and children, limited by --top, --depth and --min-share. */
int tree__link(struct report *report);
/* Kinds of tree rows that are not frames. */
#define KIND_PHASE 254u
#define KIND_PASS 253u
/* ... and their names: "trigger", "unit", "phase", "pass", "outside". */
const char *tree__kind(const struct row_key *key);

/* units.c: rows of units. */
struct row_key units__key(const struct unit_node *node);
#define ROW_OUTSIDE REPORT_OUTSIDE
#define ROW_NO_PASS REPORT_NO_PASS
int units__trigger_row(struct report *report, struct table *table, uint32_t trigger, uint32_t parent, uint32_t *ret);

/* text_width.c: the columns of a row's name, file and module: fixed ones, or what a terminal leaves from column `at` on,
 * then no more than `width` for the name. */
#define TEXT_FILE_WIDTH 52
struct fitted {
	int name; /* for fit__name() */
	int file; /* 0: it is left out, with its line */
	bool module;
};
struct fitted text__fit(const struct report *report, int at, int width, const char *name, const struct row_key *key);
int text__room(const struct report *report, int at, int width); /* for a text without a location */
/* Where the lines below a row begin, instead of at column `at`. */
int text__below(const struct report *report, int at);
bool text__is_narrow(const struct report *report, int width);
/* text.c */
static inline double percent(double part, double whole)
{
	return whole > 0 ? 100 * part / whole : 0;
}
/* The time of compiles by the other clock: 10 columns. */
void text__clock(const struct table *table, const struct rank *rank, bool wall, FILE *out);
void text__location(const struct row_key *key, struct fitted fitted, FILE *out); /* where it is, after its name */
void text__caller(const struct report *report, int at, const struct row_key *key, FILE *out); /* name and location */
/* units_text.c, units_json.c: print the tables of tree.c and compiles.c. */
/* How many chains there are, from how many lines, and the time between them. */
void units_text__chains(const struct report *report, FILE *out);
int units_text__table(struct report *report, struct table *table, FILE *out);
int units_json__table(struct report *report, struct table *table, struct buf *out);

/* json.c: write members of objects. Each appends "," if needed, "key": and the value to *out; -ENOMEM. */
int put__ns(struct buf *out, const char *key, double ns);
int put__times(struct buf *out, const struct table *table, double total, const struct rank *rank, bool counted);

/* The name of a row's kind; "" for a group. */
const char *kind__name(uint8_t kind);
