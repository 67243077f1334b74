/* SPDX-License-Identifier: MIT */
/* The bytes are an ELF file. */
#include <stddef.h>
#include <stdint.h>

#include "elf/bytes.h"
#include "jit/jit.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct elf_bytes bytes;
	uint64_t address;

	elf_bytes__init_memory(&bytes, data, size);
	jit_descriptor__find(&bytes, 0x1000, &address);
	return 0;
}
