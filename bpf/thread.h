/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/* Facts about the current thread: which image it runs, what earlier samples found, whether it is exiting. Each CPU
 * caches HINTS threads in a plain array (struct cpu_scratch), so that most ticks need no hash map lookup. Part of
 * sampler.bpf.c, after its maps and helpers. */
#pragma once

/* Exiting tasks that still exist, by address. A task runs on for a while after its exit event. That time, and what
 * it ran since the last scheduler tick, is in sum_exec_runtime only after it has left its CPU for good. */
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

/* tgid << 32 | tid of an exiting task. 0: not in the map, which holds only tasks that the client was allowed to
 * read. The start time is compared as well, because the address may have been reused if the free was missed. */
IDS_APART __u64 leaving_ids(struct task_struct *task)
{
	__u64 key = (__u64)task;
	const struct leaving *leaving = bpf_map_lookup_elem(&leavings, &key);

	return leaving && leaving->thread_start == task->start_boottime ? (__u64)leaving->tgid << 32 | leaving->tid : 0;
}

/* Read again at each use: on_switch has no stack left for it (6.1). */
static __always_inline __u64 maps_of(const struct sample_ring *to)
{
	return *(volatile const __u64 *)&to->captured_locals.maps;
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

/* Cached facts about the thread. Read again for another thread or after exec, and every KEY_NS, because a process
 * may move its arguments (arg_start). */
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
		hint->tstate = hint->until = hint->cframe = hint->caller = hint->shim = hint->valued = 0;
	}
	mm = BPF_CORE_READ(task, mm);
	hint->key.arg_start = BPF_CORE_READ(mm, arg_start);
	hint->key.start_data = BPF_CORE_READ(mm, start_data);
	hint->process_start = BPF_CORE_READ(task, group_leader, start_boottime);
	if (nested) {
		own->ids[task->pid & (HINTS - 1)].tgid = task_tgid(task);
		own->ids[task->pid & (HINTS - 1)].tid = task_tid(task);
	}
	/* During exec both are 0 for a moment: do not cache them. */
	hint->key_until = hint->key.arg_start && hint->key.start_data ? now + KEY_NS : 0;
	return hint;
}

static __always_inline void fill_registers(__u64 *to, struct task_struct *task)
{
	const struct pt_regs___entry *from = entered_with(task);

	bpf_probe_read_kernel(to, ENTRY_GENERAL * 8, entry_general(from));
	to[ENTRY_GENERAL] = 0;
}

/* The thread state that holds the GIL (struct _gil_runtime_state, daemon/python/gil.h), or 0. A function of its own,
 * because its callers have no stack left. */
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
