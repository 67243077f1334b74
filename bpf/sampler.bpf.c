/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/* The sampler: what runs in the kernel.
 *
 * `sample` runs at each tick of a thread's cpu-clock event, on the thread that
 * the tick interrupted, so nothing of it moves while it is walked; or at each tick of
 * a CPU's, while one ticks (daemon/broker/clocks.h). It looks up
 * the image of the process, walks the Python frames, copies code objects that
 * it meets for the first time, and writes one record. It never waits and never
 * updates a shared hash map: what it remembers lies in plain arrays whose
 * entries are single words, so that CPUs may race on them.
 *
 * `on_fork`, `on_exec`, `on_exit` follow the life of the target's processes.
 */
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

/* Written by the engine: which layout an image has. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, struct image_key);
	__type(value, struct image);
} images SEC(".maps");

/* Processes whose life is reported, and what of each the client was authorised for. Never in an engine's hands. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, __u32);
	__type(value, struct target);
} targets SEC(".maps");

/* A bit for each of them: who has none is no target. Set by the broker, and by on_fork. */
#define TARGET_BITS 4096u
__u64 target_bits[TARGET_BITS / 64];
/* The target, where there can be no other and ids are the kernel's own: most of what the machine does ends at one look. Else 0. */
int only_target;
/* When the engine was woken last, CLOCK_MONOTONIC ns. In one line of memory with the next, as each tick reads both. */
__u64 woken;
/* Of the rate that was asked for, ns. Clocks of threads tick sooner (is_chosen). Set by the broker. */
__u32 tick_period;

const volatile __u32 follow_children = 0;
const volatile __u32 wall = 0; /* time on no CPU, too */
const volatile __u32 gil = 0;  /* which ticks meet the GIL's holder */
/* Keys of code objects whose record went out: sets of four. */
#define SEEN_SETS 8192u
__u64 seen[SEEN_SETS * 4];
__u32 seen_turn;

static __always_inline __u32 seen_set(__u64 key)
{
	return (__u32)(key >> 20) & (SEEN_SETS - 1);
}

static __always_inline int py_seen(__u64 key)
{
	__u32 i = seen_set(key) * 4;

	if (i > SEEN_SETS * 4 - 4)
		return 0;
	return seen[i] == key || seen[i + 1] == key || seen[i + 2] == key || seen[i + 3] == key;
}

static __always_inline void seen_add(__u64 key)
{
	__u32 i = seen_set(key) * 4, way;

	if (i > SEEN_SETS * 4 - 4)
		return;
	for (way = 0; way < 4; way++) {
		if (!seen[i + way] || seen[i + way] == key) {
			seen[i + way] = key;
			return;
		}
	}
	/* clang makes an OR of the sum; 6.1's verifier knows nothing of one. */
	i += seen_turn++ & 3;
	host_barrier(i);
	seen[i & (SEEN_SETS * 4 - 1)] = key;
}

#include "cprofd/pywalk.h"
static __always_inline void count_loss(struct sampler_counts *c, __u32 loss)
{
	if (loss < SAMPLER_LOSSES)
		c->losses[loss]++;
}

#include "native.h"
#include "kernel_stack.h"
#include "fold.h"

/* Samples and counters: one ring per CPU (the broker sets the number), written in place and read through mmap. The one
 * writer is the tick, which does not nest on a CPU; no lock, no copy. The reader looks every 100 ms, or when it is woken. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, struct sample_ring);
} samples SEC(".maps");

/* What a CPU works with and remembers. */
#define HINTS 64u
struct cpu_scratch {
	struct py_walk walk;
	/* The image of the process that ticked last: a look-up in a hash map touches more. */
	struct image_key image_key;
	__u64 image_maps;       /* locals_captures.maps of then */
	struct image image;
	__u64 tail;             /* of the ring of samples, as seen last */
	__u64 clock_at;         /* the last tick of this CPU's own clock, CLOCK_MONOTONIC ns; 0: it has none */
	__s64 owed;             /* what threads' ticks here had of periods, less a whole one for each that was a sample, ns */
	__u64 skipped;          /* the last of them was none */
	__u64 fresh_at;         /* since when there is something to be looked at soon, CLOCK_MONOTONIC ns; 0: nothing is */
	/* Threads that ticked before, by the kernel's tid. */
	struct thread_hint {
		__u32 tid, exec;
		__u64 start;
		__u64 key_until;        /* CLOCK_MONOTONIC ns, of what is in the process: */
		struct image_key key;
		__u64 process_start;
		/* The thread state found before. Only a hint: the walker proves it. */
		__u64 tstate;
		__u64 until;
		__u64 cframe, caller, shim;
	} hints[HINTS];
	struct {
		__u32 tgid, tid;
	} ids[HINTS];           /* of these threads, if cprofd has others than the kernel */
} __attribute__((aligned(4096)));
#define KEY_NS (1ull << 24) /* 17 ms */

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_MMAPABLE); /* values begin with a page */
	__type(key, __u32);
	__type(value, struct cpu_scratch);
} scratch SEC(".maps");

