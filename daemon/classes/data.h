/* SPDX-License-Identifier: MIT */
/* The initialised data of an ELF file as the dynamic linker would leave it: words with their relocations
 * applied, for whoever looks for tables of pointers in it. Private to this folder.
 *
 * All bytes are the target's: addresses that lie nowhere are words that are not there. */
#ifndef CPROFD_CLASSES_DATA_H
#define CPROFD_CLASSES_DATA_H

#include <stdbool.h>
#include <stdint.h>

#include "unwind/unwind.h"

#define DATA_SEGMENTS 32u
#define DATA_BYTES (64u << 20)  /* of writable segments; libtorch_python has 3 MB, an interpreter 1 MB */
#define DATA_STRINGS (1u << 20) /* of dynamic symbols' names that are searched */

struct data_segment {
	uint64_t start, end, offset; /* vaddrs; `end` of what the file holds */
	uint64_t bytes;              /* writable: where in `bytes` of the data */
	bool code, writable;
};

struct data {
	const struct elf_bytes *source;
	struct data_segment segments[DATA_SEGMENTS];
	uint32_t n_segments;
	void *symbols;    /* dynamic ones: Elf64_Sym */
	uint32_t n_symbols;
	uint64_t strings; /* vaddr of their names */
	uint8_t *bytes; /* of all writable segments, one after the other */
	struct data_pieces *pieces; /* of the file, for names, which lie together; NULL: none */
};

/* -ENOENT: no dynamic symbol of the file has `needs` in its name: nothing was read. */
int data__open(const struct elf_bytes *source, const char *needs, struct data *ret);
void data__free(struct data *data);

/* A word of a writable segment. An address that another file gives is 0. */
bool data__word(const struct data *data, uint64_t vaddr, uint64_t *ret);
bool data__is_code(const struct data *data, uint64_t vaddr);
/* In a segment that is not written to, as literals are. */
bool data__is_constant(const struct data *data, uint64_t vaddr);
bool data__is_variable(const struct data *data, uint64_t vaddr);
bool data__bytes(const struct data *data, uint64_t vaddr, void *ret, uint32_t size);
/* Of the dynamic symbols. */
bool data__symbol(const struct data *data, const char *name, uint64_t *ret);
bool data__is_exported(const struct data *data, uint64_t vaddr);
/* ... by a name that begins with one of `prefixes`, the last of which is NULL. */
bool data__is_exported_as(const struct data *data, uint64_t vaddr, const char *const *prefixes);
/* The string at vaddr, with its NUL, if it fits. */
bool data__string(const struct data *data, uint64_t vaddr, char *ret, uint32_t size);

#endif
