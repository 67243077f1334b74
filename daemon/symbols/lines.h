/* SPDX-License-Identifier: MIT */
/* file:line from DWARF: which unit has an address, which of its functions, and what its line table says. Of a file
 * is held where the code of its units lies (16 bytes a piece) and spans of the units that were asked about
 * (line_spans.h); of the unit that was asked about last, more (dwarf.h).
 *
 * Caller: file_lines.c. Threads: one at a time for each struct lines. */
#pragma once

#include "elf/elf.h"
#include "symbols/symbols.h"

#define LINES_RANGES_MAX (1u << 18) /* pieces of code of units: files that have more are refused */

struct lines;
/* What earlier sessions made of the same files. */
struct lines_kept {
	int folder;          /* where packed sections are kept unpacked; < 0: nowhere */
	struct kept_key key; /* if there is a folder */
	const void *known;   /* what lines__pack() made; or NULL */
	size_t len;
};
/* `image` is borrowed. With what is known no unit is read until an address is asked for that it does not have;
 * without it, or if it does not fit, all units are listed here. -ENOENT: the image has no lines; -EFBIG, -EBADMSG,
 * -ENOMEM. */
int lines__open(const struct elf_image *image, const struct lines_kept *kept, struct lines **ret);
/* What is known by now, appended. -ENOENT: nothing that was not there when it was opened or packed last; -ENOMEM. */
int lines__pack(struct lines *lines, struct buf *to);
struct lines *lines__free(struct lines *lines); /* NULL */
/* Gives back what can be had again. */
void lines__rest(struct lines *lines);
/* As symbol_file__line(). */
int lines__find(struct lines *lines, uint64_t vaddr, struct source_line *ret);
