/* SPDX-License-Identifier: MIT */
/* The state of the GIL: struct _gil_runtime_state (Include/internal/pycore_gil.h), which is the same in 3.8 to 3.15.
 * Its offset in _PyRuntime differs with each version and build, so it is found by its form: a switch interval, a thread
 * state that exists, a lock that is taken or not, a mutex. If two offsets match, neither is used, unless one alone has
 * the default interval. The result is given to the sampler (struct image), which reads holder and lock at each tick.
 *
 * All bytes are the target's. Threads: any. Errors: 0 or SIZE_MAX, not found: then no holder is shown.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cprofd/record.h"

/* Up to 3.11 it is a member of _PyRuntime, since 3.12 of each interpreter; the main interpreter lies within
 * _PyRuntime. Only interval, last_holder and locked are used; the rest serves to recognise it. */
struct gil_state {
	uint64_t interval;      /* us */
	uint64_t last_holder;   /* PyThreadState * */
	uint32_t locked, _pad;
	uint64_t switch_number;
	uint8_t cond[48];       /* pthread_cond_t */
	uint8_t mutex[16];      /* pthread_mutex_t */
	uint32_t mutex_kind;
	uint8_t mutex_rest[20];
};
_Static_assert(sizeof(struct gil_state) == 120, "up to switch_cond");

/* The offset of the GIL's state in a copy of _PyRuntime; `threads`: addresses of all thread states, sorted. */
size_t gil__find(const void *bytes, size_t len, const uint64_t *threads, size_t n);
/* The address of the GIL's state in the target; 0: not found. *ret_usual false: it has not the default interval and may
 * be the list of thread states instead, because a starting interpreter has its first thread state before the GIL
 * (Python/pylifecycle.c, pycore_create_interpreter). Search again later then. */
uint64_t gil__address(struct host_reader *reader, const struct image *image, bool *ret_usual);
