/* SPDX-License-Identifier: MIT */
/* The compile units of a recording, as a short table on stderr. */
#ifndef CPROFD_CLI_UNITS_H
#define CPROFD_CLI_UNITS_H

#include "events/events.h"

struct unit_sums;
struct unmatched;
/* A sink in front of another: what passes is counted too. */
struct units_summary {
	struct event_sink sink, *next;
	struct unit_sums *sums;
	struct unmatched *unmatched;
	uint64_t functions, nameless; /* of LLVM */
	char stripped[128];           /* its file */
};
/* `rules`: of --rules, NULL: none. */
int units_summary__init(struct units_summary *summary, const char *rules, struct event_sink *next);
void units_summary__free(struct units_summary *summary);
uint32_t units_summary__compiles(struct units_summary *summary);
/* So many rows of compiles, with an empty line in front; 0: of phases and passes, too, as many as --verbose shows. Nothing
 * when there was no compile. `gil`: samples without the GIL have no stacks. */
void units_summary__print(struct units_summary *summary, bool gil, uint32_t rows);
/* Notes on rules that matched no compile, and on passes without names; about how many lines they take. */
void units_summary__print_notes(struct units_summary *summary);
uint32_t units_summary__note_lines(const struct units_summary *summary);

#endif
