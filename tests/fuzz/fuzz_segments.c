/* SPDX-License-Identifier: MIT */
/* Program headers of any bytes: no more segments than there is room for, and no bias without one. */
#include <stdlib.h>

#include "modules/segments.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct elf_bytes memory;
	struct segments segments;
	uint64_t bias;

	elf_bytes__init_memory(&memory, data, size);
	if (segments__read(&memory, &segments))
		return 0;
	if (segments.n > SEGMENTS_MAX)
		abort();
	if (!segments__bias(&segments, size * 4096, 0x7f0000000000, &bias) && !segments.n)
		abort();
	return 0;
}
