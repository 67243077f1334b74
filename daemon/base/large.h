/* SPDX-License-Identifier: MIT */
/* Large blocks of memory that are about to be written from end to end, by huge pages: one page fault for 2 MB instead of
 * 512. The kernel's default is to give them only to who asks (transparent_hugepage/enabled: madvise). Not for blocks of
 * which a part may never be written: all of a huge page counts as used. */
#pragma once

#include <stdint.h>
#include <sys/mman.h>

#define LARGE_BLOCK (2u << 20) /* bytes: what is smaller has no huge page */

/* A hint: without huge pages nothing changes. `block` may be NULL. Returns it. */
static inline void *large__written(void *block, size_t size)
{
	const uintptr_t begin = (uintptr_t)block & ~(uintptr_t)4095, end = ((uintptr_t)block + size + 4095) & ~(uintptr_t)4095;

	if (block && size >= LARGE_BLOCK)
		madvise((void *)begin, end - begin, MADV_HUGEPAGE);
	return block;
}
