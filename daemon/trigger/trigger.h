/* SPDX-License-Identifier: MIT */
/* Conditions that are to be noticed while a session runs, and the sink that notices them in its events.
 *
 *     unit>2s                       a compile takes longer than 2 s, by the clock
 *     unit=svd>2s                   ... one of that name, as --function has names
 *     phase=native_lowering>500ms   a phase; pass=...: a pass of an optimiser
 *     cpu>90% for 10s               CPU time of all threads together, in each of so many seconds; 100% is one CPU
 *
 * A compile fires when its first sample beyond the limit comes: it has not ended then. It fires once for each condition.
 * `cpu` fires once, and again after a second below the limit.
 *
 * One thread. Errors: -errno. Times are ns, CLOCK_MONOTONIC. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "events/events.h"
#include "export/units.h"

#define CONDITIONS_MAX 16u
#define CONDITION_NAME_MAX 256u
#define CONDITION_CPU UNIT_KINDS

struct condition {
	uint32_t kind;                     /* enum unit_kind, or CONDITION_CPU */
	const char *text;                  /* as it was given; borrowed */
	char name[CONDITION_NAME_MAX];     /* pattern; "": any */
	uint64_t limit;                    /* ns; of `cpu`: ns of CPU time in a second */
	uint32_t seconds;                  /* of `cpu` */
};
/* NULL, or what is wrong with the text, as the end of a sentence that begins with it; valid until the next call. */
const char *condition__parse(const char *text, struct condition *ret);

struct fired {
	uint32_t condition;                /* index */
	uint64_t time;
	/* Longer than the limit. Of `cpu`: CPU time in `seconds`. */
	uint64_t value;
	int32_t tid;                       /* of `cpu` 0 */
	char name[2 * CONDITION_NAME_MAX]; /* "svd(float64)", "native_lowering of svd(float64)"; of `cpu` "" */
};

/* Memory: the tables of one epoch, and of what was compiled up to a bound. The session has to be cut into parts, or to
 * begin epochs. `conditions` are borrowed. */
struct watch;
int watch__new(const struct condition *conditions, uint32_t n, struct watch **ret);
struct watch *watch__free(struct watch *watch); /* NULL */
struct event_sink *watch__sink(struct watch *watch);
/* What fired, one after another. False: nothing (more). */
bool watch__next(struct watch *watch, struct fired *ret);
/* The first compile (phase, pass) that fired since the last call of watch__release() still goes on. One that has had no
 * sample for WATCH_IDLE_NS counts as over. */
#define WATCH_IDLE_NS 5000000000u
bool watch__goes_on(const struct watch *watch);
void watch__release(struct watch *watch);
/* How far the events have come. */
uint64_t watch__now(const struct watch *watch);
