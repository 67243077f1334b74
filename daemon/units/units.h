/* SPDX-License-Identifier: MIT */
/* Units: which compile, phase and pass does each sample belong to? Samples must come in order of time.
 *
 * This is an event sink in front of another. Events pass through it: samples leave with their `unit` filled in, and
 * `units` and `unit_end` events are inserted between them (events.h). The rules (rules/rules.h) say which frames make
 * a unit. Frames in successive samples of one thread are one unit as long as they are the same call: the same
 * function, called from the same call site, and, where the sampler captured locals, a frame at the same address with
 * the same locals. What is not known of these counts as equal.
 *
 * Captured locals take another way: units__code() for each code object, units__sample() for each record, before its
 * sample event comes. The objects that they point to are read there, from the target's memory. A unit whose values
 * could not be read has the name "" until they can.
 *
 * A unit begins where the wall time of its first sample begins, and ends with its last sample. In sessions of CPU time
 * it begins at most one period before its first sample: the thread waited before that, for something else.
 * Memory: tables of one epoch (of units only the open ones), UNITS_TEXT_MAX of names. Owner: the session. One thread.
 * Errors: -errno; those of the next sink are passed on.
 */
#pragma once

#include "collect/collect.h"
#include "cprofd/host.h"
#include "cprofd/pylayout.h"
#include "cprofd/record.h"
#include "events/events.h"
#include "rules/rules.h"

#define UNITS_TEXT_MAX (8u << 20)
/* units, phases and passes of one stack; deeper ones are counted for the last of these */
#define UNITS_DEPTH_MAX 256u
/* records whose sample event has not come: 2 s at 20 kHz, which the start of a session delays */
#define UNITS_WAITING_MAX 65536u

struct units;
/* `rules` and `next` are borrowed and outlive it. */
int units__new(const struct rules *rules, struct event_sink *next, struct units **ret);
void units__free(struct units *units);
struct event_sink *units__sink(struct units *units);
/* Who says whether a thread that left its CPU sleeps since; without it nobody does. */
void units__asleep(struct units *units, bool (*asleep)(const struct record_sample *sample));

/* A checked code record. `qualified`: its Python has qualified names (3.11+). True: the sampler should capture the locals in *ret. */
bool units__code(struct units *units, const struct record_code *code, bool qualified, struct locals_capture *ret);
/* The same, of a code object that was given before, by its key. */
bool units__capture(const struct units *units, uint64_t key, struct locals_capture *ret);
/* A checked sample record, of a tick or of a thread that is switched out, before its event comes. `memory` NULL: values
 * cannot be read now. `layout` may be NULL if the record has no Python frames. */
int units__sample(struct units *units, const struct sample *sample, struct host_reader *memory,
		  const struct py_layout *layout);
/* What units__sample() found out since the last call: the sampler should have it, for the samples that follow. */
#define UNITS_PATHS_MAX 8u
const struct py_path *units__paths(struct units *units, uint32_t *ret_n);
/* Number of ids emitted in this epoch; the session begins a new epoch at UNITS_EPOCH_MAX. A late joiner gets a row for
 * each, at most 8 MiB may be queued for a client, and the client's tables are as long. */
#define UNITS_EPOCH_MAX 65536u
uint32_t units__count(const struct units *units);
/* Compiles that ended without a name since the last call. */
uint32_t units__unnamed(struct units *units);
/* For a late joiner, after profile__replay(): rows of the open units; the ids of ended ones get rows of kind
 * UNIT_OVER. */
int units__replay(struct units *units, struct event_sink *sink);
