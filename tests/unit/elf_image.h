/* SPDX-License-Identifier: MIT */
/* Makes ELF images as LLVM registers them: relocatable, with sections that have addresses. Each has `count` function
 * symbols, named "s%08x_%02d_of_%02d" by serial, index and count, with 16 bytes of .ltext each; .eh_frame has one
 * 8-byte word for each, the serial, and a relocated pointer to the function behind it. So a test detects a mixture
 * of two images. */
#pragma once

#include <elf.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define IMAGE_COUNT_MAX 32u
#define IMAGE_NAME 20u /* with its NUL */

enum { IMG_NULL, IMG_STRTAB, IMG_TEXT, IMG_LTEXT, IMG_EH, IMG_RELA, IMG_SYMTAB, IMG_SECTIONS };

static const char image_section_names[] =
	"\0.strtab\0.text\0.ltext\0.eh_frame\0.rela.eh_frame\0.symtab";

struct elf_image {
	Elf64_Ehdr header;
	uint8_t text[16 * IMAGE_COUNT_MAX];
	struct {
		uint64_t serial, function;
	} eh[IMAGE_COUNT_MAX];
	Elf64_Rela rela[IMAGE_COUNT_MAX];
	Elf64_Sym symbols[IMAGE_COUNT_MAX + 2];
	char names[64 + IMAGE_NAME * IMAGE_COUNT_MAX];
	Elf64_Shdr sections[IMG_SECTIONS];
};

static inline void elf_image__make(struct elf_image *i, uint32_t serial, unsigned count, uint64_t text)
{
	unsigned k;

	*i = (struct elf_image){
		.header = {.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
			   .e_type = ET_REL,
			   .e_machine = EM_X86_64,
			   .e_version = EV_CURRENT,
			   .e_ehsize = sizeof(Elf64_Ehdr),
			   .e_shoff = offsetof(struct elf_image, sections),
			   .e_shentsize = sizeof(Elf64_Shdr),
			   .e_shnum = IMG_SECTIONS,
			   .e_shstrndx = IMG_STRTAB},
		.sections = {
			[IMG_STRTAB] = {.sh_name = 1, .sh_type = SHT_STRTAB,
					.sh_offset = offsetof(struct elf_image, names),
					.sh_size = sizeof(i->names)},
			[IMG_TEXT] = {.sh_name = 9, .sh_type = SHT_PROGBITS,
				      .sh_flags = SHF_ALLOC | SHF_EXECINSTR},
			[IMG_LTEXT] = {.sh_name = 15, .sh_type = SHT_PROGBITS,
				       .sh_flags = SHF_ALLOC | SHF_EXECINSTR | 0x10000000,
				       .sh_addr = text,
				       .sh_offset = offsetof(struct elf_image, text),
				       .sh_size = 16 * count},
			[IMG_EH] = {.sh_name = 22, .sh_type = 0x70000001, .sh_flags = SHF_ALLOC,
				    .sh_addr = text + 0x1000,
				    .sh_offset = offsetof(struct elf_image, eh),
				    .sh_size = 16 * count},
			[IMG_RELA] = {.sh_name = 32, .sh_type = SHT_RELA, .sh_info = IMG_EH,
				      .sh_link = IMG_SYMTAB,
				      .sh_offset = offsetof(struct elf_image, rela),
				      .sh_size = sizeof(Elf64_Rela) * count,
				      .sh_entsize = sizeof(Elf64_Rela)},
			[IMG_SYMTAB] = {.sh_name = 47, .sh_type = SHT_SYMTAB, .sh_link = IMG_STRTAB,
					.sh_offset = offsetof(struct elf_image, symbols),
					.sh_size = sizeof(Elf64_Sym) * (count + 2),
					.sh_entsize = sizeof(Elf64_Sym)},
		},
	};
	memcpy(i->names, image_section_names, sizeof(image_section_names));
	i->symbols[1] = (Elf64_Sym){.st_info = ELF64_ST_INFO(STB_LOCAL, STT_SECTION),
				    .st_shndx = IMG_LTEXT};
	for (k = 0; k < count; k++) {
		char name[64];

		snprintf(name, sizeof(name), "s%08x_%02u_of_%02u", serial, k, count);
		memcpy(i->names + 64 + IMAGE_NAME * k, name, IMAGE_NAME - 1);
		i->symbols[k + 2] = (Elf64_Sym){
			.st_name = 64 + IMAGE_NAME * k,
			.st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC),
			.st_shndx = IMG_LTEXT,
			.st_value = 16 * k,
			.st_size = 12,
		};
		i->eh[k].serial = serial;
		i->rela[k] = (Elf64_Rela){
			.r_offset = 16 * k + 8,
			.r_info = ELF64_R_INFO(1, R_X86_64_PC64),
			.r_addend = 16 * k,
		};
	}
}

/* Moves symbols, names and section headers `padding` bytes away from the rest: a copy
 * of the image takes longer. The caller puts them there. */
#define IMAGE_HEAD offsetof(struct elf_image, symbols)
static inline void elf_image__pad(struct elf_image *i, uint64_t padding)
{
	i->header.e_shoff += padding;
	i->sections[IMG_STRTAB].sh_offset += padding;
	i->sections[IMG_SYMTAB].sh_offset += padding;
}
