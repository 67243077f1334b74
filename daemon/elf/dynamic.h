/* SPDX-License-Identifier: MIT */
/* Dynamic symbols of an ELF image as it lies in a target's memory: found from the ELF header at its base through
 * PT_DYNAMIC and the symbol hash tables. They survive strip, need no file, and are what the target's own loader
 * used.
 *
 *    base 0x7f31c0000000  ->  "_PyRuntime"  ->  {address 0x7f31c0a4f2c0, size 0x8d5f8, STT_OBJECT}
 *
 * Caller: target/, to find CPython's variables. All of it is the target's to forge: every address goes through the
 * reader, every walk has a bound, and what does not fit together is a named problem. */
#pragma once

#include <stdint.h>

#include "elf/bytes.h"

/* Why an image cannot be read. */
enum elf_problem {
	ELF_PROBLEM_NONE,
	ELF_PROBLEM_NOT_ELF,     /* there is no 64-bit little-endian ELF header at its start */
	ELF_PROBLEM_HEADER,      /* its program headers cannot be read */
	ELF_PROBLEM_NO_LOAD,     /* no segment of it is loaded from the start of the file */
	ELF_PROBLEM_NO_DYNAMIC,  /* it has no dynamic section (a static executable?) */
	ELF_PROBLEM_DYNAMIC,     /* its dynamic section cannot be read or does not end */
	ELF_PROBLEM_NO_HASH,     /* its dynamic section names no symbol table, string table or hash table */
	ELF_PROBLEM_HASH,        /* its symbol hash table does not fit together */
	ELF_PROBLEM_SYMBOL,      /* a symbol or its name cannot be read */
};

/* An image that was opened. All members but `bias` are addresses in the target. Plain data: nothing to free. */
struct elf_dynamic {
	struct elf_bytes memory; /* of the target, by address */
	uint64_t base;         /* where its first byte is mapped */
	uint64_t bias;         /* added to the file's addresses */
	uint64_t symbols, strings, strings_size;
	uint64_t gnu_hash, hash; /* 0: not there */
};

/* A symbol that was found. address: in the target; size: as the symbol table has it, and not checked. */
struct elf_symbol {
	uint64_t address, size;
	uint8_t type;          /* STT_* */
};

/* 0, or -EBADMSG with *ret_problem. */
int elf_dynamic__open(struct host_reader *reader, uint64_t base, struct elf_dynamic *ret,
		      enum elf_problem *ret_problem);
/* A symbol defined in this image. -ENOENT: none; -EBADMSG with *ret_problem. */
int elf_dynamic__lookup(const struct elf_dynamic *elf, const char *name, struct elf_symbol *ret,
			enum elf_problem *ret_problem);
