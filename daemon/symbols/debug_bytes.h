/* SPDX-License-Identifier: MIT */
/* The bytes of a section of debug information, packed or not, a window at a time: neither the section nor what it
 * unpacks to is ever in memory as a whole. A cursor reads on in it.
 *
 * Used by the DWARF readers (dwarf_*.c) alone. An error is sticky: a parser may read a whole header and check
 * `error` once, as each read after the first error gives 0 and does not move. */
#pragma once

#include <endian.h>

#include "base/buf.h"
#include "elf/elf.h"
#include "symbols/unpack.h"

#define DEBUG_WINDOW (8u << 10)     /* bytes that are read at once */
#define DEBUG_WINDOW_ON (32u << 10) /* the same, where what is before them was read */

/* One section, such as .debug_info. Not thread-safe: it belongs to who owns the struct dwarf. */
struct debug_section {
	const struct elf_bytes *bytes; /* borrowed; NULL: there is no such section */
	uint64_t offset, size;         /* where it lies in the file; its size, unpacked */
	struct unpack *unpack;         /* NULL: it is not packed */
	uint64_t *work;                /* bytes that may still be read */
	uint8_t *own;                  /* owned; the window of what is not packed */
	const uint8_t *window;
	uint64_t window_at;
	uint32_t window_len;
};

/* -ENOENT: there is none; -EBADMSG; -EFBIG: packed, and of more than packed_max bytes. */
int debug_section__open(struct debug_section *section, const struct elf_image *image, const char *name,
			uint64_t packed_max, uint64_t *work);
void debug_section__close(struct debug_section *section);
void debug_section__rest(struct debug_section *section); /* frees what can be read again */
/* Of a packed section: it is read from `offset` of `bytes` from now on, where it lies unpacked. */
void debug_section__move(struct debug_section *section, const struct elf_bytes *bytes, uint64_t offset);

/* Reads from `at` to `end` of a section. A read beyond gives 0 and sets `error`, which stays. */
struct debug_cursor {
	struct debug_section *section;
	uint64_t at, end;
	int error;
};

void debug_cursor__init(struct debug_cursor *cursor, struct debug_section *section, uint64_t at);
uint8_t debug_cursor__slow(struct debug_cursor *cursor);
uint64_t debug_cursor__slow_uint(struct debug_cursor *cursor, unsigned bytes);
uint64_t debug_cursor__slow_uleb(struct debug_cursor *cursor);
int64_t debug_cursor__sleb(struct debug_cursor *cursor);
void debug_cursor__skip(struct debug_cursor *cursor, uint64_t bytes);
void debug_cursor__skip_string(struct debug_cursor *cursor);
/* Appends a string, without NUL, cut at `max`. */
int debug_cursor__string(struct debug_cursor *cursor, size_t max, struct buf *ret);

static inline uint8_t debug_cursor__u8(struct debug_cursor *cursor)
{
	uint64_t offset = cursor->at - cursor->section->window_at;

	if (cursor->at >= cursor->end || offset >= cursor->section->window_len)
		return debug_cursor__slow(cursor);
	cursor->at++;
	return cursor->section->window[offset];
}

/* 1 to 8 bytes, little endian. */
static inline uint64_t debug_cursor__uint(struct debug_cursor *cursor, unsigned bytes)
{
	const struct debug_section *section = cursor->section;
	const uint64_t offset = cursor->at - section->window_at;
	uint64_t value = 0;

	if (cursor->at >= cursor->end || cursor->end - cursor->at < bytes || offset >= section->window_len ||
	    section->window_len - offset < bytes)
		return debug_cursor__slow_uint(cursor, bytes);
	memcpy(&value, section->window + offset, bytes);
	cursor->at += bytes;
	return le64toh(value);
}

/* Most have one byte. */
static inline uint64_t debug_cursor__uleb(struct debug_cursor *cursor)
{
	const uint64_t offset = cursor->at - cursor->section->window_at;

	if (cursor->at >= cursor->end || offset >= cursor->section->window_len || cursor->section->window[offset] & 0x80)
		return debug_cursor__slow_uleb(cursor);
	return cursor->section->window[cursor->at++ - cursor->section->window_at];
}
