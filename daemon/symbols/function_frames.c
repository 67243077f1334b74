/* SPDX-License-Identifier: MIT */
/* Where functions begin, by .eh_frame_hdr's sorted table (LSB 5.0, 10.6.2): for addresses that no symbol names, so
 * that two functions without a name are two and not one.
 *
 *    .eh_frame_hdr   version(1) encodings(3)  frames(4)  n(4)  { start(4), entry(4) } ... sorted by start
 *    .eh_frame       entry: length(4) cie(4) start(4, from its own place) size(4) ...
 *
 * The table is read whole (8 bytes a function); of .eh_frame the heads of entries. A hostile table may be unsorted
 * or point anywhere: a search then misses, and size_of() accepts an entry only if it names the same function. */
#include "symbols/function_frames.h"

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/search.h"

#define FRAMES_MAX (8u << 20)
#define SECTION_MAX (64u << 20) /* of .eh_frame: it is in memory while the table is made */

/* The encodings are those that every linker writes: 0x1b = DW_EH_PE_pcrel|sdata4 of the pointer, 3 = udata4 of the
 * count, 0x3b = DW_EH_PE_datarel|sdata4 of the table (LSB 5.0, 10.5.1). Any other is -ENOENT. */
int function_frames__open(const struct elf_image *image, struct function_frames *ret)
{
	uint32_t number = elf_image__section(image, ".eh_frame_hdr");
	const Elf64_Shdr *s = number ? &image->sections[number] : NULL;
	struct {
		uint8_t version, frame, count, table; /* DW_EH_PE_*: 4 bytes; addresses count from the section */
		int32_t frames;
		uint32_t n;
	} header;

	*ret = (struct function_frames){};
	if (!s || elf_bytes__read(image->bytes, s->sh_offset, &header, sizeof(header)) || header.version != 1 ||
	    header.frame != 0x1b || header.count != 3 || header.table != 0x3b || header.n > FRAMES_MAX)
		return -ENOENT;
	ret->items = malloc((size_t)header.n * sizeof(*ret->items) + 1);
	if (!ret->items)
		return -ENOMEM;
	ret->image = image;
	ret->n = header.n;
	ret->address = s->sh_addr;
	if (!elf_bytes__read(image->bytes, s->sh_offset + sizeof(header), ret->items, (size_t)header.n * sizeof(*ret->items)))
		return 0;
	function_frames__free(ret);
	return -ENOENT;
}

void function_frames__free(struct function_frames *frames)
{
	free(frames->items);
	*frames = (struct function_frames){};
}

static uint64_t start_of(const struct function_frames *frames, uint32_t i)
{
	return frames->address + (uint64_t)(int64_t)frames->items[i].start;
}

static uint64_t entry_of(const struct function_frames *frames, uint32_t i)
{
	return frames->address + (uint64_t)(int64_t)frames->items[i].entry;
}

/* The head of an entry whose addresses have 4 bytes and count from where they stand, as compilers write it (LSB 5.0,
 * 10.6.1.2). */
struct head {
	uint32_t length, cie;
	int32_t start;
	uint32_t size;
};

/* 0: it is another's, or written in another way. */
static uint32_t size_of(const struct head *head, uint64_t entry, uint64_t function)
{
	return head->length < 12 || head->length >= 0xfffffff0u || !head->cie ||
			       entry + 8 + (uint64_t)(int64_t)head->start != function
		       ? 0
		       : head->size;
}

/* O(log n) and one read of 16 bytes. */
uint32_t function_frames__size(const struct function_frames *frames, uint64_t vaddr)
{
	uint32_t low = SEARCH(i, frames->n, (int64_t)start_of(frames, i) < (int64_t)vaddr);
	uint64_t entry, offset;
	struct head head;

	if (low == frames->n || start_of(frames, low) != vaddr)
		return 0;
	entry = entry_of(frames, low);
	return elf_image__offset(frames->image, entry, sizeof(head), &offset) ||
			       elf_bytes__read(frames->image->bytes, offset, &head, sizeof(head))
		       ? 0
		       : size_of(&head, entry, vaddr);
}

/* All of .eh_frame. NULL: none, too large, or no memory. */
static uint8_t *read_section(const struct elf_image *image, const Elf64_Shdr **ret)
{
	uint32_t number = elf_image__section(image, ".eh_frame");
	const Elf64_Shdr *s = *ret = number ? &image->sections[number] : NULL;
	uint8_t *bytes = s && s->sh_size <= SECTION_MAX ? malloc(s->sh_size + 1) : NULL;

	if (bytes && elf_bytes__read(image->bytes, s->sh_offset, bytes, s->sh_size)) {
		free(bytes);
		bytes = NULL;
	}
	return bytes;
}

/* All of .eh_frame is in memory for this one pass, as entries lie all over it. Two entries for one start are one
 * function. */
static int take_all(const struct function_frames *frames, const struct symbol_table *table, const struct code_ranges *ranges,
		    const struct symbol_table *known, const struct symbol_table *virtuals, struct candidates *ret)
{
	const struct range *range;
	const Elf64_Shdr *section;
	_cleanup_free_ uint8_t *bytes = read_section(frames->image, &section);
	uint64_t entry, start, last = UINT64_MAX;
	struct head head;
	uint32_t i, size;
	int err = 0;

	for (i = 0; bytes && !err && i < frames->n; i++) {
		entry = entry_of(frames, i);
		start = start_of(frames, i);
		if (start == last || start < table->base || start - table->base > UINT32_MAX || entry < section->sh_addr ||
		    section->sh_size < sizeof(head) || entry - section->sh_addr > section->sh_size - sizeof(head))
			continue;
		memcpy(&head, bytes + (entry - section->sh_addr), sizeof(head));
		size = size_of(&head, entry, start);
		range = code_ranges__find(ranges, start);
		if (!size || !range || symbol_table__begins(known, start) || symbol_table__begins(virtuals, start))
			continue;
		if (size > range->end - start)
			size = (uint32_t)(range->end - start);
		last = start;
		err = candidates__add(ret, (struct candidate){(uint32_t)(start - table->base), 0, size, 0});
	}
	return err;
}

int symbol_table__load_frames(struct symbol_table *table, const struct function_frames *frames, const struct code_ranges *ranges,
			      const struct symbol_table *known, const struct symbol_table *virtuals)
{
	struct candidates candidates = {};
	int err;

	if (!ranges->n || !frames->n)
		return -ENOENT;
	table->bytes = frames->image->bytes;
	table->base = ranges->items[0].start;
	table->source = SYMBOL_FROM_FRAMES;
	err = take_all(frames, table, ranges, known, virtuals, &candidates);
	return symbol_table__finish(table, &candidates, ranges, frames->image->machine, 0, err);
}
