/* An ELF file's headers: sections, segments, build-id, debug link, dynamic
 * symbols. Only 64-bit little-endian. Bounded; what does not fit is an error or
 * is left out, and no offset is trusted before it is read. */
#ifndef CPROFD_SYMBOLS_IMAGE_H
#define CPROFD_SYMBOLS_IMAGE_H

#include <elf.h>
#include <stddef.h>
#include <stdint.h>

#include "symbols/bytes.h"
#include "symbols/symbols.h"

#define IMAGE_SECTIONS_MAX 100000u
#define IMAGE_SEGMENTS_MAX 256u
#define IMAGE_LINK_MAX 256u

struct elf_image {
	const struct elf_bytes *bytes; /* borrowed */
	uint16_t type, machine;        /* ET_*, EM_* */
	Elf64_Shdr *sections;          /* owned */
	Elf64_Phdr *segments;          /* owned */
	uint32_t n_sections, n_segments;
	uint32_t names;                /* the section of section names, 0: none */
	uint8_t build_id[SYMBOL_BUILD_ID_MAX];
	size_t build_id_len;
};

int elf_image__open(const struct elf_bytes *bytes, struct elf_image *ret);
void elf_image__free(struct elf_image *image);
/* The section's number, 0: none. */
uint32_t elf_image__section(const struct elf_image *image, const char *name);
/* The file offset of `len` bytes at vaddr, through the segments. -ENOENT. */
int elf_image__offset(const struct elf_image *image, uint64_t vaddr, uint64_t len,
		      uint64_t *ret_offset);

/* A table of symbols in the file. */
struct elf_symbols {
	uint64_t offset, n;            /* of Elf64_Sym */
	uint64_t strings, strings_size; /* in the file */
	uint64_t indices;              /* SHT_SYMTAB_SHNDX, 0: none */
};
/* type: SHT_SYMTAB or SHT_DYNSYM; the latter is also found without section
 * headers, through PT_DYNAMIC. -ENOENT, -EBADMSG. */
int elf_image__symbols(const struct elf_image *image, uint32_t type, struct elf_symbols *ret);

/* .gnu_debuglink: a file name without folder, and its CRC. -ENOENT, -EBADMSG. */
int elf_image__debuglink(const struct elf_image *image, char ret_name[IMAGE_LINK_MAX],
			 uint32_t *ret_crc);

#endif
