/* SPDX-License-Identifier: MIT */
/* The initialised data of an ELF file with its relocations applied, as the dynamic linker leaves it in memory: so that
 * tables of pointers can be found in the file. Private to this folder.
 *
 * All bytes are the target's: reading at an address outside of all segments returns false.
 *
 * Why not the memory of the process: it is the same for each process that maps the file, so the result can be kept;
 * and it needs no right to read the process. Addresses are vaddrs, as if the file was loaded at 0.
 *
 * Users: the steps of search.h. A struct data lives as long as one search, on one thread; its cache of pages is
 * written by functions that take a const pointer. */
#pragma once

#include "unwind/unwind.h"

#define DATA_SEGMENTS 32u
#define DATA_BYTES (64u << 20)  /* of writable segments; libtorch_python has 3 MB, an interpreter 1 MB */
#define DATA_CODE_AT_ONCE (64u << 10)
#define DATA_STRINGS (1u << 20) /* bytes of dynamic symbol names that are searched */

/* A PT_LOAD segment. At most DATA_SEGMENTS of them; files have 4 to 6. */
struct data_segment {
	uint64_t start, end, offset; /* vaddrs and file offset; `end` of the bytes in the file, so without .bss */
	uint64_t bytes;              /* writable segment: its offset in data.bytes */
	bool code, writable;
};

struct data {
	const struct elf_bytes *source;
	struct data_segment segments[DATA_SEGMENTS];
	uint32_t n_segments;
	void *symbols;    /* dynamic symbols: Elf64_Sym */
	uint32_t n_symbols, n_exported;
	uint64_t *exported; /* addresses of symbols that the file defines, ascending */
	uint64_t strings; /* vaddr of their names */
	uint8_t *bytes; /* of all writable segments, one after the other */
	struct data_pieces *pieces; /* cache of file pages; NULL: no memory for it */
};

/* -ENOENT: no dynamic symbol's name contains `needs`, so that the file is of no interest; nothing was read. */
int data__open(const struct elf_bytes *source, const char *needs, struct data *ret);
void data__free(struct data *data);

/* `size` bytes of one writable segment; NULL: it has not all of them. */
const uint8_t *data__at(const struct data *data, uint64_t vaddr, uint64_t size);
/* A word of a writable segment. A pointer into another file is 0. */
bool data__word(const struct data *data, uint64_t vaddr, uint64_t *ret);
bool data__is_code(const struct data *data, uint64_t vaddr);
/* In a read-only segment, where string literals are. */
bool data__is_constant(const struct data *data, uint64_t vaddr);
bool data__is_variable(const struct data *data, uint64_t vaddr);
bool data__bytes(const struct data *data, uint64_t vaddr, void *ret, uint32_t size);
/* Calls `find` with the bytes of all code segments, DATA_CODE_AT_ONCE at a time and the next `overlap` bytes (the longest instruction that
 * is searched for), and room for MACHINE_SCAN more. -EBADMSG: the file has not all of it; -ENOMEM; what `find` returned. */
int data__each_code(const struct data *data, uint32_t overlap, int (*find)(void *ctx, uint64_t at, const uint8_t *code, uint32_t size), void *ctx);
/* The address of the dynamic function symbol `name`, if this file defines it. */
bool data__symbol(const struct data *data, const char *name, uint64_t *ret);
bool data__is_exported(const struct data *data, uint64_t vaddr);
/* The same, under a name that begins with one of `prefixes` (NULL-terminated). */
bool data__is_exported_as(const struct data *data, uint64_t vaddr, const char *const *prefixes);
/* The string at vaddr, with its NUL, if it fits. */
bool data__string(const struct data *data, uint64_t vaddr, char *ret, uint32_t size);
