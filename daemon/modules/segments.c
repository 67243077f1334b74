/* SPDX-License-Identifier: MIT */
/* The bias of a mapping: what is to be added to the file's ELF addresses. The kernel maps whole pages, so the address
 * of a mapping and p_vaddr agree only in their distance; the bias is that of the executable segment which holds the
 * mapping's file offset (gABI, Program Loading):
 *
 *    PT_LOAD offset 0x2000, vaddr 0x3000;  maps: 7f1200002000-... r-xp 00002000;  bias = 0x7f1200002000 - 0x3000 */
#include "modules/segments.h"

#include <errno.h>

#include "elf/elf.h"

#define PAGE 4096u

int segments__read(const struct elf_bytes *elf, struct segments *ret)
{
	struct elf_image image;
	int err = elf_image__open(elf, ELF_SEGMENTS, &image);

	*ret = (struct segments){};
	if (!err && !image.n_segments)
		err = -EBADMSG;
	for (uint32_t i = 0; !err && i < image.n_segments && ret->n < SEGMENTS_MAX; i++) {
		const Elf64_Phdr *p = &image.segments[i];

		if (p->p_type == PT_LOAD && p->p_flags & PF_X)
			ret->items[ret->n++] =
				(struct segment){p->p_offset, p->p_filesz, p->p_vaddr};
	}
	elf_image__free(&image);
	return err;
}

int segments__bias(const struct segments *segments, uint64_t offset, uint64_t address,
		   uint64_t *ret_bias)
{
	for (uint32_t i = 0; i < segments->n; i++) {
		const struct segment *s = &segments->items[i];
		uint64_t begin = s->offset & ~(uint64_t)(PAGE - 1);

		/* The loader maps whole pages around a segment. */
		if (offset >= begin && offset - begin < s->size + (s->offset - begin)) {
			*ret_bias = address - offset + s->offset - s->vaddr;
			return 0;
		}
	}
	return -ENOENT;
}
