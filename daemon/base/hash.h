/* SPDX-License-Identifier: MIT */
/* Seeded hashing. Keys come from targets, which could choose them so that they collide; so each table draws a random
 * seed. The mixing is that of wyhash (a 64x64 -> 128 bit multiplication, folded). */
#pragma once

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/random.h>

struct hash_seed {
	uint64_t a, b;
};

static inline int hash_seed__draw(struct hash_seed *seed)
{
	ssize_t len = getrandom(seed, sizeof(*seed), 0);

	if (len != (ssize_t)sizeof(*seed))
		return len < 0 ? -errno : -EIO;
	/* A zero factor would absorb everything. */
	seed->a |= 1;
	seed->b |= 1;
	return 0;
}

static inline uint64_t hash__mix(uint64_t a, uint64_t b)
{
	unsigned __int128 product = (unsigned __int128)a * b;

	return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static inline uint64_t hash__pair(const struct hash_seed *seed, uint64_t x, uint64_t y)
{
	return hash__mix(hash__mix(x ^ seed->a, y ^ seed->b) ^ seed->b,
			 0x9e3779b97f4a7c15ull ^ seed->a);
}

static inline uint64_t hash__bytes(const struct hash_seed *seed, const void *data, size_t len)
{
	const char *at = data;
	uint64_t state = seed->a ^ len, word;

	for (; len >= 8; at += 8, len -= 8) {
		memcpy(&word, at, 8);
		state = hash__mix(state ^ word, seed->b) ^ word;
	}
	word = 0;
	if (len)
		memcpy(&word, at, len);
	return hash__pair(seed, state, word);
}
