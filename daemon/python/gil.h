/* SPDX-License-Identifier: MIT */
/* The GIL's own state, in the interpreter's (struct _gil_runtime_state, Include/internal/pycore_gil.h): the same in 3.8
 * to 3.15. Where it lies differs with each version and build, so that it is found by its form: a switch interval, a
 * thread state that exists, a lock that is taken or not, a mutex. If two places look so, neither is taken, but for one
 * with the usual interval.
 *
 * All bytes are the target's. Threads: any. Errors: 0 or SIZE_MAX, not found: then nobody is told to hold it.
 */
#ifndef CPROFD_PYTHON_GIL_H
#define CPROFD_PYTHON_GIL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cprofd/record.h"

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

/* Offset in a copy of _PyRuntime; `threads`: addresses of thread states, sorted. */
size_t gil__find(const void *bytes, size_t len, const uint64_t *threads, size_t n);
/* Address in the target; 0: not found. Without the usual interval it may be the list of thread states: in an
 * interpreter that begins, the first of them is there before the GIL is (Python/pylifecycle.c,
 * pycore_create_interpreter). Then it is worth another look. */
uint64_t gil__address(struct host_reader *reader, const struct image *image, bool *ret_usual);

#endif
