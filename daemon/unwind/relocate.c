/* The .eh_frame of an object that a JIT compiler registered with the debugger. LLVM writes into its
 * copy where the sections were loaded, but does not always relocate what is in them: the addresses
 * of functions are then 0 and have to be made from .rela.eh_frame. It gives the same when they
 * were. */
#include "unwind/elf.h"

#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

#define FRAMES_MAX (8u << 20)
#define RELOCATIONS_MAX 262144u

static int get(struct unwind_source *source, void *dst, size_t size, uint64_t offset)
{
	if (offset > source->size || size > source->size - offset)
		return -EBADMSG;
	return source->read(source, dst, size, offset);
}

/* Where a symbol is; its value counts from its section, unless somebody relocated it already. */
static int symbol_address(struct unwind_source *source, const struct elf_frames *elf,
			  uint32_t index, uint64_t *ret)
{
	Elf64_Sym symbol;
	Elf64_Shdr section;

	if (index >= elf->symbols.size / sizeof(symbol) ||
	    get(source, &symbol, sizeof(symbol), elf->symbols.offset + index * sizeof(symbol)))
		return -EBADMSG;
	if (symbol.st_shndx == SHN_UNDEF || symbol.st_shndx >= SHN_LORESERVE ||
	    symbol.st_shndx >= elf->n_headers ||
	    get(source, &section, sizeof(section),
		elf->headers + symbol.st_shndx * sizeof(section)))
		return -EBADMSG;
	*ret = symbol.st_value;
	if (symbol.st_value - section.sh_addr >= section.sh_size || !section.sh_addr)
		*ret += section.sh_addr;
	return 0;
}

/* psABI x86-64, 4.4.1. */
static void apply(const Elf64_Rela *rela, uint64_t symbol, const struct elf_section *to,
		  uint8_t *bytes)
{
	uint64_t value = symbol + (uint64_t)rela->r_addend, place = to->address + rela->r_offset;
	size_t size = 0;

	switch (ELF64_R_TYPE(rela->r_info)) {
	case R_X86_64_PC64:
		value -= place;
		size = 8;
		break;
	case R_X86_64_64:
		size = 8;
		break;
	case R_X86_64_PC32:
		value -= place;
		size = 4;
		break;
	case R_X86_64_32:
	case R_X86_64_32S:
		size = 4;
		break;
	}
	if (size && rela->r_offset <= to->size && size <= to->size - rela->r_offset)
		memcpy(bytes + rela->r_offset, &value, size);
}

int elf_frames__relocate(struct unwind_source *source, struct elf_frames *elf,
			 struct unwind_memory *ret, void **ret_bytes)
{
	uint64_t n = elf->relocations.size / sizeof(Elf64_Rela), i, symbol;
	_cleanup_free_ uint8_t *bytes = NULL;
	Elf64_Rela rela;

	if (elf->eh_frame.size > FRAMES_MAX || n > RELOCATIONS_MAX)
		return -E2BIG;
	bytes = malloc(elf->eh_frame.size);
	if (!bytes)
		return -ENOMEM;
	if (get(source, bytes, elf->eh_frame.size, elf->eh_frame.offset))
		return -EBADMSG;
	for (i = 0; i < n; i++) {
		if (get(source, &rela, sizeof(rela), elf->relocations.offset + i * sizeof(rela)))
			return -EBADMSG;
		if (!symbol_address(source, elf, ELF64_R_SYM(rela.r_info), &symbol))
			apply(&rela, symbol, &elf->eh_frame, bytes);
	}
	unwind_memory__init(ret, bytes, elf->eh_frame.size);
	elf->eh_frame.offset = 0;
	*ret_bytes = take_ptr(bytes);
	return 0;
}
