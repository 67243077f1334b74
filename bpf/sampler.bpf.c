/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/* The sampler: the BPF programs of a session. This file has its maps, what all parts need, and includes the parts:
 *
 *   native.h, kernel_stack.h, fold.h   native stacks; kernel stacks; folding of large records
 *   capture.h, values.h                copies of code objects and locals from the target's memory
 *   thread.h                           what is cached about a thread
 *   offcpu.h                           where threads left their CPU, and for how long
 *   watched.h                          where threads that compile leave their CPU (mode cpu)
 *   tick.h                             the program `sample`: one record per tick
 *   switches.h                         programs that run as threads leave their CPU and come back
 *   life.h                             programs that follow fork, exec, exit and mmap
 *
 * `sample` runs on the thread that its clock interrupted, so the thread's memory does not change during the walk; or at
 * a tick of a CPU's clock (daemon/broker/clocks.h). It never blocks and never updates a shared hash map: its caches are
 * plain arrays of single words, on which CPUs may race. */
#include "kernel.h"
#include "ids.h"
#include "authorised.h"
#include "cprofd/record.h"
#include "cprofd/schedule.h"

/* --- maps --- */

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4 << 20);
} ring SEC(".maps");

/* Written by the engine: the layout of an image. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, struct image_key);
	__type(value, struct image);
} images SEC(".maps");

/* Processes whose lifecycle is reported, and what the client was authorised for in each. An engine never gets this
 * map. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, __u32);
	__type(value, struct target);
} targets SEC(".maps");

/* A Bloom filter of the targets, by tgid: bit clear, no target. Set by the broker and by on_fork. */
#define TARGET_BITS 4096u
__u64 target_bits[TARGET_BITS / 64];
/* What each tick reads: one structure, as clang puts variables in no order of their own. */
struct {
	__u64 woken;       /* when the engine was woken last, CLOCK_MONOTONIC ns */
	__u32 clock_period; /* of the requested rate, ns; set by the broker. The clocks of threads tick faster (is_chosen) */
	__u32 tick_period;  /* between samples, ns: longer where the engine asked for a lower rate since (is_kept) */
	int only_target;   /* the tgid of the target, if there can be only one and ids are the kernel's own; else 0 */
	int any_target;    /* the same, while its client may read every process (TARGET_ANY): it need not be looked up; else 0 */
	__u32 asleep;      /* threads in watched_asleep[] */
} each_tick __attribute__((aligned(64)));

const volatile __u32 follow_children = 0;
const volatile __u32 host = 0; /* every exec of the machine is reported, and a target that calls it is none any more */
const volatile __u32 wall = 0; /* off-CPU time, too */
const volatile __u32 gil = 0;  /* flag samples of the thread that holds the GIL */
/* Keys of code objects whose record was sent, mixed with the round in which it was (locals_captures.codes): 4-way sets. */
#define SEEN_SETS 8192u
__u64 seen[SEEN_SETS * 4];
__u32 seen_turn;
__u64 seen_round;

static __always_inline __u32 seen_set(__u64 key)
{
	return (__u32)(key >> 20) & (SEEN_SETS - 1);
}

static __always_inline int py_seen(__u64 key)
{
	__u32 i;

	key ^= seen_round;
	i = seen_set(key) * 4;
	if (i > SEEN_SETS * 4 - 4)
		return 0;
	return seen[i] == key || seen[i + 1] == key || seen[i + 2] == key || seen[i + 3] == key;
}

static __always_inline void seen_add(__u64 key)
{
	__u32 i, way;

	key ^= seen_round;
	i = seen_set(key) * 4;
	if (i > SEEN_SETS * 4 - 4)
		return;
	for (way = 0; way < 4; way++) {
		if (!seen[i + way] || seen[i + way] == key) {
			seen[i + way] = key;
			return;
		}
	}
	/* clang turns the sum into an OR, of which the verifier of 6.1 tracks no bounds. */
	i += seen_turn++ & 3;
	host_barrier(i);
	seen[i & (SEEN_SETS * 4 - 1)] = key;
}

/* Of native.h, which needs the walker's headers. */
static __always_inline const struct host_window *py_stack(void);
#define PY_STACK

#include "cprofd/pywalk.h"
static __always_inline void count_loss(struct sampler_counts *c, __u32 loss)
{
	if (loss < SAMPLER_LOSSES)
		c->losses[loss]++;
}

#include "native.h"
#include "kernel_stack.h"
#include "fold.h"
#include "capture.h"

