/* SPDX-License-Identifier: MIT */
/* The one reader of ELF files and images: headers, segments, sections, notes, the dynamic section, symbol tables.
 * Only 64-bit little-endian.
 *
 * Owner: an image owns its copies of the headers (elf_image__free()) and borrows its bytes. Threads: no state, no
 * locks; an image that is open is only read. Units: offsets and sizes in bytes of the file, vaddrs as the file has
 * them. Bytes may be hostile: what is given out was within its bounds when it was read, each loop has a limit, and
 * headers are copies, which do not change when the bytes do. Errors: -ENOEXEC: no ELF of that class, byte order and
 * version; -EBADMSG: it does not fit together; -ENOENT: it has none of that; -EIO, -ENOMEM.
 *
 * Users: symbols/, unwind/, jit/, classes/, modules/, target/. A typical use:
 *
 *    elf_bytes__init_fd(&bytes, fd);
 *    elf_image__open(&bytes, ELF_ALL, &image);
 *    number = elf_image__section(&image, ".eh_frame");
 *    elf_bytes__read(&bytes, image.sections[number].sh_offset, ...);
 *
 * Sources: System V gABI, chapters 4 (Object Files) and 5 (Program Loading and Dynamic Linking); processors' parts:
 * arch/x86_64.h. */
#pragma once

#include <elf.h>
#include <stddef.h>
#include <stdint.h>

#include "elf/bytes.h"

/* What a file may make us hold at most: 6.4 MB of section headers, 28 KB of program headers. */
#define ELF_SECTIONS_MAX 100000u
#define ELF_SEGMENTS_MAX 512u
/* Of section names: LLVM's objects have those of symbols with them. */
#define ELF_NAMES_MAX (16u << 20)
#define ELF_BUILD_ID_MAX 64u
#define ELF_LINK_MAX 256u

/* e_ident of what is read here, for who writes some. */
#define ELF_IDENT {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB, EV_CURRENT}

/* Of a file's first EI_NIDENT bytes: an ELF file, but of 32 bits. */
bool elf_ident__is_32_bit(const unsigned char *ident);

/* What elf_image__open() reads. ELF_ALL is more than both: the build-id is searched for only then. */
enum elf_part { ELF_SEGMENTS = 1, ELF_SECTIONS = 2, ELF_ALL = 7 /* and the build-id */ };

/* An opened image. Section and segment headers are copies in host memory; their offsets are not checked against the
 * file: a reader of one gets an error from elf_bytes__read(). */
struct elf_image {
	const struct elf_bytes *bytes; /* borrowed */
	uint16_t type, machine;	       /* ET_*, EM_* */
	uint64_t entry;		       /* vaddr */
	uint64_t headers;	       /* offset of the section headers, 0: there are none */
	Elf64_Shdr *sections;
	Elf64_Phdr *segments;
	char *names; /* of sections; ends with a NUL; NULL: there are none */
	uint32_t n_sections, n_segments, names_size;
	uint8_t build_id[ELF_BUILD_ID_MAX];
	size_t build_id_len;
};

/* `parts` of enum elf_part. A file whose section headers are gone, or not whole, still has its
 * segments: n_sections is 0 then. */
int elf_image__open(const struct elf_bytes *bytes, unsigned parts, struct elf_image *ret);
void elf_image__free(struct elf_image *image);

/* "": it has none. */
const char *elf_image__name(const struct elf_image *image, const Elf64_Shdr *section);
/* The number of the first section of this name; 0: none. O(sections). */
uint32_t elf_image__section(const struct elf_image *image, const char *name);
/* The last one of that type, as a loader takes it; NULL: none. */
const Elf64_Phdr *elf_image__segment(const struct elf_image *image, uint32_t type);
/* The file offset of `len` bytes at vaddr, through the segments. -ENOENT. */
int elf_image__offset(const struct elf_image *image, uint64_t vaddr, uint64_t len,
		      uint64_t *ret_offset);
/* What is added to vaddrs where the file's first byte is at `base`. -ENOENT: that is not loaded. */
int elf_image__bias(const struct elf_image *image, uint64_t base, uint64_t *ret_bias);

/* What the dynamic section says, 0: nothing. Addresses as they stand there. */
struct elf_tags {
	uint64_t symbols, strings, strings_size, gnu_hash, hash;
	uint64_t rela, rela_size, plt, plt_size;
};
int elf_image__tags(const struct elf_image *image, struct elf_tags *ret);
/* Of `size` bytes at `at`, up to DT_NULL. */
int elf_bytes__tags(const struct elf_bytes *bytes, uint64_t at, uint64_t size,
		    struct elf_tags *ret);

/* A table of symbols in the file. */
struct elf_symbols {
	uint64_t offset, n;		/* of Elf64_Sym */
	uint64_t strings, strings_size; /* in the file */
	uint64_t indices;		/* SHT_SYMTAB_SHNDX, 0: none */
};
/* type: SHT_SYMTAB or SHT_DYNSYM; the latter is also found without section headers, through
 * PT_DYNAMIC. */
int elf_image__symbols(const struct elf_image *image, uint32_t type, struct elf_symbols *ret);
/* The address of a symbol of section `index` (SHN_ABS: of none). -ENOENT: it is another file's, or
 * of no section. In an object that was not linked values count from the section; who loaded it may
 * have made addresses of them already. */
int elf_image__address(const struct elf_image *image, uint32_t index, uint64_t value,
		       uint64_t *ret);

/* .gnu_debuglink: a file name without folder, and its CRC. */
int elf_image__debuglink(const struct elf_image *image, char ret_name[ELF_LINK_MAX],
			 uint32_t *ret_crc);
