/* SPDX-License-Identifier: MIT */
/* What the files of daemon/profile/ share. The way of a sample:
 *
 *    sample.c      record -> row: thread, wall time; waits in the queue until everything about it is known
 *    stack.c       record -> its frames in order, woven (kernel.c, callee.c, sites.c); node of the stack tree
 *    natives.c, tables.c   rows of functions, frames and nodes
 *    queue.c       ... that queue
 *    cpu.c         gives the waiting samples of a thread their CPU time
 *    stands.c      ... and CPU time of threads that no tick interrupted
 *    classify.c    the class of time
 *    emit.c        the rows that must be emitted before the sample, late.c: lines that come after that
 *
 * Beside it: life.c, listed.c, tasks.c, announce.c (processes and threads), waits.c (wall mode), workers.c (for whom
 * a thread works), ledger.c and stops.c (losses).
 *
 * Threads: everything here runs on the thread that calls profile__...(). Ids of functions, frames, stacks and
 * classes belong to an epoch: who keeps one keeps the epoch's number with it (thread->stack_epoch,
 * wait_point.epoch). */
#pragma once

#include "base/texts.h"
#include "classes/callables.h"
#include "profile/profile.h"
#include "profile/stops.h"
#include "profile/tables.h"
#include "profile/tasks.h"

#define BATCH_ROWS 512u
#define MEMO_DEPTH 512u            /* frames remembered of a thread */
#define MEMO_BYTES (1u << 20)      /* ... of all threads */

/* One entry of the queue: a sample, a wait, or the end of a thread. `row` is what will be emitted; the rest is
 * needed to complete it. */
struct item {
	struct sample_row row;     /* an end: time, wall, cpu */
	struct thread *thread;
	uint32_t next;             /* items from here to the thread's next one that waits; 0: none */
	struct unfinished *unfinished; /* it waits for its native walk, and has no stack yet */
	uint16_t kernel;           /* enum class_kernel: what the thread did in the kernel at the tick */
	bool of_cpu;               /* a tick of a CPU's clock */
	bool native;               /* its native frames are known: it has a class */
	bool end, waits;           /* waits: for its CPU time */
	bool wait, ready;          /* of a thread on no CPU; ready: it was woken, or could run on */
	uint32_t waker;            /* tid of who woke it; 0: not known */
	struct thread *caller;     /* who it worked for (row.how, row.call) */
	bool undecided;            /* `caller` is not known yet */
};

/* A sample whose stack is read when tables are there, with a copy of its record. Owned by the item; freed when it
 * was read. */
struct unfinished {
	uint64_t until;            /* monotonic */
	struct sample sample;
	uint64_t bytes[];          /* its record */
};

/* Items have numbers that only grow; they lie in chunks, and do not move. */
#define QUEUE_CHUNK 512u
#define QUEUE_SPARE 32u            /* chunks: a second and more at 9999 Hz */
struct queue {
	struct item **chunks;      /* a ring */
	uint64_t first, end;
	uint32_t capacity;         /* of the ring; a power of two */
	uint32_t n_chunks, n_spare;
	struct item *spare[QUEUE_SPARE];
	uint64_t released;         /* no item before it waits for its CPU time */
};

static inline uint32_t queue__length(const struct queue *queue)
{
	return (uint32_t)(queue->end - queue->first);
}

/* Where the chunk of this item is. */
static inline struct item **queue__chunk(const struct queue *queue, uint64_t number)
{
	return &queue->chunks[number / QUEUE_CHUNK & (queue->capacity - 1)];
}

static inline struct item *queue__item(const struct queue *queue, uint64_t number)
{
	return &(*queue__chunk(queue, number))[number % QUEUE_CHUNK];
}

/* Counts since the session began, by enum loss; ledger.c says how they add up. */
struct ledger {
	uint64_t samples, whole;
	uint64_t own[LOSS_COUNT];    /* found in user space */
	uint64_t shown[LOSS_COUNT];  /* in records that arrived */
	struct sampler_counts kernel;
	uint64_t again[LOSS_COUNT];  /* losses of the sampler whose walks were repeated */
	uint64_t excused[LOSS_COUNT]; /* counted by the sampler, and found to be none in user space */
	int64_t missed_ended;        /* missed ticks of threads that have ended */
	struct stops stops;          /* of native stacks; of this part */
	/* What the parts before had, of what is counted since the session began. */
	struct { uint64_t samples, whole, native, native_whole, losses[LOSS_COUNT]; } before;
};

