/* SPDX-License-Identifier: MIT */
/* Rules that found nothing although their compiler ran: the rule file is wrong, or the compiler's version is not
 * covered.
 *
 * Reads the functions and units of a recording. For --rules it names each rule that matched no function on a stack;
 * for the built-in rules it only says which compiler ran without a compile being found. */
#pragma once

#include "events/events.h"
#include "rules/rules.h"

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

/* --- rule_uses.c --- */
/* How often each rule matched: in how many samples one of its functions was on the stack, and how many units came
 * from it.
 *
 * Computed from the events of a recording. A unit row does not name its rule. If a stack has functions of three
 * rules of one kind, but only two units of it, the rule without a unit is known only if the other two have units
 * elsewhere. Otherwise nothing is reported. */
#define RULE_USES_MAX 64u /* the rules after these are not counted: a bit each in 64 */

/* What is known of one rule. It "missed" if its function was there and its conditions did not hold. */
struct rule_use {
	uint32_t missed;          /* samples with one of its functions on the stack but no unit of it */
	uint32_t named, nameless; /* units that only this rule can have made, with and without a name */
};

struct rule_uses;
/* Counts for the rules from `first` on; `first` is the number of built-in ones. `rules` is borrowed. NULL:
 * out of memory; all functions accept NULL. */
struct rule_uses *rule_uses__new(const struct rules *rules, uint32_t first);
void rule_uses__free(struct rule_uses *uses);
/* Events in the order of the recording; borrowed for the call. */
void rule_uses__event(struct rule_uses *uses, const struct event *event);
/* Ends the current epoch. If nothing is known, *ret is zero. */
void rule_uses__get(struct rule_uses *uses, uint32_t rule, struct rule_use *ret);
