/* SPDX-License-Identifier: MIT */
/* The bytes are what a server answers to `push`; and, the other way round, the words of an answer that is made here. */
#include <stdlib.h>
#include <string.h>

#include "export/protobuf.h"
#include "push/push.h"

static void as_answer(const char *data, size_t size)
{
	struct push_answer answer;

	push_answer__read(data, size, &answer);
	if (answer.rejected > INT64_MAX || (answer.len && (answer.words < data || answer.words + answer.len > data + size)))
		abort();
}

static void as_words(const char *data, size_t size)
{
	uint64_t rejected = 0;
	struct push_answer answer;
	struct buf partial = {}, whole = {};

	memcpy(&rejected, data, size < sizeof(rejected) ? size : sizeof(rejected));
	rejected >>= 1;
	/* Numbers and texts that nobody knows are between those that count. */
	if (protobuf__bytes(&partial, 2, data, size) || protobuf__fixed64(&partial, 99, rejected) || protobuf__number(&partial, 1, rejected) ||
	    protobuf__bytes(&whole, 7, data, size) || protobuf__bytes(&whole, 1, partial.data, partial.len))
		abort();
	push_answer__read(whole.data, whole.len, &answer);
	if (answer.rejected != rejected || answer.len != size || memcmp(answer.words, data, size))
		abort();
	buf__free(&partial);
	buf__free(&whole);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	as_answer((const char *)data, size);
	if (size)
		as_words((const char *)data, size);
	return 0;
}
