/* SPDX-License-Identifier: MIT */
/* Samples with their times, cut into batches: what is sent to stores of profiles, each in its encoding.
 *
 *     events -> model -> batch -> otlp.c, pyroscope.c
 *
 * Used in two ways. Of a recording: batch__begin(), model__read(), an encoder. Of a session that goes on: events go to
 * `model.sink`; what came since the last batch__clear() is a batch, which stands on its own.
 *
 * Memory: the model, and 32 bytes a sample of what is not yet encoded. Errors: -errno. One thread. */
#pragma once

#include "export/model.h"

/* What only who sends it knows. Borrowed; NULL: left out, or made of what the recording has. */
struct batch_resource {
	const char *service, *host;
};

/* `next`: the following one of the same series + 1; 0: the last one. */
struct observation {
	uint64_t time, cpu, wall; /* ns */
	uint32_t next;
};

/* Samples that differ in their times only. */
struct series {
	uint32_t process, key;	/* the order in a request */
	uint32_t first, last;	/* observations + 1 */
};

struct batch {
	struct model model;
	struct batch_resource resource;
	const struct buf *quiet; /* borrowed; threads that are left out (quiet.h), if that is known before they are read */
	struct intern keys;	 /* struct stack_key, by series */
	struct buf series;	 /* struct series */
	struct buf observations; /* struct observation */
	uint64_t number;	 /* of batches that were encoded so far */
};

/* ns since the session's start: times of a batch's samples are in [from, to). */
struct batch_span {
	uint64_t from, to;
};

/* The series of one process. */
struct batch_process {
	uint32_t id, n;
	const struct series *series;
};

int batch__begin(struct batch *batch, const struct export_options *options);
static inline uint32_t batch__samples(const struct batch *batch)
{
	return LENGTH(batch->observations, struct observation);
}
struct batch_span batch__span(const struct batch *batch);
/* Sorts the series, and counts the batch. */
void batch__order(struct batch *batch);
/* The first process, if ret->series is NULL, else the next one; of an ordered batch. */
bool batch__next(const struct batch *batch, struct batch_process *ret);
/* What distinguishes it: struct stack_key. NULL: of a thread that hardly ran (quiet.h), which is no part of a share. */
const struct stack_key *batch__key(const struct batch *batch, const struct series *series);
/* 128 bits: the same for the same samples, so that who gets a request twice can tell. */
void batch__id(const struct batch *batch, uint32_t process, uint32_t kind, uint64_t ret[2]);
/* It was encoded. */
void batch__clear(struct batch *batch);
void batch__free(struct batch *batch);

/* service.name */
void batch__service(const struct batch *batch, const struct model_process *process, char *ret, size_t size);
/* The last part of the program's path. */
void batch__executable(const struct model_process *process, char *ret, size_t size);
/* Do waits count? */
bool batch__shows_waits(const struct batch *batch);
