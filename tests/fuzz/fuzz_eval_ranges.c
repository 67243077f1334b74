/* SPDX-License-Identifier: MIT */
/* An ELF file of any bytes: where is its eval loop? (Seeds: interpreters, stripped or not.) */
#include <stdlib.h>

#include "weave/eval_ranges.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct symbol_file *symbols;
	struct elf_bytes memory;
	struct eval_ranges ranges;
	uint32_t i;

	if (symbol_file__open_memory(data, len, &symbols))
		return 0;
	elf_bytes__init_memory(&memory, data, len);
	if (!eval_ranges__find(&memory, symbols, &ranges)) {
		for (i = 0; i < ranges.n; i++) {
			const uint64_t at = ranges.ranges[i].end;
			struct range in = {0, UINT64_MAX};

			if (ranges.ranges[i].start >= ranges.ranges[i].end)
				abort();
			if (eval_ranges__role(&ranges, at, &in) != eval_ranges__role(&ranges, in.end - 1, NULL) ||
			    (at < UINT64_MAX && (in.start > at || in.end <= at)))
				abort();
		}
		eval_ranges__role(&ranges, ranges.ranges[0].start, NULL);
	}
	eval_ranges__free(&ranges);
	symbol_file__free(symbols);
	return 0;
}
