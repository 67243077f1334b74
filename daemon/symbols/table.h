/* SPDX-License-Identifier: MIT */
/* A compact index of symbols: ranges that do not overlap, sorted by address, ten bytes each. Names stay in the file
 * and are read when one is asked for.
 *
 * It is made of candidates: every symbol that could name code, also aliases, nested ones and ones without a size.
 * table.c makes ranges of them; table_load.c, plt.c, vtable.c, function_frames.c and kallsyms.c find candidates in
 * their sources. Example:
 *
 *    candidates   0x100 size 0x40 "f"   0x100 size 0x40 "__f"   0x110 size 0x8 "inner"
 *    ranges       [0x100,0x110) f       [0x110,0x118) inner     [0x118,0x140) f (second part: an extra)
 *
 * Why not an array of Elf64_Sym: libjax_common.so has 700,000 of 24 bytes, and several sessions of one engine hold
 * such a file. Threads: a table does not change once it is made; any number of threads may search it. */
#pragma once

#include "base/range.h"
#include "elf/bytes.h"
#include "symbols/symbols.h"

/* The parts of the address space that hold code. */
struct code_ranges {
	struct range *items; /* owned; sorted, without overlaps */
	uint32_t n;
};

/* What decides among symbols that begin at one address; the smaller number wins. The bits are ordered by weight: a
 * size first, then the type, then the binding, then the underscores. RANK_BOUNDARY and RANK_CHECK are no part of the
 * order. */
#define RANK_UNSIZED 0x80u
#define RANK_NOTYPE 0x40u   /* no function by its type: a label */
#define RANK_LOCAL 0x10u
#define RANK_WEAK 0x20u
#define RANK_UNDERSCORES 0x0cu /* how many a name begins with, up to 3, times 4 */
#define RANK_BOUNDARY 0x01u /* ends what is before it, names nothing */
#define RANK_CHECK 0x02u    /* it may be a local label or a mapping symbol */

/* One symbol on its way into the index. 16 bytes, since all of a file are in memory at once while it is made. */
struct candidate {
	uint32_t start; /* from the table's base */
	uint32_t name;  /* in the strings */
	uint32_t size;
	uint32_t rank;
};

/* `extend` of a complete table: a symbol without size goes on to the next symbol, however far that is. */
#define EXTEND_ALWAYS UINT32_MAX

struct candidates {
	struct candidate *items; /* owned */
	uint32_t n, capacity;
};
int candidates__add(struct candidates *candidates, struct candidate candidate);

/* 256 MB of candidates: what a file may make us hold at most. The largest library seen (jaxlib) has 0.7 million. */
#define TABLE_CANDIDATES_MAX (16u << 20)

/* A function in a virtual table (vtable.h). */
struct virtual_name {
	uint32_t class;  /* address of the class' name */
	uint32_t method; /* in the strings: a symbol of the same method of another class */
};

struct symbol_table {
	const struct elf_bytes *bytes;  /* of the names; borrowed */
	/* Where the names lie in `bytes`. Kernel: from 0 on, in memory. */
	uint64_t strings, strings_size;
	/* vaddr that starts[] count from. 32-bit offsets cover 4 GB of code; what lies beyond has no name. */
	uint64_t base;
	enum symbol_source source;
	uint32_t n;
	uint32_t *starts;  /* from base; sorted */
	/* Every TABLE_STEP-th of starts[], where a search begins: of 700,000 starts it touches three lines of cache and
	 * not ten. NULL: no memory, or a small table; then all of starts[] is searched. */
	uint32_t *index;
	/* Offsets in the strings; of SYMBOL_FROM_VTABLE, numbers in virtuals[]; of SYMBOL_FROM_FRAMES always 0. */
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
	void *kept; /* owned: a stored table as it was read; starts, names, sizes and extras lie in it. NULL: they are owned */
};

#define TABLE_STEP 64u
/* How many entries `index` has, if it is there. */
static inline uint32_t symbol_table__steps(const struct symbol_table *table)
{
	return (table->n + TABLE_STEP - 1) / TABLE_STEP;
}

