/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/* The native stack of a sample: runs the unwinder of unwind.h with the tables that the engine wrote, from the
 * registers that the thread had in user space. Included by sampler.bpf.c only. */
#pragma once

/* What the session requested: 0 nothing, 1 the innermost program counter, 2 the stack. Constant for the verifier,
 * which drops the unused code. */
const volatile __u32 native = 0;
#define NATIVE_LEAF 1u
#define NATIVE_FULL 2u

#include "pools.h"
#include "cprofd/unwind_past.h"

/* Written by the engine. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, struct native_key);
	__type(value, struct unwind_process);
} processes SEC(".maps");

#define NATIVE_PASTS 8u /* threads that a CPU remembers, by the low bits of the tid */
struct native_scratch {
	struct native_key key; /* of the last process that was sampled here */
	__u64 maps;            /* locals_captures.maps at that time */
	struct unwind_process process;
	struct unwind_fast unwind;
	struct unwind_past pasts[NATIVE_PASTS];
};

__u64 mapped_at; /* time of the last mapping by a target */

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_MMAPABLE); /* page-aligned values: the window has the alignment of its addresses */
	__type(key, __u32);
	__type(value, struct native_scratch);
} natives SEC(".maps");

/* struct part_native_frames at its largest. */
struct native_out {
	struct record_part part;
	__u32 n;
	__u32 flags;
	struct unwind_pcs pcs;
};
_Static_assert(UNWIND_FRAMES == RECORD_NATIVE_FRAMES_MAX, "as in record.h");

struct native_context {
	struct unwind_fast *unwind;
	struct unwind_past *past;
	struct native_out *out;
	int result;
};

static long native_round(__u32 i, void *context)
{
	struct native_context *c = context;

	c->result = unwind_round(c->unwind, c->past, &c->out->pcs, &c->out->n);
	return c->result != UNWIND_UP;
}

/* Walks from the registers to the thread's entry function. */
__attribute__((noinline, weak)) int native_walk(struct unwind_fast *unwind, struct unwind_past *past, struct native_out *out)
{
	struct native_context c = {.unwind = unwind, .past = past, .out = out, .result = UNWIND_UP};

	if (!unwind || !past || !out)
		return 0;
	out->n = 0;
	out->flags = 0;
	bpf_loop(RECORD_NATIVE_FRAMES_MAX + 2 * UNWIND_PAST, native_round, &c, 0);
	if (c.result == UNWIND_UP)
		c.result = LOSS_NATIVE_DEPTH;
	if (c.result == UNWIND_END) {
		out->flags = NATIVE_WHOLE;
		c.result = LOSS_NONE;
	}
	out->part.loss = c.result;
	return 0;
}

/* The user registers are where the thread entered the kernel, by the tick or before. For a tick in user space the
 * registers of the tick are the same, and cheaper: loads of kernel memory through a pointer are checked at run time. */
static __always_inline void native_registers(struct unwind_state *s, struct bpf_perf_event_data *ctx,
					     struct task_struct *task, __u32 in_kernel)
{
	const struct pt_regs___entry *entry;

	s->known = (1u << UNWIND_REGISTERS) - 1;
	s->exact = 1;
	if (in_kernel) {
		entry = entered_with(task);
		registers_of_entry(s->regs, entry);
		/* Otherwise clang merges the loads of both branches into one from an address that the verifier
		 * cannot follow. */
		host_barrier(s);
	} else {
		registers_of_tick(s->regs, &ctx->regs);
	}
}

#include "stack_copy.h"

static __always_inline void native_process(struct native_scratch *own, const struct image_key *image,
					   __u32 tgid, __u64 maps)
{
	struct native_key key = {.image = *image, .tgid = tgid};
	const struct unwind_process *process;

	if (own->key.image.arg_start == image->arg_start && own->key.image.start_data == image->start_data &&
	    own->key.tgid == tgid && own->maps == maps)
		return;
	own->key = key;
	own->maps = maps;
	process = bpf_map_lookup_elem(&processes, &key);
	if (!process) {
		key.tgid = 0;
		process = bpf_map_lookup_elem(&processes, &key);
	}
	own->process.list = process ? process->list : 0;
	own->process.salt = process ? process->salt : 0;
}

static __always_inline struct unwind_past *native_past(struct native_scratch *own, const struct record_sample *record)
{
	return &own->pasts[record->header.task.tid & (NATIVE_PASTS - 1)];
}

/* Looked up by each function that needs it, which is cheap: on_switch has no stack left for it (6.1). */
static __always_inline struct native_scratch *native_own(void)
{
	__u32 cpu = bpf_get_smp_processor_id();

	return bpf_map_lookup_elem(&natives, &cpu);
}

/* What was read of the thread's C stack; NULL: nothing. */
static __always_inline const struct host_window *py_stack(void)
{
	struct native_scratch *own = native == NATIVE_FULL ? native_own() : NULL;

	return own ? &own->unwind.state.window : NULL;
}

/* Called before the Python walk, which uses the stack bytes read here. `off`: the thread is leaving its CPU, and ctx
 * is NULL. */
static __always_inline void native_begin(struct bpf_perf_event_data *ctx, struct task_struct *task, const struct image_key *image,
					 const struct record_sample *record, __u64 maps, int off)
{
	struct native_scratch *own = native_own();

	if (!own)
		return;
	native_registers(&own->unwind.state, ctx, task, off || record->flags & SAMPLE_IN_KERNEL);
	if (native == NATIVE_LEAF)
		return;
	native_process(own, image, record->header.task.tgid, maps);
	unwind_fast_begin(&own->unwind, native_past(own, record), own->process.list, own->process.salt);
	unwind_touch(&own->unwind.state, own->unwind.state.regs[UNWIND_PC]);
	unwind_fast_read(&own->unwind);
}

/* Writes the part at record + size; returns the record's new size. */
static __always_inline __u32 native_part(struct record_sample *record, __u8 *base, __u32 size, struct sampler_counts *counts)
{
	struct native_scratch *own = native_own();
	struct native_out *out;
	__u32 loss = 0, frames;

	host_barrier(size);
	if (!own || size > sizeof(struct py_out))
		return size;
	out = (struct native_out *)(base + size);
	if (native == NATIVE_LEAF) {
		out->pcs.pc[0] = own->unwind.state.regs[UNWIND_PC] | NATIVE_EXACT;
		out->n = 1;
		out->flags = 0;
		out->part.loss = 0;
	} else {
		native_walk(&own->unwind, native_past(own, record), out);
		/* No list: the engine has not prepared tables for this process yet. */
		if (!own->process.list)
			out->part.loss = LOSS_NATIVE_PENDING;
		loss = out->part.loss;
		if (loss)
			count_loss(counts, loss);
	}
	out->part.kind = PART_NATIVE_FRAMES;
	frames = out->n;
	if (frames > RECORD_NATIVE_FRAMES_MAX)
		frames = RECORD_NATIVE_FRAMES_MAX;
	frames = 16 + frames * 8;
	out->part.size = frames;
	record->parts = 2;
	size += frames;
	if (loss || stack_copy == STACK_COPY_ALWAYS)
		size = stack_part(record, base, size, loss, &own->unwind.state, counts);
	return size;
}
