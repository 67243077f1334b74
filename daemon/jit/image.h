/* SPDX-License-Identifier: MIT */
/* One in-memory ELF image, as a JIT registered it: where its code is, which
 * functions are in it, and how to unwind it. Pure over a copy; the bytes may be
 * anything. Time: linear in len (a sort of the symbols apart).
 *
 * LLVM registers the relocatable object that it loaded, with each section's sh_addr
 * set to where it was put: symbols are relative to their section, and relocations are
 * not applied in this copy. Others register ET_EXEC or ET_DYN: symbols are addresses. */
#ifndef CPROFD_JIT_IMAGE_H
#define CPROFD_JIT_IMAGE_H

#include "jit/jit.h"

struct jit_image_symbol {
	uint64_t start;
	uint32_t size;
	uint32_t name;          /* offset in names */
};

struct jit_image {
	struct jit_range *ranges; /* executable sections, by address */
	uint32_t n_ranges;
	struct jit_image_symbol *symbols; /* functions, by address; one for each address */
	uint32_t n_symbols;
	char *names;
	size_t names_len;
	struct jit_unwind unwind; /* eh_frame NULL: none */
	bool has_lines;
	/* What two objects of one size at one address differ in: the section headers and
	 * the names. */
	struct {
		uint64_t offset;
		uint32_t len;
	} probe[2];
};

/* -EBADMSG: not an image that fits together; -ENOMEM. */
int jit_image__parse(const void *bytes, size_t len, struct jit_image *ret);
void jit_image__free(struct jit_image *image);

#endif
