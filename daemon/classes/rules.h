/* SPDX-License-Identifier: MIT */
/* Which native code belongs to a compiler, or to the dispatch into JIT code? One table (rules.c), data only. A row here
 * is what CONTRIBUTING's recipe for a compiler adds for a library of its own. Private to this folder. */
#pragma once

#include <stdint.h>

#define RULE_OF_CALLER CLASS_COUNT /* counts for its caller, as the C library does */

/* One row. All strings are constants; `what` becomes the detail of the class ("LLVM"). */
struct class_rule {
	/* pattern of the file name; "JIT": code of a JIT compiler; "(callee)": what Python code called */
	const char *module;
	const char *name;   /* pattern of the function's name; NULL: any */
	uint8_t kind;       /* enum class_kind; CLASS_NONE: no rule applies, and later rows are not tried */
	const char *what;
};

extern const struct class_rule class_rules[];
extern const uint32_t n_class_rules;
