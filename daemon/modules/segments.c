#include "modules/segments.h"

#include <elf.h>
#include <errno.h>
#include <string.h>

#define HEADERS_MAX 256u
#define PAGE 4096u

int segments__read(struct unwind_source *elf, struct segments *ret)
{
	Elf64_Ehdr head;
	Elf64_Phdr one;
	uint32_t i;

	*ret = (struct segments){};
	if (elf->read(elf, &head, sizeof(head), 0) || memcmp(head.e_ident, ELFMAG, SELFMAG) ||
	    head.e_ident[EI_CLASS] != ELFCLASS64 || head.e_phentsize != sizeof(one))
		return -EBADMSG;
	for (i = 0; i < head.e_phnum && i < HEADERS_MAX && ret->n < SEGMENTS_MAX; i++) {
		if (head.e_phoff > INT64_MAX ||
		    elf->read(elf, &one, sizeof(one), head.e_phoff + i * sizeof(one)))
			return -EBADMSG;
		if (one.p_type == PT_LOAD && one.p_flags & PF_X)
			ret->items[ret->n++] =
				(struct segment){one.p_offset, one.p_filesz, one.p_vaddr};
	}
	return 0;
}

int segments__bias(const struct segments *segments, uint64_t offset, uint64_t address,
		   uint64_t *ret_bias)
{
	uint32_t i;

	for (i = 0; i < segments->n; i++) {
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
