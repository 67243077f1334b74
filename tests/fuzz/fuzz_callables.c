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
	if (callables.n && callables__at(&callables, callables.rows[0].start) != &callables.rows[0])
		abort();
	for (i = 0; i < callables.n; i++) {
		uint64_t at = callables.rows[i].start + data[0], from = 0, to = UINT64_MAX;

		callables__range(&callables, at, &from, &to);
		if (at == UINT64_MAX)
			continue;
		if (from > at || to <= at || callables__at(&callables, from) != callables__at(&callables, at) ||
		    callables__at(&callables, to - 1) != callables__at(&callables, at))
			abort();
	}
	callables__named(&callables, "len");
	callables__method(&callables, "sort");
	callables__free(&callables);
	return 0;
}
