/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/* The BPF side of `cprofd dump`; include/cprofd/dump.h is its interface.
 *
 * `each_thread` runs when someone reads the iterator, once for each thread of the target. A thread that is on no CPU
 * has its user registers at the top of its kernel stack and does not change its user stack: both are copied, and
 * discarded if the thread ran meanwhile. The iterator may sleep, so absent pages of the stack are faulted in.
 *
 * `tick` runs at the next tick of a running thread, on that thread, like the sampler. */
#include "kernel.h"
#include "ids.h"
#include "cprofd/record.h"

/* Keys of code objects whose address was reported. */
#define SEEN 4096u
__u64 seen[SEEN];

static __always_inline int py_seen(__u64 key)
{
	return seen[(__u32)(key >> 20) & (SEEN - 1)] == key;
}

#include "cprofd/pywalk.h"
#include "cprofd/dump.h"
#include "authorised.h"

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct task_struct___dump {
	unsigned int __state;
	int on_cpu;
	int exit_state;
	unsigned long nvcsw, nivcsw;
};
struct bpf_iter_meta {
	struct seq_file *seq;
};
struct bpf_iter__task {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
};
#pragma clang attribute pop

/* Written by the engine: the layout of the image. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 2);
	__type(key, struct image_key);
	__type(value, struct image);
} images SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, DUMP_SLOTS * 2);
	__type(key, __u32);
	__type(value, __u32);
} wanted SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, DUMP_SLOTS);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, struct dump_slot);
} slots SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct py_walk);
} walks SEC(".maps"); /* one for each CPU: the broker sets the number */

/* What the client was authorised for: the image and the rights that the iterator saw first, in a pass by the broker,
 * which then verifies that the process still runs what it opened, and authorises the client again. After an exec of the
 * target nothing more is reported, and nothing while its rights are others: while it is not dumpable, say. The broker
 * sets `state`: for a client that may read every process the image alone counts. `start` 0: nothing is pinned yet. */
const volatile __u32 target = 0;
struct target pinned;

static __always_inline int is_pinned(struct task_struct *task)
{
	struct task_struct *leader = task->group_leader;

	return pinned.start == leader->start_boottime && pinned.exec == task->self_exec_id &&
	       authorised_as(task, &pinned) == AUTHORISED_YES;
}

static __always_inline void fill_thread(struct dump_thread *to, struct task_struct *task)
{
	struct task_struct___dump *more = (void *)task;
	struct task_struct *leader = task->group_leader;

	to->tgid = task_tgid(task);
	to->tid = task_tid(task);
	to->process_start = leader->start_boottime;
	to->thread_start = task->start_boottime;
	to->exec = task->self_exec_id;
	to->state = more->__state;
	to->on_cpu = more->on_cpu;
	to->_pad = 0;
	to->switches = more->nvcsw + more->nivcsw;
	to->thread_pointer = thread_pointer(task);
	__builtin_memcpy(to->comm, task->comm, 16);
}

/* Claims the slot that waits for this thread. NULL: none. */
static __always_inline struct dump_slot *take_slot(__u32 tid)
{
	__u32 *number = bpf_map_lookup_elem(&wanted, &tid), n;
	struct dump_slot *slot;

	if (!number)
		return NULL;
	n = *number;
	slot = bpf_map_lookup_elem(&slots, &n);
	if (!slot || __sync_val_compare_and_swap(&slot->state, DUMP_WANTED, DUMP_BUSY) != DUMP_WANTED)
		return NULL;
	return slot;
}

static __always_inline void entry_registers(struct dump_slot *slot, struct task_struct *task)
{
	const struct pt_regs___entry *entry = entered_with(task);

	registers_of_entry(slot->regs, entry);
	host_barrier(slot);
}

/* Starts at a page boundary and copies whole pages: if the page behind the stack is absent, the last one of the
 * stack is not lost. */
static __always_inline void begin_stack(struct dump_slot *slot)
{
	slot->stack_at = slot->regs[UNWIND_SP] & ~4095ull;
	slot->stack_bytes = 0;
	slot->n_frames = 0;
	slot->loss = 0;
	slot->no_python = 0;
	slot->tries++;
}

/* --- the iterator --- */

