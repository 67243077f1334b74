/* SPDX-License-Identifier: MIT */
/* A process's list of ranges: which table describes the code at an address. The walker searches it in two steps, so a
 * list is laid out as blocks of a pool: a fence (every 512th start), the starts, and then the ranges themselves. Unused
 * words are UNWIND_NO_START, larger than any address. */
#include "unwind/unwind.h"

#include <errno.h>
#include <string.h>

/* Of 32 bytes: 128 in each block, so none crosses one. */
#define RANGES_A_BLOCK (UNWIND_BLOCK / sizeof(struct unwind_range))

static uint32_t blocks_for(uint32_t n, uint32_t each)
{
	return (n + each - 1) / each;
}

uint32_t ranges__blocks(uint32_t n)
{
	return 1 + blocks_for(n, UNWIND_BLOCK_WORDS) + blocks_for(n, RANGES_A_BLOCK);
}

/* O(n). What is written here is searched by the walker in BPF: two binary searches of at most 512 words, each in one
 * block. */
int ranges__write(void *blocks, const struct unwind_entry *entries, uint32_t n)
{
	uint64_t *fence = blocks, *starts = fence + UNWIND_BLOCK_WORDS;
	uint32_t pages = blocks_for(n, UNWIND_BLOCK_WORDS), i;
	struct unwind_range *ranges = (struct unwind_range *)(starts + pages * UNWIND_BLOCK_WORDS);

	if (n > UNWIND_RANGES_MAX)
		return -EINVAL;
	for (i = 1; i < n; i++)
		if (entries[i].start < entries[i - 1].start ||
		    entries[i].start - entries[i - 1].start < entries[i - 1].range.size)
			return -EINVAL;
	for (i = 0; i < (1 + pages) * UNWIND_BLOCK_WORDS; i++)
		fence[i] = UNWIND_NO_START;
	memset(ranges, 0, blocks_for(n, RANGES_A_BLOCK) * (size_t)UNWIND_BLOCK);
	for (i = 0; i < n; i++) {
		starts[i] = entries[i].start;
		ranges[i] = entries[i].range;
		if (i % UNWIND_BLOCK_WORDS == 0)
			fence[i / UNWIND_BLOCK_WORDS] = entries[i].start;
	}
	return 0;
}

/* Behind the fence, which takes one block. */
static const uint64_t *starts_of(const void *blocks)
{
	return (const uint64_t *)blocks + UNWIND_BLOCK_WORDS;
}

static const struct unwind_range *ranges_of(const void *blocks, uint32_t n)
{
	return (const struct unwind_range *)(starts_of(blocks) + blocks_for(n, UNWIND_BLOCK_WORDS) * UNWIND_BLOCK_WORDS);
}

void ranges__read(const void *blocks, uint32_t n, struct unwind_entry *ret)
{
	const uint64_t *starts = starts_of(blocks);
	const struct unwind_range *ranges = ranges_of(blocks, n);

	for (uint32_t i = 0; i < n; i++)
		ret[i] = (struct unwind_entry){starts[i], ranges[i]};
}

/* Both ascend, so one pass over both is enough. */
bool ranges__stay(const void *blocks, uint32_t n, const struct unwind_entry *entries, uint32_t m)
{
	const uint64_t *starts = starts_of(blocks);
	const struct unwind_range *ranges = ranges_of(blocks, n);
	uint32_t i, at = 0;

	for (i = 0; i < n; i++) {
		if (ranges[i].flags & (UNWIND_RANGE_PENDING | UNWIND_RANGE_BARE))
			continue;
		while (at < m && entries[at].start < starts[i])
			at++;
		if (at == m || entries[at].start != starts[i] || memcmp(&entries[at].range, &ranges[i], sizeof(ranges[i])))
			return false;
	}
	return true;
}
