/* Where code of JIT compilers ever lay, roughly: few stretches of addresses, so that one can ask for each frame of each sample.
 * What lies closer together than REACH_NEAR is one stretch; when there are too many the two that are closest become one.
 *
 * Zero-initialised is empty. Plain data: a copy is another one. One thread. */
#ifndef CPROFD_JIT_REACH_H
#define CPROFD_JIT_REACH_H

#include <stdbool.h>
#include <stdint.h>

#define REACH_STRETCHES 16u
#define REACH_NEAR (64u << 10)

struct jit_reach {
	uint64_t start[REACH_STRETCHES], end[REACH_STRETCHES]; /* by address; they do not meet */
	uint32_t n;
};

void reach__add(struct jit_reach *reach, uint64_t start, uint64_t end); /* start < end */

/* The byte behind a stretch counts, too: a return address may be that one. */
static inline bool reach__has(const struct jit_reach *reach, uint64_t address)
{
	uint32_t i;

	if (!reach->n || address < reach->start[0] || address > reach->end[reach->n - 1])
		return false;
	for (i = 0; i < reach->n && address >= reach->start[i]; i++)
		if (address <= reach->end[i])
			return true;
	return false;
}

#endif