/* A frame of a sample on its way to a node of the tree. */
struct step {
	uint64_t key;              /* capture key, or a frame's id */
	int32_t offset;
	bool is_frame;             /* key is the id of a frame that is in the tables already */
	bool clean, shown;         /* it lacks nothing; it is one of `shown` */
};

/* Where a Python frame called native code; sites.c. */
struct site {
	uint64_t key;                  /* of its code */
	int32_t offset;
	uint8_t state;
	uint16_t failed;               /* how often reading its instruction failed */
	bool several;                  /* different functions were called there, not only `learned` */
	bool python;                   /* a Python function was called there */
	uint16_t asked;                /* how often the instruction did not say what is called */
	uint16_t objects;              /* how often the ufunc's name was requested */
	const char *object;            /* "<ufunc 'sin'>": what is called there, as Python shows it; NULL: not known */
	const char *learned;           /* the name of what was called there last; NULL: nothing yet */
	/* As struct call_site has it; strings live as long as the sites. */
	uint8_t kind, exact, own, owner, of_global, builtin, inlines, n;
	const char *callee;
	uint64_t function;
	const char *names[CALL_SITE_NAMES];
};

/* All call sites that were needed so far, hashed by code key and offset. */
struct sites {
	struct site *rows;
	uint32_t n, capacity;
	struct slots by_call;
	struct texts texts;            /* their names */
	const struct callables *builtins; /* of the last interpreter in a stack; lives as long as the code map */
};

/* Is the call before this return address direct (`call x`), so that it names what it calls? A direct-mapped cache by
 * pc. */
struct known_call {
	uint64_t pc;
	uint32_t since;       /* code_now.stable when the code was read */
	bool named;
	const struct callables *dispatches; /* whose dispatcher it calls by name; NULL: none */
};
#define KNOWN_CALLS 256u

/* Room for one sample; most of it is never touched. */
struct stack {
	struct step steps[RECORD_KERNEL_FRAMES_MAX + RECORD_PY_FRAMES_MAX + RECORD_NATIVE_FRAMES_MAX +
			  RECORD_NATIVE_FRAMES_MAX + WEAVE_ITEMS_MORE]; /* at most a callee for each native frame */
	uint32_t shown[RECORD_KERNEL_FRAMES_MAX + RECORD_PY_FRAMES_MAX + RECORD_NATIVE_FRAMES_MAX + RECORD_NATIVE_FRAMES_MAX +
		       WEAVE_ITEMS_MORE]; /* frames that are looked up in the tree, outermost first */
	struct weave_item items[RECORD_PY_FRAMES_MAX + RECORD_NATIVE_FRAMES_MAX + WEAVE_ITEMS_MORE];
	/* Native frames of this sample, innermost first. The next sample is compared with them: most outer frames
	 * are the same. */
	uint64_t pcs[RECORD_NATIVE_FRAMES_MAX];
	uint32_t frames[RECORD_NATIVE_FRAMES_MAX];
	uint32_t n_pcs;
	struct code_now now;	  /* generations of these frames; 0: there are none to compare with */
	struct code_seen kernel; /* generations of the kernel's names */
	uint64_t replaced;	 /* tables.replaced, as `cache` has it */
	uint64_t native[sizeof(struct part_native_frames) / 8 + RECORD_NATIVE_FRAMES_MAX]; /* walked again */
	uint8_t roles[RECORD_NATIVE_FRAMES_MAX];
	bool stable[RECORD_NATIVE_FRAMES_MAX];			    /* code_location.stable of each */
	const struct callable *callables[RECORD_NATIVE_FRAMES_MAX]; /* code_location.callable of each */
	struct code_cache cache;
	struct known_call calls[KNOWN_CALLS];
	struct class_frame classified[RECORD_NATIVE_FRAMES_MAX * 2 + RECORD_KERNEL_FRAMES_MAX + 8u]; /* classify.c */
	const char *chosen[RECORD_NATIVE_FRAMES_MAX]; /* callee.c: names of callees; NULL: none */
	uint32_t n;                /* steps; innermost first */
};

