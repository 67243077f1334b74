/* SPDX-License-Identifier: MIT */
/* Which native code belongs to a compiler, or to the way into code of a JIT: one table, and data only. Private to this
 * folder. */
#ifndef CPROFD_CLASSES_RULES_H
#define CPROFD_CLASSES_RULES_H

#include <stdint.h>

#define RULE_OF_CALLER CLASS_COUNT /* part of who called it */

struct class_rule {
	const char *module; /* pattern (fnmatch) of the file's name, or of who made it ("JIT"); "(callee)": what Python called */
	const char *name;   /* pattern of the function's name; NULL: any */
	uint8_t kind;       /* enum class_kind; CLASS_NONE: the rest of the list is not asked */
	const char *what;
};

extern const struct class_rule class_rules[];
extern const uint32_t n_class_rules;

#endif