/* --- helpers --- */

static __always_inline int is_target(__u32 tgid)
{
	return bpf_map_lookup_elem(&targets, &tgid) != NULL;
}

/* enum authorised: nothing of a thread's memory, registers, addresses or waits is read or given away without it. */
static __always_inline int authorised(struct task_struct *task, __u32 tgid)
{
	return authorised_as(task, bpf_map_lookup_elem(&targets, &tgid));
}

static __always_inline int is_perhaps_target(__u32 tgid)
{
	return target_bits[(tgid & (TARGET_BITS - 1)) / 64] >> (tgid & 63) & 1;
}

/* All but its ids. */
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

/* Of a thread that was just made. */
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

/* The client is not authorised for it any more. Told where something was kept of it, so once for each time. */
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

#include "capture.h"
#include "values.h"

/* --- the tick --- */

/* Who ended and is there still, by its address: it runs on a while after its exit is told, and of that and of what it ran
 * since the scheduler's last tick sum_exec_runtime knows only when it has left its CPU for good. */
struct leaving {
	__u64 process_start, thread_start;
	__u32 tgid, tid;
};
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, __u64);
	__type(value, struct leaving);
} leavings SEC(".maps");

/* Its tgid << 32 | tid; 0: it is none of them, of which only those are that the client might look into. An address that somebody else has by now,
 * whose free was not met, is not enough. */
IDS_APART __u64 leaving_ids(struct task_struct *task)
{
	__u64 key = (__u64)task;
	const struct leaving *leaving = bpf_map_lookup_elem(&leavings, &key);

	return leaving && leaving->thread_start == task->start_boottime ? (__u64)leaving->tgid << 32 | leaving->tid : 0;
}

static __always_inline const struct image *image_of(struct cpu_scratch *own, const struct image_key *key,
						    __u64 maps)
{
	const struct image *image;

	if (own->image_key.arg_start == key->arg_start && own->image_key.start_data == key->start_data &&
	    own->image_maps == maps)
		return &own->image;
	image = bpf_map_lookup_elem(&images, key);
	if (!image)
		return NULL;
	own->image = *image;
	own->image_key = *key;
	own->image_maps = maps;
	return &own->image;
}

/* What is known of the thread: looked at again when it is another one or runs another program, and now and then, as a
 * process may move its arguments. */
static __always_inline struct thread_hint *thread_hint(struct cpu_scratch *own, struct task_struct *task, __u64 now)
{
	struct thread_hint *hint = &own->hints[task->pid & (HINTS - 1)];
	struct mm_struct *mm;

	if (hint->tid == (__u32)task->pid && hint->exec == task->self_exec_id && hint->start == task->start_boottime) {
		if (now < hint->key_until)
			return hint;
	} else {
		hint->tid = task->pid;
		hint->exec = task->self_exec_id;
		hint->start = task->start_boottime;
		hint->tstate = hint->until = hint->cframe = hint->caller = hint->shim = 0;
	}
	mm = BPF_CORE_READ(task, mm);
	hint->key.arg_start = BPF_CORE_READ(mm, arg_start);
	hint->key.start_data = BPF_CORE_READ(mm, start_data);
	hint->process_start = BPF_CORE_READ(task, group_leader, start_boottime);
	if (nested) {
		own->ids[task->pid & (HINTS - 1)].tgid = task_tgid(task);
		own->ids[task->pid & (HINTS - 1)].tid = task_tid(task);
	}
	/* In exec they are 0 for a moment. */
	hint->key_until = hint->key.arg_start && hint->key.start_data ? now + KEY_NS : 0;
	return hint;
}

