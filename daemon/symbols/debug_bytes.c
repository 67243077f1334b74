/* SPDX-License-Identifier: MIT */
/* A cursor over a section of debug information, through a window of some KB, whether the section lies in the file
 * as it is or is packed (SHF_COMPRESSED; gABI, "Section Compression"). A read behind the end gives 0 and sets
 * `error`, so that parsers may check once, at their end. `work` bounds how many bytes one question may read. */
#include "symbols/debug_bytes.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

/* ".zdebug_line" of ".debug_line": packed as GNU tools did before 2015, "ZLIB" and the size, big endian. */
static uint32_t old_packed(const struct elf_image *image, const char *name)
{
	char old[32];

	snprintf(old, sizeof(old), ".z%s", name + 1);
	return elf_image__section(image, old);
}

/* Three forms on disk: plain bytes; an Elf64_Chdr and a zlib stream; "ZLIB", eight bytes of size, and a zlib stream.
 * `size` in the section is always that of the plain bytes. zstd (ELFCOMPRESS_ZSTD) is refused. */
int debug_section__open(struct debug_section *section, const struct elf_image *image, const char *name,
			uint64_t packed_max, uint64_t *work)
{
	uint32_t number = elf_image__section(image, name), old = number ? 0 : old_packed(image, name);
	const Elf64_Shdr *header;
	uint64_t head = 0;
	uint8_t bytes[12];
	Elf64_Chdr packed;

	*section = (struct debug_section){.work = work};
	if (!number && !old)
		return -ENOENT;
	header = &image->sections[number ? number : old];
	if (header->sh_type == SHT_NOBITS)
		return -ENOENT;
	if (!elf_bytes__has(image->bytes, header->sh_offset, header->sh_size))
		return -EBADMSG;
	section->offset = header->sh_offset;
	section->size = header->sh_size;
	if (header->sh_flags & SHF_COMPRESSED) {
		head = sizeof(packed);
		if (header->sh_size < head || elf_bytes__read(image->bytes, header->sh_offset, &packed, head) ||
		    packed.ch_type != ELFCOMPRESS_ZLIB)
			return -EBADMSG;
		section->size = packed.ch_size;
	} else if (old) {
		head = sizeof(bytes);
		if (header->sh_size < head || elf_bytes__read(image->bytes, header->sh_offset, bytes, head) ||
		    memcmp(bytes, "ZLIB", 4))
			return -EBADMSG;
		memcpy(&section->size, bytes + 4, sizeof(section->size));
		section->size = __builtin_bswap64(section->size);
	}
	section->bytes = image->bytes;
	if (!head)
		return 0;
	if (section->size > packed_max)
		return -EFBIG;
	return unpack__new(image->bytes, header->sh_offset + head, header->sh_size - head, section->size,
			   &section->unpack);
}

void debug_section__rest(struct debug_section *section)
{
	unpack__rest(section->unpack);
	free(section->own);
	section->own = NULL;
	section->window = NULL;
	section->window_len = 0;
}

void debug_section__move(struct debug_section *section, const struct elf_bytes *bytes, uint64_t offset)
{
	debug_section__rest(section);
	section->unpack = unpack__free(section->unpack);
	section->bytes = bytes;
	section->offset = offset;
}

void debug_section__close(struct debug_section *section)
{
	debug_section__rest(section);
	unpack__free(section->unpack);
	*section = (struct debug_section){};
}

/* Moves the window to `at`, which is inside of the section. Charges what was read to *section->work, so that a file
 * that lies (a chain of abbreviations, a line program of a gigabyte) ends with -EFBIG after seconds. Of a packed
 * section the window belongs to unpack.c and is valid until its next call: one section, one cursor at a time. */
