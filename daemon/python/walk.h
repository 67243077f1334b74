/* SPDX-License-Identifier: MIT */
/* Python frames of a thread that is not running, read from its process's memory: the sampler's walker (cprofd/pywalk.h)
 * in user space, the list of thread states, and the addresses of code objects.
 *
 * Callers: serve/dump.c and serve/asleep.c.
 *
 * All bytes are the target's and may be anything. Owner: each object belongs to its caller. Threads: one at a time.
 * Errors: -errno; inconsistent data ends a walk with a loss (enum loss).
 */
#pragma once

#include "base/buf.h"
#include "cprofd/dump.h"
#include "cprofd/host.h"

/* --- tstates.c: the thread states of a process, by thread --- */

/* Finding one thread's state takes time linear in the number of threads; to walk many threads, the lists are followed
 * once. The walker checks each thread state again when it uses it. */
struct python_tstates {
	struct python_tstate {
		uint64_t thread_id, address;
		uint32_t order;  /* position in the lists */
	} *of;                   /* sorted by thread_id, then by position: the inner one first */
	uint32_t n;
	uint16_t loss;           /* 0: all were read; else why some may be missing */
};
/* -ENOMEM. */
int python_tstates__read(struct host_reader *memory, const struct image *image, struct python_tstates *ret);
void python_tstates__free(struct python_tstates *tstates); /* all zeroes: does nothing */
/* The thread states of one thread, *ret_n of them; NULL: none. */
const struct python_tstate *python_tstates__find(const struct python_tstates *tstates, uint64_t thread_id, uint32_t *ret_n);

/* --- walk.c: Python frames --- */

/* A walker for one process at a time: its reader, its layout, and the code objects that are known. */
struct python_walker;
/* `memory` is borrowed, `image` is copied. image->runtime 0: the process runs no Python, so no thread has frames. */
int python_walker__new(struct host_reader *memory, const struct image *image, struct python_walker **ret);
void python_walker__free(struct python_walker *python);

struct python_frames {
	struct py_frame *frames; /* the caller's: free() */
	uint32_t n;
	uint16_t loss;           /* why the walk ended early, or 0 */
	bool no_python;          /* the thread has no thread state */
};
/* all thread states of the process */
int python_walker__list(const struct python_walker *python, struct python_tstates *ret);
/* Walks a thread that is not running; the caller checks afterwards that it did not run meanwhile. `tstates`: read while
 * the thread was already asleep; NULL: they are searched for. */
int python_walker__walk(struct python_walker *python, const struct dump_thread *thread, const struct python_tstates *tstates,
		      struct python_frames *ret);
/* Takes the frames that the kernel walked at the thread's tick, and the addresses of their code objects. */
int python_walker__take(struct python_walker *python, const struct dump_slot *slot, struct python_frames *ret);
void python_walker__learn(struct python_walker *python, const struct dump_slot *slot);

/* The locals in `slots` of a frame of the last walk, as the sampler copies them (bpf/values.h). */
void python_walker__locals(struct python_walker *python, uint32_t frame, const uint8_t slots[FRAME_VALUES_WORDS], struct frame_values *ret);

/* The address of the code object with this key; 0: unknown. */
uint64_t python_walker__code(const struct python_walker *python, uint64_t key);
/* Function, file (appended) and line of a frame that was walked; "?" and 0 for what could not be read. -ENOMEM. */
int python_walker__locate(const struct python_walker *python, const struct py_frame *frame, struct buf *ret_function, struct buf *ret_file,
			  uint32_t *ret_line);
