/* SPDX-License-Identifier: MIT */
/* The types are the machine's (arch/x86_64.h); here they are applied to a copy. Nothing is ever written to a
 * target. */
#include "elf/relocation.h"

#include <string.h>

#include "arch/arch.h"

struct elf_relocation elf_relocation__of(uint16_t machine, uint64_t info)
{
	switch (machine == ELF_MACHINE ? ELF64_R_TYPE(info) : 0) {
#define ELF_RELOCATION_CASE(type, width, kind)                                                     \
	case type:                                                                                 \
		return (struct elf_relocation){ELF_RELOCATION_##kind, width};
		ELF_RELOCATIONS(ELF_RELOCATION_CASE)
#undef ELF_RELOCATION_CASE
	}
	return (struct elf_relocation){};
}

uint32_t elf_image__relocations(const struct elf_image *image, uint32_t target)
{
	uint32_t i;

	for (i = 1; i < image->n_sections; i++)
		if (image->sections[i].sh_info == target &&
		    (image->sections[i].sh_type == SHT_RELA ||
		     image->sections[i].sh_type == SHT_REL))
			return i;
	return 0;
}

/* Sections that were not placed have no addresses, but for those that are never loaded: debug
 * information. */
static bool is_placed(const struct elf_image *image, uint32_t index)
{
	return index >= image->n_sections || !(image->sections[index].sh_flags & SHF_ALLOC) ||
	       image->sections[index].sh_addr;
}

/* One relocation, into our copy. A value of 4 bytes must fit, signed or unsigned. `address`: of the section that is
 * relocated. False: it is of an unknown type, or does not fit. */
static bool apply(const struct elf_image *image, const Elf64_Rela *rela, const Elf64_Sym *symbol,
		  uint64_t address, uint8_t *bytes, size_t len)
{
	struct elf_relocation r = elf_relocation__of(image->machine, rela->r_info);
	uint64_t value;

	if ((r.kind != ELF_RELOCATION_ABSOLUTE && r.kind != ELF_RELOCATION_RELATIVE) ||
	    rela->r_offset > len || len - rela->r_offset < r.width)
		return false;
	if (symbol->st_shndx == SHN_UNDEF)
		return true;
	if (!is_placed(image, symbol->st_shndx) ||
	    elf_image__address(image, symbol->st_shndx, symbol->st_value, &value))
		return false;
	value += (uint64_t)rela->r_addend;
	if (r.kind == ELF_RELOCATION_RELATIVE)
		value -= address + rela->r_offset;
	if (r.width == 4 && (int64_t)value != (int32_t)value && value >> 32)
		return false;
	memcpy(bytes + rela->r_offset, &value, r.width); /* little-endian */
	return true;
}

/* A bad relocation does not end the loop: the others are applied all the same, and the result says that something is
 * missing. The symbol is read from the file for each: objects of a JIT are in memory. */
bool elf_image__relocate(const struct elf_image *image, uint32_t number, uint8_t *bytes, size_t len,
			 uint32_t *budget)
{
	const Elf64_Shdr *s = &image->sections[number], *symbols;
	uint64_t at, index;
	bool whole = true;
	Elf64_Sym symbol;
	Elf64_Rela rela;

	if (s->sh_type != SHT_RELA || s->sh_link >= image->n_sections ||
	    s->sh_info >= image->n_sections || image->sections[s->sh_link].sh_type != SHT_SYMTAB)
		return false;
	symbols = &image->sections[s->sh_link];
	for (at = 0; s->sh_size - at >= sizeof(rela); at += sizeof(rela)) {
		if (!*budget ||
		    elf_bytes__read(image->bytes, s->sh_offset + at, &rela, sizeof(rela)))
			return false;
		--*budget;
		index = ELF64_R_SYM(rela.r_info);
		whole &= index < symbols->sh_size / sizeof(symbol) &&
			 !elf_bytes__read(image->bytes, symbols->sh_offset + index * sizeof(symbol),
					  &symbol, sizeof(symbol)) &&
			 apply(image, &rela, &symbol, image->sections[s->sh_info].sh_addr, bytes,
			       len);
	}
	return whole;
}
