/* SPDX-License-Identifier: MIT */
/* Sums of compiles, phases and passes over a recording, for the summary: a row has all calls of one name and
 * signature. Wall time. (The tables of `report` also distinguish where each was called: report/units.c.)
 *
 * Pass it all events. Memory: the units of one epoch, and a row for each name. Threading: none. Errors: -ENOMEM. */
#pragma once

#include "events/events.h"

struct unit_sums;
int unit_sums__new(struct unit_sums **ret);
struct unit_sums *unit_sums__free(struct unit_sums *sums); /* NULL */
/* Events are borrowed. */
int unit_sums__event(struct unit_sums *sums, const struct event *event);
struct unit_line {
	uint32_t row; /* numbers rows by their first unit */
	const char *compiler, *name, *signature;
	uint8_t kind; /* enum rule_kind */
	uint32_t count;
	uint64_t inclusive, exclusive; /* ns. Inclusive: recursion counts once. Exclusive: of a compile without
					* compiles inside of it, but with its phases and passes */
};
/* The rows of one kind, by inclusive time; valid until the next event. */
int unit_sums__lines(struct unit_sums *sums, uint8_t kind, const struct unit_line **ret, uint32_t *ret_n);
/* ns of wall time in class "compiler native", inside of compiles, but in no known pass; not part of the times above. */
uint64_t unit_sums__no_pass(const struct unit_sums *sums);
