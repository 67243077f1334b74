/* SPDX-License-Identifier: MIT */
/* The ranges of code that have call frame information of their own (FDEs of .eh_frame): functions, and parts that the
 * compiler moved away from them (.cold). For this folder and classes/. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "unwind/cfi.h"

#define CODE_FRAMES_BYTES (8u << 20) /* of .eh_frame; CPythons have 0.2 to 0.6 MB */

/* One FDE. `cie`: offset of its CIE, too. */
struct code_piece {
	uint64_t start, size; /* vaddr */
	uint32_t entry;       /* offset of its FDE in .eh_frame */
	uint32_t cie;
};

struct code_frames {
	struct elf_frames elf;
	uint8_t *bytes;       /* .eh_frame */
	struct code_piece *pieces; /* sorted by address */
	uint32_t n, capacity;
};

/* -ENODATA: no .eh_frame; -E2BIG: beyond the bound; and those of elf_frames__open(). */
int code_frames__open(const struct elf_bytes *source, struct code_frames *ret);
void code_frames__free(struct code_frames *frames);

/* The piece that contains vaddr; NULL: none. */
const struct code_piece *code_frames__find(const struct code_frames *frames, uint64_t vaddr);

/* Does it begin like a function that was just called: CFA = stack pointer + 8? */
bool code_frames__is_entry(const struct code_frames *frames, const struct code_piece *piece);
