/* SPDX-License-Identifier: MIT */
/* The model of a recording, which all exporters work on: its threads, one tree of stacks (of functions or of lines),
 * and each thread's time, cut into slices without gaps. Private to this directory.
 *
 * Times are ns since the session's start. A thread's time line runs from `begin` to `finish`, and its slices add up
 * to exactly that length. A slice is a span of time with one stack. A sample's CPU time goes to its own stack; the
 * rest of its wall time, before that, goes to (idle). Idle times shorter than a sampling period are carried over
 * until they add up to one.
 *
 * Errors: -errno. Threading: none kept. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "events/events.h"
#include "export/class_names.h"
#include "export/export.h"
#include "export/filter.h"
#include "export/hide.h"
#include "export/lines.h"
#include "base/intern.h"
#include "export/slices.h"
#include "export/units.h"
#include "export/unsampled.h"

#define MODEL_ROOT 0u /* stack node: no frame */

/* One image of a program: after exec, a process is another one here. */
struct model_process {
	int32_t pid;
	uint32_t shown; /* how many of its threads are listed */
	bool followed;	/* a later process has its pid: it called exec, or the pid was reused */
	char *name, *python; /* python: its version; "": not Python */
	char *container;     /* its id; "": none */
};

/* Allocated one by one, as pointers to threads must stay valid while others are added. */
struct model_thread {
	uint32_t id; /* in the order of appearance */
	uint32_t process;
	int32_t tid;
	char *name;
	/* passes the filter --thread, and began before the end of the window */
	bool shown;
	bool listed;	       /* ... and is worth an entry of its own */
	bool quiet;	       /* hardly ran (quiet.h): left out of all shares */
	bool counted;	       /* already counted as a thread of the image before exec */
	bool ended;
	uint32_t ended_in;     /* which of model->epochs */
	/* begin: when it was first seen. clock: up to here its time is known, while reading */
	uint64_t begin, clock;
	uint64_t finish;       /* when it ended */
	uint64_t carry;	       /* idle time not yet in a slice; as int64_t, negative: given out too early */
	/* ns within the window; wall counts also idle time and time that was not recorded */
	uint64_t wall, cpu;
	/* samples that pass, within the window */
	uint64_t samples;
	struct slices slices;  /* when the model keeps them */
};

/* Why the recording was made. */
struct model_trigger {
	uint64_t time, value, span;
	int32_t tid;
	char *condition, *name;
};
#define MODEL_TRIGGERS_MAX 64u

/* Nodes of the tree of stacks; a parent's id is below its children's. */
struct model_node {
	uint32_t parent, frame;
};

/* A frame as it is shown; no two frames are equal. */
struct model_frame {
	const char *name, *file; /* file: the module if there is none */
	uint32_t line, column;	 /* 0: none */
	/* Of a detailed model; else 0 and "". */
	uint32_t function, first_line;
	const char *source, *module;
	uint8_t kind; /* enum function_kind */
};

/* On the stack of an exporter. It sets `slice` and the other callbacks between model__init() and
 * model__read(); everything else is read-only for it. */
struct model {
	struct event_sink sink;
	const struct export_options *options;
	/* Called for each slice, in order; NULL: slices are kept in the threads. The thread ran for `cpu` of its
	 * `ns`; class_now is the class of its sample. */
	int (*slice)(struct model *model, struct model_thread *thread, uint32_t stack, uint64_t cpu,
		     uint64_t ns);
	/* Called for each sample before its slices: inside the window it has `shown` ns of wall time, of which the
	 * thread ran for `ran`. class_now and call_now are the sample's; `stack` is left_out if a filter removed it.
	 * NULL: not called. */
	int (*sampled)(struct model *model, struct model_thread *thread, uint32_t stack, uint64_t ran, uint64_t shown);
	/* Called at the end of each epoch. If it is set, the tree of stacks is dropped afterwards, so that memory
	 * stays that of one epoch. */
	int (*epoch)(struct model *model);
	/* the exporter's own, for its callbacks */
	void *ctx;
	/* Functions with the same name but another module or kind are kept apart, and frames have all fields. */
	bool detailed;
	struct filter *filter; /* NULL: all samples are shown; it sees the recording's stacks, also what is hidden */
	struct hide *hide;     /* NULL: all frames are */
	struct class_names classes;
	uint32_t class_now; /* class_now ... caller_now: of the sample that is being handled */
	bool with_units; /* set before model__read() to read compile units */
	struct unit_tree units;
	struct line_tree lines;
	struct unsampled unsampled;
	uint32_t call_now; /* call of the sample, or CALL_NONE */
	uint32_t line_now; /* line that its compiler was at (lines.h), or 0 */
	uint64_t time_now; /* its time */
	uint64_t given_now, others_now; /* struct sample_row */
	bool counts_now; /* it is a sample: a tick, or a wait in a recording of waits */
	uint32_t cause_now; /* of a wait (wait/wait.h); 0: a tick */
	uint32_t how_now, caller_now; /* its attribution (attribution/attribution.h), and the thread it is for */

	/* session */
	int32_t pid;
	uint32_t rate;
	/* ns. origin: CLOCK_MONOTONIC of the session's start. realtime: the same instant since 1970. finish:
	 * when the last thread or the session ended, since origin. period: between two ticks */
	uint64_t origin, realtime, finish, period;
	bool begun, wall_mode, cut;
	bool native_asked; /* the session has native stacks */
	bool waits_asked;  /* ... and stacks of threads that wait */
	char *mode, *command, *machine, *reason, *detail;
	uint64_t samples, whole, gap_events; /* ledger */
	uint32_t epochs;       /* that began so far */
	struct buf triggers;   /* struct model_trigger */
	uint64_t native, native_whole, stops_more; /* native 0: recorded without native stacks */
	struct buf stops;     /* of the last ledger: items of a JSON array */
	struct intern loss_names;
	struct buf loss_counts; /* uint64_t */

