/* SPDX-License-Identifier: MIT */
/* What all exporters need of a recording: its threads, a tree of stacks in the
 * projection asked for (functions or lines), and each thread's time, cut into
 * slices without a hole. Private to this folder.
 *
 * Times here are ns since the session's start. A thread's time line runs from
 * `begin` to `finish`; the slices of it add up to that length exactly. A slice
 * is a stretch of time with one stack: a sample gives its CPU time to its own
 * stack and the rest of its wall time, before it, to (idle). Idle stretches
 * shorter than a sampling period are carried over until they add up to one.
 *
 * Errors: -errno. Threading: none kept.
 */
#ifndef CPROFD_EXPORT_MODEL_H
#define CPROFD_EXPORT_MODEL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "events/events.h"
#include "export/class_names.h"
#include "export/export.h"
#include "export/filter.h"
#include "export/hide.h"
#include "base/intern.h"
#include "export/units.h"
#include "export/unmet.h"

#define MODEL_ROOT 0u /* stack node: no frame */

struct model_process {
	int32_t pid;
	uint32_t shown; /* threads of it that are listed */
	bool followed;	/* by another image of its pid: it called exec, or its number was given anew */
	char *name, *python; /* python: its version; "": it is none */
};

struct model_thread {
	uint32_t id; /* in the order of first sight */
	uint32_t process;
	int32_t tid;
	char *name;
	bool shown;	       /* passes the filter */
	bool listed;	       /* ... and is worth an entry of its own */
	bool quiet;	       /* hardly ran (quiet.h): it is part of no share */
	bool counted;	       /* as a thread of the image before: it called exec */
	bool ended;
	uint64_t begin, clock; /* its time is known up to here */
	uint64_t finish;       /* ended: then */
	uint64_t carry;	       /* idle not given out yet; as int64_t: negative is owed */
	uint64_t wall, cpu;    /* within the window */
	uint64_t samples;
	struct buf slices;     /* struct slice, when the model keeps them */
};

/* Nodes of the tree of stacks; a parent's id is below its children's. */
struct model_node {
	uint32_t parent, frame;
};

/* A frame as it is shown; no two are equal. */
struct model_frame {
	const char *name, *file; /* file: the module for want of one */
	uint32_t line, column;	 /* 0: none */
	/* Of a detailed model; else 0 and "". */
	uint32_t function, first_line;
	const char *source, *module;
	uint8_t kind; /* enum function_kind */
};

struct model {
	struct event_sink sink;
	const struct export_options *options;
	/* Called for each slice in order; NULL: they are kept in the threads. `cpu` of
	 * its `ns` the thread ran; class_now is the class of the sample that it is of. */
	int (*slice)(struct model *model, struct model_thread *thread, uint32_t stack, uint64_t cpu,
		     uint64_t ns);
	/* Called for each sample before its slices: `ran` of `shown` ns of wall time, inside the window, are CPU time.
	 * class_now and call_now are the sample's; `stack` is left_out where a filter left it out. NULL: not called. */
	int (*sampled)(struct model *model, struct model_thread *thread, uint32_t stack, uint64_t ran, uint64_t shown);
	/* Called at the end of each epoch; when it is set, the tree of stacks is
	 * forgotten after it, so that memory stays that of one epoch. */
	int (*epoch)(struct model *model);
	void *ctx;
	/* Functions that differ in module or kind alone are several, frames know all
	 * of their function. */
	bool detailed;
	struct filter *filter; /* NULL: all samples are shown */
	struct hide *hide;     /* NULL: all frames are */
	struct class_names classes;
	uint32_t class_now;
	bool with_units; /* set before the reading by who asks for compile units */
	struct unit_tree units;
	struct unmet unmet;
	uint32_t call_now; /* call of the sample, or CALL_NONE */
	uint64_t time_now; /* of the sample */
	uint64_t given_now, others_now; /* struct sample_row */
	uint32_t how_now, caller_now; /* for whom it worked (attribution/attribution.h): a thread's id here */

