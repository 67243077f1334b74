/* SPDX-License-Identifier: MIT */
/* The compile units of a recording, as short tables in the summary. */
#pragma once

#include "events/events.h"

struct unit_sums;
struct unmatched;
/* A sink in front of another one: counts what passes and hands it on. */
struct units_summary {
	struct event_sink sink, *next;
	struct unit_sums *sums;
	struct unmatched *unmatched;
	uint64_t functions, nameless; /* functions of LLVM; those without a symbol */
	char stripped[128];           /* its file */
};
/* `rules`: the argument of --rules; NULL: none. */
int units_summary__init(struct units_summary *summary, const char *rules, struct event_sink *next);
void units_summary__free(struct units_summary *summary);
/* How many rows the table of compiles could have; 0 also without memory. */
uint32_t units_summary__compiles(struct units_summary *summary);
/* Prints `rows` rows of compiles, after an empty line; rows 0: also phases and passes, as many as --verbose shows.
 * Prints nothing if there was no compile. `gil`: the recording was made with --gil. */
void units_summary__print(struct units_summary *summary, bool gil, uint32_t rows);
/* Notes on rules that matched no compile and on passes without names; how many lines they take. */
void units_summary__print_notes(struct units_summary *summary);
uint32_t units_summary__note_lines(const struct units_summary *summary);
