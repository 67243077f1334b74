/* SPDX-License-Identifier: MIT */
/* Names of libraries' functions as people know them, which are read from a file, demangled, and the file looked at again: tables ask for each
 * function once an epoch, and in each epoch for nearly the same. Bounded: when it is full all are forgotten. Owner: the symbolizer. Threads: one. */
#ifndef CPROFD_KNOWN_NAMES_H
#define CPROFD_KNOWN_NAMES_H

#include <stdint.h>

#include "base/arena.h"
#include "base/hash.h"
#include "base/slots.h"

#define KNOWN_NAMES_BYTES (2u << 20) /* of their text; Numba's loop meets 11,000 in half a minute at 9999 Hz, of 180 bytes each */

struct known_name {
	uint64_t start;
	uint32_t module;
	const char *name;
};

struct known_names {
	struct known_name *rows;
	uint32_t n, capacity;
	struct slots by_place;
	struct arena text;
	uint64_t files; /* differs when another file tells the names of a module */
	struct hash_seed seed;
};

void known_names__free(struct known_names *known); /* what it holds */
/* Of the function at `start`; NULL: not known. Lives until the next known_names__keep(). */
const char *known_names__find(const struct known_names *known, uint64_t files, uint32_t module, uint64_t start);
/* One that is not known; or not, where memory is short. */
void known_names__keep(struct known_names *known, uint64_t files, uint32_t module, uint64_t start, const char *name);

#endif
