/* SPDX-License-Identifier: MIT */
/* A packed stream, entered at places in any order, and unpacked as a whole: what it gives is what zlib gives, or an
 * error. */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "symbols/unpack.h"

#define PLAIN_MAX (1u << 20)
#define ASKED 24u

/* Bytes that repeat themselves as the input says. */
static void make(const uint8_t *data, size_t size, uint8_t *plain, size_t n)
{
	size_t i, back = 1;

	for (i = 0; i < n; i++) {
		const uint8_t *at = &data[i % size];

		if (i % 61 == 0)
			back = 1 + (*at * 131u + i) % 32768;
		plain[i] = (i >= back && *at & 7) ? plain[i - back] : (uint8_t)(*at + i / 4099);
	}
}

static size_t pack(const uint8_t *plain, size_t n, uint8_t how, uint8_t *to, size_t room)
{
	static const int strategies[] = {Z_DEFAULT_STRATEGY, Z_DEFAULT_STRATEGY, Z_FIXED, Z_HUFFMAN_ONLY};
	z_stream z = {.next_in = (uint8_t *)plain, .avail_in = (uInt)n, .next_out = to, .avail_out = (uInt)room};

	if (deflateInit2(&z, how % 10, Z_DEFLATED, 15, how / 10 % 9 + 1, strategies[how >> 6]) != Z_OK)
		abort();
	if (deflate(&z, Z_FINISH) != Z_STREAM_END)
		abort();
	deflateEnd(&z);
	return z.total_out;
}

static void ask_all(const struct unpack *unpack, size_t size, const uint8_t *plain)
{
	FILE *file = tmpfile();
	uint8_t *read = malloc(size + 1);
	int err;

	if (!file || !read)
		abort();
	err = unpack__write(unpack, fileno(file));
	if (plain && (err || pread(fileno(file), read, size + 1, 0) != (ssize_t)size || memcmp(read, plain, size)))
		abort();
	fclose(file);
	free(read);
}

/* `plain`: what has to come out; NULL: nobody knows. */
static void ask(uint8_t *packed, size_t len, size_t size, const uint8_t *plain, const uint8_t *data, size_t n)
{
	struct elf_bytes bytes;
	struct unpack *unpack;
	unsigned i;

	elf_bytes__init_memory(&bytes, packed, len);
	if (unpack__new(&bytes, 0, len, size, &unpack))
		return;
	for (i = 0; i < ASKED; i++) {
		uint64_t at = (data[i % n] * 4111ull + data[(i * 7 + 1) % n] * 17u + i) % size, work = 64 << 20, from;
		const uint8_t *found;
		uint32_t got;
		int err;

		if (data[(i + 3) % n] % 5 == 0)
			unpack__rest(unpack);
		err = unpack__window(unpack, at, &work, &found, &from, &got);
		if (plain && (err || from > at || at - from >= got || memcmp(found, plain + from, got)))
			abort();
	}
	ask_all(unpack, size, plain);
	unpack__free(unpack);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	size_t n, len, room = PLAIN_MAX + PLAIN_MAX / 4;
	uint8_t *plain, *packed;

	if (size < 8)
		return 0;
	n = 1 + ((data[0] | data[1] << 8) * 17u) % PLAIN_MAX;
	plain = malloc(PLAIN_MAX);
	packed = malloc(room);
	if (!plain || !packed)
		abort();
	make(data + 4, size - 4, plain, n);
	len = pack(plain, n, data[2], packed, room);
	ask(packed, len, n, plain, data, size);
	/* And lies: a byte that is another, and a stream that is none. */
	packed[data[3] * len / 256] ^= data[4] | 1;
	ask(packed, len, n, NULL, data, size);
	memcpy(packed + 2, data, size < room - 2 ? size : room - 2);
	packed[0] = 0x78;
	packed[1] = 0x9c;
	ask(packed, (size < room - 2 ? size : room - 2) + 2, PLAIN_MAX, NULL, data, size);
	free(packed);
	free(plain);
	return 0;
}
