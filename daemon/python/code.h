/* SPDX-License-Identifier: MIT */
/* Code objects, from the memory of the target: their names, a line, the bytecode of a call site, and all of one as the record that
 * the sampler sends of it.
 *
 * All bytes are the target's, and may be anything. Pure over a reader; one thread at a time. Errors: -errno, as python/values.h.
 */
#ifndef CPROFD_PYTHON_CODE_H
#define CPROFD_PYTHON_CODE_H

#include <stdint.h>

#include "base/buf.h"
#include "cprofd/record.h"
#include "python/values.h"
#include "weave/symbolizer.h"

/* Its qualified name, where this version has that; its file. Appended, as UTF-8. */
int python_code__name(struct values *values, uint64_t code, struct buf *ret);
int python_code__file(struct values *values, uint64_t code, struct buf *ret);
/* Of the instruction at a byte offset; 0: not known. */
uint32_t python_code__line(struct values *values, uint64_t code, int32_t offset);

/* A RECORD_CODE as bpf/capture.h makes it, appended to `ret`, which is empty. For who was read while no tick could: `of` says whose it is.
 * What cannot be read is left out. -ENOMEM. */
int python_code__record(struct host_reader *memory, const struct py_layout *layout, const struct record_header *of, uint64_t key, uint64_t code,
			struct buf *ret);

/* Its key, by which the sampler names it in the records of this task (`struct py_frame`); 0: these bytes are no code object. */
uint64_t python_code__key(struct host_reader *memory, const struct image *image, const struct record_task *task, uint64_t code);

/* Makes the pages resident that its record needs: they are mapped, but this process never used them, so that an interrupt could not read
 * them (names and tables of frozen modules above all). */
void python_code__prefault(struct host_reader *memory, const struct py_layout *layout, uint64_t code);

/* What the instruction at `offset` calls, as far as the bytecode says. -ENOENT: that could not be read. */
int python_site__read(struct values *values, uint64_t code, uint32_t offset, struct call_site *ret);

/* Locals of a frame at `address` as bpf/values.h gives them, `at` of them outwards in its stack. */
void python_locals__read(struct host_reader *memory, const struct py_layout *layout, const struct locals_capture *capture, uint16_t at,
			 uint64_t address, struct frame_values *ret);

#endif
