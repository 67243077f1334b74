/* SPDX-License-Identifier: MIT */
/* Walks a stack in user space with the sampler's walker, compiled for the host (include/cprofd/unwind.h): for samples
 * whose stack was copied because an unwind table was still missing, and in tests. The walker is the same code as in the
 * kernel; only its two primitives differ: host_read() goes to the copied stack first, and host_block() to the pools in
 * this process's memory. They are found through variables (host_reader_current and others), as the walker's functions
 * have no argument for them: set here, and put back afterwards. */
#include "unwind/unwind.h"

#include <errno.h>
#include <string.h>

/* A reader over what was recorded, for host_read(). */
struct recorded {
	struct host_reader reader;
	const struct unwind_walk *walk;
};

/* Memory as the walker sees it: the copy, and around it the reader, if there is one. */
static int read_recorded(struct host_reader *reader, void *dst, size_t size, uint64_t address)
{
	const struct unwind_walk *walk = ((struct recorded *)reader)->walk;
	uint64_t at = address - walk->stack_at;

	if (walk->stack && at <= walk->stack_size && size <= walk->stack_size - at) {
		memcpy(dst, (const char *)walk->stack + at, size);
		return 0;
	}
	/* The read begins in the copy and ends beyond it: take both parts. */
	if (walk->stack && at < walk->stack_size) {
		size_t here = walk->stack_size - at;

		memcpy(dst, (const char *)walk->stack + at, here);
		if (walk->reader && !walk->reader->read(walk->reader, (char *)dst + here,
							size - here, address + here))
			return 0;
		return -EFAULT;
	}
	return walk->reader ? walk->reader->read(walk->reader, dst, size, address) : -EFAULT;
}

/* Each step either moves the stack pointer up or ends the walk; `max` bounds it in any case. */
static enum loss run(struct unwind_state *state, uint32_t max, unwind_frame *frame, void *ctx)
{
	int loss;

	for (uint32_t i = 0; i < max; i++) {
		if (!frame(ctx, state))
			return LOSS_NONE;
		loss = unwind_step(state);
		if (loss)
			return loss == UNWIND_END ? LOSS_NONE : (enum loss)loss;
	}
	return LOSS_NATIVE_DEPTH;
}

enum loss walk__run(struct unwind_walk *walk, uint64_t list, uint64_t salt, uint32_t max,
		    unwind_frame *frame, void *ctx)
{
	struct recorded recorded = {.reader.read = read_recorded, .walk = walk};
	const struct host_pool *pools = host_pools_current;
	struct host_reader *reader = host_reader_current;
	uint32_t n_pools = host_pools_n;
	enum loss loss;

	host_reader_current = &recorded.reader;
	host_pools_current = walk->pools;
	host_pools_n = walk->n_pools;
	unwind_begin(&walk->state, list, salt);
	loss = run(&walk->state, max, frame, ctx);
	host_reader_current = reader;
	host_pools_current = pools;
	host_pools_n = n_pools;
	return loss;
}
