/* SPDX-License-Identifier: MIT */
/* Relocates the .eh_frame of an object that a JIT compiler registered with the debugger. LLVM sets in its copy where
 * the sections were loaded, but does not always apply relocations: addresses of functions are then 0 and follow from
 * .rela.eh_frame. Applying them a second time gives the same values. */
#include "unwind/elf.h"

#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "elf/relocation.h"

/* Bounds for one object: objects are registered by the target at any rate, and may be hostile. */
#define FRAMES_MAX (8u << 20)
#define RELOCATIONS_MAX 262144u

int elf_frames__relocate(const struct elf_bytes *source, struct elf_frames *elf,
			 struct elf_bytes *ret, void **ret_bytes)
{
	_cleanup_(elf_image__free) struct elf_image image = {};
	uint32_t budget = RELOCATIONS_MAX;
	_cleanup_free_ uint8_t *bytes = NULL;
	int err;

	if (elf->eh_frame.size > FRAMES_MAX)
		return -E2BIG;
	bytes = malloc(elf->eh_frame.size);
	if (!bytes)
		return -ENOMEM;
	err = elf_image__open(source, ELF_SECTIONS, &image);
	if (err)
		return err;
	if (elf->relocations >= image.n_sections ||
	    elf_bytes__read(source, elf->eh_frame.offset, bytes, elf->eh_frame.size))
		return -EBADMSG;
	if (image.sections[elf->relocations].sh_size / sizeof(Elf64_Rela) > RELOCATIONS_MAX)
		return -E2BIG;
	elf_image__relocate(&image, elf->relocations, bytes, elf->eh_frame.size, &budget);
	elf_bytes__init_memory(ret, bytes, elf->eh_frame.size);
	elf->eh_frame.offset = 0;
	*ret_bytes = take_ptr(bytes);
	return 0;
}
