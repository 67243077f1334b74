/* SPDX-License-Identifier: MIT */
/* Where an image has code: its executable sections, or the executable PT_LOAD segments of a file whose section
 * headers were stripped. Symbols outside of these are no candidates, and symbols end where their range ends.
 * Sections of a hostile file may overlap: they are merged. */
#include "symbols/table.h"

#include <errno.h>
#include <stdlib.h>

#include "base/order.h"
#include "elf/elf.h"

static void add(struct code_ranges *ranges, uint64_t start, uint64_t size)
{
	if (size && start + size > start)
		ranges->items[ranges->n++] = (struct range){start, start + size};
}

int code_ranges__of(const struct elf_image *image, struct code_ranges *ret)
{
	uint32_t i, n = image->n_sections + image->n_segments, kept = 0;
	struct code_ranges ranges = {};

	ranges.items = calloc(n ? n : 1, sizeof(*ranges.items));
	if (!ranges.items)
		return -ENOMEM;
	for (i = 1; i < image->n_sections; i++) {
		const Elf64_Shdr *s = &image->sections[i];

		/* A debug file has them as SHT_NOBITS, with the same addresses. */
		if ((s->sh_flags & SHF_ALLOC) && (s->sh_flags & SHF_EXECINSTR))
			add(&ranges, s->sh_addr, s->sh_size);
	}
	if (!ranges.n)
		for (i = 0; i < image->n_segments; i++)
			if (image->segments[i].p_type == PT_LOAD &&
			    (image->segments[i].p_flags & PF_X))
				add(&ranges, image->segments[i].p_vaddr,
				    image->segments[i].p_memsz);
	qsort(ranges.items, ranges.n, sizeof(*ranges.items), order__u64);
	for (i = 0; i < ranges.n; i++) {
		if (kept && ranges.items[i].start < ranges.items[kept - 1].end) {
			if (ranges.items[i].end > ranges.items[kept - 1].end)
				ranges.items[kept - 1].end = ranges.items[i].end;
			continue;
		}
		ranges.items[kept++] = ranges.items[i];
	}
	ranges.n = kept;
	*ret = ranges;
	return 0;
}

void code_ranges__free(struct code_ranges *ranges)
{
	free(ranges->items);
	*ranges = (struct code_ranges){};
}

/* O(log n); the ranges are sorted and disjoint. Called once for each symbol of a file. */
const struct range *code_ranges__find(const struct code_ranges *ranges, uint64_t vaddr)
{
	return range__find(ranges->items, ranges->n, sizeof(*ranges->items), vaddr, NULL);
}
