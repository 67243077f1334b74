/* SPDX-License-Identifier: MIT */
/* Profile: checked records in order of time -> events (events.h).
 *
 * Native frames are woven among the Python frames (weave/weave.h) by what the code map says of them; their
 * rows wait some batches for lines that are still being read.
 *
 * Holds the tables of the epoch (functions, frames, stack tree), the processes
 * and threads, the batch of samples and the ledger. Strings of code objects live
 * in name/codes.h only; tables hold numbers.
 *
 * Time of a thread: wall of a sample is the time since the thread's previous
 * sample, of its first one since the thread's or the session's start, whichever
 * is later. `cpu` is shared out from sum_exec_runtime, which is exact but
 * advances only at scheduler ticks and switches: the samples between two advances
 * get equal shares of it, never more than their wall; what does not fit goes to
 * later ones. So sums of cpu and of wall are exact, thread_end included. A sample
 * waits at most PROFILE_HOLD_NS for its thread's next advance; then it gets one
 * period on account, which that advance pays back. A thread that sleeps until the
 * end needs profile__thread_cpu() for that.
 *
 * Callers: serve/drain.c feeds records, serve/session.c ticks. Out: events, as NDJSON
 *
 *   {"ev":"functions","first":7,"rows":[["fib","/home/me/fib.py",3,"",0]]}
 *   {"ev":"stacks","first":40,"rows":[[0,12]]}
 *   {"ev":"samples","t":[...],"wall":[...],"cpu":[...],"thread":[0],"stack":[40]}
 *
 * Memory: the tables' limits below start a new epoch; a frame whose code object
 * does not come within two batches is named "(name unknown)".
 * Threading: one thread. Errors: -errno; the sink's are handed up.
 */
#pragma once

#include "cprofd/loss.h"
#include "cprofd/pylayout.h"
#include "classes/bytecode.h"
#include "codemap/codemap.h"
#include "collect/collect.h"
#include "cprofd/record.h"
#include "events/events.h"

#define PROFILE_HOLD_NS 50000000ull    /* a sample waits this long for its CPU time */
#define PROFILE_FREED_NS 60000000000ull /* the end of a thread waits this long for its total CPU time, which comes when its parent has waited for it */
#define PROFILE_BATCH_NS 90000000ull   /* samples go out at least this often: a little less than SCHEDULE_DRAIN_NS, or every other poll would be too early */
#define PROFILE_LEDGER_NS 1000000000ull

/* Who reads the bytecode of call sites. Borrowed. -ENOENT, -ENODATA: it is not known. */
struct call_sites {
	/* Reads the call site at `offset` of the code object that was captured with this key at `code` and is in the
	 * stack of the sample `header`. It is read after that sample, so the implementation proves that the same
	 * code object is still there. */
	int (*read)(struct call_sites *self, const struct record_header *header, uint64_t key, uint64_t code, uint32_t offset, struct call_site *ret);
	/* The name (PyUFuncObject.name) of the ufunc that is called as `owner.attribute`, where the global `owner`
	 * is NumPy; owner NULL: as the global `attribute`. */
	int (*ufunc)(struct call_sites *self, const struct record_header *header, const char *owner, const char *attribute, char *ret, size_t size);
};

/* Two kinds of samples wait if the code map can walk: those whose native walk lacked a table, and those with Python
 * and native frames while it is not known where the eval loop lies. */
#define PROFILE_FINISH_NS 2000000000ull /* a sample waits this long for tables ... */
#define PROFILE_FINISH_BYTES (8u << 20) /* ... and all that wait have this much room */

/* Limits; 0 takes the default. */
struct profile_options {
	uint32_t rate;           /* Hz; 0: unknown, so no missed ticks are counted */
	uint32_t stacks_max;     /* nodes of an epoch; 200,000, or 12,000 without native frames: some 100 bytes each in all tables */
	uint32_t bytes_max;      /* rows of an epoch, with their names; 4 MiB */
	uint32_t ended_max;      /* ended threads and processes kept for late joiners; 2,048 */
	uint32_t pending_max;    /* samples that wait; 65,536 */
	bool gil;                /* the stack of a sample without the GIL is a note */
	bool sees_all;           /* what ran withheld (EVENT_LOST) counts once it is shown: nobody forbade it */
	bool without_lines;      /* native code of files has none: no sample waits for them */
	struct codemap *codemap;   /* NULL: native frames are left out. Borrowed */
	struct call_sites *call_sites; /* NULL: bytecode is never read */
};

struct profile;
/* The sink is borrowed and outlives the profile. No event before begin. */
int profile__new(const struct profile_options *options, struct event_sink *sink,
		 struct profile **ret);
struct profile *profile__free(struct profile *profile); /* NULL */

/* Emits session and epoch 0. Strings are copied. (hello is the server's.)
 * Everything below comes after it. */
int profile__begin(struct profile *profile, const struct event_session *session);

/* --- what the engine knows --- */

/* A process, reported before or after its first record. A second report replaces the first (after an exec: with
 * exec_known, or once its RECORD_EXEC came).
 * Starts are boottime ns; only 10 ms of them are compared, since /proc/PID/stat has no more. */
struct profile_process {
	uint32_t tgid;
	uint32_t parent;         /* pid, 0: not known */
	uint64_t process_start;
	uint32_t exec;           /* with exec_known */
	bool exec_known;         /* false: its image of now (/proc does not have the count) */
	uint8_t lines;           /* enum py_lines of its Python, 0: no Python */
	const char *name;        /* NULL: its comm */
	const char *python;      /* "3.11.2", "3.14.0t"; NULL or "": no Python */
	const char *unsupported; /* one that is not walked: "Python 2.7.18", "PyPy"; NULL or "": none */
	const char *container;   /* its id (base/container.h), "": none; NULL: not read, what is known stays */
	uint64_t time;           /* monotonic: when it was seen */
	uint64_t runtime, runtime_end; /* the interpreter's state (_PyRuntime); 0: not known */
};
int profile__process(struct profile *profile, const struct profile_process *process);

