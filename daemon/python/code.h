/* SPDX-License-Identifier: MIT */
/* Code objects, read from the target's memory: names, a line, the bytecode of a call site, and a whole one as the
 * record that the sampler sends.
 *
 * Callers: serve/asleep.c for threads that have no tick, serve/site.c for call sites, walk.c
 * for `cprofd dump`.
 *
 * All bytes are the target's and may be anything. Pure over a reader; one thread at a time. Errors: -errno, as in
 * python/values.h. */
#pragma once

#include "classes/bytecode.h"
#include "cprofd/record.h"
#include "python/values.h"

/* Append the qualified name (up to 3.10 the plain name), or the file, as UTF-8. */
int python_code__name(struct values *values, uint64_t code, struct buf *ret);
int python_code__file(struct values *values, uint64_t code, struct buf *ret);
/* The line of the instruction at a byte offset; 0: unknown. */
uint32_t python_code__line(struct values *values, uint64_t code, int32_t offset);

/* Appends to the empty `ret` a RECORD_CODE as bpf/capture.h makes it, for a thread that was read without a tick; `of`
 * has the task's header. Parts that cannot be read are left out. -ENOMEM. */
int python_code__record(struct host_reader *memory, const struct py_layout *layout, const struct record_header *of, uint64_t key, uint64_t code,
			struct buf *ret);

/* Is the code object there the one that the sampler's records of this task name by this key (struct py_frame)? */
bool python_code__is(struct host_reader *memory, const struct image *image, const struct record_task *task, uint64_t code, uint64_t key);

/* Makes the pages resident that the object's record needs. They are mapped, but if the target never touched them, BPF
 * in an interrupt cannot read them (mostly names and tables of frozen modules). */
void python_code__prefault(struct host_reader *memory, const struct py_layout *layout, uint64_t code);

/* The call site at `offset`: what the bytecode says about the callee. -ENOENT: the bytecode could not be read. */
int python_site__read(struct values *values, uint64_t code, uint32_t offset, struct call_site *ret);
