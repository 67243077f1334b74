/* SPDX-License-Identifier: MIT */
/* The bytes are what .gnu_debugdata holds: xz, and an ELF file in it. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "symbols/debugdata.h"
#include "symbols/symbols.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct symbol_file *file;
	uint8_t *unpacked;
	size_t len;

	if (debugdata__unpack(data, size, &unpacked, &len))
		return 0;
	if (!symbol_file__open_memory(unpacked, len, &file))
		symbol_file__free(file);
	free(unpacked);
	return 0;
}
