/* SPDX-License-Identifier: MIT */
/* Rules that found nothing although their compiler ran: the rule file is wrong, or the compiler's version is not
 * covered.
 *
 * Reads the functions and units of a recording. For --rules it names each rule that matched no function on a stack;
 * for the built-in rules it only says which compiler ran without a compile being found. */
#pragma once

#include "events/events.h"

struct unmatched;
/* `path`: of --rules; NULL: none. Returns NULL, which all functions accept, if the rules cannot be read any more, or
 * without memory. */
struct unmatched *unmatched__new(const char *path);
struct unmatched *unmatched__free(struct unmatched *unmatched);
/* Events in the order of the recording; borrowed for the call. */
void unmatched__event(struct unmatched *unmatched, const struct event *event);
/* At most how many lines unmatched__print() takes for the built-in rules. */
uint32_t unmatched__lines(const struct unmatched *unmatched);
/* Prints to stderr. */
void unmatched__print(const struct unmatched *unmatched);
