/* SPDX-License-Identifier: MIT */
/* Cleanup attributes: what is freed on every path. */
#pragma once

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define _cleanup_(fn) __attribute__((cleanup(fn)))

static inline void cleanup_free(void *p) { free(*(void **)p); }
static inline void cleanup_fclose(FILE **f) { if (*f) fclose(*f); }
static inline void cleanup_close(int *fd) { if (*fd >= 0) close(*fd); }

#define _cleanup_free_ _cleanup_(cleanup_free)
#define _cleanup_fclose_ _cleanup_(cleanup_fclose)
#define _cleanup_close_ _cleanup_(cleanup_close)

/* Hands ownership out of a _cleanup_ variable. */
#define take_ptr(p) ({ __typeof__(p) _taken = (p); (p) = NULL; _taken; })
static inline int take_fd(int *fd) { int taken = *fd; *fd = -1; return taken; }
