/* SPDX-License-Identifier: MIT */
/* What the parts of vtable.c share. Inside daemon/symbols/ only. A struct finder lives as long as one file is
 * opened; addresses are vaddrs below 2 GB (libraries begin at 0), so that a word is 32 bits. */
#pragma once

#include "elf/elf.h"
#include "symbols/table.h"

#define VTABLE_NAME_MAX 4096u

/* A word of .data.rel.ro, once it is relocated: an address; or, with this bit, a symbol of another file. */
#define IS_SYMBOL 0x80000000u

/* A C++ class, as its typeinfo has it. */
struct class {
	uint32_t typeinfo; /* address; they are sorted by it */
	uint32_t name;     /* address */
	uint32_t base;     /* a class' number, or NONE */
	uint32_t slots, n; /* words: its functions */
};

/* A function in the slot of a class that did not inherit it. */
struct method {
	uint32_t slot_of; /* the class that has the slot first */
	uint32_t slot;
	uint32_t class;
	uint32_t function; /* address */
	uint32_t symbol;   /* its name in the strings, or NONE */
};

/* All arrays are owned, and freed by symbol_table__load_virtuals(). */
struct finder {
	const struct elf_image *image;
	const struct symbol_table *known;
	const struct code_ranges *ranges;
	struct elf_symbols symbols;
	uint32_t *values;  /* by number of symbol: its address, or IS_SYMBOL */
	uint32_t kinds[3]; /* the virtual tables of type information, as words; 0: none */
	uint32_t *words;   /* of the section */
	uint32_t n_words;
	uint64_t at, file; /* the section's address, and where it lies in the file */
	uint64_t window[1024], window_at; /* of the section in the file; window_at: its address, 0: none */
	uint64_t next;     /* of packed relocations: the address behind the last one */
	uint64_t steps;    /* up hierarchies, that may still be made */
	struct class *classes;
	uint32_t n_classes, classes_capacity;
	struct method *methods;
	uint32_t n_methods, methods_capacity;
};

/* The addresses of dynamic symbols, and the words of .data.rel.ro. -ENOENT: the file has no classes. */
int finder__read(struct finder *f);
/* A word as it stands in the file; they are mostly asked for in order. ~0: there is none. */
uint64_t finder__content(struct finder *f, uint64_t address);
/* Strings of more than `size` bytes are none that is asked for: -ENOENT. */
int vtable__text(const struct elf_bytes *bytes, uint64_t at, char *ret, size_t size);
/* A class' name as its type information has it, without what marks it as local. */
int vtable__class_name(const struct elf_image *image, uint32_t vaddr, char ret[VTABLE_NAME_MAX]);
