/* SPDX-License-Identifier: MIT */
/* The bytes are /proc/kallsyms, in one piece and cut in two: the same either way. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "symbols/kallsyms.h"

static int pieces(const char *text, size_t len, size_t cut, struct elf_bytes *names,
		  struct symbol_table *table)
{
	struct kallsyms *kallsyms;
	int err = kallsyms__new(&kallsyms);

	if (err)
		abort();
	err = kallsyms__feed(kallsyms, text, cut);
	if (!err)
		err = kallsyms__feed(kallsyms, text + cut, len - cut);
	if (!err)
		err = kallsyms__finish(kallsyms, names, table);
	kallsyms__free(kallsyms);
	return err;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct elf_bytes names[2] = {ELF_BYTES_NONE, ELF_BYTES_NONE};
	struct symbol_table tables[2] = {};
	struct table_row row;
	int first, second;
	uint32_t i;

	first = pieces((const char *)data, size, size, &names[0], &tables[0]);
	second = pieces((const char *)data, size, size / 2, &names[1], &tables[1]);
	if (first != second || tables[0].n != tables[1].n)
		abort();
	for (i = 0; i < tables[0].n; i++)
		if (!symbol_table__find(&tables[0], tables[0].base + tables[0].starts[i], &row) ||
		    row.name != tables[0].names[i])
			abort();
	for (i = 0; i < 2; i++) {
		symbol_table__free(&tables[i]);
		elf_bytes__free(&names[i]);
	}
	return 0;
}
