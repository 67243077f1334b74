/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/* Off-CPU time: where each thread of the target left its CPU, how long it stayed off, and who woke it. Part of
 * sampler.bpf.c, after the tick; loaded in wall mode only.
 *
 * A switch between threads of other processes costs two comparisons (only_target) or bit tests (target_bits). A
 * thread of the target has a slot, found by its tid. Only the CPU that switches the thread writes to it, except for
 * the waker.
 *
 * The stack is taken as the thread leaves, while its registers and memory are its own. Ten thousand switches a
 * second are too many for that, so waits are grouped by location: the user's instruction and stack pointer and the
 * system call. A slot keeps the sums of a few locations. A thread has one stack taken per period; further waits
 * count for the stack that was taken last at their location. No time is lost: sums are exact to the ns, and are sent
 * (struct record_wait) once they reach a period, with each tick of the thread, and when it ends. What does not fit
 * into the ring stays in the sum. */
#pragma once

#define WAIT_SLOTS 4096u /* threads; 4-way sets */
#define WAIT_POINTS 8u
#define WAIT_BUDGET 4u    /* stacks of a thread: one a period, so many at once */
#define WAIT_RESERVE 64u  /* for new points and old stacks: one in four periods, so many at once */

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct bpf_iter__task {
	struct task_struct *task;
};
#pragma clang attribute pop

struct wait_point {
	__u64 key;          /* from wait_key(); 0: free */
	__u64 waited, ready; /* ns, not sent yet */
	__u64 begin;        /* of the last wait */
	__u64 arg;
	__s32 syscall;
	__u32 state;
	__u32 count;
	__u32 waker;
	__u32 args[2];
	__u64 taken;        /* when its stack was taken; 0: never */
};

struct wait_slot {
	__u64 thread;       /* the kernel's tgid << 32 | tid; 0: free */
	__u64 out;          /* when it left its CPU; 0: it is on one */
	__u64 in;           /* when it last got a CPU; 0: not known */
	__u64 woken;        /* when it was woken last */
	__u32 waker;
	__u32 at;           /* index in points[]: where it waits, or waited last */
	__u16 runs;         /* it was still runnable when it left (preempted) */
	__u16 hidden;       /* the client is not authorised for it; nothing else is here */
	__u32 turn;         /* the point that the next new key replaces */
	__u64 stay;         /* ns: length of the last wait, not in any sum yet */
	__u64 delay;        /* the thread's run_delay when it left */
	__u64 paid;         /* its budget of stacks is used up to this time (a token bucket) */
	__u64 reserved;     /* ... and its reserve */
	__u64 tstate;       /* its thread state when its last stack was taken, a hint; 0: not known */
	struct wait_point points[WAIT_POINTS];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); /* WAIT_SLOTS in wall mode */
	__type(key, __u32);
	__type(value, struct wait_slot);
} waits SEC(".maps");

/* Written by the broker. waits_since: switches are followed; waits_begin: time counts and stacks are taken (0: not
 * yet). Between the two, threads that leave their CPU become known. */
__u64 waits_since;
__u64 waits_begin;
__u64 waits_over;   /* switches are ignored from here on */
__u64 waits_skew;   /* CLOCK_MONOTONIC minus the scheduler's clock, ns */

#define TASK_DEAD 0x80u

static __always_inline __u64 wait_thread(const struct task_struct *task)
{
	return (__u64)task->tgid << 32 | (__u32)task->pid;
}

static __always_inline struct wait_slot *wait_find(__u64 thread)
{
	__u32 at = ((__u32)thread * 4) & (WAIT_SLOTS - 1), n;
	struct wait_slot *slot;

#pragma clang loop unroll(full)
	for (n = 0; n < 4; n++, at++) {
		slot = bpf_map_lookup_elem(&waits, &at);
		if (slot && slot->thread == thread)
			return slot;
	}
	return NULL;
}

