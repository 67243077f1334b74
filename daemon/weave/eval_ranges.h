/* SPDX-License-Identifier: MIT */
/* Where the interpreter's eval loop lies in a module: not one range but some.
 *
 *  - _PyEval_EvalFrameDefault, and what the compiler split off: gcc's profile-guided builds of 3.13 to
 *    3.15 keep nearly all of it in `.cold`, far from the rest;
 *  - one function for each instruction in an interpreter of tail calls (3.14+).
 *
 * A stripped interpreter still exports the first name (.dynsym), but `.cold` has none. It is found
 * by what it is: a stretch of code with call frame information of its own, which does not begin as a function
 * that was called does (its first row has a frame already), that the eval loop jumps to and that jumps
 * back. docs/cpython.md.
 *
 * All bytes are the target's: a walk has a bound, what does not fit is no range.
 * Errors: -errno; -ENOENT: no eval loop in this module. Threads: none kept.
 */
#ifndef CPROFD_WEAVE_EVAL_RANGES_H
#define CPROFD_WEAVE_EVAL_RANGES_H

#include <stdint.h>

#include "symbols/symbols.h"
#include "unwind/unwind.h"
#include "weave/weave.h"

#define EVAL_RANGES_MAX 1024u /* 3.14 has some 250 instructions */

struct eval_range {
	uint64_t start, end;    /* vaddrs */
	uint8_t role;           /* WEAVE_EVAL, WEAVE_HANDLER */
	uint8_t by_jumps;       /* found without a name */
};

struct eval_ranges {
	struct eval_range *ranges; /* by address */
	uint32_t n;
};

/* Takes 10 to 40 ms for an interpreter: once for each module. `symbols`: of the same file. */
int eval_ranges__find(const struct elf_bytes *elf, const struct symbol_file *symbols,
		      struct eval_ranges *ret);
/* Of the file `fd`, from `folder` (< 0: nowhere) if they were found before: a folder that this process alone may write to. */
int eval_ranges__open(int fd, const struct symbol_file *symbols, int folder, struct eval_ranges *ret);
void eval_ranges__free(struct eval_ranges *ranges);

/* WEAVE_EVAL, WEAVE_HANDLER or WEAVE_CODE. A return address: ask for the byte before it. */
enum frame_role eval_ranges__role(const struct eval_ranges *ranges, uint64_t vaddr);
/* Narrows [*from, *to), vaddr in it, to where that is the same. */
void eval_ranges__range(const struct eval_ranges *ranges, uint64_t vaddr, uint64_t *from, uint64_t *to);

#endif
