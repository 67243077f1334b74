/* SPDX-License-Identifier: MIT */
/* Parser of one in-memory ELF image that a JIT registered: where its code is, which functions it has, and how to unwind
 * them. Pure: it works on a copy, whose bytes may be anything. Time: linear in len, but for a sort of the symbols.
 *
 * LLVM registers the relocatable object (ET_REL) that it loaded, with each section's sh_addr set to where the section
 * was put: symbols are relative to their section, and relocations are not applied. Others register ET_EXEC or ET_DYN:
 * their symbols are addresses.
 *
 * Caller: list.c (keep()), with a verified copy. In: 1 KB to some MB of ELF. Out: what registry__add() takes over. */
#pragma once

#include "jit/jit.h"

struct jit_image_symbol {
	uint64_t start;
	uint32_t size;
	uint32_t name;          /* offset in names */
};

struct jit_image {
	struct range *ranges; /* executable sections, sorted by address */
	uint32_t n_ranges;
	struct jit_image_symbol *symbols; /* functions, sorted; one for each address */
	uint32_t n_symbols;
	char *names;
	size_t names_len;
	struct jit_unwind unwind; /* eh_frame NULL: none */
	bool has_lines;
	/* The parts in which two objects of the same size at the same address differ: section headers and names. */
	struct {
		uint64_t offset;
		uint32_t len;
	} probe[2];
};

/* -EBADMSG: not a consistent image; -ENOMEM. On error *ret is empty. Nothing of `bytes` is referred to afterwards. */
int jit_image__parse(const void *bytes, size_t len, struct jit_image *ret);
void jit_image__free(struct jit_image *image);