static __always_inline void fill_registers(__u64 *to, struct task_struct *task)
{
	const struct pt_regs___entry *from = entered_with(task);

	bpf_probe_read_kernel(to, ENTRY_GENERAL * 8, entry_general(from));
	to[ENTRY_GENERAL] = 0;
}

/* The thread state that holds the GIL (struct _gil_runtime_state, daemon/python/gil.h), or 0. A function apart, for the room on
 * the stack. */
__attribute__((noinline, weak)) __u64 gil_holder(const struct image *image)
{
	struct {
		__u64 interval, last_holder;
		__u32 locked, _pad;
	} state;

	if (!image || bpf_probe_read_user(&state, sizeof(state), (const void *)image->gil) || !state.locked)
		return 0;
	return state.last_holder;
}

#include "offcpu.h"

/* The engine has to look soon at what it has to read from the target's memory: values that no sample had lately, code objects (their
 * frames may have values), a copied stack. Its wake-ups cost it most where they find nothing to do. */
#define CROWD_BYTES (SAMPLE_RING_BYTES / 4)

static __always_inline int is_seen(const struct cpu_scratch *own, const struct sample_ring *to)
{
	return (__s64)(to->polled - own->fresh_at) > (__s64)SCHEDULE_FRESH_NS;
}

static __always_inline void wake(struct cpu_scratch *own, const struct sample_ring *to, __u64 head, __u64 now, int fresh)
{
	__s64 since = now - woken;
	struct record_wake *record;

	if (own->fresh_at && is_seen(own, to))
		own->fresh_at = 0;
	if (fresh && !own->fresh_at)
		own->fresh_at = now;
	if (head - own->tail > CROWD_BYTES)
		own->tail = to->tail;
	if (head - own->tail > CROWD_BYTES) {
		if (since < (__s64)SCHEDULE_CROWD_NS)
			return;
	} else if (!own->fresh_at || now - own->fresh_at < SCHEDULE_FRESH_NS || since < (__s64)SCHEDULE_POLL_NS ||
		   (__s64)(now - to->polled) < (__s64)SCHEDULE_POLL_NS) {
		return;
	}
	woken = now;
	own->fresh_at = 0;
	record = bpf_ringbuf_reserve(&ring, sizeof(*record), 0);
	if (!record)
		return;
	*record = (struct record_wake){.size = sizeof(*record), .kind = RECORD_WAKE};
	bpf_ringbuf_submit(record, BPF_RB_FORCE_WAKEUP);
}

/* Read anew where it is needed: on_switch has no room on its stack (6.1). */
static __always_inline __u64 maps_of(const struct sample_ring *to)
{
	return *(volatile const __u64 *)&to->captured_locals.maps;
}

/* While a CPU has a clock of its own, those of threads are silent there. */
#define CLOCK_LATE 8 /* periods */

/* A thread's clock has a period that was drawn when it was opened, somewhat shorter than the one that was asked for. By chance one tick in five to
 * twenty is no sample, so many as make the rate that was asked for: no program's rounds are in step with both. Never two in a row, as who has
 * no sample for long is taken for waiting (daemon/attribution/). Chance does not know what the ticks meet; it heeds a little how many are due. */
#define OWED_PART 5 /* log2: of what is owed, or was taken too much, at one tick */
static __always_inline int is_chosen(struct cpu_scratch *own, __u64 period)
{
	__s64 asked = tick_period, drawn = (__u64)bpf_get_prandom_u32() * period >> 32;
	int chosen = own->skipped || drawn >= asked - (__s64)period - (own->owed >> OWED_PART);

	own->skipped = !chosen;
	own->owed += (__s64)period - (chosen ? asked : 0);
	return chosen;
}

/* Is this tick a sample of the thread that it interrupted? Else of nobody: the CPU's clock meets whoever runs there. */
static __always_inline int is_due(struct bpf_perf_event_data *ctx, struct cpu_scratch *own, struct task_struct *task)
{
	__u64 period = ctx->sample_period;

	if (period & CLOCK_OF_CPU) {
		own->clock_at = bpf_ktime_get_ns();
		if (!task->pid || (only_target && task->tgid != only_target))
			return 0;
		return is_target(task_tgid(task)) || (task->flags & PF_EXITING && leaving_ids(task));
	}
	if (own->clock_at && bpf_ktime_get_ns() - own->clock_at < CLOCK_LATE * period)
		return 0;
	own->clock_at = 0;
	return is_chosen(own, period);
}

