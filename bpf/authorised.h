/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/* Is the process still the one that the client was authorised for? Checked before anything of it is read, and once
 * more afterwards if the thread is not the current one.
 *
 * exec sets mm first, then self_exec_id, then the credentials (begin_new_exec, fs/exec.c). A new mm is refused at
 * once, so the order of the other two does not matter; an mm that was allocated at the same address comes with
 * another self_exec_id. Credentials are per thread. Pointers are followed by probe reads only, because the verifier
 * does not trust every task that a tracepoint passes. */
#pragma once

#include "kernel.h"
#include "cprofd/host.h"
#include "cprofd/target.h"

enum authorised {
	AUTHORISED_NO,
	/* Another image with the same rights: the process ran exec, and the broker has not authorised it again yet.
	 * That it runs and for how long may be reported, but no address. */
	AUTHORISED_RIGHTS,
	AUTHORISED_YES,
};

#define MMF_DUMPABLE 3u

static __always_inline __u64 authorised_dumpable(struct mm_struct *mm)
{
	const struct mm_struct___word *word = (const void *)mm;
	const struct mm_struct___set *set = (const void *)mm;
	__u64 flags = 0;

	if (bpf_core_field_exists(set->flags))
		bpf_probe_read_kernel(&flags, sizeof(flags), __builtin_preserve_access_index(&set->flags));
	else
		bpf_probe_read_kernel(&flags, sizeof(flags), __builtin_preserve_access_index(&word->flags));
	return flags & MMF_DUMPABLE;
}

#define DUMPABLE_USER 1u /* SUID_DUMP_USER */

/* Fills everything but the state; the broker is the current process. */
static __always_inline void authorised_note(struct target *to, struct task_struct *task)
{
	struct task_struct *broker = (struct task_struct *)bpf_get_current_task();
	struct cred *own = (struct cred *)BPF_CORE_READ(broker, real_cred), *cred = (struct cred *)BPF_CORE_READ(task, real_cred);

	to->start = BPF_CORE_READ(task, group_leader, start_boottime);
	to->mm = (__u64)BPF_CORE_READ(task, mm);
	to->exec = BPF_CORE_READ(task, self_exec_id);
	to->user_ns = (__u64)BPF_CORE_READ(cred, user_ns);
	bpf_probe_read_kernel(&to->capabilities, sizeof(to->capabilities), &cred->cap_permitted);
	bpf_probe_read_kernel(to->ids, sizeof(to->ids), &cred->uid);
	to->dumpable = authorised_dumpable((struct mm_struct *)to->mm);
	to->hides = to->dumpable != DUMPABLE_USER && to->user_ns == (__u64)BPF_CORE_READ(own, user_ns);
}

/* A function of its own, because its callers have no stack left. "hidden": the verifier then checks it only where it
 * is called. */
__attribute__((noinline, weak, visibility("hidden"))) int authorised_same(struct task_struct *task, const struct target *as)
{
	struct cred *cred = (struct cred *)BPF_CORE_READ(task, real_cred);
	__u64 mm, word, differ = 0;
	__u32 i;

	if (BPF_CORE_READ(task, group_leader, start_boottime) != as->start || (__u64)BPF_CORE_READ(cred, user_ns) != as->user_ns)
		return AUTHORISED_NO;
	if (bpf_probe_read_kernel(&word, sizeof(word), &cred->cap_permitted) || word != as->capabilities)
		return AUTHORISED_NO;
	/* One branch for all: the verifier goes through what follows, and its callers, once for each way out. */
#pragma clang loop unroll(full)
	for (i = 0; i < 4; i++) {
		differ |= bpf_probe_read_kernel(&word, sizeof(word), (const __u64 *)&cred->uid + i);
		differ |= word ^ as->ids[i];
		host_barrier(differ);
	}
	if (differ)
		return AUTHORISED_NO;
	mm = (__u64)BPF_CORE_READ(task, mm);
	/* An exiting thread releases its mm, and cannot run exec any more. */
	if (!mm)
		return as->mm && BPF_CORE_READ(task, self_exec_id) == as->exec ? AUTHORISED_YES : AUTHORISED_NO;
	if (authorised_dumpable((struct mm_struct *)mm) != as->dumpable)
		return AUTHORISED_NO;
	return mm == as->mm && BPF_CORE_READ(task, self_exec_id) == as->exec ? AUTHORISED_YES : AUTHORISED_RIGHTS;
}

static __always_inline int authorised_as(struct task_struct *task, const struct target *as)
{
	if (!as)
		return AUTHORISED_NO;
	return as->state == TARGET_ANY ? AUTHORISED_YES : authorised_same(task, as);
}