static __always_inline struct wait_slot *wait_make(__u64 thread)
{
	__u32 at = ((__u32)thread * 4) & (WAIT_SLOTS - 1), n;
	struct wait_slot *slot;

#pragma clang loop unroll(full)
	for (n = 0; n < 4; n++, at++) {
		slot = bpf_map_lookup_elem(&waits, &at);
		/* Another CPU may claim it for another thread at the same time. */
		if (slot && !slot->thread && !__sync_val_compare_and_swap(&slot->thread, 0, thread))
			return slot;
	}
	return NULL;
}

/* `whole`: else only how long, not where. During exec, and until the broker has authorised the new image, no more
 * may be reported; but this must be, or the time until the next tick would be taken for CPU time. */
static __always_inline void wait_record(struct record_wait *to, const struct wait_point *point, struct task_struct *task,
					__u64 time, __u32 whole)
{
	fill_header(&to->header, RECORD_WAIT, sizeof(*to), task);
	to->header.time = time;
	to->key = whole || point->key == WAIT_KEY_RAN ? point->key : WAIT_KEY_BEFORE;
	to->waited = point->waited;
	to->ready = point->ready;
	to->begin = point->begin;
	to->count = point->count;
	to->waker = point->waker;
	to->arg = whole ? point->arg : 0;
	to->syscall = whole ? point->syscall : -1;
	to->state = point->state;
	to->args[0] = whole ? point->args[0] : 0;
	to->args[1] = whole ? point->args[1] : 0;
}

static __always_inline void wait_emitted(struct wait_point *point)
{
	point->waited = 0;
	point->ready = 0;
	point->count = 0;
}

/* Sends the sums to this CPU's sample ring. Interrupts must be off, as in a tick. */
static __always_inline void wait_emit(struct wait_point *point, struct task_struct *task, __u64 time)
{
	__u32 cpu = bpf_get_smp_processor_id();
	struct sample_ring *ring = bpf_map_lookup_elem(&samples, &cpu);
	__u64 head;
	int may;

	if (!ring)
		return;
	may = authorised(task, task_tgid(task));
	if (may == AUTHORISED_NO)
		return;
	head = ring->head;
	if (head + sizeof(struct record_wait) - *(volatile __u64 *)&ring->tail > SAMPLE_RING_BYTES)
		return;
	wait_record((struct record_wait *)(ring->data + (head & (SAMPLE_RING_BYTES - 1))), point, task, time, may == AUTHORISED_YES);
	wait_emitted(point);
	asm volatile("" ::: "memory");
	*(volatile __u64 *)&ring->head = head + sizeof(struct record_wait);
}

/* Total time that the thread waited for a CPU, as the kernel counts it when the thread comes back: known while it
 * runs. (sched_waking does not suffice: some wake-ups do not pass it.) */
static __always_inline __u64 wait_delay(struct task_struct *task)
{
	return bpf_core_field_exists(task->sched_info.run_delay) ? task->sched_info.run_delay : 0;
}

/* Adds the last wait to the sums of its point. */
static __always_inline void wait_settle(struct wait_slot *slot, struct task_struct *task)
{
	struct wait_point *point = &slot->points[slot->at & (WAIT_POINTS - 1)];
	__u64 delay = wait_delay(task), ready = delay - slot->delay;

	slot->delay = delay;
	if (slot->runs || ready > slot->stay)
		ready = slot->stay;
	point->ready += ready;
	point->waited += slot->stay - ready;
	slot->stay = 0;
}

/* The wait is over. */
static __always_inline void wait_back(struct wait_slot *slot, __u64 now)
{
	struct wait_point *point = &slot->points[slot->at & (WAIT_POINTS - 1)];
	__u64 out = slot->out;

	slot->out = 0;
	if (!out || !waits_begin)
		return;
	if (out < waits_begin)
		out = waits_begin;
	slot->stay = now > out ? now - out : 0;
	point->begin = out;
	point->count++;
	if (slot->woken >= out)
		point->waker = slot->waker;
}

