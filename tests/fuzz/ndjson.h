/* SPDX-License-Identifier: MIT */
/* Mutations of the lines of a recording: whole events come, go and change places, numbers become others that mean something,
 * strings become other names. Bytes alone make a line that is no JSON, of which a reader says so and no more.
 *
 * NDJSON_HEAD: bytes before the text, which choose options. To be included by one file of a target. */
#pragma once

#ifndef FUZZ_REPLAY /* of gcc, without a fuzzer */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned int seed);

static const char *const ndjson_lines[] = {
	"{\"ev\":\"hello\",\"major\":1,\"minor\":7,\"server\":\"s\",\"features\":[\"a\"]}\n",
	"{\"ev\":\"session\",\"id\":1,\"pid\":7,\"rate\":999,\"mode\":\"cpu\",\"monotonic\":1000,\"realtime\":5,\"command\":\"c\",\"native\":true,\"idle\":true}\n",
	"{\"ev\":\"epoch\",\"number\":1,\"time\":1000}\n",
	"{\"ev\":\"process\",\"id\":0,\"pid\":7,\"start\":1,\"time\":1000,\"name\":\"p\",\"python\":\"3.11.2\"}\n",
	"{\"ev\":\"process\",\"id\":1,\"pid\":7,\"exec\":1,\"start\":1,\"time\":2000,\"name\":\"q\",\"python\":\"\"}\n",
	"{\"ev\":\"thread\",\"id\":0,\"process\":0,\"tid\":7,\"start\":1,\"time\":1000,\"name\":\"python3\"}\n",
	"{\"ev\":\"thread\",\"id\":1,\"process\":0,\"tid\":8,\"start\":1,\"time\":1000,\"name\":\"t\"}\n",
	"{\"ev\":\"functions\",\"first\":0,\"rows\":[[\"f\",\"/a/numba/f.py\",1,\"\",0],[\"g\",\"\",0,\"libLLVM.so\",1],[\"k\",\"\",0,\"\",2],"
	"[\"(cut: x)\",\"\",0,\"\",3],[\"j\",\"f.py\",5,\"JIT\",4],[\"_PyEval_EvalFrameDefault\",\"\",0,\"python3\",5],[\"list.sort\",\"\",0,\"\",6]]}\n",
	"{\"ev\":\"frames\",\"first\":0,\"rows\":[[0,0,2,3],[1,4],[2,0],[3,-1],[4,8,6],[5,3],[6,0]]}\n",
	"{\"ev\":\"stacks\",\"first\":1,\"rows\":[[0,0],[1,5],[2,6],[3,1],[4,2],[1,4],[1,3],[0,1]]}\n",
	"{\"ev\":\"classes\",\"first\":1,\"rows\":[[\"C call\",\"list.sort\"],[\"interpreter\",\"\"],[\"compiler native\",\"LLVM\"],[\"waiting\",\"lock\"]]}\n",
	"{\"ev\":\"units\",\"first\":1,\"rows\":[[0,0,0,\"numba\",\"f\",\"int64\",1000,1,\"f.py\",3,9],[1,0,1,\"numba\",\"native lowering\",\"\",1100],"
	"[2,0,2,\"llvm\",\"\",\"\",1200],[0,1,0,\"numba\",\"f\",\"int64\",1300,1,\"f.py\",3,9],[0,0,255,\"\",\"\",\"\",0]]}\n",
	"{\"ev\":\"samples\",\"t\":[2000,1000,1000,5000],\"wall\":[1000,1000,1000,9000],\"cpu\":[1000,1000,900,10],\"thread\":[0,1,0,0],"
	"\"stack\":[5,6,7,1],\"class\":[1,2,3,4],\"unit\":[3,4,0,1],\"cause\":[0,0,0,1],\"how\":[0,1,0,0],\"caller\":[0,0,0,0],\"call\":[0,1,0,0]}\n",
	"{\"ev\":\"unit_name\",\"id\":3,\"time\":1500,\"name\":\"O3\",\"signature\":\"\",\"file\":\"\",\"line\":1,\"object\":4}\n",
	"{\"ev\":\"unit_end\",\"id\":2,\"time\":2500}\n",
	"{\"ev\":\"unit_ends\",\"t\":[3000,10],\"id\":[3,1]}\n",
	"{\"ev\":\"thread_end\",\"id\":1,\"time\":9000,\"wall\":100,\"cpu\":10}\n",
	"{\"ev\":\"process_end\",\"id\":0,\"time\":9500}\n",
	"{\"ev\":\"ledger\",\"time\":9600,\"samples\":4,\"whole\":3,\"losses\":{\"ring_full\":3,\"x\":1},\"native\":4,\"native_whole\":2,\"stops_more\":1,"
	"\"stops\":[[\"no_cfi\",\"libfoo.so\",16,1,\"g\"]]}\n",
	"{\"ev\":\"gap\",\"time\":9700,\"events\":3,\"bytes\":100}\n",
	"{\"ev\":\"end\",\"time\":10000,\"reason\":\"exited\",\"detail\":\"d\"}\n",
};
#define NDJSON_LINES (sizeof(ndjson_lines) / sizeof(ndjson_lines[0]))

