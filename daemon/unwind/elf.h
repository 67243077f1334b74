/* SPDX-License-Identifier: MIT */
/* What the unwinder needs of an ELF file: sections with call frame information, code range, functions, build-id. All
 * offsets and sizes returned lie within the file; addresses are unchecked. */
#pragma once

#include "unwind/unwind.h"

struct elf_section {
	uint64_t address;      /* ELF address; of a JIT compiler's object: where it was loaded */
	uint64_t offset, size; /* in the file; size 0: there is none */
};

/* Found once for each file; plain numbers, nothing to free. */
struct elf_frames {
	uint64_t text, text_size; /* from the first executable byte to the last */
	uint64_t entry;		  /* where a process begins; 0: nowhere here */
	struct elf_section eh_frame, debug_frame;
	uint64_t got; /* what DW_EH_PE_datarel is relative to; 0: unknown */
	struct unwind_identity identity;
	uint32_t relocations; /* of an object that was not linked: the section with those of its
				 .eh_frame; 0: none */
	/* Symbols of functions: .symtab, or .dynsym if the file was stripped. function_names: the section that has
	 * their names. loaded_only: an object that was not linked, whose symbols have values relative to their
	 * sections. */
	struct elf_section functions;
	uint32_t function_names;
	bool loaded_only;
	bool has_sections;
};

/* Errors are those of elf_image__open(); -ENODATA: no code, or nothing that describes it. */
int elf_frames__open(const struct elf_bytes *source, struct elf_frames *ret);
/* With relocations: .eh_frame as it would be in memory. Its offset is one in `ret` from then on;
 * *ret_bytes is the caller's to free. */
int elf_frames__relocate(const struct elf_bytes *source, struct elf_frames *elf,
			 struct elf_bytes *ret, void **ret_bytes);
