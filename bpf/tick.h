/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/* The program `sample` runs at a tick of a clock, on the thread that the tick interrupted. Three steps: is this tick a
 * sample (is_due), write the stack as a record (take), wake the engine if needed (wake). take() also serves threads that
 * leave their CPU (switches.h). Part of sampler.bpf.c. */
#pragma once

/* Something urgent for the engine to read from the target's memory: values that were not sampled recently, new code
 * objects (their frames may have values), a copied stack. Wake-ups are limited, because those without work cost the
 * engine the most. */
#define CROWD_BYTES (SAMPLE_RING_BYTES / 4)

static __always_inline int is_seen(const struct cpu_scratch *own, const struct sample_ring *to)
{
	return (__s64)(to->polled - own->fresh_at) > (__s64)SCHEDULE_FRESH_NS;
}

static __always_inline void wake(struct cpu_scratch *own, const struct sample_ring *to, __u64 head, __u64 now, int fresh)
{
	__s64 since = now - each_tick.woken;
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
	each_tick.woken = now;
	own->fresh_at = 0;
	record = bpf_ringbuf_reserve(&ring, sizeof(*record), 0);
	if (!record)
		return;
	*record = (struct record_wake){.size = sizeof(*record), .kind = RECORD_WAKE};
	bpf_ringbuf_submit(record, BPF_RB_FORCE_WAKEUP);
}

/* The round in which code objects are sent: what was sent before is sent again. Mixed, so that it equals no other's key. */
static __always_inline void codes_round(struct py_walk *walk, const struct sample_ring *to)
{
	__u64 round = to->captured_locals.codes * 0x9e3779b97f4a7c15ull;

	if (walk->round != round)
		walk->round = seen_round = round;
}

/* While a CPU's own clock ticks, ticks of threads' clocks are ignored there; it counts as gone after this time. */
#define CLOCK_LATE 8 /* periods */

/* Decides at random which ticks of a thread's clock become samples. The clock's period was drawn at random when it
 * was opened, somewhat shorter than requested; skipping one tick in five to twenty gives the requested rate. So no
 * program's loop can be in step with the samples. Never skips two in a row, because a thread without samples for
 * long counts as waiting (daemon/attribution/). The choice does not depend on what a tick would sample; `owed`
 * corrects the long-term rate a little. */
#define OWED_PART 5 /* log2: the part of the debt that one tick corrects */
static __always_inline int is_chosen(struct cpu_scratch *own, __u64 period)
{
	__s64 asked = each_tick.clock_period, drawn;
	__u64 chance = own->chance;
	int chosen;

	if (!chance)
		chance = bpf_get_prandom_u32() + 1ull;
	chance ^= chance << 13;
	chance ^= chance >> 7;
	chance ^= chance << 17;
	own->chance = chance;
	drawn = (chance >> 32) * period >> 32;
	chosen = own->skipped || drawn >= asked - (__s64)period - (own->owed >> OWED_PART);

	own->skipped = !chosen;
	own->owed += (__s64)period - (chosen ? asked : 0);
	return chosen;
}

/* The rate of a session may be lowered while clocks tick as before: those of threads are inherited, which cannot be set anew. One tick
 * is taken after half a period to one and a half, at random. */
static __always_inline int is_kept(struct cpu_scratch *own)
{
	__u64 period = each_tick.tick_period;

	if (period == each_tick.clock_period)
		return 1;
	own->until_kept -= each_tick.clock_period;
	if (own->until_kept > 0)
		return 0;
	own->until_kept += period / 2 + (bpf_get_prandom_u32() * period >> 32);
	return 1;
}

/* Is this tick a sample of the thread that it interrupted? A CPU's clock ticks on whatever runs there. Or the thread
 * leaves its CPU (own->leaves). */
static __always_inline int is_due(struct bpf_perf_event_data *ctx, struct cpu_scratch *own, struct task_struct *task)
{
	__u64 period = ctx->sample_period;

	own->leaves = !wall && period == CLOCK_OF_SWITCH;
	if (own->leaves) {
		own->searches = watched_leaves(bpf_ktime_get_ns());
		return own->searches != 0;
	}
	if (!wall && each_tick.asleep && *watched_sleepers(task))
		watched_back(bpf_ktime_get_ns());
	if (period & CLOCK_OF_CPU) {
		__u32 tgid = task_tgid(task);

		own->clock_at = bpf_ktime_get_ns();
		if (!task->pid || is_other(tgid))
			return 0;
		return (bpf_map_lookup_elem(&targets, &tgid) || (task->flags & PF_EXITING && leaving_ids(task))) && is_kept(own);
	}
	if (own->clock_at && bpf_ktime_get_ns() - own->clock_at < CLOCK_LATE * period)
		return 0;
	own->clock_at = 0;
	return is_chosen(own, period) && is_kept(own);
}

