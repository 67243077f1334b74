/* SPDX-License-Identifier: MIT */
/* Relocations: what their types mean, whatever the machine calls them, and those of objects that
 * were placed but not linked, as JIT compilers register them. Threads, errors and bounds as in
 * elf/elf.h. */
#pragma once

#include <stdbool.h>

#include "elf/elf.h"

enum elf_relocation_kind {
	ELF_RELOCATION_UNKNOWN,
	ELF_RELOCATION_ABSOLUTE, /* symbol + addend */
	ELF_RELOCATION_RELATIVE, /* the same, from the place that is relocated */
	ELF_RELOCATION_BASE,	 /* where the file was loaded + addend */
	ELF_RELOCATION_SLOT,	 /* symbol: of the global offset table */
};

struct elf_relocation {
	uint8_t kind, width; /* enum elf_relocation_kind; bytes that it writes: 4 or 8 */
};

/* UNKNOWN, too, of another machine than ELF_MACHINE. */
struct elf_relocation elf_relocation__of(uint16_t machine, uint64_t info);

/* The first SHT_RELA or SHT_REL for section `target`, 0: none. */
uint32_t elf_image__relocations(const struct elf_image *image, uint32_t target);
/* Applies those of section `number` to a copy of its target, of `len` bytes; at most *budget, which
 * it takes from. False: some are not known, do not fit, or cannot be read. Symbols of other files
 * (personality routines) are left. */
bool elf_image__relocate(const struct elf_image *image, uint32_t number, uint8_t *bytes, size_t len,
			 uint32_t *budget);
