/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/* The kernel types that the programs access, declared by hand: only the fields used. CO-RE relocation sets their
 * offsets for the running kernel (6.1 and later). */
#pragma once

#include <linux/types.h>
#include <linux/bpf.h>
#include <linux/bpf_perf_event.h>
#include <stddef.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>

#include "arch/x86_64.h"

#define EFAULT 14
#define PF_EXITING 4u

/* Follow pointers of kernel structures with BPF_CORE_READ(): for each `->` the verifier of a newer kernel searches
 * its whole BTF for trusted types, some four times, which takes 2 ms. */

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct mm_struct {
	unsigned long arg_start, start_data, start_stack;
};

/* Its flags: one word, since 6.18 a bitmap. */
struct mm_struct___word {
	unsigned long flags;
};

struct mm_struct___set {
	struct {
		unsigned long __mm_flags[1];
	} flags;
};

struct user_namespace;

/* uid to fsgid are eight adjacent numbers. */
struct cred {
	struct {
		unsigned int val;
	} uid;
	struct {
		unsigned long long val;
	} cap_permitted; /* 8 bytes, whatever their type */
	struct user_namespace *user_ns;
};

struct rq {
	unsigned long long clock;
};

struct cfs_rq {
	struct rq *rq;
};

struct sched_entity {
	__u64 sum_exec_runtime;
	struct cfs_rq *cfs_rq;
};

struct sched_info {
	unsigned long pcount;
	unsigned long long run_delay;
	unsigned long long last_arrival;
};

struct atomic_int {
	int counter;
};

struct signal_struct {
	struct {
		int counter;
	} live;
};

struct pid_namespace;

struct upid {
	int nr;
	struct pid_namespace *ns;
};

struct pid {
	unsigned int level;
	struct upid numbers[1]; /* one per namespace, from the initial one inwards */
};

struct task_struct {
	int pid, tgid;
	struct pid *thread_pid;
	unsigned int flags;
	int on_cpu;
	unsigned int __state;
	__u32 self_exec_id;
	int exit_code;
	struct task_struct *group_leader;
	struct signal_struct *signal;
	struct mm_struct *mm;
	const struct cred *real_cred;
	__u64 start_boottime, start_time;
	unsigned long nvcsw;
	struct files_struct *files;
	char comm[16];
	struct sched_entity se;
	struct sched_info sched_info;
	struct thread_struct thread;
};

struct super_block {
	unsigned int s_dev;
};

struct inode {
	unsigned short i_mode;
	unsigned long i_ino;
	struct super_block *i_sb;
};

struct file {
	struct inode *f_inode;
};

struct fdtable {
	unsigned int max_fds;
	struct file **fd;
};

struct files_struct {
	struct fdtable *fdt;
};

struct linux_binprm {
	struct file *file;
};

struct vm_unmapped_area_info {
	unsigned long length;
};

#pragma clang attribute pop
