/* SPDX-License-Identifier: MIT */
/* The tables of callables in an ELF file, and bytecode. */
#include <stdlib.h>

#include "classes/bytecode.h"
#include "classes/callables.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct callables callables;
	struct bytecode_site site;
	struct elf_bytes memory;
	uint32_t i;

	if (size > 2) {
		bytecode__site(OPCODE_FIRST + data[0] % opcodes_n, data + 2, (uint32_t)size - 2, data[1] * 4u, &site);
		if (site.n > BYTECODE_NAMES || (site.named && !site.exact) || (site.owned && !site.named) ||
		    (site.pointer && site.pointer + 8u > size - 2))
			abort();
	}
	elf_bytes__init_memory(&memory, data, size);
	if (callables__find(&memory, &callables))
		return 0;
	for (i = 0; i < callables.n; i++)
		if ((i && callables.rows[i].start <= callables.rows[i - 1].start) ||
		    callables.rows[i].first + callables.rows[i].n > callables.n_candidates)
			abort();
	if (callables.n && callables__at(&callables, callables.rows[0].start, NULL) != &callables.rows[0])
		abort();
	for (i = 0; i < callables.n; i++) {
		const uint64_t at = callables.rows[i].start + data[0];
		struct range in = {0, UINT64_MAX};
		const struct callable *found = callables__at(&callables, at, &in);

		if (at == UINT64_MAX)
			continue;
		if (in.start > at || in.end <= at || callables__at(&callables, in.start, NULL) != found ||
		    callables__at(&callables, in.end - 1, NULL) != found)
			abort();
	}
	callables__named(&callables, "len");
	callables__method(&callables, "sort");
	callables__free(&callables);
	return 0;
}