SEC("iter.s/task")
int each_thread(struct bpf_iter__task *ctx)
{
	struct seq_file *seq = ctx->meta->seq;
	struct task_struct *task = ctx->task;
	struct dump_thread before, after;
	struct dump_slot *slot;
	__u32 i;

	if (!task || task_tgid(task) != target)
		return 0;
	if (!pinned.start)
		authorised_note(&pinned, task);
	if (!is_pinned(task) || ((struct task_struct___dump *)task)->exit_state || !task->mm)
		return 0;
	fill_thread(&before, task);
	bpf_seq_write(seq, &before, sizeof(before));
	if (before.on_cpu)
		return 0;
	slot = take_slot(before.tid);
	if (!slot)
		return 0;
	entry_registers(slot, task);
	begin_stack(slot);
	slot->how = DUMP_STILL;
	slot->in_kernel = 1;
	HOST_NO_UNROLL
	for (i = 0; i < DUMP_STACK_PAGES; i++) {
		if (bpf_copy_from_user_task(slot->stack + i * 4096, 4096,
					    (const void *)(slot->stack_at + i * 4096), task, 0))
			break;
		slot->stack_bytes = (i + 1) * 4096;
	}
	fill_thread(&after, task);
	slot->thread = after;
	/* Discard the copy if the thread ran: it was switched out since, or is still on a CPU. After exec it belongs
	 * to another image. */
	if (after.on_cpu || after.switches != before.switches || !is_pinned(task)) {
		slot->stack_bytes = 0;
		slot->state = DUMP_WANTED;
	} else {
		slot->state = DUMP_DONE;
	}
	return 0;
}

/* --- the tick of a running thread --- */

struct take_codes {
	struct py_walk *walk;
	struct dump_slot *slot;
};

static long take_code(__u32 i, void *context)
{
	struct take_codes *c = context;
	struct py_todo todo;
	__u32 n = c->slot->n_codes;

	if (i >= RECORD_CODES_PER_TICK || n >= DUMP_CODES)
		return 1;
	todo = c->walk->todo[i];
	c->slot->codes[n] = todo;
	c->slot->n_codes = n + 1;
	seen[(__u32)(todo.key >> 20) & (SEEN - 1)] = todo.key;
	return 0;
}

/* True: the stack is as complete as it can get. */
static __always_inline int walk_python(struct bpf_perf_event_data *ctx, struct task_struct *task,
				       struct dump_slot *slot, __u32 cpu)
{
	struct py_walk *walk = bpf_map_lookup_elem(&walks, &cpu);
	struct mm_struct *mm = task->mm;
	struct take_codes codes;
	struct image_key key = {};
	const struct image *image;

	if (!mm)
		return 1;
	key.arg_start = mm->arg_start;
	key.start_data = mm->start_data;
	image = bpf_map_lookup_elem(&images, &key);
	slot->no_python = 1;
	if (!walk || !image || !image->runtime)
		return 1;
	walk->thread_pointer = slot->thread.thread_pointer;
	walk->now = bpf_ktime_get_ns();
	walk->salt = py_mix(slot->thread.process_start, slot->thread.tgid | (__u64)slot->thread.exec << 32);
	walk->hint = 0;
	walk->hint_until = 0;
	walk->repairs = !slot->in_kernel;
	py_walk(walk, image, &slot->python);
	if (walk->repairs && walk->loss && walk->n < 2) {
		__u32 i;

		HOST_NO_UNROLL
		for (i = 0; i < PY_REGISTERS; i++)
			walk->registers[i] = slot->regs[i];
		py_walk_repair(walk, image, &slot->python);
	}
	slot->no_python = !walk->n_tstates;
	slot->n_frames = walk->n;
	slot->loss = walk->loss;
	codes = (struct take_codes){.walk = walk, .slot = slot};
	if (walk->n_todo)
		bpf_loop(walk->n_todo, take_code, &codes, 0);
	return !walk->loss && walk->n_todo < RECORD_CODES_PER_TICK;
}

SEC("perf_event")
int tick(struct bpf_perf_event_data *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u32 cpu = bpf_get_smp_processor_id(), i;
	struct dump_slot *slot;
	int whole;

	if (task_tgid(task) != target || !is_pinned(task))
		return 0;
	slot = take_slot(task_tid(task));
	if (!slot)
		return 0;
	slot->in_kernel = (__s64)PT_REGS_IP(&ctx->regs) < 0;
	if (slot->in_kernel)
		entry_registers(slot, task);
	else
		registers_of_tick(slot->regs, &ctx->regs);
	begin_stack(slot);
	slot->how = DUMP_TICK;
	HOST_NO_UNROLL
	for (i = 0; i < DUMP_STACK_PAGES; i++) {
		if (bpf_probe_read_user(slot->stack + i * 4096, 4096, (const void *)(slot->stack_at + i * 4096)))
			break;
		slot->stack_bytes = (i + 1) * 4096;
	}
	fill_thread(&slot->thread, task);
	whole = walk_python(ctx, task, slot, cpu) || slot->tries >= DUMP_TRIES;
	asm volatile("" ::: "memory");
	*(volatile __u32 *)&slot->state = whole ? DUMP_DONE : DUMP_WANTED;
	return 0;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