/* Writes the stack of the current thread as a record: at a tick, or (`off`) as the thread leaves its CPU, when ctx
 * is NULL. Inlined into each program, where either ctx or `off` is NULL at compile time. 1: no record was written. */
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
						sizeof(struct values_out) + SAMPLE_OBJECTS_BYTES + (off || !wall ? sizeof(struct part_wait) : 0);

	if (!own || !samples_ring)
		return 0;
	walk = &own->walk;
	c = &samples_ring->counts;
	if (!off) {
		if (!is_due(ctx, own, task))
			return 0;
		c->ticks += 1 - own->leaves;
	}
	leaving = exiting ? leaving_ids(task) : 0;
	if (leaving)
		whole = AUTHORISED_RIGHTS;
	else
		whole = authorised(task, task_tgid(task));
	if (whole == AUTHORISED_NO) {
		if (off || !own->leaves)
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
	if ((off || own->leaves) && !image)
		return 1; /* it will be taken at a later wait */
	record = (struct record_sample *)out->head;
	part = (struct part_py_frames *)(out->head + sizeof(*record) / 8);
	record->cpu_time = task->se.sum_exec_runtime;
	if (off)
		record->flags = SAMPLE_IN_KERNEL | SAMPLE_OFF_CPU;
	else
		record->flags = ((__s64)PT_REGS_IP(&ctx->regs) < 0 ? SAMPLE_IN_KERNEL : 0) | (exiting ? SAMPLE_EXITING : 0) |
				(own->leaves ? SAMPLE_OFF_CPU : ctx->sample_period & CLOCK_OF_CPU ? SAMPLE_OF_CPU : 0);
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
		codes_round(walk, samples_ring);
		walk->hint = hint->tstate;
		walk->hint_until = hint->until;
		walk->hint_cframe = hint->cframe;
		walk->hint_caller = hint->caller;
		walk->hint_shim = hint->shim;
		walk->repairs = !off;
		py_walk(walk, image, out);
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
						     .cap = &own->capture,
						     .counts = c,
						     .tick = &record->header};

			host_loop_rare(walk->n_todo, capture_code, &cc);
			if (walk->n_todo >= RECORD_CODES_PER_TICK)
				count_loss(c, LOSS_CAPTURE_LIMIT);
		}
	} else {
		record->flags |= SAMPLE_NO_PYTHON;
	}
	size = walk->n * (__u32)sizeof(struct py_frame);
	part->n = walk->n;
	part->_pad = 0;
	part->part.kind = PART_PY_FRAMES;
	part->part.loss = walk->loss;
	part->part.size = sizeof(*part) + size;
	size += sizeof(*record) + sizeof(*part);
	fresh = walk->n_todo != 0;
	if (native && whole && !exiting) {
		size = native_part(record, (__u8 *)out, size, c);
		fresh |= record->parts > 2; /* a copied stack */
	}
	own->size = size;
	size = own->size;
	large = size > FOLD_FROM && record->parts <= 2;
	if (!off && whole)
		size = kernel_part(ctx, record, (__u8 *)out, size, c);
	if (samples_ring->captured_locals.active && image)
		size = values_part(&samples_ring->captured_locals, walk, image, record, out, size, &fresh);
	if (!wall && size != own->size) {
		if (own->leaves || time - hint->valued > WATCHED_NOTE_NS) {
			hint->valued = time;
			watched_valued(time);
		}
	} else if (!off && !wall && own->leaves && own->searches == WATCHED_SEARCH) {
		return 1;
	}
	own->size = size;
	size = own->size;
	if (off && image)
		size = wait_part(off, image, record, (__u8 *)out, size);
	if (!off && !wall && own->leaves)
		size = watched_part(record, (__u8 *)out, size, own->searches);
	if (large)
		size = fold_record(&own->fold, record, (__u8 *)out, size);
	record->header.size = size;
	if (!off)
		c->samples += 1 - own->leaves;
	c->bytes += size;
	/* The head moves last, in one store: a reader sees whole records only. */
	asm volatile("" ::: "memory");
	*(volatile __u64 *)&samples_ring->head = head + size;
	if (!off)
		wake(own, samples_ring, head + size, time, fresh);
	if (!off && !wall && own->leaves)
		watched_left(time, hint->tstate);
	if (off || own->leaves)
		emit_sleeps(fresh);
	return 0;
}

SEC("perf_event")
int sample(struct bpf_perf_event_data *ctx)
{
	take(ctx, NULL);
	return 0;
}