/* The stack of the thread that runs here, as a record: of a tick, or (`off`, then there is no ctx) of a thread that leaves its CPU. One
 * of both is NULL where this is compiled into its program. 1: there is none. */
static __always_inline int take(struct bpf_perf_event_data *ctx, const struct wait_capture *off)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u32 cpu = bpf_get_smp_processor_id(), size;
	struct cpu_scratch *own = bpf_map_lookup_elem(&scratch, &cpu);
	struct sample_ring *samples_ring = bpf_map_lookup_elem(&samples, &cpu);
	struct sampler_counts *c;
	struct record_sample *record;
	struct part_py_frames *part;
	struct thread_hint *hint;
	struct py_out *out;
	struct py_walk *walk;
	const struct image *image;
	int fresh, whole, large, exiting = !!(task->flags & PF_EXITING); /* its memory may be gone */
	__u64 leaving, head, time, room = sizeof(struct py_out) + (native ? sizeof(struct native_out) : 0) +
						(kernel_stacks ? sizeof(struct kernel_out) : 0) +
						sizeof(struct values_out) + sizeof(struct part_object) + (off ? sizeof(struct part_wait) : 0);

	if (!own || !samples_ring)
		return 0;
	walk = &own->walk;
	c = &samples_ring->counts;
	if (!off) {
		if (!is_due(ctx, own, task))
			return 0;
		c->ticks++;
	}
	leaving = exiting ? leaving_ids(task) : 0;
	if (leaving)
		whole = AUTHORISED_RIGHTS;
	else
		whole = authorised(task, task_tgid(task));
	if (whole == AUTHORISED_NO) {
		count_loss(c, LOSS_NOT_AUTHORISED);
		if (own->hints[task->pid & (HINTS - 1)].tid == (__u32)task->pid && !exiting)
			emit_lost(task);
		own->hints[task->pid & (HINTS - 1)].tid = 0;
		return 1;
	}
	whole = whole == AUTHORISED_YES;
	if (wall && !off && waits_begin)
		wait_flush(bpf_ktime_get_ns(), 0);
	head = samples_ring->head;
	if (head + room - own->tail > SAMPLE_RING_BYTES) {
		own->tail = samples_ring->tail;
		if (head + room - own->tail > SAMPLE_RING_BYTES) {
			count_loss(c, LOSS_RING_FULL);
			return 1;
		}
	}
	out = (struct py_out *)(samples_ring->data + (head & (SAMPLE_RING_BYTES - 1)));
	time = off ? off->now : bpf_ktime_get_ns();
	hint = thread_hint(own, task, time);
	image = whole && !exiting ? image_of(own, &hint->key, maps_of(samples_ring)) : NULL;
	if (off && !image)
		return 1; /* another time */
	record = (struct record_sample *)out->head;
	part = (struct part_py_frames *)(out->head + sizeof(*record) / 8);
	record->cpu_time = task->se.sum_exec_runtime;
	if (off)
		record->flags = SAMPLE_IN_KERNEL | SAMPLE_OFF_CPU;
	else
		record->flags = ((__s64)PT_REGS_IP(&ctx->regs) < 0 ? SAMPLE_IN_KERNEL : 0) | (exiting ? SAMPLE_EXITING : 0) |
				(ctx->sample_period & CLOCK_OF_CPU ? SAMPLE_OF_CPU : 0);
	record->loss = 0;
	record->parts = 1;
	record->header.kind = RECORD_SAMPLE;
	record->header.cpu = cpu;
	record->header.time = time;
	if (leaving) {
		record->header.task.tgid = (__u32)(leaving >> 32);
		record->header.task.tid = (__u32)leaving;
	} else if (nested) {
		record->header.task.tgid = own->ids[task->pid & (HINTS - 1)].tgid;
		record->header.task.tid = own->ids[task->pid & (HINTS - 1)].tid;
	} else {
		record->header.task.tgid = task->tgid;
		record->header.task.tid = task->pid;
	}
	fill_task(&record->header.task, task, hint->process_start);
	if (native && whole && !exiting)
		native_begin(ctx, task, &hint->key, record, maps_of(samples_ring), !!off);
	walk->n = 0;
	walk->n_todo = 0;
	walk->loss = 0;
	if (exiting) {
		;
	} else if (!image) {
		record->loss = LOSS_PROCESS_UNKNOWN;
		count_loss(c, LOSS_PROCESS_UNKNOWN);
	} else if (image->runtime) {
		const struct record_task *t = &record->header.task;

		walk->thread_pointer = thread_pointer(task);
		walk->now = time;
		walk->salt = py_mix(t->process_start, t->tgid | (__u64)t->exec << 32);
		walk->hint = hint->tstate;
		walk->hint_until = hint->until;
		walk->hint_cframe = hint->cframe;
		walk->hint_caller = hint->caller;
		walk->hint_shim = hint->shim;
		walk->repairs = !off;
		py_walk(walk, image, out, off ? NULL : native_stack());
		if (!walk->n_tstates)
			record->flags |= SAMPLE_NO_PYTHON;
		if (walk->hint_until != hint->until) {
			hint->tstate = walk->tstates[0].address;
			hint->until = walk->hint_until;
		}
		hint->cframe = walk->tstates[0].cframe;
		hint->caller = walk->tstates[0].caller;
		hint->shim = walk->shim;
		if (gil && !off && image->gil && walk->n_tstates && gil_holder(image) == walk->tstates[0].address)
			record->flags |= SAMPLE_GIL;
		if (walk->repairs && walk->loss && walk->n < 2) {
			fill_registers(walk->registers, task);
			py_walk_repair(walk, image, out);
		}
		if (walk->loss)
			count_loss(c, walk->loss);
		if (walk->n_todo) {
			struct capture_context cc = {.walk = walk,
						     .image = image,
						     .cap = bpf_map_lookup_elem(&captures, &cpu),
						     .counts = c,
						     .tick = &record->header};

			if (cc.cap)
				bpf_loop(walk->n_todo, capture_code, &cc, 0);
			if (walk->n_todo >= RECORD_CODES_PER_TICK)
				count_loss(c, LOSS_CAPTURE_LIMIT);
		}
	} else {
		record->flags |= SAMPLE_NO_PYTHON;
	}
	size = walk->n * (__u32)sizeof(struct py_frame);
	part->n = walk->n;
	part->runs = bpf_core_field_exists(task->sched_info.pcount) ? task->sched_info.pcount : 0;
	part->part.kind = PART_PY_FRAMES;
	part->part.loss = walk->loss;
	part->part.size = sizeof(*part) + size;
	size += sizeof(*record) + sizeof(*part);
	fresh = walk->n_todo != 0;
	if (native && whole && !exiting) {
		size = native_part(record, (__u8 *)out, size, c);
		fresh |= record->parts > 2; /* a copied stack */
	}
	large = size > FOLD_FROM && record->parts <= 2;
	if (!off && whole)
		size = kernel_part(ctx, record, (__u8 *)out, size, c);
	/* Who waits for this one may have begun a compile, which no tick of its own tells. */
	fresh |= record->flags & SAMPLE_NO_PYTHON && samples_ring->captured_locals.active & VALUES_AWAITED;
	if (samples_ring->captured_locals.active && image)
		size = values_part(&samples_ring->captured_locals, walk, image, record, out, size, &fresh);
	if (off && image)
		size = wait_part(off, image, record, (__u8 *)out, size);
	if (large)
		size = fold_record(record, (__u8 *)out, size);
	record->header.size = size;
	if (!off)
		c->samples++;
	c->bytes += size;
	/* The head moves last, in one store: a reader sees whole records only. */
	asm volatile("" ::: "memory");
	*(volatile __u64 *)&samples_ring->head = head + size;
	if (!off)
		wake(own, samples_ring, head + size, time, fresh);
	return 0;
}

