/* SPDX-License-Identifier: MIT */
/* Is this module the C library (or the vDSO)? Its functions make the system calls, whoever called them. */
#pragma once

#include <stdbool.h>
#include <string.h>

static inline bool libc_name__is(const char *module)
{
	return !strncmp(module, "libc.", 5) || !strncmp(module, "libc-", 5) || !strncmp(module, "libpthread", 10) ||
	       !strncmp(module, "ld-", 3) || !strncmp(module, "[v", 2);
}