/* Classes of the epoch, and a cache of the class and the import phase of stack nodes. */
struct classes {
	struct class_row *rows;    /* [i] is class id i + 1; strings: `strings` */
	uint8_t *kinds;            /* enum class_kind of each */
	uint32_t n, capacity, emitted;
	struct slots by_name;
	struct arena strings;
	uint32_t *of_stacks;       /* [stack]: class id; 0: not determined yet */
	uint8_t *imports;          /* [stack]: enum import_phase + 1 */
	uint32_t n_stacks;         /* room of both */
};

/* One session's profile. `sink` gets the events, in order, on the caller's thread. */
struct profile {
	struct profile_options options;
	struct event_sink *sink;
	struct event_session session;
	bool begun, ended;
	bool epoch_due;             /* profile__end_epoch() */
	uint64_t resend_time;       /* since when living code objects come again, 0: they do not */
	bool resend_due;            /* profile__resends_codes() has yet to say so */
	size_t codes_kept;          /* bytes of those that were kept last */
	uint32_t epoch;
	uint64_t epoch_time;
	uint32_t next_process, next_thread; /* ids */
	struct codes *codes;
	struct tables tables;
	struct tasks tasks;
	struct queue queue;
	uint32_t n_unfinished, n_undecided;
	size_t unfinished_bytes;
	bool wall;                        /* wall mode */
	uint64_t waits_begin;             /* in it: when time lines begin */
	size_t waits_bytes;               /* waits.c */
	/* stands.c: CPU time of ended threads, ns, that no sample stands for yet; when a CPU's clock ticked last */
	uint64_t unsampled, of_cpu;
	struct ledger ledger;
	struct classes classes;
	struct sites sites;
	struct stack *stack;
	uint64_t batch_time, ledger_time; /* when they went out last */
	uint64_t deadline_time;     /* of the last tick of tables */
	uint8_t lines;                    /* enum py_lines of the process that was reported last */
	/* The batch that is being filled; emitted when it is full, and at the end of each drain. */
	struct sample_row rows[BATCH_ROWS];
};

/* queue.c */
int queue__append(struct queue *queue, const struct item *item, uint64_t *ret_number);
void queue__drop(struct queue *queue); /* the first one */
size_t queue__bytes(const struct queue *queue);
void queue__free(struct queue *queue);

/* sample.c: in and out of the queue */
/* Appends; when the queue is full, everything in it is emitted first. *ret_number: of the item, for queue__item(). */
int profile__push(struct profile *profile, const struct item *item, uint64_t *ret_number);
/* Ends the waits for CPU time that are due at `now` (all: every one): such a sample gets its time on account
 * (cpu.c). */
void profile__release(struct profile *profile, uint64_t now, bool all);
/* Emits rows, then the items at the front that are ready (give_up: all of them). */
int profile__drain(struct profile *profile, bool give_up);
bool profile__full(const struct profile *profile);
/* Sets item->row.stack, or keeps the sample in item->unfinished, to be read when a table has come. -errno: the item
 * must not be queued. */
int unfinished__read(struct profile *profile, const struct sample *sample, struct item *item);
/* The same without keeping it: -EAGAIN. */
int unfinished__now(struct profile *profile, const struct sample *sample, struct item *item);
/* Reads the samples in the queue whose tables have come or whose deadline is over (all: every one), in order. */
int unfinished__run(struct profile *profile, uint64_t now, bool all);
void unfinished__free(struct profile *profile);

/* cpu.c */
void cpu__wait(struct profile *profile, struct thread *thread, uint64_t number);
void cpu__seen(struct profile *profile, struct thread *thread, uint64_t cpu_time, uint64_t now);
void cpu__release(struct profile *profile, struct thread *thread, bool on_account);
/* The thread has ended: its last CPU time goes to samples that wait and to the span of `wall` ns after its last
 * sample. Returns the span's part. */
