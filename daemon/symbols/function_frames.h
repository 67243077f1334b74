/* SPDX-License-Identifier: MIT */
/* Where functions lie, as call frame information has it: each has an entry of its own there, also in a file that was
 * stripped of its symbols, and so has each part that a compiler moved away from its function (".cold"). All bytes
 * are the target's: counts are bounded.
 *
 * Users: vtable.c, which needs the size of a method, and file.c, for ranges without a name. (The sampler's own
 * unwind tables are made in daemon/unwind.) */
#pragma once

#include "elf/elf.h"
#include "symbols/table.h"

/* The table of .eh_frame_hdr, as all linkers write it (LSB 5.0, 10.6.2). */
struct function_frames {
	const struct elf_image *image; /* borrowed */
	struct function_frame {
		int32_t start, entry; /* from the section */
	} *items; /* sorted by start, unless the file lies */
	uint32_t n;
	uint64_t address; /* of the section */
};

/* -ENOENT: there is none, or it is written in another way; -ENOMEM. Then *ret is empty. */
int function_frames__open(const struct elf_image *image, struct function_frames *ret);
void function_frames__free(struct function_frames *frames);
/* Of the function that begins at vaddr. 0: no entry begins there, or it is written in another way. */
uint32_t function_frames__size(const struct function_frames *frames, uint64_t vaddr);

/* Functions that neither `known` nor `virtuals` has, without names. -ENOENT: none. */
int symbol_table__load_frames(struct symbol_table *table, const struct function_frames *frames, const struct code_ranges *ranges,
			      const struct symbol_table *known, const struct symbol_table *virtuals);
