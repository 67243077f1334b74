/* SPDX-License-Identifier: MIT */
/* Packing and unpacking, in one place. The bytes are our own, made in this process: they are not checked. */
#include "export/slices.h"

enum { RAN_ALL, RAN_NOT, RAN_PART, HOW_BITS = 2 };
#define PACKED_MAX (3 * 10) /* bytes of a slice: varints of 64 bits */

static unsigned char *put(unsigned char *at, uint64_t value)
{
	for (; value >= 0x80; value >>= 7)
		*at++ = (unsigned char)(value | 0x80);
	*at++ = (unsigned char)value;
	return at;
}

static uint64_t take(const unsigned char **at)
{
	uint64_t value = 0;
	unsigned shift = 0;

	for (; **at & 0x80; shift += 7)
		value |= (uint64_t)(*(*at)++ & 0x7f) << shift;
	return value | (uint64_t)*(*at)++ << shift;
}

int slices__add(struct slices *slices, const struct slice *slice)
{
	const struct slice *last = &slices->last;
	unsigned char text[PACKED_MAX], *end = text;
	uint64_t how = last->cpu == last->ns ? RAN_ALL : last->cpu ? RAN_PART : RAN_NOT;

	if (slices->n) {
		end = put(end, (uint64_t)last->stack << HOW_BITS | how);
		end = put(end, last->ns);
		if (how == RAN_PART)
			end = put(end, last->cpu);
	}
	if (buf__append(&slices->packed, text, (size_t)(end - text)))
		return -ENOMEM;
	slices->last = *slice;
	slices->n++;
	return 0;
}

bool slices__next(struct slices_cursor *cursor, struct slice *ret)
{
	uint64_t head;

	if (cursor->at == cursor->end) {
		if (!cursor->last)
			return false;
		*ret = *cursor->last;
		cursor->last = NULL;
		return true;
	}
	head = take(&cursor->at);
	ret->stack = (uint32_t)(head >> HOW_BITS);
	ret->ns = take(&cursor->at);
	head &= (1u << HOW_BITS) - 1;
	ret->cpu = head == RAN_ALL ? ret->ns : head == RAN_NOT ? 0 : take(&cursor->at);
	return true;
}
