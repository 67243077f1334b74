/* SPDX-License-Identifier: MIT */
/* Events: the one vocabulary. What the socket streams is what a recording
 * holds and what every exporter reads. docs/protocol.md is the written form.
 *
 * A typed event is borrowed: strings and arrays in it belong to whoever made
 * it and stay valid until the call that hands it over returns.
 * Threading: an encoder or a decoder belongs to one thread at a time.
 * Units: times are CLOCK_MONOTONIC nanoseconds, durations nanoseconds.
 * Errors: -errno; -EBADMSG for a line that is not an event of this protocol,
 * -EPROTONOSUPPORT for a hello of another major version, -EOVERFLOW for a stack of more than EVENTS_DEPTH_MAX frames.
 */
#ifndef CPROFD_EVENTS_H
#define CPROFD_EVENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cprofd/pylayout.h"

#define EVENTS_MAJOR 1
#define EVENTS_MINOR 9
/* A longer line is refused by decoders and never made by encoders. */
#define EVENTS_LINE_MAX (4u << 20)
/* Rows of one line; bounds what a line makes a decoder allocate. */
#define EVENTS_ROWS_MAX (64u << 10)
/* A longer string (in bytes) is cut by encoders, and ends in an ellipsis. */
#define EVENTS_STRING_MAX (16u << 10)
/* Frames of one stack: a deeper one is refused by decoders. The sampler's own have 12,415 at most (cprofd/record.h). */
#define EVENTS_DEPTH_MAX (16u << 10)

/* X(id, name): the "ev" of each event. */
#define EVENT_KINDS(X) \
	X(HELLO, "hello")           /* first line of every stream and recording */ \
	X(SESSION, "session")       /* what is recorded, and how */ \
	X(EPOCH, "epoch")           /* tables start afresh: ids below are new */ \
	X(PROCESS, "process") \
	X(THREAD, "thread") \
	X(FUNCTIONS, "functions")   /* table rows, ids count up from 0 in an epoch */ \
	X(FRAMES, "frames") \
	X(STACKS, "stacks")         /* tree nodes from id 1; id 0 is the empty stack */ \
	X(CLASSES, "classes")       /* since 1.3: table of classes of time, from id 1; 0: not determined */ \
	X(UNITS, "units")           /* compiles, phases, passes: rows from id 1; id 0 is outside of all */ \
	X(SAMPLES, "samples")       /* a batch */ \
	X(UNIT_NAME, "unit_name")   /* since 1.4: a unit whose row had no name has one now */ \
	X(UNIT_END, "unit_end") \
	X(UNIT_ENDS, "unit_ends")   /* since 1.7: a batch of those of which their rows said all */ \
	X(THREAD_END, "thread_end") \
	X(PROCESS_END, "process_end") \
	X(LEDGER, "ledger")         /* running totals, about once a second and last */ \
	X(GAP, "gap")               /* this client missed events here */ \
	X(END, "end")               /* last line of a session */

#define EVENT_ENUM(id, name) EVENT_##id,
enum event_kind { EVENT_KINDS(EVENT_ENUM) EVENT_KIND_COUNT };
#undef EVENT_ENUM

enum function_kind { /* functions row "kind" */
	FUNCTION_PYTHON = 0,
	FUNCTION_NATIVE = 1,
	FUNCTION_KERNEL = 2,
	FUNCTION_NOTE = 3, /* a frame that says something: "(idle)", "(cut: ...)" */
	/* since 1.1 */
	FUNCTION_JIT = 4,  /* code that a JIT compiler made */
	FUNCTION_INTERPRETER = 5, /* native code of the Python interpreter itself */
	/* since 1.3 */
	FUNCTION_CALL = 6, /* what Python code called, by its own name: "list.sort". Its native frames lie inside */
};

struct event_hello {
	unsigned major, minor;
	const char *server;             /* "cprofd@0.1.0" */
	const char *const *features;    /* NULL-terminated, or NULL */
};

struct event_session {
	uint32_t id;
	int32_t pid;
	uint32_t rate;                  /* Hz asked for */
	const char *mode;               /* "cpu" or "wall" */
	uint64_t monotonic, boottime, realtime; /* ns, read together at the start */
	const char *boot_id;
	const char *command;            /* the target's command line, for people */
	bool subprocesses, native, idle;
};

