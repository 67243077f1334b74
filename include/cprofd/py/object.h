/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/* Copies of the objects that locals hold (struct part_object). Needs pywalk.h; for who reads values, not for all who walk. */
#pragma once

#include "state.h"

/* Where the characters of a text lie, and how many bytes they are. False: it is none that is ready (up to 3.11 there are such). */
HOST_INLINE int py_object_text(const struct py_layout *l, struct part_object *to, __u64 *ret_size)
{
	__u32 state = py_u32(to->bytes, OBJECT_HEAD, l->unicode_state), unit = state >> l->state_kind_shift & 7;
	__u64 length = py_u64(to->bytes, OBJECT_HEAD, l->unicode_length);

	if (state >> l->state_compact_shift & 1) {
		to->apart = 0;
		to->begin = state >> l->state_ascii_shift & 1 ? l->unicode_ascii_data : l->unicode_compact_data;
	} else {
		to->apart = py_u64(to->bytes, OBJECT_HEAD, l->unicode_compact_data);
		to->begin = l->unicode_compact_data + 8;
	}
	if (length > OBJECT_TEXT)
		length = OBJECT_TEXT;
	*ret_size = length * unit;
	if (*ret_size > OBJECT_TEXT)
		*ret_size = OBJECT_TEXT;
	return unit == 1 || unit == 2 || unit == 4;
}

/* Copies the object at `address`, of which a local holds a reference; returns the size of the part. 0: it could not be read. */
HOST_APART int py_object(const struct image *image, __u64 address, struct part_object *to)
{
	const struct py_layout *l;
	__u64 flags = 0, size;
	__u32 begin;

	if (!image || !to || !address || py_read_object(to->bytes, OBJECT_HEAD, address))
		return 0;
	l = &image->layout;
	if (host_read(&flags, 8, py_u64(to->bytes, OBJECT_HEAD, l->object_type) + l->type_flags))
		return 0;
	to->part.kind = PART_OBJECT;
	to->part.loss = 0;
	to->address = address;
	to->apart = 0;
	to->flags = 0;
	if (!(flags & PY_TYPE_TEXT)) {
		to->begin = flags & PY_TYPE_LONG ? l->long_head : l->object_type;
		to->end = (flags & PY_TYPE_LONG ? l->long_digits : l->object_type) + 8;
		to->part.size = OBJECT_FIXED + OBJECT_HEAD;
		return OBJECT_FIXED + OBJECT_HEAD;
	}
	to->flags = OBJECT_IS_TEXT;
	if (!py_object_text(l, to, &size))
		return 0;
	begin = to->begin;
	host_barrier(begin);
	host_barrier(size);
	if (begin > OBJECT_HEAD || size > OBJECT_TEXT)
		return 0;
	if ((to->apart || begin + size > OBJECT_HEAD) && size && host_read(to->bytes + begin, size, to->apart ? to->apart : address + begin))
		return 0;
	size += begin;
	to->end = (__u16)size;
	size = (size + 7) & ~7ull;
	to->part.size = OBJECT_FIXED + (__u32)size;
	return OBJECT_FIXED + (int)size;
}
