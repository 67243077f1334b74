/* SPDX-License-Identifier: MIT */
/* Dump: where is this thread now? One stack, from its registers, a copy of its stack and the memory of its process.
 *
 *     registers + copy  --libunwind-->  native frames  \
 *     thread state      --pywalk.h--->  Python frames  --weave-->  frames with names, as JSON
 *
 *     {"tid": 4711, "name": "python3", "state": "sleeping", "seen": "still", "python": true, "frames": [
 *     {"kind": "native", "function": "clock_nanosleep", "module": "libc.so.6", "pc": "0x7f31c04e2df2", "exact": true},
 *     {"kind": "python", "function": "main", "file": "/home/me/a.py", "line": 12}, ...]}
 *
 * Caller: serve/dump.c, for `cprofd dump PID`. Why libunwind and not the sampler's tables: it is independent of
 * them, so each is a check on the other, and a dump may take milliseconds for a stack.
 *
 * The kernel side is include/cprofd/dump.h. All bytes read here are the target's and may be anything: the bounds are
 * below, and inconsistent data end a walk with a loss (enum loss), never with a guess.
 *
 * Owner: each object belongs to its caller. Units: addresses of the target. Threads: one at a time. Errors: -errno. */
#pragma once

#include <jansson.h>

#include "cprofd/dump.h"
#include "python/walk.h"
#include "target/maps.h"
#include "codemap/codemap.h"

/* --- unwind.c: native frames --- */

#define DUMP_NATIVE_MAX 4096u

/* Registers and stack at one instant. `stack` is a copy of stack_size bytes from address stack_at on; it may be
 * shorter than the stack. */
struct dump_state {
	const uint64_t *regs;    /* DUMP_REGISTERS */
	uint64_t stack_at;
	const uint8_t *stack;
	size_t stack_size;
	/* May stack memory beyond the copy be read from the target? Then the caller checks that the thread did not run.
	 * */
	bool live;
};

/* The native frames of one thread, innermost first. 32 KB: DUMP_NATIVE_BYTES(n) of it are in use. */
struct dump_native {
	uint32_t n;
	uint16_t loss;           /* why it ended early; 0: it reached the thread's entry */
	uint64_t pc[DUMP_NATIVE_MAX]; /* as in struct part_native_frames, with NATIVE_EXACT */
};
#define DUMP_NATIVE_BYTES(n) (offsetof(struct dump_native, pc) + (size_t)(n) * 8)

struct dump_unwinder;
/* `memory` and `maps` are borrowed. Call frame information is read from the target's memory, through .eh_frame_hdr of
 * mapped files: no file is opened. -ENOMEM. */
int dump_unwinder__new(struct host_reader *memory, const struct maps *maps, struct dump_unwinder **ret);
struct dump_unwinder *dump_unwinder__free(struct dump_unwinder *unwinder); /* NULL */
/* Always fills *ret; the frames before a loss are good. Bounded by DUMP_NATIVE_MAX frames and a number of reads. */
void dump_unwinder__walk(struct dump_unwinder *unwinder, const struct dump_state *state, struct dump_native *ret);

/* --- emit.c: a thread as JSON --- */

/* All that is known of one thread. The arrays are borrowed. */
struct dump_result {
	struct dump_thread thread;
	uint8_t how;             /* enum dump_how; 0: it never stopped running, and no tick came: no stack */
	uint8_t native;          /* native frames: 0: none, 1: the innermost one, 2: all */
	struct dump_native *natives; /* NULL: none were asked for */
	struct python_frames python;
};
static inline struct record_task dump_task(const struct dump_result *result)
{
	return (struct record_task){.tgid = result->thread.tgid,
				    .tid = result->thread.tid,
				    .process_start = result->thread.process_start,
				    .exec = result->thread.exec};
}

/* docs/protocol.md, `dump`. `codemap` NULL: no native frames. NULL: no memory. */
json_t *dump__emit(struct python_walker *python, struct codemap *codemap, const struct dump_result *result, uint64_t now);
