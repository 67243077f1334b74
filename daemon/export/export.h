/* SPDX-License-Identifier: MIT */
/* Exporters: pure functions of a recording (events/events.h) into a file that
 * somebody else's program opens.
 *
 * Owner: the caller owns the fd and the FILE; a report is plain data.
 * Threading: none kept; one export belongs to one thread.
 * Memory: tables of the recording plus, for formats that show the order of time,
 * 8 bytes a sample.
 * Errors: -errno; -EBADMSG for a damaged recording (what was read is not written),
 * -ENOENT for a format that is not there, or a filter that nothing in the recording
 * answers to (report.missing).
 */
#ifndef CPROFD_EXPORT_H
#define CPROFD_EXPORT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* Default bound of a speedscope file: V8 holds no string over 512 MB, and Chrome
 * needs several times the file to show it. */
#define EXPORT_BYTES_MAX 150000000ull

#define EXPORT_EXCLUDE_MAX 16u

struct hlo;
struct rules;
struct export_options {
	bool lines;             /* frames are lines; false: functions */
	bool idle;              /* waiting time shows the stack that waits, where it is known */
	bool fold_interpreter;  /* the interpreter's own native frames are part of the frame around them (shown.h). Not events */
	bool thread_names;      /* collapsed: the thread is a frame (py-spy's -t) */
	bool units;             /* collapsed, svg, pprof: compiles, phases and passes as the outermost frames */
	const char *thread;     /* NULL: all; digits: the tid; else the name */
	/* Only samples of this class, or whose stack has this function or module
	 * (pattern.h). NULL: all. Time of the others is left out (filter.h). */
	const char *class_name, *function, *module;
	/* Frames that are not shown: their time is their callers' (hide.h). Not events. */
	const char *exclude[EXPORT_EXCLUDE_MAX]; /* patterns of functions, modules or files */
	uint32_t n_exclude;
	bool hide_imports;      /* the frames of importlib */
	uint32_t skip_first;    /* without those in the first N compiles of their unit (skip.h); 0: all */
	uint64_t from, to;      /* window, ns since the session's start; to 0: its end */
	uint64_t max_bytes;     /* speedscope; 0: EXPORT_BYTES_MAX */
	struct hlo *hlo;        /* functions that XLA made are the operations that it names (hlo.h); borrowed, NULL: as XLA calls them. Not events */
	const struct rules *rules; /* html: borrowed, stages of compiles (report.h); NULL: the program's own */
	bool readable;          /* names are as people may be shown them (base/safe_text.h); else as the target has them */
	bool compress;          /* events, where a filter makes new ones: zstd */
};

/* Which filter met nothing in the recording, and what there is that is spelled like it. */
struct export_missing {
	const char *option;     /* "thread", "class", "function", "module", "skip-first", "exclude"; NULL: none */
	const char *name;       /* exclude: which of them */
	char close[512];        /* "a, b" or "" */
};

struct export_report {
	uint64_t samples;       /* that went into the file */
	uint64_t span;          /* ns: the recording's, from its start to its end, whatever the window is */
	uint32_t threads;
	uint64_t wall, cpu;     /* ns, sums over the threads shown */
	uint32_t quiet_threads; /* of these: that hardly ran (quiet.h) and are part of no share; */
	uint64_t quiet_wall;    /* ... ns */
	uint64_t bin;           /* ns: samples were merged within bins of this length; 0: not */
	uint64_t folded_below;  /* ns: stacks lighter than this were folded into their callers; 0: not */
	bool cut;               /* the recording ends in the middle */
	bool no_waits;          /* stacks of waiting threads were asked for, and it has none: it was made without */
	struct export_missing missing; /* with -ENOENT */
};

struct exporter {
	const char *name;       /* of -f */
	const char *extension;  /* of a default file name, with its dot */
	const char *description; /* one sentence for --help */
	const char *endings;    /* of names that ask for it, parted by spaces; after a '?' those that other formats may have too */
	int (*run)(int recording_fd, const struct export_options *options, FILE *out,
		   struct export_report *ret);
	const char *no_units;   /* why it takes no options.units, half a sentence; NULL: it takes them */
	bool rules;             /* it takes options.rules */
	bool readable;          /* people read what it writes: options.readable */
};

/* All formats, ended by a NULL name. */
extern const struct exporter exporters[];

/* By name or by py-spy's alias; NULL when there is none. */
const struct exporter *exporter__find(const char *format);
/* By the end of a file's name; NULL: it says nothing. *ret_sure: no other format would be called so. */
const struct exporter *exporter__of_name(const char *name, bool *ret_sure);
/* "speedscope, collapsed (raw), ..." */
const char *exporter__names(void);

/* Reads the recording from its start when the fd can seek, else from where it is. */
int export__run(const char *format, int recording_fd, const struct export_options *options,
		FILE *out, struct export_report *ret);

#endif