uint64_t cpu__finish(struct profile *profile, struct thread *thread, uint64_t wall);

/* stands.c. Called as rows are emitted, in order. */
void stands__row(struct profile *profile, struct item *item);
void stands__end(struct profile *profile, const struct item *item);

/* stack.c. The node of the sample's stack. Counts losses. `native`: the native frames to use, or NULL; `again`: they
 * are from user space's walk. */
int stack__locate(struct profile *profile, struct thread *thread, const struct sample *sample,
		  const struct part_native_frames *native, bool again, uint32_t *ret_stack);
void stack__clear(struct stack *stack); /* a new epoch: ids of frames are not valid any more */

/* kernel.c. Appends the kernel's frames to the steps; they are inside of all others. */
int kernel__put(struct profile *profile, const struct sample *sample, bool *ret_whole);

/* sites.c */
/* The call site at this frame's position, new if it is unknown. Valid until the next call. NULL: no memory. */
struct site *sites__of(struct profile *profile, const struct py_frame *frame);
/* A Python function was called at this site (if the site is known): no C function is guessed there any more. */
void sites__calls_python(struct profile *profile, const struct py_frame *frame);
/* Reads what the site's instruction says, if that was not done yet (again: in any case). Failures leave the site as
 * it is. */
void sites__read(struct profile *profile, const struct record_header *header, struct site *site, bool again);
/* The name of the ufunc that the site calls, "<ufunc 'sin'>"; NULL: which one is not known. */
const char *sites__ufunc(struct profile *profile, const struct record_header *header, struct site *site);
size_t sites__bytes(const struct sites *sites);
void sites__clear(struct sites *sites);

/* callee.c */
/* Native frames that a Python frame called, items [begin, end) of the stack, innermost first:
 * profile->stack->chosen[i - begin] is the name of what was called there, and the frame of what the instruction
 * called is put outside of all: *ret_outermost. */
void callee__choose(struct profile *profile, const struct record_header *header, const struct py_frame *frame, uint32_t begin,
		    uint32_t end, const char **ret_outermost);

/* classify.c */
/* Sets row.class_id of an item whose stack has been emitted. */
int classify__item(struct profile *profile, struct item *item);
/* What the thread did in the kernel at the tick: enum class_kernel. */
uint16_t classify__kernel(struct profile *profile, const struct sample *sample,
			 const struct part_native_frames *native);
/* The class of a tick without the GIL (--gil). */
int classify__without_gil(struct profile *profile, struct item *item);
/* Emits the rows of classes that are new since the last call (all: every row of the epoch, for a late joiner). */
int classify__emit(struct profile *profile, struct event_sink *sink, bool all);
void classify__clear(struct profile *profile); /* a new epoch; the arrays stay */
void classify__free(struct profile *profile);

/* workers.c: for which Python call do threads without Python frames work (attribution/attribution.h)? These report
 * what happened to a thread: a tick; its end; it left its CPU (with the stack's key); a wait is over; it was
 * created. */
void workers__ticked(struct profile *profile, struct thread *thread, const struct sample *sample, uint32_t stack);
/* Where it is from now until its next tick is not known. */
void workers__away(struct thread *thread, uint64_t time);
void workers__ended(struct thread *thread, uint64_t time);
void workers__left(struct thread *thread, const struct sample *sample, uint64_t key);
void workers__waited(struct profile *profile, struct thread *thread, const struct record_wait *wait);
void workers__made(struct profile *profile, struct thread *thread, const struct record_event *clone);
/* For a tick: sets row.how, row.call and item->caller, or item->undecided. */
int workers__give(struct profile *profile, const struct sample *sample, struct item *item);
/* Repeats where a thread was at this item, so that decisions about later items see it in order. */
void workers__sampled(const struct profile *profile, const struct item *item);
/* Tries again, when stacks of earlier samples are known (last: with what is known). */
int workers__decide(struct profile *profile, struct item *item, bool last);