struct event_epoch {
	uint32_t number;
	uint64_t time;
};

struct event_process {
	uint32_t id;                    /* serial in the epoch */
	int32_t pid, parent;            /* parent: pid, 0 if not known */
	uint64_t start;                 /* boottime ns of its start */
	uint32_t exec;                  /* exec count: a new image is a new process row */
	uint64_t time;                  /* when it was first seen */
	const char *name;               /* command line, shortened */
	const char *python;             /* "3.11.2", "3.14.0t"; "" when not a Python that is walked */
	/* since 1.9 */
	const char *unsupported;        /* "Python 2.7.18", "PyPy": its frames are not read; NULL or "": none */
};

/* What a reader says behind it, and of which versions: py_versions. */
#define EVENT_UNSUPPORTED_FORMAT " is not supported (CPython %s is): its functions have no names"

struct event_thread {
	uint32_t id;
	uint32_t process;               /* process row */
	int32_t tid;
	uint64_t start;                 /* boottime ns */
	uint64_t time;                  /* monotonic: its time line begins here */
	const char *name;
};

struct function_row {
	const char *name;               /* qualified name where there is one */
	const char *file;               /* "" when there is none */
	uint32_t line;                  /* first line, 0: none */
	const char *module;             /* ELF or JIT module; "" for Python */
	uint8_t kind;                   /* enum function_kind */
};

struct frame_row {
	uint32_t function;
	int32_t offset;                 /* bytes into bytecode or function; < 0: entry */
	uint32_t line, column;          /* column counts from 1; 0: none */
};

struct stack_row {
	uint32_t parent;                /* stack id, 0: this frame is outermost */
	uint32_t frame;
};

/* A class of time (daemon/classes/classes.h, docs/classes.md). */
struct class_row {
	const char *name;               /* "interpreter", "C call", "kernel" ... */
	const char *detail;             /* which: the callee, the compiler, the system call; "" */
};

/* Since 1.3. A call of something that a rule names; its kind is enum rule_kind (rules/rules.h), or UNIT_OVER: it was over
 * before this client came, and holds a place among the ids. */
#define UNIT_OVER 255u
struct unit_row {
	uint32_t parent;                /* unit id, 0: none */
	uint32_t thread;
	uint8_t kind;
	const char *compiler, *name;    /* name "": not known (yet, see unit_name) */
	const char *signature;          /* "" of what has none */
	uint64_t time;                  /* its begin: of the span of its first sample */
	uint32_t trigger;               /* stack id: ends in the line that caused it; 0: not known, or not the outermost */
	const char *file;               /* where what is compiled is defined; "": not known */
	uint32_t line;
	uint32_t object;                /* since 1.6: a number of the object that it was named by; 0: not known */
};

struct sample_row {
	uint64_t time;                  /* the instant of the stack */
	uint64_t wall;                  /* since the thread's previous sample (or its start) */
	uint64_t cpu;                   /* its own CPU time in that span; wall - cpu is idle */
	uint32_t thread, stack;
	uint32_t class_id, unit, cause; /* 0: not determined */
	/* Since 1.5: the call of another thread that it worked for (enum attribution_how, attribution/attribution.h): by that thread, and where that is, a stack. */
	uint32_t how, caller, call;
	/* Since 1.7: CPU time of other threads, known at their ends, that no sample has: this one stands for it. */
	uint64_t others;
	/* Since 1.9: of `cpu`, what samples of others stand for in turn. */
	uint64_t given;
};

/* A sample's weight in shares: `own` of CPU time but for what others stand for, and what it has from others. */
static inline uint64_t sample__weight(uint64_t own, uint64_t given, uint64_t others)
{
	return (own > given ? own - given : 0) + others;
}

struct event_rows {
	uint32_t first;                 /* id of rows[0] */
	uint32_t n;
	const void *rows;               /* function_row, frame_row, stack_row, class_row or unit_row */
};

struct event_samples {
	uint32_t n;
	const struct sample_row *rows;
};

struct unit_end_row {
	uint64_t time;                  /* of its last sample */
	uint32_t id;
};

struct event_unit_ends {
	uint32_t n;
	const struct unit_end_row *rows;
};