/* The thread runs, but its switch to the CPU was not seen: some machines hide switches from processes of their own
 * from tracepoints. The scheduler recorded the time on its own clock; waits_skew, measured at switches that were
 * seen, converts it. */
static __always_inline void wait_missed(struct wait_slot *slot, struct task_struct *task, __u64 now)
{
	__u64 in = task->sched_info.last_arrival + waits_skew;

	wait_back(slot, waits_skew && in > slot->out && in < now ? in : now);
	slot->in = 0;
}

struct wait_context {
	struct wait_slot *slot;
	struct task_struct *task;
	__u64 time;
	__u32 to_ring;
};

static long wait_flush_round(__u32 i, void *context)
{
	struct wait_context *c = context;
	struct wait_point *point = &c->slot->points[i & (WAIT_POINTS - 1)];
	struct record_wait record;
	int may;

	if (!point->waited && !point->ready)
		return 0;
	if (!c->to_ring) {
		wait_emit(point, bpf_get_current_task_btf(), c->time);
		return 0;
	}
	may = authorised(c->task, task_tgid(c->task));
	if (may == AUTHORISED_NO)
		return 1;
	wait_record(&record, point, c->task, c->time, may == AUTHORISED_YES);
	if (!bpf_ringbuf_output(&ring, &record, sizeof(record), BPF_RB_NO_WAKEUP))
		wait_emitted(point);
	return 0;
}

/* Sends all sums of the current thread. `to_ring`: to the ring of events; interrupts may be on. */
__attribute__((noinline, weak)) int wait_flush(__u64 time, __u32 to_ring)
{
	struct wait_context c = {.time = time, .to_ring = to_ring, .task = bpf_get_current_task_btf()};

	c.slot = wait_find(wait_thread(c.task));
	if (!c.slot)
		return 0;
	c.slot->hidden = 0;
	if (c.slot->out)
		wait_missed(c.slot, c.task, time);
	wait_settle(c.slot, c.task);
	bpf_loop(WAIT_POINTS, wait_flush_round, &c, 0);
	return 0;
}

static __always_inline void wait_forget(struct wait_slot *slot)
{
	__builtin_memset(slot->points, 0, sizeof(slot->points));
	slot->out = 0;
	slot->in = 0;
	slot->stay = 0;
	slot->delay = 0;
	slot->woken = 0;
	slot->paid = 0;
	slot->reserved = 0;
	slot->tstate = 0;
}

/* Clears the slot and frees it. */
static __always_inline void wait_clear(struct wait_slot *slot)
{
	wait_forget(slot);
	slot->hidden = 0;
	asm volatile("" ::: "memory");
	slot->thread = 0;
}

/* The thread ends. */
static __always_inline void wait_end(struct task_struct *task, __u64 time)
{
	struct wait_slot *slot = wait_find(wait_thread(task));

	if (!slot)
		return;
	wait_flush(time, 1);
	wait_clear(slot);
}

/* May waits of the thread be followed? Of a process that the client may not read, not even sums are kept. That it was hidden
 * is: the time until it is seen again would be taken for what it ran, or for one wait. */
__attribute__((noinline, weak, visibility("hidden"))) int wait_allowed(struct task_struct *task, __u32 tgid)
{
	struct wait_slot *slot;

	if (authorised(task, tgid) != AUTHORISED_NO)
		return 1;
	slot = wait_find(wait_thread(task));
	if (!slot && !(task->flags & PF_EXITING))
		slot = wait_make(wait_thread(task));
	if (!slot || slot->hidden)
		return 0;
	wait_forget(slot);
	if (waits_begin) {
		slot->hidden = 1;
		emit_lost(task);
	}
	return 0;
}

/* --- woken --- */

