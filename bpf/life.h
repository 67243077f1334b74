/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/* The lifecycle of processes: fork, exec, exit, and new mappings. Part of sampler.bpf.c.
 *
 * Raw tracepoints, whose arguments are untyped words: with typed ones (tp_btf), libbpf and the verifier search the
 * kernel's whole BTF. Each runs in the thread that it reports, or in its parent. */
#pragma once

/* Threads and processes that live no longer than a period are sampled by the clocks of CPUs only: the engine turns
 * these on when births begin. */
__u64 born; /* CLOCK_MONOTONIC ns: when the engine was woken for one */
__u64 started; /* ... for a program that began (host) */

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

/* A process for which its parent does not wait is not freed. So each birth and exit checks the last tasks that
 * exited: one that is dead and on no CPU has its final CPU time. CPUs race for entries here; one that gets lost is
 * reported when it is freed. */
#define DEAD_KEPT 512u
#define DEAD_AT_ONCE 4
__u64 dead_tasks[DEAD_KEPT];
__u32 dead_first, dead_end;

static __always_inline void dead_add(__u64 key)
{
	dead_tasks[dead_end & (DEAD_KEPT - 1)] = key;
	dead_end++;
}

static __always_inline void dead_emit(__u64 key)
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

/* A function of its own: on_exit has no stack left for it (6.1). */
HOST_APART int dead_emit_some(void)
{
	__u32 i, end = dead_end;

	if (end - dead_first > DEAD_KEPT)
		dead_first = end - DEAD_KEPT;
	for (i = 0; i < DEAD_AT_ONCE && dead_first != end; i++)
		dead_emit(dead_tasks[dead_first++ & (DEAD_KEPT - 1)]);
	return 0;
}

SEC("raw_tp/sched_process_fork")
int BPF_PROG(on_fork, struct task_struct *from, struct task_struct *child)
{
	struct task_struct *parent = bpf_get_current_task_btf();
	__u32 parent_tgid = task_tgid(parent), tgid = child_tgid(child);
	const struct target *as = is_other(parent_tgid) ? NULL : bpf_map_lookup_elem(&targets, &parent_tgid);
	struct target of_child;
	struct record_fork fork = {};
	struct record_event clone = {};
	int allowed;

	if (!as)
		return 0;
	dead_emit_some();
	if (tgid == parent_tgid) {
		if (authorised_as(parent, as) == AUTHORISED_NO)
			return 0;
		fill_child(&clone.header, RECORD_CLONE, sizeof(clone), child);
		clone.old_tid = task_tid(parent);
		bpf_ringbuf_output(&ring, &clone, sizeof(clone), birth_flags());
		return 0;
	}
	if (!follow_children)
		return 0;
	if (wall)
		__sync_fetch_and_or(&target_bits[(tgid & (TARGET_BITS - 1)) / 64], 1ull << (tgid & 63));
	/* The child runs its parent's image, if that is the one that was authorised. */
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

/* Memory without a file: unwind tables for it cannot be made in time. Code that a JIT writes there is found by a
 * sample, or by the next poll. */
static __always_inline int is_anonymous(struct task_struct *task)
{
	const struct pt_regs___entry *regs = entered_with(task);

	return syscall_number(regs) == SYSCALL_MMAP && syscall_arg3(regs) & 0x20 /* MAP_ANONYMOUS */;
}

/* The kernel chose an address for a new mapping: code that was there before is gone. Mappings at a fixed address are
 * not reported: the remaining segments of a library go into the range that was found for all of it. */
SEC("?raw_tp/vm_unmapped_area")
int BPF_PROG(on_map, unsigned long address, struct vm_unmapped_area_info *info)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct record_map map = {};
	__u64 now, flags = BPF_RB_NO_WAKEUP;

	if ((__s64)address <= 0 || is_other(task_tgid(task)) || authorised(task, task_tgid(task)) != AUTHORISED_YES)
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

/* CPU time of the current thread until now. sum_exec_runtime has it only up to the last scheduler tick: for a
 * process that forks and at once execs, often nothing. A thread that never slept ran whenever it did not wait for a
 * CPU. */
#define SCHEDULER_TICK_MOST 10000000ull /* ns */
static __always_inline __u64 ran_until(struct task_struct *task, __u64 now)
{
	__u64 seen = task->se.sum_exec_runtime, ran = now - task->start_time - wait_delay(task);

	return task->nvcsw || ran < seen || ran > seen + SCHEDULER_TICK_MOST ? seen : ran;
}

/* Of a session of a host, whose client is root. What a program is the engine finds out; until then it is not sampled. */
static __always_inline void emit_started(struct task_struct *task, struct linux_binprm *bprm)
{
	struct record_started record = {};
	struct inode *inode = BPF_CORE_READ(bprm, file, f_inode);
	__u64 flags = BPF_RB_NO_WAKEUP;

	fill_header(&record.header, RECORD_STARTED, sizeof(record), task);
	if (!record.header.task.tgid) /* of a namespace above */
		return;
	record.cpu_time = ran_until(task, record.header.time);
	record.inode = BPF_CORE_READ(inode, i_ino);
	record.device = BPF_CORE_READ(inode, i_sb, s_dev);
	if (record.header.time - started > SCHEDULE_STARTED_NS) {
		started = record.header.time;
		flags = BPF_RB_FORCE_WAKEUP;
	}
	bpf_ringbuf_output(&ring, &record, sizeof(record), flags);
}

static __always_inline void emit_exec(struct task_struct *task, __u32 tgid, int old_pid)
{
	struct record_event event = {};

	fill_header(&event.header, RECORD_EXEC, sizeof(event), task);
	event.cpu_time = ran_until(task, event.header.time);
	if (authorised(task, tgid) == AUTHORISED_NO) {
		event.flags = EVENT_LOST;
		watched_forget(); /* it is not told when another's program was back */
	}
	if (authorised_dumpable((struct mm_struct *)BPF_CORE_READ(task, mm)) != DUMPABLE_USER)
		event.flags |= EVENT_UNTIMED;
	/* The tracepoint passes the kernel's id. The old thread no longer exists, so cprofd's id for it cannot be
	 * found. */
	event.old_tid = !nested ? (__u32)old_pid : old_pid == task->pid ? task_tid(task) : 0;
	if (host) {
		event.flags = EVENT_LOST;
		bpf_map_delete_elem(&targets, &tgid);
	}
	bpf_ringbuf_output(&ring, &event, sizeof(event), BPF_RB_FORCE_WAKEUP);
}

SEC("raw_tp/sched_process_exec")
int BPF_PROG(on_exec, struct task_struct *who, int old_pid, struct linux_binprm *bprm)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u32 tgid = task_tgid(task);

	if (is_target(tgid))
		emit_exec(task, tgid, old_pid);
	if (host)
		emit_started(task, bprm);
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
	/* signal->live was already decremented when the tracepoint fires. */
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
		dead_emit_some();
	}
	bpf_ringbuf_output(&ring, &event, sizeof(event), dead ? BPF_RB_FORCE_WAKEUP : BPF_RB_NO_WAKEUP);
	if (allowed)
		dead_add(key); /* after its exit event */
	if (dead) {
		bpf_map_delete_elem(&targets, &tgid);
		if (each_tick.any_target == (int)tgid)
			each_tick.any_target = 0;
	}
	return 0;
}
