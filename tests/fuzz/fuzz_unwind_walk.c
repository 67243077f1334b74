/* SPDX-License-Identifier: MIT */
/* Tables and lists of any bytes, walked over any stack: nothing but a wrong stack may come of it.
 * The same bytes go through the check of what the cache holds. */
#include <stdlib.h>
#include <string.h>

#include "unwind/unwind.h"

static int frames;

static bool frame(void *ctx, const struct unwind_state *state)
{
	frames++;
	return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct unwind_walk walk;
	static union unwind_block *blocks;
	struct host_pool pools[2];
	size_t n = size / 4096 + 1, i;

	blocks = aligned_alloc(4096, n * 4096);
	if (!blocks)
		return 0;
	memset(blocks, 0, n * 4096);
	memcpy(blocks, data, size);
	table__check(blocks, size / 8 * 8);
	pools[0] = pools[1] = (struct host_pool){.blocks = blocks, .n = (uint32_t)n};
	memset(&walk.state, 0, sizeof(walk.state));
	walk.pools = pools;
	walk.n_pools = 2;
	walk.stack = data;
	walk.stack_size = size;
	walk.stack_at = 0x7000;
	for (i = 0; i < UNWIND_REGISTERS; i++)
		walk.state.regs[i] = i < size ? 0x7000u + data[i] * 8u : 0x7000;
	/* A list in the bytes themselves, and a range that was looked up before. */
	memcpy(&walk.state.regs[UNWIND_PC], data, size < 8 ? size : 8);
	walk.state.known = (1u << UNWIND_REGISTERS) - 1;
	walk.state.exact = 1;
	walk__run(&walk, UNWIND_LIST(0, size & 0xfff, 1), 1, 64, frame, NULL);
	memset(&walk.state, 0, sizeof(walk.state));
	unwind_begin(&walk.state, UNWIND_LIST(0, 1, 1), 1);
	walk.state.recent_of = walk.state.process;
	memcpy(&walk.state.recent[0].range, data, size < 32 ? size : 32);
	walk.state.recent[0].start = walk.state.recent[0].range.origin;
	walk.state.regs[UNWIND_PC] = walk.state.recent[0].start + 4;
	walk.state.regs[UNWIND_SP] = 0x7000;
	walk.state.known = (1u << UNWIND_REGISTERS) - 1;
	walk.state.exact = 1;
	walk__run(&walk, UNWIND_LIST(0, 1, 1), 1, 64, frame, NULL);
	free(blocks);
	return 0;
}