/* Samples and counters: one ring per CPU (the broker sets how many), written in place and read through mmap. The
 * only writer is the tick, which does not nest on a CPU: no lock, no copy. The reader polls every 100 ms, or when it
 * is woken. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, struct sample_ring);
} samples SEC(".maps");

/* Scratch memory and caches of a CPU. */
#define HINTS 64u
struct cpu_scratch {
	struct py_walk walk;
	/* The image of the process that was sampled last here: cheaper than the lookup in a hash map. */
	struct image_key image_key;
	__u64 image_maps;       /* locals_captures.maps at that time */
	struct image image;
	__u64 tail;             /* of the sample ring, as last read */
	__u64 clock_at;         /* the last tick of this CPU's own clock, CLOCK_MONOTONIC ns; 0: it has none */
	__s64 owed;             /* periods of threads' ticks here, minus one requested period per sample, ns */
	__u64 skipped;          /* the last tick was not taken */
	__s64 until_kept;       /* at a lowered rate: time until the next sample, ns */
	__u64 chance;           /* state of a xorshift generator, for is_chosen(): a call of the kernel's costs more; 0: not seeded */
	__u64 leaves;           /* 1: this is no tick, the thread leaves its CPU (watched.h) */
	__u64 searches;         /* ... and what watched_leaves() said */
	/* The record's size while it is built. In memory, because the verifier does not track values there: it walks through
	 * the rest once, not once per value. */
	volatile __u32 size;
	__u64 fresh_at;         /* since when the engine has something urgent to read, CLOCK_MONOTONIC ns; 0: nothing */
	/* Threads that ticked before, indexed by the kernel's tid. */
	struct thread_hint {
		__u32 tid, exec;
		__u64 start;
		__u64 key_until;        /* CLOCK_MONOTONIC ns: the next two are valid until then */
		struct image_key key;
		__u64 process_start;
		/* The thread state found before. Only a hint: the walker verifies it. */
		__u64 tstate;
		__u64 until;
		__u64 cframe, caller, shim;
		__u64 valued;           /* when watched_valued() was called last */
	} hints[HINTS] __attribute__((aligned(64))); /* each in two lines */
	struct {
		__u32 tgid, tid;
	} ids[HINTS];           /* of these threads, if cprofd's differ from the kernel's */
	struct capture capture;
	struct fold fold;
} __attribute__((aligned(4096)));
#define KEY_NS (1ull << 24) /* 17 ms */

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_MMAPABLE); /* values are page-aligned */
	__type(key, __u32);
	__type(value, struct cpu_scratch);
} scratch SEC(".maps");

/* --- helpers --- */

/* Not the only target: what the other processes of the machine do costs one comparison. */
static __always_inline int is_other(__u32 tgid)
{
	__u32 only = (__u32)each_tick.only_target;

	return only && tgid != only;
}

static __always_inline int is_target(__u32 tgid)
{
	return !is_other(tgid) && bpf_map_lookup_elem(&targets, &tgid);
}

/* enum authorised: check it before any memory, register, address or wait of a thread is read or sent. */
static __always_inline int authorised(struct task_struct *task, __u32 tgid)
{
	if (tgid && tgid == (__u32)each_tick.any_target)
		return AUTHORISED_YES;
	return authorised_as(task, bpf_map_lookup_elem(&targets, &tgid));
}

static __always_inline int is_perhaps_target(__u32 tgid)
{
	return target_bits[(tgid & (TARGET_BITS - 1)) / 64] >> (tgid & 63) & 1;
}

/* Fills everything but the ids. */
static __always_inline void fill_task(struct record_task *to, struct task_struct *task, __u64 process_start)
{
	to->process_start = process_start;
	to->thread_start = task->start_boottime;
	to->exec = task->self_exec_id;
	to->_pad = 0;
	__builtin_memcpy(to->comm, task->comm, 16);
}

static __always_inline void fill_place(struct record_header *header, __u16 kind, __u32 size)
{
	header->size = size;
	header->kind = kind;
	header->cpu = bpf_get_smp_processor_id();
	header->time = bpf_ktime_get_ns();
}

/* An event of the running thread. */
static __always_inline void fill_header(struct record_header *header, __u16 kind, __u32 size, struct task_struct *current)
{
	fill_place(header, kind, size);
	header->task.tgid = task_tgid(current);
	header->task.tid = task_tid(current);
	fill_task(&header->task, current, BPF_CORE_READ(current, group_leader, start_boottime));
}

/* Header for a new thread. */
static __always_inline void fill_child(struct record_header *header, __u16 kind, __u32 size, struct task_struct *child)
{
	struct record_task *to = &header->task;

	fill_place(header, kind, size);
	to->tgid = child_tgid(child);
	to->tid = child_tid(child);
	to->process_start = BPF_CORE_READ(child, group_leader, start_boottime);
	to->thread_start = BPF_CORE_READ(child, start_boottime);
	to->exec = BPF_CORE_READ(child, self_exec_id);
	to->_pad = 0;
	bpf_core_read(to->comm, sizeof(to->comm), &child->comm);
}

/* The client is no longer authorised for the process. Sent only where something about it was kept, so once per loss. */
IDS_APART int emit_lost(struct task_struct *task)
{
	struct record_event *event = bpf_ringbuf_reserve(&ring, sizeof(*event), 0);

	if (!event)
		return 0;
	__builtin_memset(event, 0, sizeof(*event));
	fill_header(&event->header, RECORD_LOST, sizeof(*event), task);
	bpf_ringbuf_submit(event, BPF_RB_NO_WAKEUP);
	return 0;
}

#include "values.h"
#include "thread.h"
#include "offcpu.h"
#include "watched.h"
#include "tick.h"
#include "switches.h"

/* --- for the broker ---
 *
 * Reads the state of one process as the kernel has it at one instant: before the client is authorised, and once more
 * after. */

struct target noted;
__u32 note_of;

SEC("iter/task")
int note(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;

	if (task && task_tid(task) == note_of)
		authorised_note(&noted, task);
	return 0;
}

#include "life.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";
