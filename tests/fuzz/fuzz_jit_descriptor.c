/* The bytes are an ELF file. */
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "jit/jit.h"

struct bytes {
	struct host_reader reader;
	const uint8_t *data;
	size_t size;
};

static int read_bytes(struct host_reader *self, void *dst, size_t size, uint64_t offset)
{
	const struct bytes *b = (const struct bytes *)self;

	if (offset > b->size || size > b->size - offset)
		return -EFAULT;
	memcpy(dst, b->data + offset, size);
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct bytes bytes = {{read_bytes}, data, size};
	uint64_t address;

	jit_descriptor__find(&bytes.reader, 0x1000, &address);
	return 0;
}
