/* SPDX-License-Identifier: MIT */
/* Events: the one format. The socket streams events, a recording is a file of them, and every exporter reads them.
 * docs/protocol.md documents them.
 *
 * An event is borrowed: its strings and arrays belong to the caller and are valid until the call returns.
 * Threads: an encoder or decoder belongs to one thread at a time.
 * Units: times are CLOCK_MONOTONIC nanoseconds, durations nanoseconds.
 * Errors: -errno; -EBADMSG: a line is not an event of this protocol; -EPROTONOSUPPORT: a hello of another major
 * version; -EOVERFLOW: a stack of more than EVENTS_DEPTH_MAX frames.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cprofd/pylayout.h"

/* A newer minor version only adds: events, members, elements at the end of rows. Readers skip what they do
 * not know, so a recording can be read by older and newer programs of one major version. */
#define EVENTS_MAJOR 1
#define EVENTS_MINOR 17
/* Encoders never make a longer line, and decoders refuse it. */
#define EVENTS_LINE_MAX (4u << 20)
/* Rows of one line: bounds what a decoder allocates for it. */
#define EVENTS_ROWS_MAX (64u << 10)
/* Encoders truncate longer strings (in bytes) and append an ellipsis. */
#define EVENTS_STRING_MAX (16u << 10)
/* Frames of one stack: decoders refuse deeper ones. The sampler's have at most 12,415 (cprofd/record.h). */
#define EVENTS_DEPTH_MAX (16u << 10)

/* X(id, name): the "ev" of each event. */
#define EVENT_KINDS(X) \
	X(HELLO, "hello")           /* first line of every stream and recording */ \
	X(SESSION, "session")       /* what is recorded, and how */ \
	X(EPOCH, "epoch")           /* tables begin anew: later ids refer to new rows */ \
	X(PROCESS, "process") \
	X(THREAD, "thread") \
	X(MODULES, "modules")       /* since 1.15: build ids of files with native code */ \
	X(FUNCTIONS, "functions")   /* table rows, ids count up from 0 in an epoch */ \
	X(FRAMES, "frames") \
	X(STACKS, "stacks")         /* tree nodes from id 1; id 0 is the empty stack */ \
	X(CLASSES, "classes")       /* since 1.3: table of classes of time, from id 1; 0: not determined */ \
	X(UNITS, "units")           /* compiles, phases, passes: rows from id 1; id 0: outside of all */ \
	X(LINES, "lines")           /* since 1.11: lines of sources that compilers are at: a tree, from id 1; id 0: none */ \
	X(SAMPLES, "samples")       /* a batch */ \
	X(UNIT_NAME, "unit_name")   /* since 1.4: a unit whose row had no name has one now */ \
	X(UNIT_END, "unit_end") \
	X(UNIT_ENDS, "unit_ends")   /* since 1.7: a batch of ends without names */ \
	X(THREAD_END, "thread_end") \
	X(PROCESS_END, "process_end") \
	X(LEDGER, "ledger")         /* running totals, about once a second and last */ \
	X(GAP, "gap")               /* this client missed events here */ \
	X(PART, "part")             /* since 1.12: what was recorded so far is complete; `session` and the tables follow */ \
	X(TRIGGER, "trigger")       /* since 1.13: why this was recorded; since 1.16 to the client of a flight recorder: somebody asked */ \
	X(END, "end")               /* last line of a session */

#define EVENT_ENUM(id, name) EVENT_##id,
enum event_kind { EVENT_KINDS(EVENT_ENUM) EVENT_KIND_COUNT };
#undef EVENT_ENUM

enum function_kind { /* functions row "kind" */
	FUNCTION_PYTHON = 0,
	FUNCTION_NATIVE = 1,
	FUNCTION_KERNEL = 2,
	FUNCTION_NOTE = 3, /* not a function but a note: "(idle)", "(cut: ...)" */
	/* since 1.1 */
	FUNCTION_JIT = 4,  /* code that a JIT compiler made */
	FUNCTION_INTERPRETER = 5, /* native code of the Python interpreter itself */
	/* since 1.3 */
	/* a callable that Python code called, by its Python name: "list.sort". Its native frames are inside of it */
	FUNCTION_CALL = 6,
};

/* The first line of a connection or recording. */
struct event_hello {
	unsigned major, minor;
	const char *server;             /* "cprofd@0.1.0" */
	const char *const *features;    /* NULL-terminated, or NULL */
};

