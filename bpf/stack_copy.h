/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/* Copies the stack if the walk lacks an unwind table: user space soon has the table and walks again (struct
 * part_stack). Included by native.h only, for walks that stopped early; other samples do not come here. */
#pragma once

/* Which samples get a copy. Constant for the verifier. */
const volatile __u32 stack_copy = 0;
#define STACK_COPY_UNFINISHED 1u
#define STACK_COPY_ALWAYS 2u /* tests compare our walks with those of other unwinders */

/* struct part_stack at its largest. */
struct stack_out {
	struct record_part part;
	__u64 regs[UNWIND_REGISTERS];
	__u64 sp;
	__u32 size, _pad;
	__u8 bytes[RECORD_STACK_MAX];
};
_Static_assert(offsetof(struct stack_out, bytes) == sizeof(struct part_stack), "as in record.h");

#define STACK_PAGE 4096u

/* How often walks stopped at code that is in no list: tag | count. Code that never gets a table and runs for minutes
 * has its stack copied only STACK_STOPS_MANY times per cache line and list. (Not counted while a perf map is
 * awaited, because its JIT code is known once that has come.) */
#define STACK_STOPS 256u
#define STACK_STOPS_MANY 32u
__u64 stack_stops[STACK_STOPS];

static __always_inline int stack_stops_often(__u64 pc, __u64 list)
{
	__u64 tag = ((pc >> 6 ^ list << 20) * 0x9e3779b97f4a7c15ull) & ~0xffull, word;
	__u32 slot = (__u32)(tag >> 56) & (STACK_STOPS - 1);

	word = stack_stops[slot];
	if ((word & ~0xffull) != tag)
		word = tag;
	if ((word & 0xff) >= STACK_STOPS_MANY)
		return 1;
	stack_stops[slot] = word + 1;
	return 0;
}

struct stack_context {
	struct stack_out *out;
	__u64 end; /* end of the stack */
};

/* Copies up to the end of the page, as the next page may be absent. */
static long stack_piece(__u32 i, void *context)
{
	struct stack_context *c = context;
	__u32 at = c->out->size, size;
	__u64 from = c->out->sp + at;

	host_barrier(at);
	if (at > RECORD_STACK_MAX - STACK_PAGE)
		return 1;
	size = STACK_PAGE - ((__u32)from & (STACK_PAGE - 1));
	if (c->end - from < size)
		size = (__u32)(c->end - from);
	if (!size)
		return 1;
	host_barrier(size); /* otherwise clang merges both comparisons into one of another register */
	if (size > STACK_PAGE)
		return 1;
	if (bpf_probe_read_user(c->out->bytes + at, size, (const void *)from))
		return 1;
	c->out->size = at + size;
	return from + size == c->end;
}

/* Fills *out. 0, or 1: nothing could be copied. */
__attribute__((noinline, weak)) int stack_read(struct stack_out *out)
{
	struct stack_context c = {.out = out};
	const struct pt_regs___entry *entry;
	struct task_struct *task;
	__u64 sp, thread, stack;

	if (!out)
		return 1;
	task = bpf_get_current_task_btf();
	entry = entered_with(task);
	registers_of_entry(out->regs, entry);
	/* Above a stack comes the thread's control block; above the main thread's, the arguments. */
	thread = thread_pointer(task) & ~7ull;
	stack = BPF_CORE_READ(task, mm, start_stack) & ~7ull;
	sp = out->regs[UNWIND_SP] & ~7ull;
	if ((sp & (STACK_PAGE - 1)) >= UNWIND_RED_ZONE) /* not into the page below, which may be absent */
		sp -= UNWIND_RED_ZONE;
	c.end = thread > sp ? thread : stack > sp ? stack + 64 : ~7ull;
	out->sp = sp;
	out->size = 0;
	out->_pad = 0;
	host_loop_rare(RECORD_STACK_MAX / STACK_PAGE, stack_piece, &c);
	return !out->size;
}

/* Samples have priority over copies of stacks: none is made when the ring is fuller than this. */
#define STACK_RING_MAX (SAMPLE_RING_BYTES / 8 * 5)

/* Writes the part at record + size, if this walk needs one; returns the record's new size. */
static __always_inline __u32 stack_part(struct record_sample *record, __u8 *base, __u32 size, __u32 loss,
					const struct unwind_state *s,
					const struct sampler_counts *counts)
{
	const struct sample_ring *ring =
		(const void *)((const char *)counts - offsetof(struct sample_ring, counts));
	struct stack_out *out = (struct stack_out *)(base + size);
	__u32 more;

	if (stack_copy == STACK_COPY_UNFINISHED) {
		if (loss == LOSS_NATIVE_MAPPING) {
			if (!(s->list & UNWIND_LIST_AWAITS) && stack_stops_often(s->regs[UNWIND_PC], s->list))
				return size;
		} else if (loss != LOSS_NATIVE_PENDING) {
			return size;
		}
	} else if (stack_copy != STACK_COPY_ALWAYS) {
		return size;
	}
	if (ring->head + size + sizeof(*out) - ring->tail > STACK_RING_MAX)
		return size;
	if (stack_read(out))
		return size;
	more = (sizeof(struct part_stack) + out->size + 7) & ~7u;
	if (more > sizeof(*out))
		return size;
	out->part.kind = PART_STACK;
	out->part.loss = 0;
	out->part.size = more;
	record->parts++;
	return size + more;
}
