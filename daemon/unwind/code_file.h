/* SPDX-License-Identifier: MIT */
/* Functions of a file without call frame information, while they are found and followed. Private to code_bare.c (finds
 * them) and code_file.c (follows them). */
#pragma once

#include "elf/elf.h"
#include "unwind/builder.h"
#include "unwind/code.h"

#define ENTRIES_MAX 4096u  /* of one function */
#define SECTIONS_MAX 1024u /* with code */

/* A function without entries; [start, start + size) are ELF addresses. */
struct bare {
	uint64_t start, size;
	uint32_t function;	/* its number in the builder; UINT32_MAX: none yet */
	bool cold, stubs, head; /* .cold part; PLT; head: the first 16 bytes are PLT0, to which the stubs jump */
	bool entered, refused;	/* entered: by known jumps; refused: not all such jumps are known */
	bool later;		/* is not followed in this call */
	bool hopeless;		/* cannot be followed: its begin was not found */
};

/* A jump into a function, with the state that it brings. */
struct arrival {
	uint64_t at;
	struct code_state state;
};

/* One call of builder__follow(). */
struct following {
	struct code_rows rows; /* first */
	struct builder *b;
	const struct elf_bytes *source;
	/* One for all functions: it has no state between instructions. */
	struct code_decoder *decoder;
	Elf64_Shdr *code; /* executable sections */
	uint32_t n_code;
	/* Functions with entries: starts, sorted; the largest end so far. */
	uint64_t *starts;
	uint32_t *reach, n_starts;
	/* Their index: how many begin before the first address of each bucket, of 1 << shift bytes from b->base. */
	uint32_t *before, n_buckets;
	unsigned shift;
	struct bare *bare;
	uint32_t n_bare, bare_capacity;
	/* Jumps into functions that the first pass met: entries of the second. */
	struct arrival *arrivals;
	uint32_t n_arrivals, arrivals_capacity;
	bool again; /* second pass */
	struct code_entry *entries; /* of the current function */
	uint32_t n_entries, entries_capacity;
	uint64_t bytes; /* of code that may still be followed */
	/* table__follow(): addresses where walks stopped, ascending; hints: for each the nearest symbol without size
	 * below. */
	const uint64_t *vaddrs;
	uint64_t *hints;
	uint32_t n_vaddrs;
	int unfollowed; /* the reason in the rows of functions that are left out */
};

/* --- code_bare.c --- */

/* Finds all of them, sorted by address; in code without symbols those that contain one of f->vaddrs. */
int following__find(struct following *f);
const Elf64_Shdr *following__section(const struct following *f, uint64_t at);
