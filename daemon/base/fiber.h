/* SPDX-License-Identifier: MIT */
/* Stacks that a function goes on with after others ran, and what AddressSanitizer has to know of them. */
#pragma once

#include <sys/mman.h>

#include "arch/fiber.h"

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/common_interface_defs.h>
#endif

#define FIBER_GUARD_BYTES 65536u

struct fiber_stack {
	char *bytes;
	size_t size;
	void *fake; /* of AddressSanitizer */
};

/* Maps a stack; pages that are not used take no memory. NULL: out of memory. A guard of FIBER_GUARD_BYTES lies below
 * it. */
static inline char *fiber__take_stack(size_t size)
{
	char *bytes = mmap(NULL, FIBER_GUARD_BYTES + size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);

	if (bytes == MAP_FAILED)
		return NULL;
	if (mprotect(bytes, FIBER_GUARD_BYTES, PROT_NONE)) {
		munmap(bytes, FIBER_GUARD_BYTES + size);
		return NULL;
	}
	return bytes + FIBER_GUARD_BYTES;
}

/* Call before a switch; `own` NULL: this stack will not be resumed. */
static inline void fiber__leave_for(const struct fiber_stack *next, struct fiber_stack *own)
{
#ifdef __SANITIZE_ADDRESS__
	__sanitizer_start_switch_fiber(own ? &own->fake : NULL, next->bytes, next->size);
#endif
}

/* Call after a switch, on the new stack. */
static inline void fiber__arrive(const struct fiber_stack *own, struct fiber_stack *ret_from)
{
#ifdef __SANITIZE_ADDRESS__
	const void *bytes = NULL;

	__sanitizer_finish_switch_fiber(own->fake, &bytes, &ret_from->size);
	ret_from->bytes = (char *)bytes;
#endif
}
