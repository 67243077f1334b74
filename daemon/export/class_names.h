/* SPDX-License-Identifier: MIT */
/* Classes of time: the ids in sample rows -> names. 0 is "not determined". The reader of the events passes in the
 * names of each epoch; an id without a name becomes "class N". The ids that this returns are dense, stay valid over
 * all epochs, and serve as keys. Errors: -ENOMEM. Zero-initialised is empty. */
#pragma once

#include "base/buf.h"
#include "events/events.h"
#include "base/intern.h"

#define CLASS_NOT_DETERMINED "not determined"

/* A recording has some twenty names, in all epochs together. */
struct class_names {
	struct intern names; /* NUL-terminated */
	struct buf epoch;    /* uint32_t: id of the epoch -> id here + 1; 0: not known yet */
};

/* A new epoch begins: its ids have no names yet. */
void class_names__epoch(struct class_names *names);
/* `id` of this epoch is called `name`. */
int class_names__emit(struct class_names *names, uint32_t id, const char *name);
/* The same for all rows of an event `classes`. */
int class_names__rows(struct class_names *names, const struct event_rows *rows);
/* Id of this epoch -> id of the recording. */
int class_names__id(struct class_names *names, uint32_t id, uint32_t *ret);
/* Valid until the next call of another function. */
const char *class_names__name(const struct class_names *names, uint32_t id);
void class_names__free(struct class_names *names);
