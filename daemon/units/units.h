/* SPDX-License-Identifier: MIT */
/* Units: samples in order of time -> which compile, phase and pass each is of.
 *
 * A sink of events in front of another: what comes in goes out, samples with their `unit` filled in, and `units`,
 * `unit_end` between them (events.h). The rules (rules/rules.h) say which frames count. Frames of one thread's samples
 * in a row are one unit as long as they are the same call: the same function, called from the same place in the stack of units,
 * and, where the sampler gave values, at the same address with the same locals. What is missing of that is taken for equal.
 *
 * Values come beside: units__code() for each code object, units__sample() for each record before its sample event comes.
 * They are read then, from the target's memory; a unit whose values could not be read has the name "" until they can.
 *
 * A unit's time is that of its samples' spans: it begins where its first one's wall begins (in sessions of CPU time at most
 * one period before that sample: what the thread waited for then was no part of it) and ends with its last one.
 * Memory: tables of one epoch (of units only those that go on), UNITS_TEXT_MAX of names. Owner: the session. One thread. Errors: -errno; the sink's are
 * handed up.
 */
#ifndef CPROFD_UNITS_H
#define CPROFD_UNITS_H

#include <stdbool.h>
#include <stdint.h>

#include "collect/collect.h"
#include "cprofd/host.h"
#include "cprofd/pylayout.h"
#include "cprofd/record.h"
#include "events/events.h"
#include "rules/rules.h"

#define UNITS_TEXT_MAX (8u << 20)
#define UNITS_DEPTH_MAX 256u    /* units, phases and passes of one stack; deeper ones count for these */
#define UNITS_WAITING_MAX 65536u /* records whose sample event has not come: what a session's begin holds back, for 2 s at 20 kHz */

struct units;
/* `rules` and `next` are borrowed and outlive it. */
int units__new(const struct rules *rules, struct event_sink *next, struct units **ret);
struct units *units__free(struct units *units); /* NULL */
struct event_sink *units__sink(struct units *units);

/* A checked code record. True: the sampler should give its locals. */
bool units__code(struct units *units, const struct record_code *code, struct locals_capture *ret);
/* What units__code() answered for this code object. */
bool units__locals_capture(const struct units *units, uint64_t key, struct locals_capture *ret);
/* A checked sample record, of a tick or of a thread that leaves its CPU, before it is made an event; `memory` NULL: values
 * cannot be read now; `layout` may be NULL for one that has none. */
int units__sample(struct units *units, const struct sample *sample, struct host_reader *memory,
		  const struct py_layout *layout);
/* Ids told in this epoch. A late joiner gets a row for each (8 MiB may wait for a client), and its tables are as long. */
#define UNITS_EPOCH_MAX 65536u
uint32_t units__count(const struct units *units);
/* For a late joiner, after profile__replay(): the units that go on; others of this epoch have UNIT_OVER in their places. */
int units__replay(struct units *units, struct event_sink *sink);

#endif