struct event_ending {               /* thread_end, process_end */
	uint32_t id;
	uint64_t time;
	uint64_t wall, cpu;             /* thread_end: idle tail since the last sample; CPU time since the last sample */
};

struct event_unit_end {             /* unit_name, unit_end */
	uint32_t id;
	uint64_t time;                  /* of its last sample; unit_name: so far */
	const char *name, *signature, *file; /* what became known only after its row; else "" */
	uint32_t line, object;
};

struct ledger_line {
	const char *name;               /* of include/cprofd/loss.h; unknown names are kept */
	uint64_t count;
};

/* Where native stacks end that are not whole (since 1.2). */
struct ledger_stop {
	const char *loss;               /* why: a name of include/cprofd/loss.h */
	const char *module;             /* "libfoo.so.1", "JIT"; "": nothing is known to be there */
	uint64_t offset;                /* ELF address in the module; JIT: the function; no module: the address */
	uint64_t count;                 /* of samples */
	const char *function;           /* "": not known */
};

struct event_ledger {
	uint64_t time;
	uint64_t samples;               /* records that became samples */
	uint64_t whole;                 /* of these, complete to the outermost frame */
	uint32_t n;
	const struct ledger_line *lines;
	/* since 1.2. native = native_whole + the stops' counts + stops_more */
	uint64_t native;                /* samples whose native stack was walked; 0: none is asked for */
	uint64_t native_whole;          /* of these, to where their thread began */
	uint64_t stops_more;            /* at places that are not listed */
	uint32_t n_stops;               /* most frequent first */
	const struct ledger_stop *stops;
};

struct event_gap {
	uint64_t time;
	uint64_t events, bytes;         /* dropped for this client */
};

struct event_end {
	uint64_t time;
	const char *reason;             /* "duration", "stopped", "exited", "failed", "snapshot" */
	const char *detail;             /* a sentence for people, or "" */
};

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
		struct event_end end;
	};
};

/* Where events go: profile -> encoder, decoder -> exporter. Returns 0 or -errno;
 * an error stops the producer, which hands it up. */
struct event_sink {
	int (*event)(struct event_sink *self, const struct event *event);
};

/* Encode: appends one line, '\n' included, to `out` (base/buf.h). A batch (rows,
 * samples) too big for one line becomes several. -ERANGE: a number beyond
 * INT64_MAX; -EMSGSIZE: too long and no batch. On error `out` is as before. */
struct buf;
int event__encode(const struct event *event, struct buf *ret_out);

/* Decode: one line (without need of '\n' or NUL) to the sink. Unknown events
 * and unknown keys are skipped (0). The decoder holds scratch memory and the
 * length of each table of the epoch; bounds and order of ids are checked, so
 * that a sink may trust them: rows go on where their table ended, a row refers
 * only to rows before it, a sample to a known thread and stack, a process or
 * thread is the next one or a known one emitted again (with a changed name). */
struct event_decoder;
int event_decoder__new(struct event_decoder **ret);
struct event_decoder *event_decoder__free(struct event_decoder *decoder); /* NULL */
/* From now on strings are as people may be shown them (base/safe_text.h); without it as the target has them. */
void event_decoder__readable(struct event_decoder *decoder);
int event_decoder__line(struct event_decoder *decoder, const char *line, size_t len,
			struct event_sink *sink);

/* A recording: NDJSON lines, zstd-compressed in independent frames (events.h is
 * also what `-f events` writes). The writer appends whole lines; what was
 * flushed is readable even when the rest is cut off. fds are borrowed. */
struct recording_writer;
int recording_writer__new(int fd, bool compress, struct recording_writer **ret);
int recording_writer__lines(struct recording_writer *writer, const char *lines, size_t len);
int recording_writer__flush(struct recording_writer *writer);   /* ends a zstd frame */
struct recording_writer *recording_writer__free(struct recording_writer *writer);

/* Reads a recording (plain or zstd, known by its first bytes) from the fd's
 * position into the sink, in constant memory. *ret_cut: true when it ends in the
 * middle of a line or frame, or without an `end` event (what was whole was
 * delivered). `readable`: for people (event_decoder__readable()). -EBADMSG: damaged; -E2BIG: it
 * expands beyond what a file of its size may (base/limits.h). The sink's own error is handed up. */
int recording__read(int fd, bool readable, struct event_sink *sink, bool *ret_cut);

#endif
