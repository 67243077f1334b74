/* SPDX-License-Identifier: MIT */
/* Exporters: pure functions from a recording (events/events.h) to a file of another format.
 *
 * Owner: the caller owns the fd and the FILE; a report is plain data. Threading: none kept; one export belongs to
 * one thread. Memory: tables of the recording plus, for formats that show the order of time, 8 bytes per sample.
 * Errors: -errno; -EBADMSG for a damaged recording (nothing is written of it), -ENOENT for an unknown format, or for
 * a filter that matches nothing in the recording (report.missing). */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* Default limit for a speedscope file: V8 holds no string over 512 MB, and Chrome needs several times the file's
 * size to show it. */
#define EXPORT_BYTES_MAX 150000000ull
#define COLLAPSED_BYTES_MAX 200000000ull

#define EXPORT_EXCLUDE_MAX 16u

struct hlo;
struct rules;
/* What the user asked for. Borrowed during export__run(), strings included. Zero-initialised: everything, by
 * functions. */
struct export_options {
	bool lines;             /* frames are lines; false: functions */
	bool idle;              /* waits have the stack of the waiting thread, where it is known */
	bool fold_interpreter;  /* interpreter frames count as the frame around them (shown.h) */
	bool thread_names;      /* collapsed: the thread is a frame (py-spy's -t) */
	bool units;             /* collapsed, svg, pprof: compiles, phases and passes as the outermost frames */
	const char *thread;     /* NULL: all; digits: the tid; else the name */
	const char *process;    /* NULL: all; digits: the pid; else a pattern for words of the command line (filter.h) */
	/* Only samples of this class, or whose stack has this function or module (filter.h). NULL: all. The time of
	 * other samples is left out (filter.h). */
	const char *class_name, *function, *module;
	/* Frames that are hidden: their time goes to their callers (hide.h). Not for events. */
	const char *exclude[EXPORT_EXCLUDE_MAX]; /* patterns of functions, modules or files */
	uint32_t n_exclude;
	bool hide_imports;      /* the frames of importlib */
	bool hide_native;       /* all frames but Python's */
	uint32_t skip_first;    /* leave out samples in the first N compiles of their unit (filter.h); 0: all */
	uint64_t from, to;      /* window, ns since the session's start; to 0: its end */
	uint64_t max_bytes;     /* speedscope; 0: EXPORT_BYTES_MAX; collapsed; 0: COLLAPSED_BYTES_MAX */
	/* Names functions that XLA made after the operations in it (hlo.h). NULL: they keep XLA's names. Borrowed.
	 * Not for events. */
	struct hlo *hlo;
	const struct rules *rules; /* html: borrowed; stages of compiles (report.h); NULL: the built-in rules */
	/* html: opens a source with the rights of who asks: a descriptor, or -errno. NULL: no listings of sources. */
	int (*open_source)(const char *path);
	bool readable;          /* names are made printable (base/safe_text.h); false: as the target has them */
	bool compress;          /* events, if a filter rewrites the recording: compress with zstd */
};

/* Which filter matched nothing in the recording, and similar names that do exist. */
struct export_missing {
	const char *option;     /* "thread", "class", "function", "module", "skip-first", "exclude"; NULL: none */
	const char *name;       /* exclude: which of them */
	char close[512];        /* "a, b" or "" */
};

/* What an export has to say besides its file; filled in also after an error, as far as it is known. */
struct export_report {
	uint64_t samples;       /* in the file */
	/* ns from the recording's start to its end, whatever the window is */
	uint64_t span;
	uint32_t threads;
	uint64_t wall, cpu;     /* ns, sums over the threads shown */
	uint32_t quiet_threads; /* of these: threads that hardly ran (quiet.h), left out of all shares; */
	uint64_t quiet_wall;    /* ... and their wall time, ns */
	uint64_t bin;           /* ns: samples were merged within bins of this length; 0: none were */
	uint64_t folded_below;  /* ns: stacks lighter than this were folded into their callers; 0: none were */
	bool cut;               /* the recording ends in the middle */
	bool no_waits;          /* -i was given, but the recording was made without waits */
	struct export_missing missing; /* with -ENOENT */
};

/* A row of the table of formats. All strings are static. */
struct exporter {
	const char *name;       /* the argument of -f */
	const char *extension;  /* of a default file name, with its dot */
	const char *description; /* one sentence for --help */
	const char *endings;    /* of its file names, separated by spaces; '?': other programs use that ending, too */
	int (*run)(int recording_fd, const struct export_options *options, FILE *out,
		   struct export_report *ret);
	const char *no_units;   /* why it refuses options.units, half a sentence; NULL: it takes them */
	bool rules;             /* it takes options.rules */
	bool readable;          /* people read its text as it is: sets options.readable */
};

/* All formats, ended by a NULL name. */
extern const struct exporter exporters[];

/* By name or by py-spy's alias; NULL: there is none. */
const struct exporter *exporter__find(const char *format);
/* By the ending of a file's name; NULL: unknown. *ret_sure: other programs do not use that ending. */
const struct exporter *exporter__of_name(const char *name, bool *ret_sure);
/* "speedscope, collapsed (raw), ..." */
const char *exporter__names(void);

/* Reads the recording from its start if the fd is seekable, else from its position. The caller opens and
 * closes both files. On an error the text in `out` is incomplete and must be thrown away. */
int export__run(const char *format, int recording_fd, const struct export_options *options,
		FILE *out, struct export_report *ret);
