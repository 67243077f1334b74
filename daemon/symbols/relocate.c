/* SPDX-License-Identifier: MIT */
/* Debug information in an object that a JIT registered refers to other sections by relocations that nobody applied.
 * They are applied to our copy, section by section, by elf/relocation.h.
 *
 * LLVM's and other JITs emit ET_REL objects whose .debug_info refers to .debug_str and to code by absolute
 * relocations of 8 and 4 bytes; the loader of the JIT applies those of loaded sections only. Without this every
 * string would be the first one of its section. A hostile object costs at most RELOCATE_MAX relocations, and what
 * lies outside of a section is not written. */
#include "symbols/relocate.h"

#include <errno.h>
#include <string.h>

#include "elf/relocation.h"

/* Its bytes are in the file and are not packed: only then there is something to apply a relocation to. */
static bool is_debug(const struct elf_image *image, const Elf64_Shdr *s)
{
	return s->sh_type != SHT_NOBITS && !(s->sh_flags & SHF_COMPRESSED) &&
	       !strncmp(elf_image__name(image, s), ".debug_", 7) &&
	       elf_bytes__has(image->bytes, s->sh_offset, s->sh_size);
}

int elf_relocate_debug(uint8_t *bytes, size_t len)
{
	uint32_t budget = RELOCATE_MAX, i;
	struct elf_image image;
	struct elf_bytes from;
	int err;

	elf_bytes__init_memory(&from, bytes, len);
	err = elf_image__open(&from, ELF_SECTIONS, &image);
	if (err)
		return err == -ENOMEM ? err : -EBADMSG;
	if (image.type == ET_REL && !image.n_sections)
		err = -EBADMSG;
	for (i = 1; image.type == ET_REL && i < image.n_sections; i++) {
		const Elf64_Shdr *s = &image.sections[i], *target;

		if (s->sh_type != SHT_RELA || !s->sh_info || s->sh_info >= image.n_sections)
			continue;
		target = &image.sections[s->sh_info];
		if (is_debug(&image, target))
			elf_image__relocate(&image, i, bytes + target->sh_offset, target->sh_size,
					    &budget);
	}
	elf_image__free(&image);
	return err;
}