SEC("perf_event")
int sample(struct bpf_perf_event_data *ctx)
{
	take(ctx, NULL);
	return 0;
}

/* Bits: the one that leaves its CPU is a target, the one that comes is. */
#define LEFT 1
#define CAME 2

IDS_APART int passing_targets(struct task_struct *prev, struct task_struct *next)
{
	__u32 left = ids_of_passing(prev), came = ids_of_passing(next);

	return (is_perhaps_target(left) && is_target(left) ? LEFT : 0) | (is_perhaps_target(came) && is_target(came) ? CAME : 0);
}

SEC("?tp_btf/sched_switch")
int BPF_PROG(on_switch, _Bool preempt, struct task_struct *prev, struct task_struct *next, unsigned int state)
{
	int only = only_target, which;
	struct wait_capture c;

	if (only && prev->tgid != only && next->tgid != only)
		return 0;
	which = nested ? passing_targets(prev, next)
		       : (is_perhaps_target(prev->tgid) ? LEFT : 0) | (is_perhaps_target(next->tgid) ? CAME : 0);

	if (!which || !waits_since || waits_over)
		return 0;
	c = (struct wait_capture){.task = prev, .state = preempt ? 0 : state, .now = bpf_ktime_get_ns()};
	if (which & CAME && (nested || is_target(next->tgid)) && wait_allowed(next, passing_tgid(next)))
		wait_in(next, c.now);
	if (which & LEFT && (nested || is_target(prev->tgid)) && wait_allowed(prev, passing_tgid(prev)) && wait_out(&c) &&
	    take(NULL, &c))
		c.place->taken = 0;
	return 0;
}