/* A thread of a process that was reported: it appears even if it is never sampled. */
struct profile_thread {
	uint32_t tgid, tid;
	uint64_t process_start;
	uint64_t thread_start;   /* boottime ns; 10 ms are compared */
	uint64_t cpu_time;       /* sum_exec_runtime now: first number of /proc/PID/task/TID/schedstat */
	bool cpu_known;
	const char *name;        /* comm; NULL: not known */
	uint64_t time;           /* monotonic: when it was listed */
	/* Of the thread that called exec for this image: when, and its CPU time then, which was another's. 0: not known */
	uint64_t exec_time, exec_cpu;
};
/* 0 also for a thread that is known already, whose record is more exact. -ESRCH: the process was not reported. */
int profile__thread_listed(struct profile *profile, const struct profile_thread *thread);

/* The final CPU time of a living thread (same struct), read before profile__end()
 * so that threads asleep since their last sample have exact sums. */
int profile__thread_cpu(struct profile *profile, const struct profile_thread *thread);

/* The broker authorised the client for this image, which may be one that was withheld: its records count from here on.
 * Nothing else shows one: a tick in the middle of an exec, of this image or of the next one, comes with other rights. */
void profile__authorised(struct profile *profile, uint32_t tgid, uint64_t process_start, uint32_t exec);

/* A process is gone (its pidfd says so) whether or not there was a record of that. -ESRCH: unknown. */
int profile__process_gone(struct profile *profile, uint32_t tgid, uint64_t process_start,
			  uint64_t time);

/* --- records: from collect, in order of time --- */
int profile__code(struct profile *profile, const struct record_code *code);
/* Asked for after each profile__tick(): will it forget code objects that do not come again from now on? */
bool profile__resends_codes(struct profile *profile);
/* Is it known from a record before? */
bool profile__knows_code(const struct profile *profile, uint64_t key);
/* Takes one sample; the record is borrowed for the call. Emits events only if a limit starts a new epoch, or the
 * queue is full. */
int profile__sample(struct profile *profile, const struct sample *sample);
/* In wall mode the time of waits counts from here on, and so do the time lines of threads: after begin, before the
 * first record. */
void profile__waits_begin(struct profile *profile, uint64_t time);
/* Sessions of CPU time: all records up to then came, so compiles that wait have done so until then. That a thread is back is
 * known after a period. */
int profile__sleep(struct profile *profile, uint64_t time);
/* What else happened to a process or a thread: RECORD_FORK, _EXEC, _EXIT, _CLONE, _LOST; RECORD_WAIT, in wall mode and of
 * a thread that compiles; RECORD_FREED, all CPU time of a thread that has exited: its end waits for that,
 * PROFILE_FREED_NS at most. */
int profile__record(struct profile *profile, const struct record_header *record);

/* --- the ledger --- */

/* The sampler's counters, summed over CPUs: totals since the start. A FRAMES
 * loss that the sampler counts and a record shows is one loss (the larger count). */
void profile__counts(struct profile *profile, const struct sampler_counts *sum);
/* Adds to one line; collect's bad records, the engine's missed children ... */
void profile__loss(struct profile *profile, enum loss loss, uint64_t count);

/* Takes back `count` losses of this kind: the sampler counted them, but records or what the engine knows show that
 * nothing was lost. The sampler's counter still includes them. */
void profile__excuse(struct profile *profile, enum loss loss, uint64_t count);
/* Where native stacks were cut, most frequent first; at most 16. Valid until the next sample. */
uint32_t profile__stops(struct profile *profile, struct ledger_stop *ret, uint32_t max);

/* --- time --- */

/* Starts a new epoch at the next tick: a table outside of this directory that lives as long as an epoch is full. */
void profile__end_epoch(struct profile *profile);

/* After each flush of collect, every 20 to 100 ms: emits what is due. */
int profile__tick(struct profile *profile, uint64_t now);
/* Starts a new epoch; done by itself when the tables reach a limit. */
int profile__rotate(struct profile *profile, uint64_t now);
/* What was emitted so far becomes a recording of its own, without `end`: each thread's account is closed at
 * clocks->monotonic (all records up to then came), then ledger, `part`, and session, epoch and tables of what follows.
 * Of `clocks` the three clocks are read, and the rate of what follows. */
int profile__part(struct profile *profile, const struct event_session *clocks);
/* What a late joiner needs to go on from now: session, epoch, processes, threads
 * (their time line begins at their last emitted row), functions, frames, stacks,
 * ledger. Goes to `sink` alone. */
int profile__replay(struct profile *profile, struct event_sink *sink);
/* Everything that waits, thread_end of each living thread, process_end, ledger,
 * end, whose reason is "failed" if something before it could not be emitted. Nothing may follow but replay and free. */
int profile__end(struct profile *profile, uint64_t time, const char *reason, const char *detail);

/* For progress and tests. */
struct profile_totals {
	uint64_t samples, whole, losses[LOSS_COUNT];
	uint64_t native, native_whole; /* of the ledger (events.h) */
	uint32_t epoch, processes, threads, functions, frames, stacks;
	uint64_t bytes;          /* of tables and code objects */
};
/* How many samples wait for tables, with a copy of their stack. */
uint32_t profile__unfinished(const struct profile *profile);
void profile__totals(const struct profile *profile, struct profile_totals *ret);