static int fill(struct debug_section *section, uint64_t at)
{
	uint64_t left = section->size - at, end = section->window_at + section->window_len;
	/* Who reads on will go on. */
	uint32_t most = section->window_len && at >= end && at - end < DEBUG_WINDOW ? DEBUG_WINDOW_ON : DEBUG_WINDOW;
	int err;

	section->window_len = 0;
	if (section->unpack)
		return unpack__window(section->unpack, at, section->work, &section->window, &section->window_at,
				      &section->window_len);
	if (!section->own && !(section->own = malloc(DEBUG_WINDOW_ON)))
		return -ENOMEM;
	if (!*section->work)
		return -EFBIG;
	*section->work -= *section->work < most ? *section->work : most;
	if (left > most)
		left = most;
	err = elf_bytes__read(section->bytes, section->offset + at, section->own, left);
	if (err)
		return err;
	section->window = section->own;
	section->window_at = at;
	section->window_len = (uint32_t)left;
	return 0;
}

void debug_cursor__init(struct debug_cursor *cursor, struct debug_section *section, uint64_t at)
{
	*cursor = (struct debug_cursor){section, at, section->bytes ? section->size : 0, 0};
}

/* The part of debug_cursor__u8() that is not inlined: once for each window, or at the end. */
uint8_t debug_cursor__slow(struct debug_cursor *cursor)
{
	struct debug_section *section = cursor->section;

	if (!cursor->error && cursor->at >= cursor->end)
		cursor->error = -EBADMSG;
	if (!cursor->error)
		cursor->error = fill(section, cursor->at);
	if (cursor->error) {
		cursor->at = cursor->end;
		return 0;
	}
	return section->window[cursor->at++ - section->window_at];
}

uint64_t debug_cursor__slow_uint(struct debug_cursor *cursor, unsigned bytes)
{
	uint64_t value = 0;

	for (unsigned i = 0; i < bytes; i++)
		value |= (uint64_t)debug_cursor__u8(cursor) << (8 * i);
	return value;
}

/* Bits beyond the 64th are dropped. *ret_shift: how many were there; *ret_last: its last byte. */
static uint64_t leb(struct debug_cursor *cursor, unsigned *ret_shift, uint8_t *ret_last)
{
	uint64_t value = 0;
	unsigned shift = 0;
	uint8_t byte;

	do {
		byte = debug_cursor__u8(cursor);
		if (shift < 64)
			value |= (uint64_t)(byte & 0x7f) << shift;
		shift = shift < 64 ? shift + 7 : shift;
	} while (byte & 0x80);
	*ret_shift = shift;
	*ret_last = byte;
	return value;
}

uint64_t debug_cursor__slow_uleb(struct debug_cursor *cursor)
{
	unsigned shift;
	uint8_t last;

	return leb(cursor, &shift, &last);
}

int64_t debug_cursor__sleb(struct debug_cursor *cursor)
{
	unsigned shift;
	uint8_t last;
	uint64_t value = leb(cursor, &shift, &last);

	if (shift < 64 && last & 0x40)
		value |= ~0ull << shift;
	return (int64_t)value;
}

/* `bytes` is the file's and may be huge: compared before it is added. */
void debug_cursor__skip(struct debug_cursor *cursor, uint64_t bytes)
{
	if (cursor->at <= cursor->end && bytes <= cursor->end - cursor->at) {
		cursor->at += bytes;
		return;
	}
	cursor->at = cursor->end;
	if (!cursor->error)
		cursor->error = -EBADMSG;
}

void debug_cursor__skip_string(struct debug_cursor *cursor)
{
	while (debug_cursor__u8(cursor))
		;
}

/* Reads to the NUL even when the text is cut, so that the cursor stands behind it. */
int debug_cursor__string(struct debug_cursor *cursor, size_t max, struct buf *ret)
{
	size_t n = 0;
	char c;

	while ((c = (char)debug_cursor__u8(cursor))) {
		int err = n++ < max ? buf__append(ret, &c, 1) : 0;

		if (err)
			return err;
	}
	return cursor->error;
}
