/* SPDX-License-Identifier: MIT */
/* The bytes are a module's writable data, and its names, too: whatever is found
 * lies within it. */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "target/version.h"

#define BASE 0x1000ull /* near, so that a few bytes make an address */

struct bytes {
	struct host_reader reader;
	const struct data_area *area;
};

static int read_bytes(struct host_reader *self, void *dst, size_t size, uint64_t address)
{
	const struct data_area *area = ((struct bytes *)self)->area;

	if (address < area->address || address - area->address > area->len ||
	    size > area->len - (address - area->address))
		return -EFAULT;
	memcpy(dst, area->bytes + (address - area->address), size);
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct data_area area = {.address = BASE};
	struct bytes bytes = {.reader = {.read = read_bytes}, .area = &area};
	uint32_t type_offset, name_offset;
	uint64_t found;
	char *copy;

	if (size < 2)
		return 0;
	/* Every fourth input chooses the offsets, the others take those of a release. */
	type_offset = data[0] & 3 ? 8 : data[0] >> 2;
	name_offset = data[0] & 3 ? 24 : data[1];
	data += 2;
	size -= 2;
	copy = malloc(size ? size : 1);
	if (!copy)
		return 0;
	memcpy(copy, data, size);
	area.bytes = copy;
	area.len = size;
	found = data_scan__runtime(&area);
	if (found && (found < BASE || found - BASE + 24 > size || found % 8))
		abort();
	found = data_scan__type(&area, &bytes.reader, type_offset, name_offset, "code");
	if (found && (found < BASE || found - BASE + name_offset + 8 > size || found % 8))
		abort();
	free(copy);
	return 0;
}
