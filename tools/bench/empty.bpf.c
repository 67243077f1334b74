/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/* The programs to compare with: a tick that does nothing, a switch that does nothing, and a switch and a wake-up that look whose they are. */
#include <linux/types.h>
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>

SEC("perf_event")
int empty(void *ctx)
{
	return 0;
}

struct task_struct {
	int tgid;
} __attribute__((preserve_access_index));

SEC("tp_btf/sched_switch")
int BPF_PROG(empty_switch, _Bool preempt, struct task_struct *prev, struct task_struct *next)
{
	return 0;
}

volatile int target, seen;

SEC("tp_btf/sched_switch")
int BPF_PROG(filter_switch, _Bool preempt, struct task_struct *prev, struct task_struct *next)
{
	if (prev->tgid == target || next->tgid == target)
		seen++;
	return 0;
}

SEC("tp_btf/sched_waking")
int BPF_PROG(filter_waking, struct task_struct *task)
{
	if (task->tgid == target)
		seen++;
	return 0;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
