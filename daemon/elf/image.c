/* SPDX-License-Identifier: MIT */
/* Headers, checked once. What a loader does not look at (e_version, e_ehsize) may be anything: JIT
 * compilers write their images by hand.
 *
 * Order of the reads: ELF header -> section 0, if the header's fields overflowed into it -> program headers ->
 * section headers -> section names -> notes. A file of which a later part is damaged is still good for the earlier
 * ones, except for program headers. */
#include "elf/elf.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define PAGE 4096u

bool elf_ident__is_32_bit(const unsigned char *ident)
{
	return !memcmp(ident, ELFMAG, SELFMAG) && ident[EI_CLASS] == ELFCLASS32;
}

/* `n` items of `item` bytes into a new array, *ret (a pointer to a pointer of any type). The caller bounds n. */
static int read_table(const struct elf_bytes *bytes, uint64_t at, size_t item, uint64_t n,
		      void *ret)
{
	void *table;
	int err;

	if (!elf_bytes__has(bytes, at, n * item))
		return -EBADMSG;
	table = malloc(n * item);
	if (!table)
		return -ENOMEM;
	err = elf_bytes__read(bytes, at, table, n * item);
	if (err)
		free(table);
	else
		memcpy(ret, &table, sizeof(table));
	return err == -ENODATA ? -EBADMSG : err;
}

static int read_segments(struct elf_image *image, const Elf64_Ehdr *header, const Elf64_Shdr *first)
{
	uint32_t n = header->e_phnum == PN_XNUM ? first->sh_info : header->e_phnum;
	int err;

	if (!header->e_phnum)
		return 0;
	if (!n || n > ELF_SEGMENTS_MAX || header->e_phentsize != sizeof(Elf64_Phdr))
		return -EBADMSG;
	err = read_table(image->bytes, header->e_phoff, sizeof(Elf64_Phdr), n, &image->segments);
	image->n_segments = err ? 0 : n;
	return err;
}

/* A string table that is cut by the end of the file is taken as far as it goes; a NUL is added, so that each name
 * ends. */
static int read_names(struct elf_image *image, uint32_t number)
{
	const Elf64_Shdr *s = number < image->n_sections ? &image->sections[number] : NULL;
	size_t size, got;

	if (!s || s->sh_type != SHT_STRTAB || s->sh_offset >= image->bytes->size)
		return 0;
	size = s->sh_size < ELF_NAMES_MAX ? s->sh_size : ELF_NAMES_MAX;
	if (size > image->bytes->size - s->sh_offset)
		size = image->bytes->size - s->sh_offset;
	image->names = malloc(size + 1);
	if (!image->names)
		return -ENOMEM;
	if (elf_bytes__read_some(image->bytes, s->sh_offset, image->names, size, &got))
		got = 0;
	image->names[got] = 0;
	image->names_size = (uint32_t)got;
	return 0;
}

/* Anything wrong means: no sections. Only lack of memory is an error. */
static int read_sections(struct elf_image *image, const Elf64_Ehdr *header, const Elf64_Shdr *first)
{
	uint64_t n = header->e_shnum ? header->e_shnum : first->sh_size;
	uint32_t names = header->e_shstrndx == SHN_XINDEX ? first->sh_link : header->e_shstrndx;
	int err;

	if (!n || n > ELF_SECTIONS_MAX)
		return 0;
	err = read_table(image->bytes, header->e_shoff, sizeof(Elf64_Shdr), n, &image->sections);
	if (err)
		return err == -ENOMEM ? err : 0;
	image->n_sections = (uint32_t)n;
	return read_names(image, names);
}

/* gABI: numbers that do not fit into the header are in section 0. */
static bool needs_first(const Elf64_Ehdr *header)
{
	return !header->e_shnum || header->e_shstrndx == SHN_XINDEX || header->e_phnum == PN_XNUM;
}

static int read_header(const struct elf_bytes *bytes, Elf64_Ehdr *ret)
{
	int err = elf_bytes__read(bytes, 0, ret, sizeof(*ret));

	if (err == -EIO)
		return err;
	return err || memcmp(ret->e_ident, ELFMAG, SELFMAG) ||
			       ret->e_ident[EI_CLASS] != ELFCLASS64 ||
			       ret->e_ident[EI_DATA] != ELFDATA2LSB ||
			       ret->e_ident[EI_VERSION] != EV_CURRENT
		       ? -ENOEXEC
		       : 0;
}

/* A note: its head, a name and a description, each filled up to 4 bytes. */
static bool take_build_id(struct elf_image *image, const uint8_t *notes, size_t len)
{
	size_t at = 0, name, desc;
	Elf64_Nhdr note;

	while (at <= len && len - at >= sizeof(note)) {
		memcpy(&note, notes + at, sizeof(note));
		name = at + sizeof(note);
		desc = name + ((note.n_namesz + 3ull) & ~3ull);
		if (desc > len || note.n_descsz > len - desc)
			return false;
		at = desc + ((note.n_descsz + 3ull) & ~3ull);
		if (note.n_type != NT_GNU_BUILD_ID || note.n_namesz != 4 ||
		    memcmp(notes + name, "GNU", 4) || !note.n_descsz ||
		    note.n_descsz > ELF_BUILD_ID_MAX)
			continue;
		memcpy(image->build_id, notes + desc, note.n_descsz);
		image->build_id_len = note.n_descsz;
		return true;
	}
	return false;
}

#define NOTES_MAX (1u << 16) /* bytes of one section */
#define NOTES_SECTIONS_MAX 256u