/* The thread sleeps since before switches were followed: makes a slot that says so. A thread on a CPU makes its slot
 * itself. */
static __always_inline struct wait_slot *wait_slept(struct task_struct *task)
{
	struct wait_slot *slot;
	struct wait_point *point;

	if (task->on_cpu || task->flags & PF_EXITING || task->start_time > waits_since)
		return NULL;
	slot = wait_make(wait_thread(task));
	if (!slot)
		return NULL;
	point = &slot->points[0];
	point->key = WAIT_KEY_BEFORE;
	point->state = 1;
	point->syscall = -1;
	slot->at = 0;
	slot->turn = 1;
	slot->runs = 0;
	slot->out = waits_since;
	slot->delay = wait_delay(task);
	return slot;
}

/* --- back on a CPU --- */

static __always_inline void wait_in(struct task_struct *task, __u64 now)
{
	__u64 thread = wait_thread(task);
	struct wait_slot *slot = wait_find(thread);
	struct wait_point *point;

	if (!slot) {
		if (task->flags & PF_EXITING)
			return;
		slot = wait_make(thread);
		if (!slot)
			return;
		/* It neither left nor was woken while switches were followed: it was runnable all the time, or is
		 * new. */
		point = &slot->points[0];
		point->key = WAIT_KEY_RAN;
		point->syscall = -1;
		slot->turn = 1;
		slot->runs = 1;
		slot->delay = wait_delay(task);
		slot->out = task->start_time > waits_since ? task->start_time : waits_since;
	}
	slot->hidden = 0;
	slot->in = now;
	wait_back(slot, now);
}

/* --- off its CPU --- */

static __always_inline __u32 wait_fd_mode(struct task_struct *task, __u64 fd)
{
	struct file **files, *file = NULL;
	struct fdtable *table = BPF_CORE_READ(task, files, fdt);
	__u32 most = 0;

	bpf_core_read(&most, sizeof(most), &table->max_fds);
	if (!table || fd >= most)
		return 0;
	files = BPF_CORE_READ(table, fd);
	bpf_probe_read_kernel(&file, sizeof(file), files + fd);
	return file ? BPF_CORE_READ(file, f_inode, i_mode) : 0;
}

/* Of the current thread: a function of its own, because its caller has no stack left. */
__attribute__((noinline, weak)) __u32 wait_fd_mode_here(__u64 fd)
{
	return wait_fd_mode((struct task_struct *)bpf_get_current_task(), fd);
}

/* Where the current thread is in Python: 3.11 and later run functions that call each other at one place of the C stack. Of
 * a futex only the function, as the GIL is waited for anywhere in it. 0: not known. `tstate` is what is known of it, or 0. */
HOST_APART __u32 wait_python(__u64 now, __u64 tstate)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u32 cpu = bpf_get_smp_processor_id();
	struct cpu_scratch *own = bpf_map_lookup_elem(&scratch, &cpu);
	struct sample_ring *to = bpf_map_lookup_elem(&samples, &cpu);
	const struct thread_hint *hint;
	const struct image *image;
	__u64 frame = 0, at = 0;

	if (!own || !to)
		return 0;
	hint = thread_hint(own, task, now);
	if (!tstate)
		tstate = hint->tstate;
	image = tstate ? image_of(own, &hint->key, maps_of(to)) : NULL;
	if (!image)
		return 0;
	host_read(&frame, sizeof(frame), tstate + image->layout.tstate_frame);
	if (image->layout.frames == PY_FRAMES_CFRAME)
		host_read(&frame, sizeof(frame), frame + image->layout.cframe_current_frame);
	host_read(&at, sizeof(at), frame + ((__u32)syscall_number(entered_with(task)) == SYSCALL_FUTEX ? image->layout.frame_code : image->layout.frame_lasti));
	return (__u32)(py_mix(frame, at) >> 32);
}

