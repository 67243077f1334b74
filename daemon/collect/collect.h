/* SPDX-License-Identifier: MIT */
/* Collect: raw bytes of the ring -> checked records in the order of time.
 *
 * collector__record() checks and copies a record; collector__flush() hands on
 * what was held, oldest first. RECORD_CODE needs no order: it
 * is handed on by collector__record() itself, so a code object is always known
 * before the samples of its flush. collector__preview() shows samples, each once and in that order, to who must look at
 * the target before it goes on; they are handed on later, many at a time, which costs much less of them. No byte of a
 * record is trusted: sizes, parts, counts and lengths are checked against the record before anything reads them;
 * a record that fails is dropped, counted (LOSS_RECORD_BAD), and is no error.
 * Kinds and parts that are not known are skipped. Folded samples are held as they came, and
 * the sink gets them unfolded.
 *
 * Memory: COLLECT_ARENA_MAX. When it is full, everything held is flushed early;
 * what is older than a record already handed on comes late, never lost.
 * Threading: one thread. Errors: -errno; an error of the sink is handed up.
 */
#ifndef CPROFD_COLLECT_H
#define CPROFD_COLLECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cprofd/record.h"

#define COLLECT_ARENA_MAX (4u << 20)

/* A checked sample, parsed once: its parts, NULL for those that it has not. All point into the record. */
struct sample {
	const struct record_sample *record;
	const struct part_py_frames *python;
	const struct part_native_frames *native;
	const struct part_kernel_frames *kernel;
	const struct part_stack *stack;
	const struct part_values *values;
	const struct part_object *object;
	const struct part_wait *wait;
};

/* Takes checked records: header.size bytes, borrowed for the call. Returns 0 or
 * -errno, which stops the flush. NULL: this kind is skipped. */
struct collect_sink {
	int (*code)(struct collect_sink *self, const struct record_code *code);
	/* Each sample, once, before sample(). */
	int (*preview)(struct collect_sink *self, const struct sample *sample);
	int (*sample)(struct collect_sink *self, const struct sample *sample);
	int (*fork)(struct collect_sink *self, const struct record_fork *fork);
	int (*exec)(struct collect_sink *self, const struct record_event *exec);
	int (*exit)(struct collect_sink *self, const struct record_event *exit);
	int (*clone)(struct collect_sink *self, const struct record_event *clone);
	int (*freed)(struct collect_sink *self, const struct record_event *freed);
	int (*lost)(struct collect_sink *self, const struct record_event *lost);
	int (*wait)(struct collect_sink *self, const struct record_wait *wait);
};

struct collect_counts {
	uint64_t records;       /* good ones */
	uint64_t bad;           /* LOSS_RECORD_BAD */
	uint64_t late;          /* handed on after a younger one */
	uint64_t early_flushes; /* the arena was full */
};

struct collector;
/* The sink is borrowed and outlives the collector. */
int collector__new(struct collect_sink *sink, struct collector **ret);
struct collector *collector__free(struct collector *collector); /* NULL */
int collector__record(struct collector *collector, const void *data, size_t len);
/* Hands on all that is held with time <= up_to (UINT64_MAX: all). */
int collector__flush(struct collector *collector, uint64_t up_to);
/* Previews all that is held with time <= up_to. */
int collector__preview(struct collector *collector, uint64_t up_to);
size_t collector__held(const struct collector *collector); /* bytes of records */
void collector__counts(const struct collector *collector, struct collect_counts *ret);

/* --- records (record.c): pure --- */

/* 0, or -EBADMSG: `len` bytes at `data` (8-byte aligned) are not one record as
 * record.h gives it, or it is folded. -ENOTSUP: a kind that is not known. */
int record__check(const void *data, size_t len);

/* Of a checked record. The one place that looks for the parts of samples. */
void record__parse(const struct record_sample *record, struct sample *ret);
/* A copy of the record at `to`, which has room for header.size bytes (8-byte aligned), and its parts there. */
void sample__copy(const struct sample *sample, void *to, struct sample *ret);

/* The first part of this kind in a checked code record, or the next one
 * after `after` (NULL: none left). */
const struct record_part *record__part(const struct record_code *record, uint16_t kind);
const struct record_part *record__part_after(const struct record_code *record, const struct record_part *after,
					     uint16_t kind);

/* --- folded samples (fold.c): pure --- */

struct record_room {
	_Alignas(8) char bytes[SAMPLE_RECORD_MAX];
};
bool record__is_folded(const void *data, size_t len);
/* The sample as it was before it was folded, not checked; -EBADMSG: there is none. */
int record__unfold(const void *data, size_t len, struct record_room *ret);

/* Bytes of the string that are there; less than length * kind when it was cut. */
size_t part_string__bytes(const struct part_string *string);

#endif
