/* SPDX-License-Identifier: MIT */
/* ExportProfilesServiceResponse, of Protocol Buffers, as a server sends it: fields may come in any order, and ones that
 * nobody knows yet are skipped. Pure. */
#include "push/push.h"

enum { RESPONSE_PARTIAL = 1 };
enum { PARTIAL_REJECTED = 1, PARTIAL_WORDS };
enum { WIRE_VARINT, WIRE_EIGHT, WIRE_LENGTH, WIRE_FOUR = 5 };

struct field {
	uint64_t number;
	unsigned wire;
	uint64_t value;	  /* of a varint; else the bytes of `data` */
	const char *data;
};

/* False: the bytes end in it, or it is no number of 64 bits. */
static bool take_varint(const char **at, const char *end, uint64_t *ret)
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

static bool take_field(const char **at, const char *end, struct field *ret)
{
	uint64_t tag;

	if (!take_varint(at, end, &tag))
		return false;
	*ret = (struct field){.number = tag >> 3, .wire = tag & 7};
	if (ret->wire == WIRE_VARINT)
		return take_varint(at, end, &ret->value);
	ret->value = ret->wire == WIRE_EIGHT ? 8 : 4;
	if (ret->wire != WIRE_EIGHT && ret->wire != WIRE_FOUR && (ret->wire != WIRE_LENGTH || !take_varint(at, end, &ret->value)))
		return false;
	if (ret->value > (uint64_t)(end - *at))
		return false;
	ret->data = *at;
	*at += ret->value;
	return true;
}

static bool read_partial(const char *at, const char *end, struct push_answer *ret)
{
	struct field field;

	while (at < end) {
		if (!take_field(&at, end, &field))
			return false;
		/* An int64: less than none is nothing. */
		if (field.number == PARTIAL_REJECTED && field.wire == WIRE_VARINT)
			ret->rejected = field.value <= INT64_MAX ? field.value : 0;
		else if (field.number == PARTIAL_WORDS && field.wire == WIRE_LENGTH) {
			ret->words = field.data;
			ret->len = (size_t)field.value;
		}
	}
	return true;
}

void push_answer__read(const char *data, size_t len, struct push_answer *ret)
{
	const char *at = data, *end = data + len;
	struct field field;
	bool good = true;

	*ret = (struct push_answer){.words = ""};
	while (good && at < end) {
		good = take_field(&at, end, &field);
		if (good && field.number == RESPONSE_PARTIAL && field.wire == WIRE_LENGTH)
			good = read_partial(field.data, field.data + field.value, ret);
	}
	if (!good)
		*ret = (struct push_answer){.words = ""};
}