/* After a stack of the current thread was taken: its thread state, for wait_python(). What a CPU keeps (hints[]) another thread
 * with the same id modulo HINTS may take, and other CPUs do not know. */
static __always_inline __u64 wait_tstate(const struct task_struct *task)
{
	__u32 cpu = bpf_get_smp_processor_id();
	const struct cpu_scratch *own = bpf_map_lookup_elem(&scratch, &cpu);

	return own ? own->hints[task->pid & (HINTS - 1)].tstate : 0;
}

HOST_APART int wait_taken(void)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct wait_slot *slot = wait_find(wait_thread(task));

	if (slot)
		slot->tstate = wait_tstate(task);
	return 0;
}

/* The upper half is of native code, the lower one of Python's. */
static __always_inline __u64 wait_key(const struct pt_regs___entry *regs, __u64 now, __u64 tstate)
{
	__u64 key = py_mix(py_mix(entry_pc(regs), entry_sp(regs)), (__u32)syscall_number(regs));

	if ((__u32)syscall_number(regs) == SYSCALL_FUTEX) /* which one */
		key = py_mix(key, syscall_arg0(regs));
	return (key & ~0xffffffffull) | 1ull << 63 | wait_python(now, tstate);
}

struct wait_capture {
	struct task_struct *task;
	__u64 now, key;
	struct wait_point *point;
	__u32 state;
};

/* At `now`, may a bucket that is used up to *used give a stack? It holds `most` of them, and gets one in each `period`. */
static __always_inline int wait_affords(__u64 *used, __u64 now, __u64 period, __u32 most)
{
	if (*used + most * period < now)
		*used = now - most * period;
	return *used + period <= now;
}

/* The index of this key's point in the slot, or WAIT_POINTS. Without a stack for it (`poor`) a point with the same native
 * code serves. Apart, as the verifier would go through all that follows once for each point. */
HOST_APART __u32 wait_find_point(const struct wait_slot *slot, __u64 key, __u32 poor)
{
	__u32 at, alike = WAIT_POINTS;

	if (!slot)
		return WAIT_POINTS;
	HOST_NO_UNROLL
	for (at = 0; at < WAIT_POINTS; at++) {
		if (slot->points[at].key == key)
			return at;
		if (poor && !((slot->points[at].key ^ key) >> 32))
			alike = at;
	}
	return alike;
}

/* The same; a new key replaces the oldest point, whose sums are sent first. */
static __always_inline __u32 wait_point(struct wait_slot *slot, __u64 key, struct task_struct *task, __u64 now, __u32 state, __u32 poor)
{
	__u32 at = wait_find_point(slot, key, poor);
	struct wait_point *point;

	if (at < WAIT_POINTS)
		return at;
	at = slot->turn++;
	host_barrier(at);
	at &= WAIT_POINTS - 1;
	point = &slot->points[at];
	if (point->waited | point->ready)
		wait_emit(point, task, now);
	point->key = key;
	point->taken = 0;
	point->waker = 0;
	point->arg = syscall_arg0(entered_with(task));
	point->args[0] = (__u32)syscall_arg1(entered_with(task));
	point->args[1] = (__u32)syscall_arg2(entered_with(task));
	point->syscall = (__s32)syscall_number(entered_with(task));
	point->state = state;
	return at;
}

