/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/* The kernel stack of a sample whose tick interrupted the thread in the kernel. Included by sampler.bpf.c only. */
#pragma once

/* Constant for the verifier, like `native`: a session that did not request kernel stacks has none of this code, and
 * the kernel allocates no call chain buffers for it. */
const volatile __u32 kernel_stacks = 0;

/* struct part_kernel_frames at its largest. */
struct kernel_out {
	struct record_part part;
	__u32 n;
	__u32 _pad;
	__u64 pc[RECORD_KERNEL_FRAMES_MAX];
};

/* Writes the part at record + size; returns the record's new size. The kernel unwinds from the interrupted
 * registers, so the frames of the interrupt itself are not in it. */
static __always_inline __u32 kernel_part(struct bpf_perf_event_data *ctx, struct record_sample *record, __u8 *base,
					 __u32 size, struct sampler_counts *counts)
{
	struct kernel_out *out;
	long bytes;

	if (!kernel_stacks || !(record->flags & SAMPLE_IN_KERNEL))
		return size;
	host_barrier(size);
	if (size > SAMPLE_RECORD_MAX - sizeof(struct kernel_out))
		return size;
	out = (struct kernel_out *)(base + size);
	bytes = bpf_get_stack(ctx, out->pc, sizeof(out->pc), 0);
	if (bytes < 0)
		bytes = 0;
	if (bytes > (long)sizeof(out->pc))
		bytes = sizeof(out->pc);
	out->part.kind = PART_KERNEL_FRAMES;
	out->part.loss = bytes ? LOSS_NONE : LOSS_KERNEL_STACK;
	if (!bytes)
		count_loss(counts, LOSS_KERNEL_STACK);
	out->n = bytes / 8;
	out->_pad = 0;
	out->part.size = 16 + (bytes & ~7l);
	record->parts++;
	return size + out->part.size;
}