/* What is recorded, and how. All ids begin anew after it. */
struct event_session {
	uint32_t id;
	int32_t pid;
	uint32_t rate;                  /* requested, in Hz */
	const char *mode;               /* "cpu" or "wall" */
	uint64_t monotonic, boottime, realtime; /* ns, read together at the start */
	const char *boot_id;
	const char *command;            /* the target's command line, for people */
	bool subprocesses, native, idle;
	/* since 1.10 */
	const char *machine;            /* "AMD EPYC 7B13, 2 CPUs"; NULL or "": not known */
};

/* All tables begin anew; rows that are still needed are emitted again, with new ids. So the
 * tables of a session of days stay bounded, in the engine and in its readers. */
struct event_epoch {
	uint32_t number;
	uint64_t time;
};

struct event_process {
	uint32_t id;                    /* serial in the epoch */
	int32_t pid, parent;            /* parent: pid, 0 if unknown */
	uint64_t start;                 /* boottime ns of its start */
	uint32_t exec;                  /* exec count: a new image is a new process row */
	uint64_t time;                  /* when it was first seen */
	const char *name;               /* command line, shortened */
	const char *python;             /* "3.11.2", "3.14.0t"; "" if no Python frames are walked */
	/* since 1.9 */
	/* "Python 2.7.18", "PyPy": a Python whose frames cannot be read; NULL or "": none */
	const char *unsupported;
	/* since 1.14 */
	const char *container;          /* id of the container that it is in; NULL or "": none, or not known */
};

/* Readers append this to `unsupported`; %s is py_versions. */
#define EVENT_UNSUPPORTED_FORMAT " is not supported (CPython %s is): its functions have no names"

/* A thread of a process row. Emitted again with the same id when its name changes, and with a new id in each
 * epoch. */
struct event_thread {
	uint32_t id;
	uint32_t process;               /* process row */
	int32_t tid;
	uint64_t start;                 /* boottime ns */
	uint64_t time;                  /* monotonic: its time line begins here */
	const char *name;
};

/* Since 1.15. A file with native code that has a build id. Two rows may have one name: two files in two folders. */
struct module_row {
	const char *name;               /* that of its functions' rows */
	const char *build_id;           /* hexadecimal */
};

/* What a frame is of. Functions of one name may differ only in file, line or module. */
struct function_row {
	const char *name;               /* qualified name where there is one */
	const char *file;               /* "" when there is none */
	uint32_t line;                  /* first line, 0: none */
	const char *module;             /* ELF or JIT module; "" for Python */
	uint8_t kind;                   /* enum function_kind */
};

/* A function, and where in it. Recordings by functions have frames with line 0. */
struct frame_row {
	uint32_t function;
	int32_t offset;                 /* bytes into bytecode or function; < 0: entry */
	uint32_t line, column;          /* column counts from 1; 0: none */
};

/* A node of the tree of stacks: a frame on top of a stack. Ids of parents are smaller. */
struct stack_row {
	uint32_t parent;                /* stack id, 0: this frame is outermost */
	uint32_t frame;
};

/* A class of time (daemon/classes/classes.h, docs/classes.md). */
struct class_row {
	const char *name;               /* "interpreter", "C call", "kernel" ... */
	const char *detail;             /* which: the callee, the compiler, the system call; "" */
};

/* Since 1.3. A compile, phase or pass: a call of a function that a rule names. `kind`: enum rule_kind (rules/rules.h),
 * or UNIT_OVER: it ended before this client subscribed, and its row only keeps the ids consecutive. */
#define UNIT_OVER 255u
struct unit_row {
	uint32_t parent;                /* unit id, 0: none */
	uint32_t thread;
	uint8_t kind;
	const char *compiler, *name;    /* name "": not known (yet, see unit_name) */
	const char *signature;          /* "": it has none */
	uint64_t time;                  /* its begin: that of its first sample's span */
	/* stack id, whose innermost frame is the line that caused it; 0: unknown, or not an outermost compile */
	uint32_t trigger;
	const char *file;               /* where the compiled function is defined; "": unknown */
	uint32_t line;
	uint32_t object;                /* since 1.6: a number for the object that named it; 0: unknown */
};

/* Since 1.11. A line that a compiler is at, inside of that which the compile around its own is at. `depth`: of its compile,
 * among those of the sample's unit; 1: the outermost. */