/* Notes where the thread leaves. 1: take its stack. */
static __always_inline int wait_out(struct wait_capture *c)
{
	__u64 thread = wait_thread(c->task);
	struct wait_slot *slot = wait_find(thread);
	struct wait_point *point;
	__u32 cpu, budget, reserve, runs = !c->state;

	if (c->task->flags & PF_EXITING || c->state & TASK_DEAD)
		return 0;
	if (!slot)
		slot = wait_make(thread);
	if (!slot) {
		struct sample_ring *ring;

		cpu = bpf_get_smp_processor_id();
		ring = bpf_map_lookup_elem(&samples, &cpu);
		if (ring)
			count_loss(&ring->counts, LOSS_WAIT_SLOTS);
		return 0;
	}
	slot->hidden = 0;
	if (slot->out)
		wait_missed(slot, c->task, c->now);
	else if (slot->in)
		waits_skew = slot->in - c->task->sched_info.last_arrival;
	if (slot->stay) {
		point = &slot->points[slot->at & (WAIT_POINTS - 1)];
		wait_settle(slot, c->task);
		/* Send all of them: otherwise this one's time would be placed too early by what the others still
		 * hold. */
		if (point->waited + point->ready >= each_tick.tick_period)
			wait_flush(c->now, 0);
	} else {
		slot->delay = wait_delay(c->task);
	}
	c->key = runs ? WAIT_KEY_RAN : wait_key(entered_with(c->task), c->now, slot->tstate);
	/* One stack per period. A new point may take one of the reserve, and so may one without a stack for WAIT_POINTS
	 * periods: another call may wait there by now, for long, and must not get the old stack. */
	budget = wait_affords(&slot->paid, c->now, each_tick.tick_period, WAIT_BUDGET);
	reserve = wait_affords(&slot->reserved, c->now, 4ull * each_tick.tick_period, WAIT_RESERVE);
	slot->at = wait_point(slot, c->key, c->task, c->now, c->state, !(budget | reserve));
	slot->runs = runs;
	slot->out = c->now;
	point = &slot->points[slot->at & (WAIT_POINTS - 1)];
	if (!waits_begin)
		return 0;
	if (budget)
		slot->paid += each_tick.tick_period;
	else if (reserve && (!point->taken || c->now - point->taken >= WAIT_POINTS * each_tick.tick_period))
		slot->reserved += 4ull * each_tick.tick_period;
	else
		return 0;
	point->taken = c->now;
	c->point = point;
	return 1;
}

/* struct _gil_runtime_state to its end: two conditions and two mutexes (daemon/python/gil.h). */
#define WAIT_GIL_BYTES 208u

static __always_inline __u64 wait_holder(const struct image *image, struct task_struct *task)
{
	__u64 thread = 0, holder = gil_holder(image);
	__u32 native = ids_are_its_own(task) ? image->layout.tstate_native_thread_id : PY_ABSENT;

	if (holder)
		bpf_probe_read_user(&thread, sizeof(thread),
				    (const void *)(holder + (native == PY_ABSENT ? image->layout.tstate_thread_id : native)));
	return thread && native != PY_ABSENT ? thread | WAIT_TID : thread;
}

/* All but who holds the GIL. */
static __always_inline void wait_fill(struct part_wait *part, struct task_struct *task, __u64 key, __u32 state)
{
	const struct pt_regs___entry *regs = entered_with(task);

	part->part.kind = PART_WAIT;
	part->part.loss = 0;
	part->part.size = sizeof(*part);
	part->key = key;
	part->args[0] = syscall_arg0(regs);
	part->args[1] = syscall_arg1(regs);
	part->args[2] = syscall_arg2(regs);
	part->syscall = (__s32)syscall_number(regs);
	part->state = state;
	part->fd_mode = part->syscall >= 0 ? wait_fd_mode_here((__u32)syscall_arg0(regs)) : 0;
	part->flags = 0;
	part->holder = 0;
	part->own = thread_pointer(task);
}

static __always_inline __u32 wait_part(const struct wait_capture *c, const struct image *image, struct record_sample *record,
				       __u8 *base, __u32 size)
{
	__u64 state = image->gil;
	struct part_wait *part;

	host_barrier(size);
	if (size > SAMPLE_RECORD_MAX - sizeof(*part))
		return size;
	part = (struct part_wait *)(base + size);
	wait_fill(part, c->task, c->key, c->state);
	if (state && part->syscall == SYSCALL_FUTEX && part->args[0] - state < WAIT_GIL_BYTES) {
		part->flags = WAIT_FOR_GIL;
		part->holder = wait_holder(image, c->task);
	}
	record->parts++;
	return size + sizeof(*part);
}

