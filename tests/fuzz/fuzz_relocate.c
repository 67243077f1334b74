/* SPDX-License-Identifier: MIT */
/* Relocations of a JIT object's debug information, and lines from what came of it. */
#include <stdlib.h>
#include <string.h>

#include "symbols/relocate.h"
#include "symbols/symbols.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct source_line line;
	struct symbol_file *file;
	uint8_t *image;
	uint64_t vaddr;

	if (size < 8 || size > 1 << 20)
		return 0;
	memcpy(&vaddr, data, 8);
	image = malloc(size - 8 + !(size - 8));
	if (!image)
		return 0;
	memcpy(image, data + 8, size - 8);
	if (!elf_relocate_debug(image, size - 8) && !symbol_file__open_memory(image, size - 8, &file)) {
		if (!symbol_file__line(file, vaddr, &line) && line.file && strlen(line.file) > 3 * 8192 + 2)
			abort();
		symbol_file__free(file);
	}
	free(image);
	return 0;
}
