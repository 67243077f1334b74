/* SPDX-License-Identifier: MIT */
#if defined(__x86_64__)
/* Suspends one function and resumes another: pushes what a callee has to keep (psABI, 3.2.1), stores the stack pointer,
 * loads the other's, and pops the same registers. The return goes to where that one called fiber__switch(), or to fn
 * the first time. x87 and SSE control words are not kept: nobody here changes them. */
#include "arch/fiber.h"

#include <stdint.h>

#define KEPT 6u /* registers */

/* void fiber__switch(struct fiber *from, struct fiber *to) */
__asm__(".text\n"
	".globl fiber__switch\n"
	".type fiber__switch, @function\n"
	"fiber__switch:\n"
	"	pushq %rbp\n"
	"	pushq %rbx\n"
	"	pushq %r12\n"
	"	pushq %r13\n"
	"	pushq %r14\n"
	"	pushq %r15\n"
	"	movq %rsp, (%rdi)\n"
	"	movq (%rsi), %rsp\n"
	"	popq %r15\n"
	"	popq %r14\n"
	"	popq %r13\n"
	"	popq %r12\n"
	"	popq %rbx\n"
	"	popq %rbp\n"
	"	retq\n"
	".size fiber__switch, . - fiber__switch\n");

void fiber__make(struct fiber *fiber, void *stack, size_t size, void (*fn)(void))
{
	uint64_t *top = (uint64_t *)(((uintptr_t)stack + size) & ~(uintptr_t)15);

	/* At fn's first instruction the stack pointer is 8 below a multiple of 16, as behind a call (psABI, 3.2.2). */
	*--top = 0; /* who called fn: nobody */
	*--top = (uint64_t)(uintptr_t)fn;
	for (unsigned i = 0; i < KEPT; i++)
		*--top = 0;
	fiber->sp = top;
}
#endif