struct source_line_row {
	uint32_t parent;                /* line id, 0: none */
	uint32_t depth;
	const char *file;
	uint32_t line;
};

/* The thread had this stack at `time`; the row stands for the time since the thread's previous sample. */
struct sample_row {
	uint64_t time;                  /* the instant of the stack */
	uint64_t wall;                  /* since the thread's previous sample (or its start) */
	uint64_t cpu;                   /* its own CPU time in that span; wall - cpu is idle */
	uint32_t thread, stack;
	uint32_t class_id, unit, cause; /* 0: not determined */
	/* Since 1.5: for which call of another thread it worked: enum attribution_how (attribution/attribution.h), that
	 * thread, and the stack of the call. */
	uint32_t how, caller, call;
	/* Since 1.7: CPU time of threads that ended without a sample for it; this sample represents it. */
	uint64_t others;
	/* Since 1.9: the part of `cpu` that samples of other threads represent. */
	uint64_t given;
	/* Since 1.11: the innermost line that a compiler was at; 0: none. */
	uint32_t line;
	/* Inside of the engine, of waits; 0: not known. When its stack was recorded (TAKEN_NEVER: it has none), and when it was
	 * over: `time` is earlier by what the thread ran since its last tick. */
	uint64_t taken, over;
#define TAKEN_NEVER 1u
};

/* The weight of a sample in tables: its CPU time without the part that others represent, plus what it represents. */
static inline uint64_t sample__weight(uint64_t own, uint64_t given, uint64_t others)
{
	return (own > given ? own - given : 0) + others;
}

struct event_rows {
	uint32_t first;                 /* id of rows[0] */
	uint32_t n;
	const void *rows;               /* module_row, function_row, frame_row, stack_row, class_row, unit_row or source_line_row */
};

/* Samples of all threads, nearly in order of time. Those of one thread are in order. */
struct event_samples {
	uint32_t n;
	const struct sample_row *rows;
};

struct unit_end_row {
	uint64_t time;                  /* of its last sample */
	uint32_t id;
};

/* Ends of units whose names were known before: most of them. */
struct event_unit_ends {
	uint32_t n;
	const struct unit_end_row *rows;
};

struct event_ending {               /* thread_end, process_end */
	uint32_t id;
	uint64_t time;
	uint64_t wall, cpu;             /* thread_end: idle tail since the last sample; CPU time since the last sample */
	/* Inside of the engine, of thread_end: the part ends and not the thread. */
	bool goes_on;
};

struct event_unit_end {             /* unit_name, unit_end */
	uint32_t id;
	uint64_t time;                  /* of its last sample; unit_name: so far */
	const char *name, *signature, *file; /* only what became known after its row; else "" */
	uint32_t line, object;
};

struct ledger_line {
	const char *name;               /* a name of include/cprofd/loss.h; readers keep unknown names */
	uint64_t count;
};

/* A location at which native stacks end early (since 1.2). */
struct ledger_stop {
	const char *loss;               /* why: a name of include/cprofd/loss.h */
	const char *module;             /* "libfoo.so.1", "JIT"; "": no known mapping */
	uint64_t offset;                /* ELF address in the module; JIT: the function; no module: the address */
	uint64_t count;                 /* samples */
	const char *function;           /* "": unknown */
};

/* Totals since the latest `session`, not since the ledger before. */
struct event_ledger {
	uint64_t time;
	uint64_t samples;               /* records that became samples */
	uint64_t whole;                 /* of these, complete to the outermost frame */
	uint32_t n;
	const struct ledger_line *lines;
	/* since 1.2. native = native_whole + the stops' counts + stops_more */
	uint64_t native;                /* samples whose native stack was walked; 0: native stacks are off */
	uint64_t native_whole;          /* of these, complete to the begin of the thread */
	uint64_t stops_more;            /* at locations that are not listed */
	uint32_t n_stops;               /* most frequent first */
	const struct ledger_stop *stops;
};

/* This client read too slowly, and events were dropped for it here. `session` and the tables follow, as for a
 * late joiner: ids from before are void. */
struct event_gap {
	uint64_t time;
	uint64_t events, bytes;         /* dropped for this client */
};

/* A request `rotate` cut the session here: the events before, with an `end`, are a recording, and so are `hello` and
 * those behind. Each thread got its thread_end, and the ledger starts from 0. */
struct event_part {
	uint64_t time;
};

