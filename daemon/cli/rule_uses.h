/* SPDX-License-Identifier: MIT */
/* Use of each rule: in how many samples one of its functions was on the stack, and which units came of it.
 *
 * Looks at the events of a recording. A unit does not say which rule it is of: of a stack with functions of three rules of a kind and
 * two units of it, the rule that lacks one is known if the other two have theirs elsewhere. Otherwise nothing is reported.
 */
#ifndef CPROFD_CLI_RULE_USES_H
#define CPROFD_CLI_RULE_USES_H

#include "events/events.h"
#include "rules/rules.h"

#define RULE_USES_MAX 64u /* rules from the first on; of more nothing is known */

struct rule_use {
	uint32_t missed;          /* samples with a function of it on the stack, whatever variables that has, and no unit of it; 0: it had some */
	uint32_t named, nameless; /* units that are of this rule alone, by their samples' stacks */
};

struct rule_uses;
/* Of the rules from `first` on. `rules` is borrowed. NULL: out of memory, which all take. */
struct rule_uses *rule_uses__new(const struct rules *rules, uint32_t first);
struct rule_uses *rule_uses__free(struct rule_uses *uses);
void rule_uses__event(struct rule_uses *uses, const struct event *event);
/* Ends the epoch that goes on. Nothing is known: *ret is of zeros. */
void rule_uses__get(struct rule_uses *uses, uint32_t rule, struct rule_use *ret);

#endif