/* waits.c. In wall mode, but for waits__asleep() and waits__woke(). */
/* The stack that was recorded under this key at exactly that time; NULL: it is not kept any more. */
int waits__take(struct profile *profile, const struct record_wait *wait);
const struct sample *waits__kept(const struct thread *thread, uint64_t key, uint64_t time);
void waits__free(struct profile *profile, struct thread *thread);
int waits__keep(struct profile *profile, struct thread *thread, const struct sample *sample);
/* Sessions of CPU time: a thread that compiles fell asleep; a tick shows that it sleeps no more. */
int waits__asleep(struct profile *profile, struct thread *thread, const struct sample *sample);
int waits__woke(struct profile *profile, struct thread *thread, const struct sample *sample);
/* What a thread waits for, whose cause in rows is WAIT_ASLEEP. `stack`: without the wait's own frame. */
enum wait_cause waits__cause(struct profile *profile, const struct thread *thread, const struct part_wait *part, uint32_t stack);
int waits__locate(struct profile *profile, struct item *item, const struct sample *sample,
		 const struct part_native_frames *native, bool again);
/* This thread held the GIL then. */
void waits__held(struct thread *thread, uint64_t time);
/* Of a tick that is about to be taken: a row for time that was no CPU time, although no wait was reported. */
int waits__unrecorded(struct profile *profile, struct thread *thread, uint64_t time);
/* For a tick: the thread ran for all of its wall time. */
void waits__ran(struct thread *thread, struct item *item);
/* The client is authorised for this thread again, as of `time`: adds a row for the time in which it was not. */
int waits__found(struct profile *profile, struct thread *thread, uint64_t time);
/* A part ends at `time`: if the thread is in a wait, its time so far becomes a row. */
int waits__part(struct profile *profile, struct thread *thread, uint64_t time);
/* The thread has ended: the time since its last row that was no CPU time becomes a wait. */
int waits__end(struct profile *profile, struct thread *thread);

/* life.c. NULL instead of a process or thread: out of memory. Do not ask for a thread of a process that has ended. */
struct process *life__process(struct profile *profile, const struct record_header *header);
struct thread *life__add_thread(struct profile *profile, struct process *process, uint32_t tid,
				uint64_t start, uint64_t time);
struct process *life__add_process(struct profile *profile, uint32_t tgid, uint64_t start,
				  uint64_t time);
struct thread *life__thread(struct profile *profile, struct process *process,
			    const struct record_header *header);
/* It still existed at that time, perhaps after its exit was reported: exiting threads wait for others. */
void life__lasts(struct thread *thread, uint64_t time);
void life__end_thread(struct profile *profile, struct thread *thread, uint64_t time);
void life__end_process(struct profile *profile, struct process *process, uint64_t time);
/* The client is authorised for what the process runs: its time lines begin at `time`. */
/* The first thread of an image whose exec came at `time` (monotonic), with so much CPU time until then, whatever was known of it. */
void life__since_exec(struct thread *thread, uint64_t time, uint64_t cpu_time);
void life__show(struct profile *profile, struct process *process, uint64_t time);
void life__process_settled(struct profile *profile, struct process *process);
/* Queues the ends that are due. */
int life__settle(struct profile *profile, uint64_t now, bool all);

/* announce.c */
/* Emits processes and threads that are new (changes: and rows that changed). */
int announce__new(struct profile *profile, bool changes);
int announce__thread_end(struct profile *profile, struct thread *thread, const struct item *item);
/* Its account up to `time`, as of a thread that ends: the next part begins there. */
int announce__goes_on(struct profile *profile, struct thread *thread, uint64_t time);
int announce__process_end(struct profile *profile, struct process *process);
int announce__replay(const struct profile *profile, struct event_sink *sink);

/* ledger.c */
int ledger__emit(struct profile *profile, struct event_sink *sink, uint64_t time);
void ledger__part(struct profile *profile); /* it counts from 0 on */
void ledger__rate(struct profile *profile, uint32_t rate); /* of what follows */
uint64_t ledger__loss(const struct profile *profile, enum loss loss);
int64_t ledger__missed(const struct profile *profile, const struct thread *thread);
