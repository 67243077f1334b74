/* SPDX-License-Identifier: MIT */
/* ExportProfilesServiceResponse, of Protocol Buffers, as a server sends it: fields may come in any order, and ones that
 * nobody knows yet are skipped. Pure. */
#include "export/protobuf_read.h"
#include "push/push.h"

enum { RESPONSE_PARTIAL = 1 };
enum { PARTIAL_REJECTED = 1, PARTIAL_WORDS };

static bool read_partial(const char *at, const char *end, struct push_answer *ret)
{
	struct protobuf_field field;

	while (at < end) {
		if (!protobuf__field(&at, end, &field))
			return false;
		/* An int64: less than none is nothing. */
		if (field.number == PARTIAL_REJECTED && field.wire == PROTOBUF_VARINT)
			ret->rejected = field.value <= INT64_MAX ? field.value : 0;
		else if (field.number == PARTIAL_WORDS && field.wire == PROTOBUF_LENGTH) {
			ret->words = field.data;
			ret->len = (size_t)field.value;
		}
	}
	return true;
}

void push_answer__read(const char *data, size_t len, struct push_answer *ret)
{
	const char *at = data, *end = data + len;
	struct protobuf_field field;
	bool good = true;

	*ret = (struct push_answer){.words = ""};
	while (good && at < end) {
		good = protobuf__field(&at, end, &field);
		if (good && field.number == RESPONSE_PARTIAL && field.wire == PROTOBUF_LENGTH)
			good = read_partial(field.data, field.data + field.value, ret);
	}
	if (!good)
		*ret = (struct push_answer){.words = ""};
}