/* An entry of sizes[]: 15 bits of size and the flag TABLE_EXTENDED (the size was derived from the next symbol). A
 * size of TABLE_EXTRA says that the range has an entry in extras[]: it is longer than 32 KB, or is not the first
 * part of its symbol. */
#define TABLE_SIZE 0x7fffu
#define TABLE_EXTENDED 0x8000u
#define TABLE_EXTRA 0x7fffu

/* Makes the index. `candidates` is sorted and changed. `machine`: EM_*, for its
 * mapping symbols. `extend`: symbols without size go on to the next one, at most so
 * many bytes; 0 where not all symbols are in the table. */
int symbol_table__build(struct symbol_table *table, struct candidates *candidates,
			const struct code_ranges *ranges, uint16_t machine, uint32_t extend);
/* The common end of those who collect candidates, which are freed: makes the index, unless `err` is an error of the
 * collecting. -ENOENT: there is no symbol. On error the table is freed. */
int symbol_table__finish(struct symbol_table *table, struct candidates *candidates, const struct code_ranges *ranges, uint16_t machine,
			 uint32_t extend, int err);
/* Makes the index of the symbols at `symbols` that name code. `skip` (or NULL): symbols that begin where one of that
 * table begins are left out. -ENOENT: none. */
struct elf_image;
struct elf_symbols;
int symbol_table__load(struct symbol_table *table, const struct elf_image *image,
		       const struct elf_symbols *symbols, const struct code_ranges *ranges,
		       const struct symbol_table *skip, uint32_t extend);
/* The same; the index of a large table is taken from `folder` if an earlier session stored it there, and stored
 * otherwise (<= 0: neither). */
int symbol_table__open(struct symbol_table *table, const struct elf_image *image, const struct elf_symbols *symbols,
		       const struct code_ranges *ranges, uint32_t extend, int folder);
/* Makes `index`, once `starts` are there. */
void symbol_table__index(struct symbol_table *table);
void symbol_table__free(struct symbol_table *table);
size_t symbol_table__bytes(const struct symbol_table *table);

struct table_row {
	uint64_t start;   /* of the symbol */
	uint64_t size;    /* of the symbol, as far as it is known */
	uint64_t from, to; /* vaddrs of which the answer is the same */
	uint32_t name;
	bool extended;
};
/* O(log n). False: no symbol has it; ret->from and ret->to are set all the same. */
bool symbol_table__find(const struct symbol_table *table, uint64_t vaddr, struct table_row *ret);
/* Does a symbol that has a size begin there? */
bool symbol_table__begins(const struct symbol_table *table, uint64_t vaddr);
/* Appends the name, without NUL; at most SYMBOL_NAME_MAX bytes. A name that the string table does not end is what
 * there is of it. -EIO: the file shrank; -ENOMEM. */
int symbol_table__name(const struct symbol_table *table, uint32_t name, struct buf *ret);

/* Executable sections, or segments if there are no section headers. */
int code_ranges__of(const struct elf_image *image, struct code_ranges *ret);
void code_ranges__free(struct code_ranges *ranges);
/* NULL: not in code. */
const struct range *code_ranges__find(const struct code_ranges *ranges, uint64_t vaddr);

/* Reads the first bytes of names where they matter: sets RANK_UNDERSCORES, and RANK_DROP of what is not to be shown
 * (local labels, mapping symbols, empty names). `candidates` is sorted by address. */
#define RANK_DROP 0x100u
int candidates__read_names(struct candidates *candidates, const struct symbol_table *table,
			      uint16_t machine);

/* table_kept.c. Fills in the rows of `table`, which has everything else, from the stored file. -ENOENT and others:
 * there is none that fits, and `table` is empty. */
int symbol_table__find_kept(struct symbol_table *table, int folder, const struct kept_key *key, const struct elf_symbols *symbols,
			    uint32_t extend);
/* Stores the rows, unless the ELF file has changed since `key` was taken. Failures are silent. */
void symbol_table__keep(const struct symbol_table *table, int folder, const struct kept_key *key, const struct elf_symbols *symbols,
			uint32_t extend);

/* The stubs through which other libraries are called, named as their target.
 * -ENOENT: none. */
int symbol_table__load_plt(struct symbol_table *table, const struct elf_image *image,
			   const struct code_ranges *ranges);
