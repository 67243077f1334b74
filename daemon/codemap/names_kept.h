/* SPDX-License-Identifier: MIT */
/* Names of a file's functions, from session to session. To read one from its file and to demangle it takes 3 us, and
 * ten seconds of Numba need 5,000: nearly the same ones each time.
 *
 * The namer's thread opens them with the file's symbols, the loop searches them, and when the session ends those that
 * are new are stored. Owner: struct names. Errors are silent: then names are read from the file. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/kept.h"
#include "codemap/known_names.h"
#include "symbols/symbols.h"

struct kept_name {
	uint64_t start;
	uint64_t text; /* where in the texts */
};

struct kept_names {
	struct kept_key key; /* zeros: nothing is kept of this file */
	uint32_t n;
	const struct kept_name *rows; /* by start */
	const char *texts;
	void *bytes; /* owned */
};

/* `folder`: as codemap__new(). */
void kept_names__open(const struct symbol_file *file, int folder, struct kept_names *ret);
/* NULL: not kept. Valid until kept_names__free(). These functions have no role in weaving. */
const char *kept_names__find(const struct kept_names *kept, uint64_t start);
/* Stores them with those of this module that became known, if these are enough to be worth it, and if it is the same
 * file still. */
void kept_names__store(const struct kept_names *kept, const struct symbol_file *file, int folder,
		       const struct known_names *known, uint32_t module);
void kept_names__free(struct kept_names *kept);
