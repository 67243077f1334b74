/* SPDX-License-Identifier: MIT */
/* The bytes are an ELF file: its tables, PLT, debug link and debug data. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "elf/elf.h"
#include "symbols/symbols.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct elf_bytes bytes = {.fd = -1, .data = (uint8_t *)data, .size = size};
	struct symbol symbol = {};
	struct symbol_file *file;
	char link[ELF_LINK_MAX];
	struct elf_image image;
	uint64_t vaddr, from, to, other_from, other_to;
	uint32_t crc;

	if (!elf_image__open(&bytes, ELF_ALL, &image)) {
		elf_image__debuglink(&image, link, &crc);
		elf_image__free(&image);
	}
	if (symbol_file__open_memory(data, size, &file))
		return 0;
	for (vaddr = 0; vaddr < 65536; vaddr += 97) {
		if (!symbol_file__find(file, vaddr, &symbol) &&
		    (symbol.start > vaddr || symbol.offset != vaddr - symbol.start))
			abort();
		/* A stretch is the same from wherever it is asked for. */
		symbol_file__range(file, vaddr, &from, &to);
		if (from > vaddr || (to <= vaddr && to < UINT64_MAX))
			abort();
		symbol_file__range(file, from, &other_from, &other_to);
		if (from != other_from || to != other_to)
			abort();
		symbol_file__range(file, to - 1, &other_from, &other_to);
		if (from != other_from || to != other_to)
			abort();
	}
	symbol__free(&symbol);
	symbol_file__free(file);
	return 0;
}