/* Larger sections than NOTES_MAX are skipped. The bytes need not be whole. */
static bool notes_at(struct elf_image *image, uint64_t at, uint64_t size)
{
	uint8_t *notes;
	size_t got = 0;
	bool found;

	if (!size || size > NOTES_MAX || !(notes = malloc(size)))
		return false;
	found = !elf_bytes__read_some(image->bytes, at, notes, size, &got) &&
		take_build_id(image, notes, got);
	free(notes);
	return found;
}

static void find_build_id(struct elf_image *image)
{
	uint32_t i;

	/* In a debug file the segments point at bytes that are not there: sections, if there are
	 * any. */
	for (i = 0; i < image->n_sections && i < NOTES_SECTIONS_MAX; i++)
		if (image->sections[i].sh_type == SHT_NOTE &&
		    notes_at(image, image->sections[i].sh_offset, image->sections[i].sh_size))
			return;
	for (i = 0; !image->n_sections && i < image->n_segments; i++)
		if (image->segments[i].p_type == PT_NOTE &&
		    notes_at(image, image->segments[i].p_offset, image->segments[i].p_filesz))
			return;
}

int elf_image__open(const struct elf_bytes *bytes, unsigned parts, struct elf_image *ret)
{
	struct elf_image image = {.bytes = bytes};
	Elf64_Shdr first = {};
	Elf64_Ehdr header;
	int err = read_header(bytes, &header);
	bool has_sections;

	*ret = (struct elf_image){};
	if (err)
		return err;
	image.type = header.e_type;
	image.machine = header.e_machine;
	image.entry = header.e_entry;
	image.headers = header.e_shoff;
	has_sections = header.e_shoff && header.e_shentsize == sizeof(first);
	if (has_sections && needs_first(&header) &&
	    elf_bytes__read(bytes, header.e_shoff, &first, sizeof(first)))
		has_sections = false;
	if (parts & ELF_SEGMENTS)
		err = read_segments(&image, &header, &first);
	if (!err && has_sections && parts & ELF_SECTIONS)
		err = read_sections(&image, &header, &first);
	if (err) {
		elf_image__free(&image);
		return err;
	}
	if (parts == ELF_ALL)
		find_build_id(&image);
	*ret = image;
	return 0;
}

void elf_image__free(struct elf_image *image)
{
	free(image->sections);
	free(image->segments);
	free(image->names);
	*image = (struct elf_image){};
}

const char *elf_image__name(const struct elf_image *image, const Elf64_Shdr *section)
{
	return section->sh_name < image->names_size ? image->names + section->sh_name : "";
}

uint32_t elf_image__section(const struct elf_image *image, const char *name)
{
	uint32_t i;

	for (i = 1; i < image->n_sections; i++)
		if (!strcmp(elf_image__name(image, &image->sections[i]), name))
			return i;
	return 0;
}

const Elf64_Phdr *elf_image__segment(const struct elf_image *image, uint32_t type)
{
	uint32_t i;

	for (i = image->n_segments; i-- > 0;)
		if (image->segments[i].p_type == type)
			return &image->segments[i];
	return NULL;
}

int elf_image__offset(const struct elf_image *image, uint64_t vaddr, uint64_t len,
		      uint64_t *ret_offset)
{
	uint32_t i;

	for (i = 0; i < image->n_segments; i++) {
		const Elf64_Phdr *p = &image->segments[i];

		if (p->p_type == PT_LOAD && vaddr >= p->p_vaddr &&
		    vaddr - p->p_vaddr <= p->p_filesz &&
		    len <= p->p_filesz - (vaddr - p->p_vaddr)) {
			*ret_offset = p->p_offset + (vaddr - p->p_vaddr);
			return 0;
		}
	}
	return -ENOENT;
}

/* The segment that has the file's first page: where it is mapped, minus where it wants to be. 0 for a program that
 * is not moved. */
int elf_image__bias(const struct elf_image *image, uint64_t base, uint64_t *ret_bias)
{
	uint32_t i;

	for (i = 0; i < image->n_segments; i++) {
		const Elf64_Phdr *p = &image->segments[i];

		if (p->p_type == PT_LOAD && p->p_offset < PAGE) {
			*ret_bias = base - (p->p_vaddr - p->p_offset);
			return 0;
		}
	}
	return -ENOENT;
}

int elf_image__debuglink(const struct elf_image *image, char ret_name[ELF_LINK_MAX],
			 uint32_t *ret_crc)
{
	uint32_t number = elf_image__section(image, ".gnu_debuglink");
	const Elf64_Shdr *section;
	char data[ELF_LINK_MAX + 8];
	size_t len, got = 0;
	int err;

	if (!number)
		return -ENOENT;
	section = &image->sections[number];
	if (section->sh_type == SHT_NOBITS || section->sh_size > sizeof(data))
		return -EBADMSG;
	err = elf_bytes__read_some(image->bytes, section->sh_offset, data, section->sh_size, &got);
	if (err)
		return err;
	len = strnlen(data, got);
	/* A name, then NUL up to a multiple of 4, then the CRC. */
	if (!len || len >= ELF_LINK_MAX || ((len + 4) & ~3ul) + 4 > got)
		return -EBADMSG;
	if (memchr(data, '/', len)) /* it must not leave the folders that are searched */
		return -EBADMSG;
	memcpy(ret_name, data, len + 1);
	memcpy(ret_crc, data + ((len + 4) & ~3ul), 4);
	return 0;
}
