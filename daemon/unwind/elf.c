/* SPDX-License-Identifier: MIT */
/* Finds call frame information, code and symbols of an ELF file. Section headers come first; without them (a file that
 * was stripped of its headers), PT_GNU_EH_FRAME says where .eh_frame begins, and it goes on to its terminator or the
 * segment's end. elf/elf.h has checked headers; sections are cut to the file's size here. */
#include "unwind/elf.h"

#include <errno.h>
#include <string.h>

#include "arch/arch.h"
#include "elf/relocation.h"

/* Extends the range of code by [address, address + size). */
static void cover(struct elf_frames *elf, uint64_t address, uint64_t size)
{
	uint64_t end = elf->text + elf->text_size;

	if (!size || address + size < address)
		return;
	if (!elf->text_size) {
		elf->text = address;
		elf->text_size = size;
		return;
	}
	if (address + size > end)
		end = address + size;
	if (address < elf->text)
		elf->text = address;
	elf->text_size = end - elf->text;
}

/* The first section of a kind counts. Compressed ones are not read. */
static bool take_section(const struct elf_image *image, struct elf_section *section,
			 const Elf64_Shdr *header)
{
	if (section->size || header->sh_type == SHT_NOBITS || header->sh_flags & SHF_COMPRESSED ||
	    header->sh_offset >= image->bytes->size)
		return false;
	section->address = header->sh_addr;
	section->offset = header->sh_offset;
	section->size = image->bytes->size - header->sh_offset;
	if (header->sh_size < section->size)
		section->size = header->sh_size;
	return true;
}

/* The section with the relocations of section `target`, of an object that was not linked; 0: none. */
static uint32_t relocations_of(const struct elf_image *image, uint32_t target)
{
	uint32_t number = image->type == ET_REL ? elf_image__relocations(image, target) : 0;

	return number && image->sections[number].sh_type == SHT_RELA ? number : 0;
}

/* A symbol table replaces a dynamic one that came first, as it has more functions. */
static void take_sections(struct elf_frames *elf, const struct elf_image *image)
{
	uint32_t i;

	elf->has_sections = image->n_sections != 0;
	elf->loaded_only = elf->has_sections && image->type == ET_REL;
	for (i = 1; i < image->n_sections; i++) {
		const Elf64_Shdr *s = &image->sections[i];
		const char *name = elf_image__name(image, s);

		if (!strcmp(name, ".eh_frame") && take_section(image, &elf->eh_frame, s))
			elf->relocations = relocations_of(image, i);
		else if (!strcmp(name, ".debug_frame"))
			take_section(image, &elf->debug_frame, s);
		else if (!strcmp(name, ".got.plt") || (!elf->got && !strcmp(name, ".got")))
			elf->got = s->sh_addr;
		if (s->sh_type == SHT_SYMTAB ||
		    (s->sh_type == SHT_DYNSYM && !elf->functions.size)) {
			elf->functions.size = 0;
			take_section(image, &elf->functions, s);
			elf->function_names = s->sh_link;
		}
		/* An object of a JIT compiler has no segments; its sections lie where it was
		 * loaded. */
		if (image->type == ET_REL && s->sh_flags & SHF_EXECINSTR && s->sh_addr)
			cover(elf, s->sh_addr, s->sh_size);
	}
}

/* .eh_frame_hdr: version 1, encoding of the pointer to .eh_frame, of which 4 bytes relative to the
 * pointer itself (0x1b) is what linkers write. */
static void from_segment(const struct elf_image *image, struct elf_section *section)
{
	const Elf64_Phdr *hdr = elf_image__segment(image, PT_GNU_EH_FRAME);
	struct {
		uint8_t version, pointer, count, table;
		int32_t offset;
	} head;
	uint64_t address;
	uint32_t i;

	if (!hdr || elf_bytes__read(image->bytes, hdr->p_offset, &head, sizeof(head)) ||
	    head.version != 1 || head.pointer != 0x1b)
		return;
	address = hdr->p_vaddr + 4 + (uint64_t)(int64_t)head.offset;
	for (i = 0; i < image->n_segments; i++) {
		const Elf64_Phdr *load = &image->segments[i];
		uint64_t in = address - load->p_vaddr;

		if (load->p_type != PT_LOAD || in >= load->p_filesz ||
		    load->p_offset > image->bytes->size ||
		    in >= image->bytes->size - load->p_offset)
			continue;
		section->address = address;
		section->offset = load->p_offset + in;
		section->size = load->p_filesz - in;
		if (section->size > image->bytes->size - section->offset)
			section->size = image->bytes->size - section->offset;
		return;
	}
}

/* Is it a dynamic linker, where the kernel begins a program? */
static bool begins_processes(const struct elf_image *image)
{
	uint8_t bytes[MACHINE_START_BYTES];
	uint64_t at;

	return !elf_image__offset(image, image->entry, sizeof(bytes), &at) &&
	       !elf_bytes__read(image->bytes, at, bytes, sizeof(bytes)) && machine__begins_process(bytes);
}

/* All of the identity but the file's own (identity__from_file()). */
static void identify(struct elf_frames *elf, const struct elf_image *image)
{
	struct unwind_identity *identity = &elf->identity;

	if (image->build_id_len <= sizeof(identity->build_id)) {
		memcpy(identity->build_id, image->build_id, image->build_id_len);
		identity->build_id_size = (uint32_t)image->build_id_len;
	}
	identity->machine = image->machine;
	identity->text = elf->text;
	identity->text_size = elf->text_size;
	identity->frames = elf->eh_frame.size ? elf->eh_frame.address : elf->debug_frame.offset;
	identity->frames_size = elf->eh_frame.size ? elf->eh_frame.size : elf->debug_frame.size;
	identity->symbols = elf->functions.offset;
	identity->symbols_size = elf->functions.size;
}

/* Code is what executable segments cover, or, of a JIT's object, executable sections. */
static int read_image(const struct elf_image *image, struct elf_frames *elf)
{
	uint32_t i;

	if (image->machine != ELF_MACHINE)
		return -EBADMSG;
	take_sections(elf, image);
	for (i = 0; i < image->n_segments; i++)
		if (image->segments[i].p_type == PT_LOAD && image->segments[i].p_flags & PF_X)
			cover(elf, image->segments[i].p_vaddr, image->segments[i].p_memsz);
	if (!elf->eh_frame.size)
		from_segment(image, &elf->eh_frame);
	/* A program (it has an interpreter, or is linked statically) or the dynamic linker itself: a thread begins at
	 * its entry. */
	if (elf_image__segment(image, PT_INTERP) || image->type == ET_EXEC ||
	    begins_processes(image))
		elf->entry = image->entry;
	if (!elf->text_size ||
	    (!elf->eh_frame.size && !elf->debug_frame.size && !elf->functions.size))
		return -ENODATA;
	identify(elf, image);
	return 0;
}

int elf_frames__open(const struct elf_bytes *source, struct elf_frames *ret)
{
	struct elf_frames elf = {};
	struct elf_image image;
	int err = elf_image__open(source, ELF_ALL, &image);

	err = err ?: read_image(&image, &elf);
	elf_image__free(&image);
	if (!err)
		*ret = elf;
	/* Not an ELF file is the same as a damaged one here. */
	return err == -ENOEXEC ? -EBADMSG : err;
}

int table__identify(const struct elf_bytes *source, struct unwind_identity *ret)
{
	struct elf_frames elf;
	int err = elf_frames__open(source, &elf);

	if (!err)
		*ret = elf.identity;
	return err;
}
