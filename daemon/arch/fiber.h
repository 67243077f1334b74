/* SPDX-License-Identifier: MIT */
/* A function that is suspended, and the switch to it (base/fiber.h has their stacks). A switch costs as much as a call,
 * while swapcontext(3) makes a system call: only what a callee keeps is saved (psABI), and the signal mask is the
 * thread's. */
#pragma once

#include <stddef.h>

/* sp: its stack pointer while it is suspended; the registers lie on its stack. */
struct fiber {
	void *sp;
};

/* `fn` begins on the `size` bytes at `stack` at the first switch to it, and never returns. */
void fiber__make(struct fiber *fiber, void *stack, size_t size, void (*fn)(void));
/* Returns when somebody switches to `from`. */
void fiber__switch(struct fiber *from, struct fiber *to);
