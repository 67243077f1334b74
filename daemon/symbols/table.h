/* SPDX-License-Identifier: MIT */
/* A compact index of symbols: ranges that do not overlap, sorted by address, ten
 * bytes each; names stay in the file.
 *
 * It is made of candidates: every symbol that could name code, also aliases,
 * nested ones and ones without a size. */
#ifndef CPROFD_SYMBOLS_TABLE_H
#define CPROFD_SYMBOLS_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "elf/bytes.h"
#include "symbols/symbols.h"

/* A part of the address space that holds code. */
struct code_range {
	uint64_t start, end;
};

struct code_ranges {
	struct code_range *items; /* owned; sorted, without overlaps */
	uint32_t n;
};

/* What decides among aliases, the smaller the better. */
#define RANK_UNSIZED 0x80u
#define RANK_NOTYPE 0x40u   /* no function by its type: a label */
#define RANK_LOCAL 0x10u
#define RANK_WEAK 0x20u
#define RANK_UNDERSCORES 0x0cu /* how many a name begins with, up to 3, times 4 */
#define RANK_BOUNDARY 0x01u /* ends what is before it, names nothing */
#define RANK_CHECK 0x02u    /* it may be a local label or a mapping symbol */

struct candidate {
	uint32_t start; /* from the table's base */
	uint32_t name;  /* in the strings */
	uint32_t size;
	uint32_t rank;
};

#define EXTEND_ALWAYS UINT32_MAX

struct candidates {
	struct candidate *items; /* owned */
	uint32_t n, capacity;
};
int candidates__add(struct candidates *candidates, struct candidate candidate);

#define TABLE_CANDIDATES_MAX (16u << 20)

/* A function in a virtual table (vtable.h). */
struct virtual_name {
	uint32_t class;  /* address of the class' name */
	uint32_t method; /* in the strings: a symbol of the same method of another class */
};

struct symbol_table {
	const struct elf_bytes *bytes;  /* of the names; borrowed */
	uint64_t strings, strings_size;
	uint64_t base;
	enum symbol_source source;
	uint32_t n;
	uint32_t *starts;  /* from base; sorted */
	uint32_t *names;
	uint16_t *sizes;   /* TABLE_SIZE and TABLE_EXTENDED; TABLE_EXTRA: see extras */
	struct table_extra {
		uint32_t row;
		uint32_t symbol; /* where the symbol begins: a range may be its second part */
		uint32_t size;   /* of the range */
	} *extras;               /* sorted by row */
	uint32_t n_extras, capacity_extras;
	struct virtual_name *virtuals; /* SYMBOL_FROM_VTABLE: what `names` are numbers of */
	uint32_t n_virtuals;
	const struct elf_image *image; /* of these; borrowed */
};

#define TABLE_SIZE 0x7fffu
#define TABLE_EXTENDED 0x8000u
#define TABLE_EXTRA 0x7fffu

/* Makes the index. `candidates` is sorted and changed. `machine`: EM_*, for its
 * mapping symbols. `extend`: symbols without size go on to the next one, at most so
 * many bytes; 0 where not all symbols are in the table. */
int symbol_table__build(struct symbol_table *table, struct candidates *candidates,
			const struct code_ranges *ranges, uint16_t machine, uint32_t extend);
/* Ends what takes candidates, which are freed: makes the index, unless `err` came of that. -ENOENT: it has no symbol. On error the table
 * is freed. */
int symbol_table__finish(struct symbol_table *table, struct candidates *candidates, const struct code_ranges *ranges, uint16_t machine,
			 uint32_t extend, int err);
/* Takes the symbols at `symbols` that name code. `skip`: (may be NULL) leave out what begins
 * where a symbol of that table begins. -ENOENT: none. */
struct elf_image;
struct elf_symbols;
int symbol_table__load(struct symbol_table *table, const struct elf_image *image,
		       const struct elf_symbols *symbols, const struct code_ranges *ranges,
		       const struct symbol_table *skip, uint32_t extend);
/* The same, of symbols that are many, from `folder` (<= 0: nowhere) if it was made before. */
int symbol_table__open(struct symbol_table *table, const struct elf_image *image, const struct elf_symbols *symbols,
		       const struct code_ranges *ranges, uint32_t extend, int folder);
void symbol_table__free(struct symbol_table *table);
size_t symbol_table__bytes(const struct symbol_table *table);

struct table_row {
	uint64_t start;   /* of the symbol */
	uint64_t size;    /* of the symbol, as far as it is known */
	uint64_t from, to; /* vaddrs of which the answer is the same */
	uint32_t name;
	bool extended;
};
/* False: no symbol has it; ret->from and ret->to are told all the same. */
bool symbol_table__find(const struct symbol_table *table, uint64_t vaddr, struct table_row *ret);
/* Does a symbol that has a size begin there? */
bool symbol_table__begins(const struct symbol_table *table, uint64_t vaddr);
/* Appends the name, without NUL. */
int symbol_table__name(const struct symbol_table *table, uint32_t name, struct buf *ret);

/* Executable sections, or segments if there are no section headers. */
int code_ranges__of(const struct elf_image *image, struct code_ranges *ret);
void code_ranges__free(struct code_ranges *ranges);
/* NULL: not in code. */
const struct code_range *code_ranges__find(const struct code_ranges *ranges, uint64_t vaddr);

/* Fills the bits of RANK_UNDERSCORES, and drops (RANK_DROP) what is not to be told. */
#define RANK_DROP 0x100u
int candidates__look_at_names(struct candidates *candidates, const struct symbol_table *table,
			      uint16_t machine);

/* table_kept.c: `table` has all but its rows. -ENOENT and others: it was not kept, and `table` is empty. */
int symbol_table__find_kept(struct symbol_table *table, int folder, const struct kept_key *key, const struct elf_symbols *symbols,
			    uint32_t extend);
/* Unless the file has changed since `key` was taken. */
void symbol_table__keep(const struct symbol_table *table, int folder, const struct kept_key *key, const struct elf_symbols *symbols,
			uint32_t extend);

/* The stubs through which other libraries are called, named as their target.
 * -ENOENT: none. */
int symbol_table__load_plt(struct symbol_table *table, const struct elf_image *image,
			   const struct code_ranges *ranges);

#endif