	/* session */
	int32_t pid;
	uint32_t rate;
	uint64_t origin, realtime, finish, period;
	bool begun, wall_mode, cut;
	bool native_asked; /* the session has native stacks */
	bool waits_asked;  /* ... and stacks of threads that wait */
	char *mode, *command, *reason, *detail;
	uint64_t samples, whole, gap_events; /* ledger */
	uint64_t native, native_whole, stops_more; /* native 0: none was asked for */
	struct buf stops;     /* JSON: the items of an array, of the last ledger */
	struct intern loss_names;
	struct buf loss_counts; /* uint64_t */

	struct intern functions, frames, nodes, process_keys, thread_keys;
	struct buf columns;   /* uint32_t for each frame */
	struct buf processes; /* struct model_process */
	uint32_t processes_shown;
	char *unsupported;    /* a Python that ran and whose frames are not read; NULL: none */
	struct buf threads;   /* struct model_thread * */
	/* stacks of one note each */
	uint32_t idle, not_recorded, not_sampled, no_stack, folded, left_out;

	/* ids of the epoch -> ids here */
	/* With fold_interpreter: kinds of functions, and of frames (uint8_t); struct fold of stacks. */
	struct buf epoch_row_kinds, epoch_kinds, epoch_bases;
	struct buf epoch_functions, epoch_frames, epoch_stacks, epoch_processes, epoch_threads;
	struct buf scratch;
};

int model__init(struct model *model, const struct export_options *options);
int model__init_detailed(struct model *model, const struct export_options *options);
/* Reads it all. -ENOENT: a filter that nothing answers to; ret_missing says which. */
int model__read(struct model *model, int recording_fd, struct export_missing *ret_missing);
void model__free(struct model *model);

/* The thread has the tid or the name that is asked for. */
bool model__passes(const struct model *model, const struct model_thread *thread);
struct model_node model__node(const struct model *model, uint32_t stack);
/* Its innermost frame is the interpreter's own, and no Python frame is around (shown.h). */
bool model__is_alone(const struct model *model, uint32_t stack);
struct model_frame model__frame(const struct model *model, uint32_t frame);
struct model_process *model__process(const struct model *model, uint32_t process);
struct model_thread *model__thread(const struct model *model, uint32_t i);
uint32_t model__threads(const struct model *model);
/* Processes with a thread that is shown. */
uint32_t model__processes_shown(const struct model *model);
/* The threads shown, for people: the attached process first, its main thread
 * first, then by CPU time. Owned by the caller. */
int model__order(const struct model *model, struct model_thread ***ret, uint32_t *ret_n);
/* The stretch of time that is shown. */
uint64_t model__from(const struct model *model);
uint64_t model__to(const struct model *model);
/* All but `missing`. */
void model__report(const struct model *model, struct export_report *ret);

/* 12 bytes a sample. */
struct slice {
	uint32_t stack, low, high;
};
static inline uint64_t slice_ns(const struct slice *slice)
{
	return (uint64_t)slice->high << 32 | slice->low;
}

/* projection.c: tables of an epoch. */
int projection__functions(struct model *model, const struct event_rows *rows);
int projection__frames(struct model *model, const struct event_rows *rows);
int projection__stacks(struct model *model, const struct event_rows *rows);
/* A frame that stands for something else than code. */
int projection__label(struct model *model, const char *name, const char *file, uint32_t line, uint32_t *ret);
int projection__node(struct model *model, uint32_t parent, uint32_t frame, uint32_t *ret);
int projection__note(struct model *model, const char *words, uint32_t *ret);

/* timeline.c: a thread's time, event by event. `waiting`: the stack that the time
 * without CPU goes to; MODEL_ROOT: (idle). */
int timeline__tell(struct model *model, struct model_thread *thread, uint64_t time);
int timeline__sample(struct model *model, struct model_thread *thread, uint64_t time, uint64_t wall,
		     uint64_t cpu, uint32_t stack, uint32_t waiting);
int timeline__finish(struct model *model, struct model_thread *thread);
/* `ns` of CPU time at that stack, with a slice() alone: of no place in the time line. */
int timeline__emit(struct model *model, struct model_thread *thread, uint32_t stack, uint64_t ns);

#endif
