/* SPDX-License-Identifier: MIT */
/* Reads Protocol Buffers, field by field (protobuf.h writes them). Any bytes; nothing is read beyond their end. */
#pragma once

#include <stdbool.h>

#include "export/protobuf.h"

#define PROTOBUF_FIXED32 5u

struct protobuf_field {
	uint64_t number;
	unsigned wire;
	uint64_t value;	  /* of a varint; else the bytes of `data` */
	const char *data;
};

/* False: the bytes end in it, or it is no number of 64 bits. */
static inline bool protobuf__take(const char **at, const char *end, uint64_t *ret)
{
	*ret = 0;
	for (unsigned shift = 0; *at < end && shift < 64; shift += 7) {
		unsigned char byte = (unsigned char)*(*at)++;

		*ret |= (uint64_t)(byte & 127) << shift;
		if (byte < 128)
			return true;
	}
	return false;
}

/* The lowest byte first. */
static inline uint64_t protobuf__take_eight(const char *at)
{
	uint64_t value = 0;

	for (unsigned i = 0; i < 8; i++)
		value |= (uint64_t)(unsigned char)at[i] << 8 * i;
	return value;
}

static inline bool protobuf__field(const char **at, const char *end, struct protobuf_field *ret)
{
	uint64_t tag;

	if (!protobuf__take(at, end, &tag))
		return false;
	*ret = (struct protobuf_field){.number = tag >> 3, .wire = tag & 7};
	if (ret->wire == PROTOBUF_VARINT)
		return protobuf__take(at, end, &ret->value);
	ret->value = ret->wire == PROTOBUF_FIXED64 ? 8 : 4;
	if (ret->wire != PROTOBUF_FIXED64 && ret->wire != PROTOBUF_FIXED32 && (ret->wire != PROTOBUF_LENGTH || !protobuf__take(at, end, &ret->value)))
		return false;
	if (ret->value > (uint64_t)(end - *at))
		return false;
	ret->data = *at;
	*at += ret->value;
	return true;
}