/* --- at the start: threads that already sleep --- */

struct wait_asleep {
	struct record_sample sample;
	__u64 stack[sizeof(struct part_stack) / 8]; /* without bytes */
	struct part_wait wait;
};

/* Built here until the check below shows that the registers are still the target's. Static: only one iterator runs
 * at a time. */
static struct wait_asleep asleep;

/* Reports a thread that sleeps already, with the registers of its system call. The engine reads its memory itself
 * while it sleeps. */
static __always_inline void wait_first(struct task_struct *task)
{
	const struct pt_regs___entry *entry;
	struct wait_slot *slot;
	struct wait_asleep *to = &asleep;
	struct part_stack *stack;

	if (task->on_cpu || !task->__state || task->flags & PF_EXITING || !task->mm)
		return;
	slot = wait_find(wait_thread(task));
	__builtin_memset(&to->stack, 0, sizeof(to->stack) + sizeof(to->wait));
	fill_header(&to->sample.header, RECORD_SAMPLE, sizeof(*to), task);
	to->sample.cpu_time = task->sched_info.pcount;
	to->sample.flags = SAMPLE_IN_KERNEL | SAMPLE_OFF_CPU | SAMPLE_ASLEEP;
	to->sample.loss = 0;
	to->sample.parts = 2;
	entry = entered_with(task);
	stack = (struct part_stack *)to->stack;
	registers_of_entry(stack->regs, entry);
	stack->part.kind = PART_STACK;
	stack->part.size = sizeof(to->stack);
	stack->sp = entry_sp(entry);
	to->wait.part.kind = PART_WAIT;
	to->wait.part.size = sizeof(to->wait);
	to->wait.key = slot && slot->out ? slot->points[slot->at & (WAIT_POINTS - 1)].key : WAIT_KEY_BEFORE;
	to->wait.flags = WAIT_SEEN;
	to->wait.args[0] = syscall_arg0(entry);
	to->wait.args[1] = syscall_arg1(entry);
	to->wait.args[2] = syscall_arg2(entry);
	to->wait.syscall = (__s32)syscall_number(entry);
	to->wait.state = task->__state;
	to->wait.fd_mode = to->wait.syscall >= 0 ? wait_fd_mode(task, (__u32)syscall_arg0(entry)) : 0;
	to->wait.own = thread_pointer(task);
	/* It may have run meanwhile, and execute another image by now. */
	if (authorised(task, task_tgid(task)) == AUTHORISED_YES)
		bpf_ringbuf_output(&ring, to, sizeof(*to), BPF_RB_NO_WAKEUP);
}

/* --- at the end: what is left in the slots --- */

/* Sends all remaining sums of a thread, on a CPU or not. Slots do not change any more: waits_over is set. */
static __always_inline void wait_last(struct task_struct *task)
{
	struct wait_context c = {.time = bpf_ktime_get_ns(), .to_ring = 1, .task = task};
	struct wait_point *point;
	__u64 out;

	c.slot = wait_find(wait_thread(task));
	if (!c.slot)
		return;
	if (c.slot->stay) {
		wait_settle(c.slot, task);
	} else if (c.slot->out && waits_begin) {
		point = &c.slot->points[c.slot->at & (WAIT_POINTS - 1)];
		out = c.slot->out < waits_begin ? waits_begin : c.slot->out;
		point->begin = out;
		point->count++;
		if (c.slot->runs)
			point->ready += c.time - out;
		else if (c.slot->woken >= out && c.slot->woken < c.time) {
			point->waited += c.slot->woken - out;
			point->ready += c.time - c.slot->woken;
		} else
			point->waited += c.time - out;
	}
	bpf_loop(WAIT_POINTS, wait_flush_round, &c, 0);
}
