/* SPDX-License-Identifier: MIT */
/* The bytes are the sections of debug information of an ELF file that is good otherwise: first how long each is (a
 * byte for 64 of them, or all that is left), whether it is packed, and two addresses to ask for. */
#include <elf.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "symbols/symbols.h"

#define SECTIONS 9u
#define HEAD (SECTIONS + 2 + 4)

static const char names[] = "\0.debug_info\0.debug_abbrev\0.debug_line\0.debug_line_str\0.debug_str\0.debug_str_offsets"
			    "\0.debug_ranges\0.debug_rnglists\0.debug_addr\0.shstrtab";

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	Elf64_Ehdr header = {.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
			     .e_type = ET_EXEC,
			     .e_machine = EM_X86_64,
			     .e_version = EV_CURRENT,
			     .e_ehsize = sizeof(header),
			     .e_shoff = sizeof(header),
			     .e_shentsize = sizeof(Elf64_Shdr),
			     .e_shnum = SECTIONS + 2,
			     .e_shstrndx = SECTIONS + 1};
	size_t fixed = sizeof(header) + (SECTIONS + 2) * sizeof(Elf64_Shdr) + sizeof(names), at, left;
	Elf64_Shdr sections[SECTIONS + 2] = {};
	const uint8_t *lengths = data;
	struct symbol_file *file;
	struct source_line line;
	uint16_t packed;
	uint64_t vaddr = 0;
	uint8_t *image;
	unsigned i;

	if (size < HEAD || size > 1 << 18)
		return 0;
	memcpy(&packed, data + SECTIONS, 2);
	memcpy(&vaddr, data + SECTIONS + 2, 4);
	data += HEAD;
	left = size - HEAD;
	image = malloc(fixed + left);
	if (!image)
		return 0;
	memcpy(image + fixed, data, left);
	for (i = 0, at = 1; i <= SECTIONS; i++, at += strlen(names + at) + 1) {
		size_t len = i < SECTIONS && (lengths[i] & 0x7f) * 64u < left && lengths[i] != 0xff
				     ? (lengths[i] & 0x7f) * 64u
				     : left;

		sections[i + 1] = (Elf64_Shdr){.sh_name = (uint32_t)at,
					       .sh_type = SHT_PROGBITS,
					       .sh_flags = packed >> i & 1 ? SHF_COMPRESSED : 0,
					       .sh_offset = fixed + (size - HEAD) - left,
					       .sh_size = i < SECTIONS ? len : 0};
		left -= i < SECTIONS ? len : 0;
	}
	sections[SECTIONS + 1].sh_flags = 0;
	sections[SECTIONS + 1].sh_type = SHT_STRTAB;
	sections[SECTIONS + 1].sh_offset = fixed - sizeof(names);
	sections[SECTIONS + 1].sh_size = sizeof(names);
	memcpy(image, &header, sizeof(header));
	memcpy(image + sizeof(header), sections, sizeof(sections));
	memcpy(image + fixed - sizeof(names), names, sizeof(names));
	if (!symbol_file__open_memory(image, fixed + (size - HEAD), &file)) {
		symbol_file__line(file, vaddr & 0xffff, &line);
		if (!symbol_file__line(file, vaddr, &line) && line.file && strlen(line.file) > 3 * 8192 + 2)
			abort();
		symbol_file__free(file);
	}
	free(image);
	return 0;
}
