/* SPDX-License-Identifier: MIT */
/* Loaded into a program (LD_PRELOAD) that tests/tools/failing_calls.c traces: each allocation is a system call first, so
 * that the tracer sees it, and can have it fail. */
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>

#include "failing_allocation.h"

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t n, size_t size);
extern void *__libc_realloc(void *old, size_t size);
extern void *__libc_memalign(size_t alignment, size_t size);

/* Not by syscall(): errno stays. */
static int fails(uintptr_t caller, uintptr_t stack)
{
	long result;

	__asm__ volatile("syscall" : "=a"(result) : "a"(SYS_getpid), "D"(FAILING_ALLOCATION), "S"(caller), "d"(stack) : "rcx", "r11", "memory");
	if (result >= 0)
		return 0;
	errno = ENOMEM;
	return 1;
}

#define FAILS() fails((uintptr_t)__builtin_return_address(0), (uintptr_t)__builtin_frame_address(0))

void *malloc(size_t size)
{
	return FAILS() ? NULL : __libc_malloc(size);
}

void *calloc(size_t n, size_t size)
{
	return FAILS() ? NULL : __libc_calloc(n, size);
}

void *realloc(void *old, size_t size)
{
	return size && FAILS() ? NULL : __libc_realloc(old, size);
}

void *aligned_alloc(size_t alignment, size_t size)
{
	return FAILS() ? NULL : __libc_memalign(alignment, size);
}

/* Else they would be libc's. */
char *strndup(const char *text, size_t size)
{
	size_t n = strnlen(text, size);
	char *copy = FAILS() ? NULL : __libc_malloc(n + 1);

	if (copy) {
		memcpy(copy, text, n);
		copy[n] = 0;
	}
	return copy;
}

char *strdup(const char *text)
{
	size_t n = strlen(text) + 1;
	char *copy = FAILS() ? NULL : __libc_malloc(n);

	return copy ? memcpy(copy, text, n) : NULL;
}

int posix_memalign(void **memory, size_t alignment, size_t size)
{
	if (FAILS())
		return ENOMEM;
	*memory = __libc_memalign(alignment, size);
	return *memory ? 0 : ENOMEM;
}
