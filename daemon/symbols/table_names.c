/* SPDX-License-Identifier: MIT */
/* What the names say about candidates: read in the order of the file, and only
 * where it matters (aliases; labels of an assembler).
 *
 * Names are needed to choose between aliases ("write" before "__write") and to drop labels (".L12", "$x"). A read
 * for each would be a system call for each symbol; so those that matter are sorted by their offset in the string
 * table and read through one window, front to back. */
#include "symbols/table.h"

#include <elf.h>
#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/order.h"

#define WINDOW 65000u
#define RANKED_BYTES 4u /* of a name, by which it is ranked */

/* A name to read: its offset in the strings, and whose it is. */
struct wanted {
	uint32_t name, candidate;
};

/* "$x", "$d.realm": where code and data begin, for disassemblers (AAELF64, 5.4). */
static bool mapping_symbol(const char *name, uint16_t machine)
{
	if (machine != EM_AARCH64 && machine != EM_ARM && machine != EM_RISCV)
		return false;
	return name[0] == '$' && strchr("axtd", name[1]);
}

/* Applies the first four bytes of a name to its candidate's rank. A boundary has no name. */
static void apply_name(struct candidate *candidate, const char name[RANKED_BYTES], uint16_t machine)
{
	uint32_t underscores = 0;

	if (candidate->rank & RANK_BOUNDARY)
		return;
	while (underscores < 3 && name[underscores] == '_')
		underscores++;
	candidate->rank = (candidate->rank & ~RANK_UNDERSCORES) | underscores * 4;
	if (!name[0] || ((candidate->rank & RANK_CHECK) &&
			 (mapping_symbol(name, machine) || !strncmp(name, ".L", 2))))
		candidate->rank |= RANK_DROP;
}

/* Does a neighbour begin at the same address? Only then the underscores decide anything. */
static bool tied(const struct candidates *candidates, uint32_t i)
{
	const struct candidate *c = candidates->items;

	return (i && c[i - 1].start == c[i].start) ||
	       (i + 1 < candidates->n && c[i + 1].start == c[i].start);
}

int candidates__read_names(struct candidates *candidates, const struct symbol_table *table,
			      uint16_t machine)
{
	_cleanup_free_ struct wanted *wanted = NULL;
	_cleanup_free_ char *window = NULL;
	uint64_t begin = 0;
	uint32_t i, n = 0;
	size_t have = 0;
	int err;

	for (i = 0; i < candidates->n; i++)
		n += (candidates->items[i].rank & RANK_CHECK) || tied(candidates, i);
	if (!n)
		return 0;
	wanted = malloc(n * sizeof(*wanted));
	window = malloc(WINDOW);
	if (!wanted || !window)
		return -ENOMEM;
	for (i = 0, n = 0; i < candidates->n; i++)
		if ((candidates->items[i].rank & RANK_CHECK) || tied(candidates, i))
			wanted[n++] = (struct wanted){candidates->items[i].name, i};
	qsort(wanted, n, sizeof(*wanted), order__u32);
	for (i = 0; i < n; i++) {
		char name[RANKED_BYTES] = "";
		uint64_t left;

		if (!have || wanted[i].name + RANKED_BYTES > begin + have) {
			begin = wanted[i].name;
			left = table->strings_size - begin;
			err = elf_bytes__read_some(table->bytes, table->strings + begin, window,
						   left < WINDOW ? left : WINDOW, &have);
			if (err)
				return err;
		}
		if (begin + have > wanted[i].name) {
			left = begin + have - wanted[i].name;
			memcpy(name, window + (wanted[i].name - begin), left < RANKED_BYTES ? left : RANKED_BYTES);
		}
		apply_name(&candidates->items[wanted[i].candidate], name, machine);
	}
	return 0;
}
