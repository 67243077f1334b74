/* SPDX-License-Identifier: MIT */
/* Reach: could there ever have been JIT code at this address? A bitmap with one bit per 64 KB; addresses 2 GB apart
 * share a bit. "No" is certain; "yes" may be wrong. The question comes for each frame of each sample, before any
 * search: the bitmap's 4 KB stay in the CPU's cache. Bits are never cleared.
 *
 * Zero-initialised is empty. Plain data: a copy is another one. One thread. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define REACH_BITS 32768u
#define REACH_SHIFT 16

struct jit_reach {
	uint64_t bits[REACH_BITS / 64];
};

/* Adds [start, end], the byte at `end` included: the return address of a final call lies there. */
static inline void reach__add(struct jit_reach *reach, uint64_t start, uint64_t end)
{
	uint64_t piece = start >> REACH_SHIFT, n = (end >> REACH_SHIFT) - piece + 1;

	if (start >= end)
		return;
	for (n = n < REACH_BITS ? n : REACH_BITS; n > 0; n--, piece++)
		reach->bits[piece % REACH_BITS / 64] |= 1ull << piece % 64;
}

static inline bool reach__has(const struct jit_reach *reach, uint64_t address)
{
	uint64_t piece = address >> REACH_SHIFT;

	return reach->bits[piece % REACH_BITS / 64] >> piece % 64 & 1;
}