/* Of a recording that was made because a condition held, or somebody asked for it. */
struct event_trigger {
	uint64_t time;
	const char *condition;          /* as it was given: "unit>2s"; "SIGUSR2"; "request" */
	uint64_t value;                 /* ns; of `cpu`: CPU time in `span`; 0: none */
	uint64_t span;
	const char *name;               /* what was compiled; "" */
	int32_t tid;                    /* the thread, 0: none */
};

struct event_end {
	uint64_t time;
	const char *reason;             /* "duration", "stopped", "exited", "failed", "snapshot", "rotated", "trigger" */
	const char *detail;             /* a sentence for people, or "" */
};

/* `kind` selects the member of the union. Modules, functions, frames, stacks, classes, units and lines are `rows`; unit_name
 * and unit_end are `unit_end`; thread_end and process_end are `ending`. */
struct event {
	enum event_kind kind;
	union {
		struct event_hello hello;
		struct event_session session;
		struct event_epoch epoch;
		struct event_process process;
		struct event_thread thread;
		struct event_rows rows;
		struct event_samples samples;
		struct event_ending ending;
		struct event_unit_end unit_end;
		struct event_unit_ends unit_ends;
		struct event_ledger ledger;
		struct event_gap gap;
		struct event_part part;
		struct event_trigger trigger;
		struct event_end end;
	};
};

/* Takes events: profile -> encoder, decoder -> exporter. An error (-errno) stops the producer, which returns it. */
struct event_sink {
	int (*event)(struct event_sink *self, const struct event *event);
};

/* Encode: appends one line, with '\n', to `out` (base/buf.h). A batch (rows, samples) that is too long for one line
 * becomes several. -ERANGE: a number beyond INT64_MAX; -EMSGSIZE: too long and not a batch. On error `out` is
 * unchanged. */
struct buf;
int event__encode(const struct event *event, struct buf *ret_out);

/* Decode: one line ('\n' and NUL are not needed) to the sink. Unknown events and keys are skipped (0). The decoder
 * checks bounds and order of ids, so that a sink may trust them: rows continue where their table ended; a row refers
 * only to earlier rows, a sample to a known thread and stack; a process or thread is the next one, or a known one that
 * is emitted again (with a changed name). It holds scratch memory and the length of each table of the epoch. */
struct event_decoder;
int event_decoder__new(struct event_decoder **ret);
struct event_decoder *event_decoder__free(struct event_decoder *decoder); /* NULL */
/* From now on strings are escaped for showing to people (base/safe_text.h); without this they are the
 * target's bytes. */
void event_decoder__readable(struct event_decoder *decoder);
int event_decoder__line(struct event_decoder *decoder, const char *line, size_t len,
			struct event_sink *sink);

/* A recording: NDJSON lines, compressed with zstd in independent frames. The writer appends whole lines; everything
 * that was flushed is readable even if the rest of the file is lost. Descriptors are borrowed. */
struct recording_writer;
/* `fd` is borrowed, and written to at its position. -ENOMEM. */
int recording_writer__new(int fd, bool compress, struct recording_writer **ret);
/* Called when the disk is full: true if there is room now, so that the write is tried again. */
void recording_writer__on_full(struct recording_writer *writer, bool (*full)(void *of), void *of);
/* Whole lines, each with its '\n'. Buffered. After the first error nothing is written any more, and all calls
 * return that error. */
int recording_writer__lines(struct recording_writer *writer, const char *lines, size_t len);
/* An event as a line, made in `scratch`. A ledger ends a zstd frame, as in a session: if the file is truncated, the
 * frames before can be read. */
int recording_writer__event(struct recording_writer *writer, const struct event *event, struct buf *scratch);
int recording_writer__flush(struct recording_writer *writer);   /* ends a zstd frame */
struct recording_writer *recording_writer__free(struct recording_writer *writer);
/* `end` of a snapshot, as a frame of its own: behind what a session that goes on has flushed. `detail`: of the event. */
int recording__put_end(int fd, const char *detail);

/* Reads a recording (plain or zstd, by its first bytes) from the descriptor's position into the sink, in constant
 * memory. *ret_cut: it ends in the middle of a line or frame, or without an `end` event; complete lines were delivered.
 * `readable`: see event_decoder__readable(). -EBADMSG: damaged; -E2BIG: it expands to more than a file of its size may
 * (base/limits.h). Errors of the sink are passed on. */
int recording__read(int fd, bool readable, struct event_sink *sink, bool *ret_cut);
