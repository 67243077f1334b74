/* SPDX-License-Identifier: MIT */
/* Where a function stands that does not run, and the switch to it (base/fiber.h has their stacks). A switch costs as much as
 * a call, where makecontext(3) makes a system call: it keeps what a callee keeps, and the signal mask is the thread's. */
#ifndef CPROFD_ARCH_FIBER_H
#define CPROFD_ARCH_FIBER_H

#include <stddef.h>

struct fiber {
	void *sp;
};

/* `fn` begins on the `size` bytes at `stack` at the first switch to it, and never returns. */
void fiber__make(struct fiber *fiber, void *stack, size_t size, void (*fn)(void));
/* Returns when somebody switches to `from`. */
void fiber__switch(struct fiber *from, struct fiber *to);

#endif
