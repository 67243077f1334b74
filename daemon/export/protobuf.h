/* SPDX-License-Identifier: MIT */
/* The part of Protocol Buffers that the exporters write: varints, strings, nested messages, fixed numbers
 * (https://protobuf.dev/programming-guides/encoding). All functions append to a buf and return 0 or -ENOMEM; a field
 * whose value is 0 is left out, as proto3 does. */
#pragma once

#include "base/buf.h"

/* Seven bits in each byte, the lowest first; the top bit says that more follow: 300 is ac 02. At most 10
 * bytes. */
static inline int protobuf__varint(struct buf *out, uint64_t value)
{
	unsigned char bytes[10];
	size_t n = 0;

	do {
		bytes[n++] = (unsigned char)(value | 0x80);
		value >>= 7;
	} while (value);
	bytes[n - 1] &= 0x7f;
	return buf__append(out, bytes, n);
}

/* Wire types, the low three bits of a field's tag. */
#define PROTOBUF_VARINT 0u
#define PROTOBUF_FIXED64 1u
#define PROTOBUF_LENGTH 2u

static inline int protobuf__number(struct buf *out, uint32_t field, uint64_t value)
{
	if (!value)
		return 0;
	return protobuf__varint(out, field << 3 | PROTOBUF_VARINT) ?: protobuf__varint(out, value);
}

/* A string, an encoded message, or packed varints. */
static inline int protobuf__bytes(struct buf *out, uint32_t field, const void *data, size_t len)
{
	int err = protobuf__varint(out, field << 3 | PROTOBUF_LENGTH) ?: protobuf__varint(out, len);

	return err ? err : len ? buf__append(out, data, len) : 0;
}

/* Eight bytes, the lowest first: an item of a packed list. */
static inline int protobuf__eight(struct buf *out, uint64_t value)
{
	unsigned char bytes[8];

	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (unsigned char)(value >> 8 * i);
	return buf__append(out, bytes, sizeof(bytes));
}

static inline int protobuf__fixed64(struct buf *out, uint32_t field, uint64_t value)
{
	return protobuf__varint(out, field << 3 | PROTOBUF_FIXED64) ?: protobuf__eight(out, value);
}
