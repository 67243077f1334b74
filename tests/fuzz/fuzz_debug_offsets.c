/* SPDX-License-Identifier: MIT */
/* _Py_DebugOffsets of a hostile target: whatever is accepted must keep within
 * what the walker reads. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "target/py_layout.h"
#include "target/py_tables.h"

static void try_one(const uint8_t *data, size_t size)
{
	struct py_layout l;

	if (py_layout__from_debug_offsets(data, size, &l))
		return;
	if (l.frame_size > 128 || l.frame_owner >= l.frame_size || l.frame_back + 8u > l.frame_size ||
	    l.frame_code + 8u > l.frame_size || l.frame_lasti + 8u > l.frame_size ||
	    l.interpreters_head >= 1u << 20 || l.threads_head >= 1u << 20 || l.version >> 8 < 0x030d)
		abort();
}

/* The first byte picks a version, whose head is written: the rest is the target's numbers. Every
 * third input is taken as it is. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t *bytes;

	try_one(data, size);
	if (size < 25 || data[0] % 3 == 0)
		return 0;
	bytes = malloc(size);
	if (!bytes)
		return 0;
	memcpy(bytes, data, size);
	memcpy(bytes, "xdebugpy", 8);
	memset(bytes + 8, 0, 16);
	bytes[11] = 3;
	bytes[10] = 13 + data[0] / 3 % 3;
	bytes[9] = data[1];
	bytes[8] = 0xf0;
	bytes[16] = data[2] & 1;
	try_one(bytes, size);
	free(bytes);
	return 0;
}
