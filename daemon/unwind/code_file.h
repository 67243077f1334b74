/* SPDX-License-Identifier: MIT */
/* Functions of a file without call frame information, while they are looked for and followed; inside of code_file.c
 * and code_bare.c. */
#ifndef CPROFD_UNWIND_CODE_FILE_H
#define CPROFD_UNWIND_CODE_FILE_H

#include "elf/elf.h"
#include "unwind/builder.h"
#include "unwind/code.h"

#define ENTRIES_MAX 4096u  /* of one function */
#define SECTIONS_MAX 1024u /* with code */

struct bare {
	uint64_t start, size;
	uint32_t function;	/* of the builder; UINT32_MAX: none yet */
	bool cold, stubs, head; /* head: its first stub is none, others jump to it */
	bool entered, refused;	/* by jumps: known; not all of them known */
	bool later;		/* not now */
	bool hopeless;		/* nothing can be said of it */
};

struct arrival {
	uint64_t at;
	struct code_state state;
};

struct following {
	struct code_rows rows; /* first */
	struct builder *b;
	const struct elf_bytes *source;
	struct code_decoder *decoder;
	Elf64_Shdr *code; /* executable sections */
	uint32_t n_code;
	/* What has entries: by start; how far those up to here reach. */
	uint64_t *starts;
	uint32_t *reach, n_starts;
	struct bare *bare;
	uint32_t n_bare, bare_capacity;
	struct arrival *arrivals;
	uint32_t n_arrivals, arrivals_capacity;
	bool again; /* the first time is over */
	struct code_entry *entries; /* of the function at hand */
	uint32_t n_entries, entries_capacity;
	uint64_t bytes; /* left */
	/* table__follow(): where walks stopped, ascending; a symbol without a size at or below each. */
	const uint64_t *places;
	uint64_t *hints;
	uint32_t n_places;
	int unfollowed; /* why there are no rows of functions that are left out */
};

/* --- code_bare.c --- */

/* All that there are, by address; of code that no symbol names those that hold one of f->places. */
int following__find(struct following *f);
const Elf64_Shdr *following__section(const struct following *f, uint64_t at);

#endif
