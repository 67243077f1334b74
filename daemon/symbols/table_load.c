/* SPDX-License-Identifier: MIT */
/* Which symbols of an ELF table name code: read in chunks, so that neither the
 * table nor its strings are ever in memory as a whole.
 *
 * In: entries of .symtab or .dynsym (gABI, "Symbol Table"). Out: candidates, of which symbol_table__finish() makes
 * the index. st_value of a relocatable object counts from its section, of any other it is an address:
 * elf_image__address() knows. */
#include "symbols/table.h"

#include "base/cleanup.h"
#include "base/array.h"
#include "elf/elf.h"

#define CHUNK 2730u /* symbols at once: a little below 64 KB */
#define MANY 8192u /* symbols: of fewer the index is made as fast as it is read */

int candidates__add(struct candidates *candidates, struct candidate candidate)
{
	if (candidates->n >= TABLE_CANDIDATES_MAX)
		return -EFBIG;
	return ARRAY_ADD(candidates->items, candidates->n, candidates->capacity, candidate);
}

/* Its address; false: it names no code here. */
static bool address(const struct elf_image *image, const Elf64_Sym *symbol, uint32_t index,
		    uint64_t *ret)
{
	const Elf64_Shdr *section;

	if (!index || symbol->st_shndx == SHN_ABS || symbol->st_shndx == SHN_COMMON)
		return false;
	*ret = symbol->st_value;
	if (!image->n_sections)
		return true;
	if (index >= image->n_sections)
		return false;
	section = &image->sections[index];
	if (!(section->sh_flags & SHF_EXECINSTR))
		return false;
	return !elf_image__address(image, index, symbol->st_value, ret);
}

/* False: the symbol is of a kind that names no code (data, sections, files, thread-local variables), or of an
 * unknown binding. */
static bool rank(const Elf64_Sym *symbol, uint32_t *ret)
{
	*ret = symbol->st_size ? 0 : RANK_UNSIZED;
	switch (ELF64_ST_BIND(symbol->st_info)) {
	case STB_GLOBAL:
	case STB_GNU_UNIQUE:
		break;
	case STB_WEAK:
		*ret |= RANK_WEAK;
		break;
	case STB_LOCAL:
		*ret |= RANK_LOCAL;
		break;
	default:
		return false;
	}
	switch (ELF64_ST_TYPE(symbol->st_info)) {
	case STT_FUNC:
	case STT_GNU_IFUNC:
		return true;
	case STT_NOTYPE:
		*ret |= RANK_NOTYPE;
		if (ELF64_ST_BIND(symbol->st_info) == STB_LOCAL)
			*ret |= RANK_CHECK;
		return true;
	}
	return false;
}

/* One symbol as a candidate. It is cut at the end of the code range in which it begins: a size that reaches further
 * is a lie or an error, and would swallow its neighbours. 0 also when it is left out. */
static int take(struct candidates *candidates, const struct symbol_table *table,
		const struct code_ranges *ranges, const struct symbol_table *skip, uint64_t start,
		const Elf64_Sym *symbol, uint32_t value)
{
	const struct range *range = code_ranges__find(ranges, start);
	uint64_t size = symbol->st_size;

	if (!range || !symbol->st_name || symbol->st_name >= table->strings_size ||
	    start - table->base > UINT32_MAX || (skip && symbol_table__begins(skip, start)))
		return 0;
	if (size > range->end - start)
		size = range->end - start;
	if (size > UINT32_MAX)
		size = UINT32_MAX;
	return candidates__add(candidates,
			       (struct candidate){(uint32_t)(start - table->base), symbol->st_name,
						  (uint32_t)size, value});
}

/* What the names and offsets of the table refer to. It must be equal for a table that is made and one that was
 * stored. */
static void begin(struct symbol_table *table, const struct elf_image *image, const struct elf_symbols *symbols,
		  const struct code_ranges *ranges)
{
	table->bytes = image->bytes;
	table->strings = symbols->strings;
	table->strings_size = symbols->strings_size;
	table->base = ranges->items[0].start;
}

/* One pass over the symbols in chunks. SHT_SYMTAB_SHNDX (`indices`) has the section numbers that do not fit into 16
 * bits: objects of a JIT and -ffunction-sections have them. */
int symbol_table__load(struct symbol_table *table, const struct elf_image *image,
		       const struct elf_symbols *symbols, const struct code_ranges *ranges,
		       const struct symbol_table *skip, uint32_t extend)
{
	_cleanup_free_ Elf64_Sym *chunk = malloc(CHUNK * sizeof(*chunk));
	_cleanup_free_ uint32_t *indices = NULL;
	struct candidates candidates = {};
	uint64_t at, n, i;
	int err = 0;

	if (!chunk)
		return -ENOMEM;
	if (!ranges->n)
		return -ENOENT;
	if (symbols->indices && !(indices = malloc(CHUNK * sizeof(*indices))))
		return -ENOMEM;
	begin(table, image, symbols, ranges);
	for (at = 0; at < symbols->n && !err; at += n) {
		n = symbols->n - at < CHUNK ? symbols->n - at : CHUNK;
		err = elf_bytes__read(image->bytes, symbols->offset + at * sizeof(*chunk), chunk,
				      n * sizeof(*chunk));
		if (!err && indices)
			err = elf_bytes__read(image->bytes, symbols->indices + at * 4, indices,
					      n * 4);
		for (i = 0; i < n && !err; i++) {
			uint32_t value, index = chunk[i].st_shndx;
			uint64_t start;

			if (index == SHN_XINDEX)
				index = indices ? indices[i] : 0;
			if (rank(&chunk[i], &value) && address(image, &chunk[i], index, &start))
				err = take(&candidates, table, ranges, skip, start, &chunk[i],
					   value);
		}
	}
	return symbol_table__finish(table, &candidates, ranges, image->machine, extend, err);
}

int symbol_table__open(struct symbol_table *table, const struct elf_image *image, const struct elf_symbols *symbols,
		       const struct code_ranges *ranges, uint32_t extend, int folder)
{
	struct kept_key key;
	int err;

	if (folder <= 0 || symbols->n < MANY || !ranges->n || kept_key__of(image->bytes->fd, -1, &key))
		return symbol_table__load(table, image, symbols, ranges, NULL, extend);
	begin(table, image, symbols, ranges);
	if (!symbol_table__find_kept(table, folder, &key, symbols, extend))
		return 0;
	err = symbol_table__load(table, image, symbols, ranges, NULL, extend);
	if (!err)
		symbol_table__keep(table, folder, &key, symbols, extend);
	return err;
}
