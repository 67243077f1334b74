/* SPDX-License-Identifier: MIT */
/* Rules that found nothing although their compiler was at work: a file that is wrong, or a version that it does not know.
 *
 * It looks at the functions and units of a recording. For --rules it names each rule that matched no function on a stack; for the
 * built-in rules it says only that a compiler ran of which no compile was found. */
#ifndef CPROFD_CLI_UNMATCHED_H
#define CPROFD_CLI_UNMATCHED_H

#include "events/events.h"

struct unmatched;
/* `path`: of --rules, NULL: none. -errno; rules that cannot be read any more: *ret is NULL, which all take. */
int unmatched__new(const char *path, struct unmatched **ret);
struct unmatched *unmatched__free(struct unmatched *unmatched);
void unmatched__event(struct unmatched *unmatched, const struct event *event);
/* How many lines of a terminal the words about the program's own rules are, at most. */
uint32_t unmatched__lines(const struct unmatched *unmatched);
/* Speaks, on stderr. */
void unmatched__print(const struct unmatched *unmatched);

#endif
