#include "symbols/image.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define NOTES_MAX (1u << 20)

static int read_table(const struct elf_bytes *bytes, uint64_t at, size_t item, uint32_t n,
		      void **ret)
{
	void *table;
	int err;

	if (!n || at > bytes->size || (uint64_t)n * item > bytes->size - at)
		return -EBADMSG;
	table = malloc((size_t)n * item);
	if (!table)
		return -ENOMEM;
	err = elf_bytes__read(bytes, at, table, (size_t)n * item);
	if (err) {
		free(table);
		return err;
	}
	*ret = table;
	return 0;
}

/* A file without (whole) section headers still has its segments. */
static int read_sections(struct elf_image *image, const Elf64_Ehdr *header)
{
	uint32_t n = header->e_shnum, names = header->e_shstrndx;
	Elf64_Shdr first;
	int err;

	if (!header->e_shoff || header->e_shentsize != sizeof(first))
		return 0;
	if (elf_bytes__read(image->bytes, header->e_shoff, &first, sizeof(first)))
		return 0;
	/* gABI: counts that do not fit are in section 0. */
	if (!n)
		n = first.sh_size > IMAGE_SECTIONS_MAX ? 0 : (uint32_t)first.sh_size;
	if (names == SHN_XINDEX)
		names = first.sh_link;
	if (!n || n > IMAGE_SECTIONS_MAX)
		return 0;
	err = read_table(image->bytes, header->e_shoff, sizeof(first), n,
			 (void **)&image->sections);
	if (err == -ENOMEM)
		return err;
	if (err)
		return 0;
	image->n_sections = n;
	if (names < n && image->sections[names].sh_type == SHT_STRTAB)
		image->names = names;
	return 0;
}

static bool take_build_id(struct elf_image *image, const uint8_t *notes, size_t len)
{
	size_t at = 0;

	while (len - at >= sizeof(Elf64_Nhdr)) {
		Elf64_Nhdr note;
		size_t name, desc;

		memcpy(&note, notes + at, sizeof(note));
		at += sizeof(note);
		if (note.n_namesz > len - at)
			return false;
		name = at;
		at += (note.n_namesz + 3u) & ~3ull;
		if (at > len || note.n_descsz > len - at)
			return false;
		desc = at;
		at += (note.n_descsz + 3u) & ~3ull;
		if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 &&
		    !memcmp(notes + name, "GNU", 4) && note.n_descsz &&
		    note.n_descsz <= SYMBOL_BUILD_ID_MAX) {
			memcpy(image->build_id, notes + desc, note.n_descsz);
			image->build_id_len = note.n_descsz;
			return true;
		}
		if (at > len)
			return false;
	}
	return false;
}

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

	/* In a debug file the segments point at bytes that are not there: sections first. */
	for (i = 0; i < image->n_sections && i < 256; i++)
		if (image->sections[i].sh_type == SHT_NOTE &&
		    notes_at(image, image->sections[i].sh_offset, image->sections[i].sh_size))
			return;
	if (image->n_sections)
		return;
	for (i = 0; i < image->n_segments; i++)
		if (image->segments[i].p_type == PT_NOTE &&
		    notes_at(image, image->segments[i].p_offset, image->segments[i].p_filesz))
			return;
}

int elf_image__open(const struct elf_bytes *bytes, struct elf_image *ret)
{
	struct elf_image image = {.bytes = bytes};
	Elf64_Ehdr header;
	int err;

	err = elf_bytes__read(bytes, 0, &header, sizeof(header));
	if (err == -EIO)
		return err;
	if (err || memcmp(header.e_ident, ELFMAG, SELFMAG) ||
	    header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_ident[EI_DATA] != ELFDATA2LSB)
		return -ENOEXEC;
	image.type = header.e_type;
	image.machine = header.e_machine;
	if (header.e_phnum) {
		if (header.e_phnum > IMAGE_SEGMENTS_MAX || header.e_phentsize != sizeof(Elf64_Phdr))
			return -EBADMSG;
		err = read_table(bytes, header.e_phoff, sizeof(Elf64_Phdr), header.e_phnum,
				 (void **)&image.segments);
		if (err)
			return err == -ENODATA ? -EBADMSG : err;
		image.n_segments = header.e_phnum;
	}
	err = read_sections(&image, &header);
	if (err) {
		elf_image__free(&image);
		return err;
	}
	find_build_id(&image);
	*ret = image;
	return 0;
}

void elf_image__free(struct elf_image *image)
{
	free(image->sections);
	free(image->segments);
	*image = (struct elf_image){};
}

uint32_t elf_image__section(const struct elf_image *image, const char *name)
{
	size_t len = strlen(name) + 1;
	const Elf64_Shdr *names;
	char text[32];
	uint32_t i;

	if (!image->names || len > sizeof(text))
		return 0;
	names = &image->sections[image->names];
	for (i = 1; i < image->n_sections; i++) {
		const Elf64_Shdr *s = &image->sections[i];

		if (s->sh_name >= names->sh_size || names->sh_size - s->sh_name < len ||
		    elf_bytes__read(image->bytes, names->sh_offset + s->sh_name, text, len))
			continue;
		if (!memcmp(text, name, len))
			return i;
	}
	return 0;
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

int elf_image__debuglink(const struct elf_image *image, char ret_name[IMAGE_LINK_MAX],
			 uint32_t *ret_crc)
{
	uint32_t number = elf_image__section(image, ".gnu_debuglink");
	const Elf64_Shdr *section;
	char data[IMAGE_LINK_MAX + 8];
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
	if (!len || len >= IMAGE_LINK_MAX || ((len + 4) & ~3ul) + 4 > got)
		return -EBADMSG;
	if (memchr(data, '/', len)) /* it must not leave the folders that are searched */
		return -EBADMSG;
	memcpy(ret_name, data, len + 1);
	memcpy(ret_crc, data + ((len + 4) & ~3ul), 4);
	return 0;
}
