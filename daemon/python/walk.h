/* SPDX-License-Identifier: MIT */
/* Python frames of a thread that does not run, from the memory of its process: the sampler's walker (cprofd/pywalk.h) in
 * user space, the list of thread states, and where each code object lies.
 *
 * All bytes are the target's, and may be anything. Owner: each object belongs to its caller. Threads: one at a time.
 * Errors: -errno; what does not fit together ends a walk with a loss (enum loss).
 */
#ifndef CPROFD_PYTHON_WALK_H
#define CPROFD_PYTHON_WALK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "cprofd/dump.h"
#include "cprofd/host.h"

/* --- tstates.c: the thread states of a process, by thread --- */

/* Finding one thread's state takes time linear in the number of threads: to walk many of them the lists are
 * followed once. What was found is proven again by who uses it. */
struct python_tstates {
	struct python_tstate {
		uint64_t thread_id, address;
		uint32_t order;  /* in the lists */
	} *of;                   /* by thread_id, then as in the lists: the inner one first */
	uint32_t n;
	uint16_t loss;           /* why there may be more; 0: these are all */
};
/* -ENOMEM. */
int python_tstates__read(struct host_reader *memory, const struct image *image, struct python_tstates *ret);
void python_tstates__free(struct python_tstates *tstates); /* all 0: nothing */
/* Those of one thread; NULL: none. */
const struct python_tstate *python_tstates__find(const struct python_tstates *tstates, uint64_t thread_id, uint32_t *ret_n);

/* --- walk.c: Python frames --- */

struct python_walker;
/* `memory` is borrowed, `image` copied (image->runtime 0: not a Python; then no thread has frames). */
int python_walker__new(struct host_reader *memory, const struct image *image, struct python_walker **ret);
struct python_walker *python_walker__free(struct python_walker *python); /* NULL */
/* What is walked next has this image. What is known of code objects stays: their keys tell processes apart. */
void python_walker__turn_to(struct python_walker *python, const struct image *image);

struct python_frames {
	struct py_frame *frames; /* the caller's: free() */
	uint32_t n;
	uint16_t loss;           /* why it was cut, or 0 */
	bool no_python;          /* the thread has no thread state */
};
int python_walker__list(const struct python_walker *python, struct python_tstates *ret); /* thread states of its process */
/* Walks a thread that does not run: the caller verifies afterwards that it did not. `tstates`: read while it slept already; NULL: its thread
 * states are looked for. */
int python_walker__walk(struct python_walker *python, const struct dump_thread *thread, const struct python_tstates *tstates,
		      struct python_frames *ret);
/* Takes the walk that the kernel did in the thread's tick, and the code objects that it met. */
int python_walker__take(struct python_walker *python, const struct dump_slot *slot, struct python_frames *ret);
void python_walker__learn(struct python_walker *python, const struct dump_slot *slot);

/* Where the code object of a frame that was walked lies; 0: not known. */
uint64_t python_walker__code(const struct python_walker *python, uint64_t key);
/* Where the i-th frame of the last walk lies. */
uint64_t python_walker__place(const struct python_walker *python, uint32_t i);
/* Where a frame that was walked is; appended. What could not be read is "?", or 0. -ENOMEM. */
int python_walker__locate(const struct python_walker *python, const struct py_frame *frame, struct buf *ret_function, struct buf *ret_file,
			  uint32_t *ret_line);

#endif
