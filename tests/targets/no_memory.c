/* SPDX-License-Identifier: MIT */
/* Loaded into an engine (LD_PRELOAD): from its FAIL_AT-th allocation on there is no memory. Says when it crashes of it. */
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t n, size_t size);
extern void *__libc_realloc(void *old, size_t size);

static atomic_long left = LONG_MAX;

static void crashed(int signal)
{
	static const char words[] = "an engine crashed\n";

	if (write(STDERR_FILENO, words, sizeof(words) - 1) < 0)
		_exit(2);
	_exit(1);
}

__attribute__((constructor)) static void begin(void)
{
	const char *at = getenv("FAIL_AT");

	if (!at || !strstr(program_invocation_name, "cprofd-engine"))
		return;
	signal(SIGSEGV, crashed);
	signal(SIGBUS, crashed);
	signal(SIGABRT, crashed);
	left = atol(at);
}

static int fails(void)
{
	if (left == LONG_MAX || atomic_fetch_sub(&left, 1) > 0)
		return 0;
	errno = ENOMEM;
	return 1;
}

void *malloc(size_t size)
{
	return fails() ? NULL : __libc_malloc(size);
}

void *calloc(size_t n, size_t size)
{
	return fails() ? NULL : __libc_calloc(n, size);
}

void *realloc(void *old, size_t size)
{
	return size && fails() ? NULL : __libc_realloc(old, size);
}