struct ndjson {
	uint8_t *data; /* behind the head */
	size_t size, max;
	unsigned random;
};

static unsigned ndjson_random(struct ndjson *text, unsigned below)
{
	text->random = text->random * 1664525u + 1013904223u;
	return (text->random >> 8) % (below ? below : 1);
}

/* [at, at + len) becomes `by`, if there is room. */
static void ndjson_replace(struct ndjson *text, size_t at, size_t len, const void *by, size_t by_len)
{
	if (text->size - len + by_len > text->max)
		return;
	memmove(text->data + at + by_len, text->data + at + len, text->size - at - len);
	memcpy(text->data + at, by, by_len);
	text->size += by_len - len;
}

static size_t ndjson_line(struct ndjson *text, size_t *ret_len)
{
	size_t at = text->size ? ndjson_random(text, (unsigned)text->size) : 0, end = at;

	while (at && text->data[at - 1] != '\n')
		at--;
	while (end < text->size && text->data[end] != '\n')
		end++;
	*ret_len = end - at + (end < text->size);
	return at;
}

static void ndjson_number(struct ndjson *text)
{
	static const char *const numbers[] = {"0", "1", "2", "3", "7", "255", "65535", "4294967295", "2147483647", "2147483648", "-1",
					      "9007199254740992", "9007199254740991", "9223372036854775807", "1000000000", "1e3"};
	size_t at = ndjson_random(text, (unsigned)text->size + 1), end;
	char near[24];
	const char *by = numbers[ndjson_random(text, sizeof(numbers) / sizeof(numbers[0]))];

	while (at < text->size && (text->data[at] < '0' || text->data[at] > '9'))
		at++;
	for (end = at; end < text->size && text->data[end] >= '0' && text->data[end] <= '9' && end - at < 18;)
		end++;
	if (end == at)
		return;
	if (ndjson_random(text, 2)) {
		snprintf(near, sizeof(near), "%.*s", (int)(end - at), (char *)text->data + at);
		snprintf(near, sizeof(near), "%lld", atoll(near) + (ndjson_random(text, 2) ? 1 : -1));
		by = near;
	}
	ndjson_replace(text, at, end - at, by, strlen(by));
}

static void ndjson_string(struct ndjson *text)
{
	static const char *const names[] = {"", "f", "g", "numba", "native lowering", "f.py", "\\u0000", "\\u001b[31m", "\\ud83d\\ude00", "(idle)",
					    "compiler native", "wall", "3.14.0t", "libLLVM-14.so.1", "a;b", "=1+1", "</script>"};
	size_t at = ndjson_random(text, (unsigned)text->size + 1), end;
	const char *by = names[ndjson_random(text, sizeof(names) / sizeof(names[0]))];

	while (at < text->size && text->data[at] != '"')
		at++;
	for (end = at + 1; end < text->size && text->data[end] != '"';)
		end++;
	if (end < text->size)
		ndjson_replace(text, at + 1, end - at - 1, by, strlen(by));
}

static void ndjson_whole_line(struct ndjson *text)
{
	size_t len, from_len, at = ndjson_line(text, &len), from = ndjson_line(text, &from_len);
	const char *fresh = ndjson_lines[ndjson_random(text, NDJSON_LINES)];
	unsigned how = ndjson_random(text, 4);
	uint8_t copy[4096];

	if (how < 2) {
		ndjson_replace(text, at, how ? len : 0, fresh, strlen(fresh));
	} else if (how == 2) {
		ndjson_replace(text, at, len, "", 0);
	} else if (from_len <= sizeof(copy)) {
		memcpy(copy, text->data + from, from_len);
		ndjson_replace(text, at, 0, copy, from_len);
	}
}

static void ndjson_start(struct ndjson *text)
{
	size_t i;

	for (i = 0; i < NDJSON_LINES; i++)
		if (!i || ndjson_random(text, 8))
			ndjson_replace(text, text->size, 0, ndjson_lines[i], strlen(ndjson_lines[i]));
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned int seed)
{
	struct ndjson text = {data + NDJSON_HEAD, size < NDJSON_HEAD ? 0 : size - NDJSON_HEAD, max_size - NDJSON_HEAD, seed};
	unsigned rounds, i;

	if (max_size < NDJSON_HEAD + 64)
		return LLVMFuzzerMutate(data, size, max_size);
	for (i = (unsigned)size; i < NDJSON_HEAD; i++)
		data[i] = (uint8_t)ndjson_random(&text, 256);
	for (i = 0; i < NDJSON_HEAD; i++)
		if (!ndjson_random(&text, 8))
			data[i] = (uint8_t)ndjson_random(&text, 256);
	if (!memchr(text.data, '{', text.size))
		ndjson_start(&text);
	for (rounds = 1 + ndjson_random(&text, 4); rounds--;) {
		switch (ndjson_random(&text, 8)) {
		case 0:
			text.size = LLVMFuzzerMutate(text.data, text.size, text.max);
			break;
		case 1:
		case 2:
			ndjson_whole_line(&text);
			break;
		case 3:
			ndjson_string(&text);
			break;
		default:
			ndjson_number(&text);
		}
	}
	return NDJSON_HEAD + text.size;
}
#endif
