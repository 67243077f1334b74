/* SPDX-License-Identifier: MIT */
/* Names of files' functions as people know them, and what each name is to weaving. To make one, a name is read from
 * its file and demangled, and the file is checked for changes: that is most of the cost of a new row. Tables ask for
 * each function once an epoch, and in each epoch for nearly the same ones. They borrow the name; if there is no room
 * for it here they copy it. When an epoch begins with more than KNOWN_NAMES_EPOCH used, the names that the last one did
 * not ask for are dropped. Owner: the code map. Threads: one. */
#pragma once

#include "base/arena.h"
#include "base/hash.h"
#include "base/slots.h"
#include "base/kept.h"
#include "symbols/symbols.h"

/* Bytes of text. A loop of Numba compiles has 11,000 names of 180 bytes in half a minute at 9999 Hz; JAX has 18,000
 * in an epoch, and 36,000 in half a minute. */
#define KNOWN_NAMES_BYTES (6u << 20)
#define KNOWN_NAMES_EPOCH (4u << 20) /* above this the unused ones are dropped when an epoch begins */

/* The name of the function that begins at `start` of this module; `name` is in the arena. */
struct known_name {
	uint64_t start;
	uint32_t module;
	uint8_t role; /* enum frame_role, by its symbol, whatever the module */
	bool used;    /* in this epoch */
	const char *name;
};

struct known_names {
	struct known_name *rows;
	uint32_t n, capacity;
	struct slots by_vaddr;
	struct arena text;
	uint64_t files; /* changes when the names of a module come from another file */
	bool stale;	/* the text has names that have no rows any more */
	struct hash_seed seed;
};

void known_names__free(struct known_names *known); /* what it holds */
/* The name of the function at `start`; NULL: not known. The row is valid until the next is added, its name until
 * known_names__new_epoch(). */
const struct known_name *known_names__find(struct known_names *known, uint64_t files, uint32_t module, uint64_t start);
/* Adds a name that is not known. Returns a copy that is valid until known_names__new_epoch(); NULL: there is no
 * room. */
const char *known_names__keep(struct known_names *known, uint64_t files, const struct known_name *name);
void known_names__new_epoch(struct known_names *known);

/* --- names_kept.c --- */
/* Names of a file's functions, from session to session. To read one from its file and to demangle it takes 3 us, and
 * ten seconds of Numba need 5,000: nearly the same ones each time.
 *
 * The namer's thread opens them with the file's symbols, the loop searches them, and when the session ends those that
 * are new are stored. Owner: struct names. Errors are silent: then names are read from the file. */
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
