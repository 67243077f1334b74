/* SPDX-License-Identifier: MIT */
/* Collect: raw bytes of the rings -> checked records in order of time.
 *
 *     collector__record()   checks a record and copies it
 *     collector__preview()  passes each held sample to the sink once, in order of time, for work that cannot wait:
 *                         reading objects and stacks of the target while they still exist
 *     collector__flush()    passes held records to the sink, oldest first. Rarely, many at a time: that is much cheaper
 *
 * Producer: broker/ring.c, through serve/drain.c. Consumer: serve/drain.c again, which gives samples to profile/.
 * Why order matters: a fork must come before its child's samples, an exec before those of the new program, and an
 * object of a JIT is searched as of the sample's time.
 *
 *     ring of CPU 0: 10 12 15    ring of CPU 1: 11 13    record() in any order, flush(12) -> 10 11 12, held: 13 15
 *
 * RECORD_CODE needs no order: collector__record() passes it on at once, so a code object is known before the samples
 * that use it. No byte of a record is trusted: sizes, parts, counts and lengths are checked against the record
 * before anything reads them. A bad record is dropped and counted (LOSS_RECORD_BAD); that is not an error. Unknown
 * kinds and parts are skipped. Folded (compressed) samples are held as they came; the sink gets them unfolded.
 *
 * Memory: COLLECT_ARENA_MAX. When that is full, everything held is flushed early; a record that is older than one
 * that was flushed then comes late, but is not lost. Threads: one. Errors: -errno; those of the sink are passed on. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cprofd/record.h"

#define COLLECT_ARENA_MAX (4u << 20)

/* A checked sample, parsed once: its parts, or NULL if it has no such part. All point into the record, which belongs
 * to the collector and is valid for the call only; sample__copy() makes one that stays. */
struct sample {
	const struct record_sample *record;
	const struct part_py_frames *python;
	const struct part_native_frames *native;
	const struct part_kernel_frames *kernel;
	const struct part_stack *stack;
	const struct part_values *values;
	const struct part_object *objects; /* the first of them */
	uint32_t n_objects;
	const struct part_wait *wait;
};

/* Takes checked records: header.size bytes, borrowed for the call. An error (-errno) stops the flush. NULL: records of
 * this kind are skipped. */
struct collect_sink {
	int (*code)(struct collect_sink *self, const struct record_code *code);
	/* Each sample, once, before sample(). */
	int (*preview)(struct collect_sink *self, const struct sample *sample);
	int (*sample)(struct collect_sink *self, const struct sample *sample);
	/* What else concerns the profile: forks, execs, ends, waits ... */
	int (*other)(struct collect_sink *self, const struct record_header *record);
};

/* Since collector__new(). `bad` becomes LOSS_RECORD_BAD in the ledger. */
struct collect_counts {
	uint64_t records;       /* valid ones */
	uint64_t bad;           /* LOSS_RECORD_BAD */
	uint64_t late;          /* flushed after a younger one */
	uint64_t early_flushes; /* the arena was full */
};

struct collector;
/* The sink is borrowed and outlives the collector. */
int collector__new(struct collect_sink *sink, struct collector **ret);
struct collector *collector__free(struct collector *collector); /* NULL */
/* Takes one record of a ring; `data` is not needed afterwards. 0 as well for a bad one, which is counted. -ENOMEM,
 * or an error of the sink. */
int collector__record(struct collector *collector, const void *data, size_t len);
/* Passes on all held records with time <= up_to (UINT64_MAX: all). */
int collector__flush(struct collector *collector, uint64_t up_to);
/* Previews all held samples with time <= up_to. */
int collector__preview(struct collector *collector, uint64_t up_to);
size_t collector__held(const struct collector *collector); /* bytes of records */
void collector__counts(const struct collector *collector, struct collect_counts *ret);

/* --- records (record.c): pure --- */

/* Checks that `len` bytes at `data` (8-byte aligned) are one record as record.h defines it. 0; -EBADMSG: they are not,
 * or it is folded; -ENOTSUP: unknown kind. */
int record__check(const void *data, size_t len);

/* Finds the parts of a checked sample record; the only place that does. */
void record__parse(const struct record_sample *record, struct sample *ret);
/* The copy of the object at this address; NULL: there is none. */
const struct part_object *sample__object(const struct sample *sample, uint64_t address);
/* The copy of the object that this path of the frame leads to (struct py_path). */
const struct part_object *sample__object_of_path(const struct sample *sample, uint32_t frame, uint32_t path);
/* Copies the record to `to` (8-byte aligned, header.size bytes); *ret: the parts of the copy. */
void sample__copy(const struct sample *sample, void *to, struct sample *ret);

/* The first part of this kind in a checked code record, or the next one
 * after `after` (NULL: none left). */
const struct record_part *record__part(const struct record_code *record, uint16_t kind);
const struct record_part *record__part_after(const struct record_code *record, const struct record_part *after,
					     uint16_t kind);

/* --- folded samples (fold.c): pure --- */

/* Room for the longest sample that the sampler sends, unfolded. */
struct record_room {
	_Alignas(8) char bytes[SAMPLE_RECORD_MAX];
};
bool record__is_folded(const void *data, size_t len);
/* The sample before it was folded; the result is not checked. -EBADMSG: it does not unfold. */
int record__unfold(const void *data, size_t len, struct record_room *ret);

/* Bytes of the string in the record; fewer than length * kind if it was truncated. */
size_t part_string__bytes(const struct part_string *string);
