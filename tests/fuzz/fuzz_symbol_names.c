/* SPDX-License-Identifier: MIT */
/* The bytes are a mangled name: Numba's, C++'s, Rust's. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "symbols/numba.h"
#include "symbols/symbols.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct numba_name name = {};
	struct buf out = {};
	int jit;

	for (jit = 0; jit < 2; jit++) {
		if (numba__decode((const char *)data, size, jit, &name) && name.signature.len)
			abort();
		buf__clear(&out);
		symbol__display((const char *)data, size, jit, &out);
		if (out.len > SYMBOL_DISPLAY_MAX + 2 * size + 64)
			abort();
	}
	numba_name__free(&name);
	buf__free(&out);
	return 0;
}