SEC("?iter/task")
int each_first(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;

	if (task && authorised(task, task_tgid(task)) == AUTHORISED_YES)
		wait_first(task);
	return 0;
}

SEC("?iter/task")
int each_last(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;

	if (!task || !is_target(task_tgid(task)))
		return 0;
	if (wait_allowed(task, task_tgid(task)))
		wait_last(task);
	else
		emit_lost(task); /* it may not have moved since */
	return 0;
}

SEC("?tp_btf/sched_waking")
int BPF_PROG(on_waking, struct task_struct *task)
{
	int only = only_target;
	struct wait_slot *slot;
	__u32 tgid;
	__u64 now;

	if (only && task->tgid != only)
		return 0;
	tgid = passing_tgid(task);
	if (!is_perhaps_target(tgid) || !waits_since || !wait_allowed(task, tgid))
		return 0;
	now = bpf_ktime_get_ns();
	slot = wait_find(wait_thread(task));
	if (!slot)
		slot = wait_slept(task);
	if (!slot || (slot->out && slot->woken >= slot->out))
		return 0;
	slot->waker = task_tid(bpf_get_current_task_btf());
	slot->woken = now;
	return 0;
}

/* --- for the broker ---
 *
 * Reads what one process is and may, as the kernel has it at one instant: before the client is authorised, and again after. */

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

/* --- the life of processes ---
 *
 * Raw tracepoints, whose arguments are plain words: programs that know their types (tp_btf) have libbpf and the verifier look
 * through all of the kernel's BTF. Each is met by the thread that it tells of, or of which it tells a child. */

__u64 forked; /* CLOCK_MONOTONIC ns */

/* A compile may wait for a linker: the engine looks at threads that sleep. */
static __always_inline void emit_forked(void)
{
	__u32 cpu = bpf_get_smp_processor_id();
	const struct sample_ring *to = bpf_map_lookup_elem(&samples, &cpu);
	__u64 now = bpf_ktime_get_ns();
	struct record_wake *record;

	if (wall || !to || !(to->captured_locals.active & VALUES_AWAITED) || now - forked < SCHEDULE_FORKED_NS)
		return;
	forked = now;
	record = bpf_ringbuf_reserve(&ring, sizeof(*record), 0);
	if (!record)
		return;
	*record = (struct record_wake){.size = sizeof(*record), .kind = RECORD_FORKED};
	bpf_ringbuf_submit(record, BPF_RB_FORCE_WAKEUP);
}

/* Threads and processes that live for a period or less are met by clocks of CPUs alone: the engine asks for them when births begin. */
__u64 born; /* CLOCK_MONOTONIC ns: when the engine was woken for one */

static __always_inline __u64 birth_flags(void)
{
	__u64 now = bpf_ktime_get_ns();

	if (now - born < SCHEDULE_BIRTHS_NS)
		return BPF_RB_NO_WAKEUP;
	born = now;
	return BPF_RB_FORCE_WAKEUP;
}

static __always_inline void emit_freed(const struct leaving *leaving, struct task_struct *task)
{
	struct record_event event = {};

	fill_place(&event.header, RECORD_FREED, sizeof(event));
	event.header.task.tgid = leaving->tgid;
	event.header.task.tid = leaving->tid;
	event.header.task.process_start = leaving->process_start;
	event.header.task.thread_start = BPF_CORE_READ(task, start_boottime);
	event.header.task.exec = BPF_CORE_READ(task, self_exec_id);
	event.cpu_time = BPF_CORE_READ(task, se.sum_exec_runtime);
	bpf_ringbuf_output(&ring, &event, sizeof(event), BPF_RB_NO_WAKEUP);
}

