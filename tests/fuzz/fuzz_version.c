/* SPDX-License-Identifier: MIT */
/* The bytes are a module's data: what looks like Py_GetVersion's text is told
 * again as it was written. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "target/version.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	/* A block of its own size, so that a byte too far is seen. */
	char *copy = malloc(size ? size : 1), text[32];
	uint32_t hex = 0;

	if (!copy)
		return 0;
	memcpy(copy, data, size);
	if (version__find(copy, size, &hex)) {
		version__format(hex, size & 1, text);
		if (!memchr(text, 0, sizeof(text)) || text[0] < '2' || text[0] > '9')
			abort();
	}
	if (size >= sizeof(hex)) {
		memcpy(&hex, data, sizeof(hex));
		version__format(hex, size & 1, text);
		if (!memchr(text, 0, sizeof(text)))
			abort();
	}
	free(copy);
	return 0;
}