	struct intern modules; /* names of files with a build id */
	struct buf build_ids;  /* char *, of each of these; "": two files of that name have two */
	struct intern functions, frames, nodes, process_keys, thread_keys;
	struct buf columns;   /* uint32_t for each frame */
	struct buf processes; /* struct model_process */
	uint32_t processes_shown;
	char *unsupported;    /* an unsupported Python version that ran; NULL: none */
	struct buf threads;   /* struct model_thread * */
	/* Stacks of a single note: "(idle)", "(not recorded)" ... */
	uint32_t idle, not_recorded, not_sampled, no_stack, folded, left_out, hidden;

	/* Of functions, frames and stacks of the epoch: what decides where they are shown (projection.c). */
	struct buf epoch_function_traits, epoch_frame_traits, epoch_bases;
	/* Ids of the epoch -> ids of the model. */
	struct buf epoch_functions, epoch_frames, epoch_stacks, epoch_processes, epoch_threads;
	struct buf scratch;
};

/* For those who need no slices, or no stacks of earlier epochs: set, these callbacks make the model drop them. */
int model__no_slice(struct model *model, struct model_thread *thread, uint32_t stack, uint64_t cpu, uint64_t ns);
int model__no_epoch(struct model *model);

/* Functions and frames that look the same when shown are one; `detailed` keeps functions of different modules
 * and kinds apart. On an error, model__free() is still to be called. */
int model__init(struct model *model, const struct export_options *options);
int model__init_detailed(struct model *model, const struct export_options *options);
/* Reads all of it. -ENOENT: a filter matched nothing; ret_missing says which. */
int model__read(struct model *model, int recording_fd, struct export_missing *ret_missing);
/* After the last event, for who feeds the sink: what is still to be given to a slice. */
int model__settle(struct model *model);
void model__free(struct model *model);

/* The thread has the tid or name of options.thread, if that is given; the process is that of options.process. */
bool thread__passes(const struct export_options *options, int32_t tid, const char *name);
bool process__passes(const struct export_options *options, int32_t pid, const char *name);
bool model__passes(const struct model *model, const struct model_thread *thread);
struct model_node model__node(const struct model *model, uint32_t stack);
/* The leaf is a frame of the interpreter, and the stack has no Python frame (shown.h). */
bool model__is_alone(const struct model *model, uint32_t stack);
struct model_frame model__frame(const struct model *model, uint32_t frame);
struct model_process *model__process(const struct model *model, uint32_t process);
/* Of the module of that name; "": it has none, or it is not known which. */
const char *model__build_id(const struct model *model, const char *module);
struct model_thread *model__thread(const struct model *model, uint32_t i);
uint32_t model__threads(const struct model *model);
/* Number of processes with a listed thread. */
uint32_t model__processes_shown(const struct model *model);
/* The shown threads in the order of display: the attached process first, of each process the main thread first, then
 * by CPU time. The caller frees the array. */
int model__order(const struct model *model, struct model_thread ***ret, uint32_t *ret_n);
/* The window that is shown. */
uint64_t model__from(const struct model *model);
uint64_t model__to(const struct model *model);
/* When the thread's slices begin, ns since the begin of the window. */
uint64_t model__begin(const struct model *model, const struct model_thread *thread);
/* The frames of a stack, leaf first: uint32_t into *path, which is emptied before. */
int model__path(const struct model *model, uint32_t stack, struct buf *path);
/* Fills in all but `missing`. */
void model__report(const struct model *model, struct export_report *ret);

/* projection.c: adds the empty stack of an epoch, and its tables. */
int projection__root(struct model *model);
int projection__functions(struct model *model, const struct event_rows *rows);
int projection__frames(struct model *model, const struct event_rows *rows);
int projection__stacks(struct model *model, const struct event_rows *rows);
/* A frame that stands for something else than code, such as a compile unit. */
int projection__label(struct model *model, const char *name, const char *file, uint32_t line, uint32_t *ret);
/* Finds or adds the node for this frame below that parent. Ids of parents are smaller than those of their
 * children. */
int projection__node(struct model *model, uint32_t parent, uint32_t frame, uint32_t *ret);
int projection__note(struct model *model, const char *words, uint32_t *ret);

/* timeline.c: a thread's time, event by event. `waiting`: the stack that gets the time without CPU; MODEL_ROOT:
 * (idle). timeline__advance: nothing happened up to `time`. */
int timeline__advance(struct model *model, struct model_thread *thread, uint64_t time);
int timeline__sample(struct model *model, struct model_thread *thread, uint64_t time, uint64_t wall,
		     uint64_t cpu, uint32_t stack, uint32_t waiting);
int timeline__finish(struct model *model, struct model_thread *thread);
/* Passes `ns` of CPU time at that stack to slice(), outside of the time line. Only if slice is set. */
int timeline__emit(struct model *model, struct model_thread *thread, uint32_t stack, uint64_t ns);

/* --- about.c --- */
/* What was recorded and what was lost, for the key "cprofd" of formats that are JSON. Errors: -ENOMEM. */
/* Appends members of an object, without its braces: "pid":4242,"command":"...",...,"losses":{...},... */
int about__members(struct buf *out, const struct model *model);
/* Some of them: when it began (0: not known), and the losses, also those of which there were none (`zeros`). */
int about__started(struct buf *out, uint64_t realtime);
/* And why it was made, if that is known. */
int about__triggers(struct buf *out, const struct model *model);
int about__losses(struct buf *out, const struct model *model, bool zeros);