SEC("raw_tp/sched_process_free")
int BPF_PROG(on_free, struct task_struct *task)
{
	__u64 key = (__u64)task;
	const struct leaving *leaving = bpf_map_lookup_elem(&leavings, &key);

	if (!leaving)
		return 0;
	emit_freed(leaving, task);
	bpf_map_delete_elem(&leavings, &key);
	return 0;
}

/* A process that nobody waited for is not freed. So whoever is born or ends next looks at the last ones that ended: who is dead and on no
 * CPU ran all that it will. CPUs race for places here; what is lost is told when it is freed. */
#define DEAD_KEPT 512u
#define DEAD_AT_ONCE 4
__u64 dead_tasks[DEAD_KEPT];
__u32 dead_first, dead_end;

static __always_inline void dead_add(__u64 key)
{
	dead_tasks[dead_end & (DEAD_KEPT - 1)] = key;
	dead_end++;
}

static __always_inline void dead_tell(__u64 key)
{
	const struct leaving *leaving = bpf_map_lookup_elem(&leavings, &key);
	struct task_struct *task = (struct task_struct *)key;

	if (!leaving || BPF_CORE_READ(task, start_boottime) != leaving->thread_start)
		return;
	if (!(BPF_CORE_READ(task, __state) & TASK_DEAD) || BPF_CORE_READ(task, on_cpu)) {
		dead_add(key);
		return;
	}
	emit_freed(leaving, task);
	bpf_map_delete_elem(&leavings, &key);
}

/* A function apart: on_exit has no room on its stack (6.1). */
IDS_APART int dead_tell_some(void)
{
	__u32 i, end = dead_end;

	if (end - dead_first > DEAD_KEPT)
		dead_first = end - DEAD_KEPT;
	for (i = 0; i < DEAD_AT_ONCE && dead_first != end; i++)
		dead_tell(dead_tasks[dead_first++ & (DEAD_KEPT - 1)]);
	return 0;
}

SEC("raw_tp/sched_process_fork")
int BPF_PROG(on_fork, struct task_struct *from, struct task_struct *child)
{
	struct task_struct *parent = bpf_get_current_task_btf();
	__u32 parent_tgid = task_tgid(parent), tgid = child_tgid(child);
	const struct target *as = bpf_map_lookup_elem(&targets, &parent_tgid);
	struct target of_child;
	struct record_fork fork = {};
	struct record_event clone = {};
	int allowed;

	if (!as)
		return 0;
	dead_tell_some();
	if (tgid == parent_tgid) {
		if (authorised_as(parent, as) == AUTHORISED_NO)
			return 0;
		fill_child(&clone.header, RECORD_CLONE, sizeof(clone), child);
		clone.old_tid = task_tid(parent);
		bpf_ringbuf_output(&ring, &clone, sizeof(clone), birth_flags());
		return 0;
	}
	if (!follow_children) {
		emit_forked();
		return 0;
	}
	if (wall)
		__sync_fetch_and_or(&target_bits[(tgid & (TARGET_BITS - 1)) / 64], 1ull << (tgid & 63));
	/* It runs its parent's image, if that is the one that was authorised. */
	of_child = *as;
	of_child.start = BPF_CORE_READ(child, group_leader, start_boottime);
	of_child.exec = BPF_CORE_READ(child, self_exec_id);
	allowed = authorised_as(parent, as);
	of_child.mm = allowed == AUTHORISED_YES ? (__u64)BPF_CORE_READ(child, mm) : 0;
	bpf_map_update_elem(&targets, &tgid, &of_child, BPF_ANY);
	if (allowed == AUTHORISED_NO)
		return 0;
	fill_child(&fork.header, RECORD_FORK, sizeof(fork), child);
	fork.parent_tgid = parent_tgid;
	fork.parent_exec = parent->self_exec_id;
	fork.parent_tid = task_tid(parent);
	bpf_ringbuf_output(&ring, &fork, sizeof(fork), BPF_RB_FORCE_WAKEUP);
	return 0;
}

