/* SPDX-License-Identifier: MIT */
/* Where is the interpreter's eval loop in a module? It is not one range but several:
 *
 *  - _PyEval_EvalFrameDefault, and parts that the compiler split off: gcc's profile-guided builds of 3.13 to 3.15 have
 *    nearly all of it in `.cold`, far from the rest;
 *  - in an interpreter with tail calls (3.14+): one function for each instruction.
 *
 * A stripped interpreter still exports the first name (.dynsym), but `.cold` has no symbol. It is recognised by three
 * properties: it has call frame information of its own that does not begin like a called function's (its first row has
 * a frame already); the eval loop jumps to it; and it jumps back. docs/cpython.md.
 *
 * All bytes are the target's: every search is bounded, and inconsistent data give no range. Errors: -errno; -ENOENT:
 * there is no eval loop in this module. Threads: any.
 */
#pragma once

#include "base/range.h"
#include "symbols/symbols.h"
#include "unwind/unwind.h"
#include "weave/weave.h"

#define EVAL_RANGES_MAX 1024u /* 3.14 has some 250 instructions */

/* Ranges do not overlap. A row for range__find(). */
struct eval_range {
	uint64_t start, end;    /* vaddrs */
	uint8_t role;           /* WEAVE_EVAL, WEAVE_HANDLER */
	uint8_t by_jumps;       /* found by jumps, without a symbol */
};

struct eval_ranges {
	struct eval_range *ranges; /* sorted by address */
	uint32_t n;
};

/* Takes 10 to 40 ms for an interpreter: once for each module. `symbols`: of the same file. */
int eval_ranges__find(const struct elf_bytes *elf, const struct symbol_file *symbols,
		      struct eval_ranges *ret);
/* The ranges of the file `fd`, from the cache in directory `folder` (< 0: no cache) if they were found before. Only
 * this process may write to that directory. */
int eval_ranges__open(int fd, const struct symbol_file *symbols, int folder, struct eval_ranges *ret);
void eval_ranges__free(struct eval_ranges *ranges);

/* WEAVE_EVAL, WEAVE_HANDLER or WEAVE_CODE; *within as range__find(). A return address: ask for the byte before it. */
static inline enum frame_role eval_ranges__role(const struct eval_ranges *ranges, uint64_t vaddr, struct range *within)
{
	const struct eval_range *range = range__find(ranges->ranges, ranges->n, sizeof(*range), vaddr, within);

	return range ? (enum frame_role)range->role : WEAVE_CODE;
}