/* Memory of no file: it has no tables that could be made in time. Code that a JIT puts there is met by a sample, or by the next look. */
static __always_inline int is_anonymous(struct task_struct *task)
{
	const struct pt_regs___entry *regs = entered_with(task);

	return syscall_number(regs) == SYSCALL_MMAP && syscall_arg3(regs) & 0x20 /* MAP_ANONYMOUS */;
}

/* An address was found for a new mapping: what lay there before is gone, if it was code. What is mapped at a
 * fixed address is not told: the rest of a library comes into the room that was found for all of it. */
SEC("?raw_tp/vm_unmapped_area")
int BPF_PROG(on_map, unsigned long address, struct vm_unmapped_area_info *info)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct record_map map = {};
	__u64 now, flags = BPF_RB_NO_WAKEUP;

	if ((__s64)address <= 0 || authorised(task, task_tgid(task)) != AUTHORISED_YES)
		return 0;
	now = bpf_ktime_get_ns();
	if (now - mapped_at > SCHEDULE_MAPPED_NS && !is_anonymous(task))
		flags = BPF_RB_FORCE_WAKEUP;
	mapped_at = now;
	fill_header(&map.header, RECORD_MAP, sizeof(map), task);
	map.header.time = now;
	map.start = address;
	map.end = address + BPF_CORE_READ(info, length);
	bpf_ringbuf_output(&ring, &map, sizeof(map), flags);
	return 0;
}

/* What the thread that runs here ran until now. sum_exec_runtime knows that up to the scheduler's last tick: of who forked and executes, often nothing. Who
 * never slept ran whenever it did not wait for a CPU. */
#define SCHEDULER_TICK_MOST 10000000ull /* ns */
static __always_inline __u64 ran_until(struct task_struct *task, __u64 now)
{
	__u64 seen = task->se.sum_exec_runtime, ran = now - task->start_time - wait_delay(task);

	return task->nvcsw || ran < seen || ran > seen + SCHEDULER_TICK_MOST ? seen : ran;
}

SEC("raw_tp/sched_process_exec")
int BPF_PROG(on_exec, struct task_struct *who, int old_pid, struct linux_binprm *bprm)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct record_event event = {};

	if (!is_target(task_tgid(task)))
		return 0;
	fill_header(&event.header, RECORD_EXEC, sizeof(event), task);
	event.cpu_time = ran_until(task, event.header.time);
	event.flags = authorised(task, task_tgid(task)) == AUTHORISED_NO ? EVENT_LOST : 0;
	/* The tracepoint tells the kernel's. The number of a thread that is no more has no other. */
	event.old_tid = !nested ? (__u32)old_pid : old_pid == task->pid ? task_tid(task) : 0;
	bpf_ringbuf_output(&ring, &event, sizeof(event), BPF_RB_FORCE_WAKEUP);
	return 0;
}

SEC("raw_tp/sched_process_exit")
int BPF_PROG(on_exit, struct task_struct *who)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct record_event event = {};
	__u32 tgid = task_tgid(task);
	__u64 key = (__u64)task;
	struct leaving leaving;
	int dead, allowed;

	if (!is_target(tgid))
		return 0;
	allowed = authorised(task, tgid) != AUTHORISED_NO;
	if (wall)
		wait_end(task, bpf_ktime_get_ns());
	/* signal->live was counted down already when the tracepoint fires. */
	dead = BPF_CORE_READ(task, signal, live.counter) == 0;
	fill_header(&event.header, RECORD_EXIT, sizeof(event), task);
	event.group_dead = dead;
	event.flags = EVENT_LOST;
	if (allowed) {
		event.cpu_time = task->se.sum_exec_runtime;
		event.exit_code = task->exit_code;
		leaving = (struct leaving){event.header.task.process_start, event.header.task.thread_start, event.header.task.tgid,
					   event.header.task.tid};
		event.flags = bpf_map_update_elem(&leavings, &key, &leaving, BPF_ANY) ? 0 : EVENT_SETTLES;
		dead_tell_some();
	}
	bpf_ringbuf_output(&ring, &event, sizeof(event), dead ? BPF_RB_FORCE_WAKEUP : BPF_RB_NO_WAKEUP);
	if (allowed)
		dead_add(key); /* behind its end */
	if (dead)
		bpf_map_delete_elem(&targets, &tgid);
	return 0;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
