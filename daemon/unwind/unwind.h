/* SPDX-License-Identifier: MIT */
/* Native unwind tables: made from the call frame information of ELF files, kept on disk, placed in
 * the pools that the walker of include/cprofd/unwind.h reads, and used by a walk in user space.
 *
 *   source (ELF bytes) -> table__compile() -> table -> pool__place() -> range -> ranges__write() ->
 * list
 *
 * All bytes of a source and of a cache file are hostile: they are read with bounds, never mapped;
 * what does not decode is a rule that says so. Nothing here keeps state between calls or has locks:
 * any thread may call, each with its own objects. Errors are -errno.
 *
 * Sources: System V ABI (ELF), DWARF 5 section 6.4, Linux Standard Base 5.0 "Exception Frames".
 */
#ifndef CPROFD_UNWIND_UNWIND_H
#define CPROFD_UNWIND_UNWIND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/file_identity.h"
#include "cprofd/unwind.h"
#include "elf/bytes.h"

/* --- tables --- */

#define UNWIND_MAGIC 0x31757763u /* "cwu1" */
#define UNWIND_VERSION 5u

/* What a table was made from. Whoever writes an ELF file chooses its build-id and everything else in it: which file it was
 * is part of it, as the kernel knows it. Nobody can choose the time of its last change (ctime). */
struct unwind_identity {
	uint8_t build_id[32];	/* GNU build-id, filled up with zeros */
	uint32_t build_id_size; /* 0: there is none */
	uint32_t machine;	/* e_machine */
	uint64_t text, text_size, frames, frames_size; /* addresses of the ELF file */
	uint64_t symbols, symbols_size; /* in the file: a stripped one has other functions */
	struct file_identity file; /* zeros: it was none (identity__from_file()) */
};

/* The head of a table; positions are words of 8 bytes from here. */
struct unwind_table {
	uint32_t magic, version;
	uint64_t checksum; /* of all that follows; set by cache__store(), 0 otherwise */
	struct unwind_identity identity;
	uint64_t base;		  /* ELF address of the first page */
	uint64_t text, text_size; /* ELF addresses that it knows of, within its pages */
	uint32_t size;		  /* words, all in all */
	uint32_t shift, pages;
	uint32_t rules, n_rules; /* position; words */
	uint32_t index;
	uint32_t rows, n_rows; /* position; rows with their padding */
	/* What it was made of */
	uint32_t functions; /* FDEs used */
	uint32_t dropped;   /* FDEs that are damaged, overlap, or describe no code of this file */
	uint32_t changes;   /* rows that are in use */
	uint32_t followed;  /* functions without call frame information that were followed */
	uint32_t unsupported[16]; /* rows, by reason */
};
_Static_assert(sizeof(struct unwind_table) % 8 == 0 && UNWIND_UNSUPPORTED_COUNT <= 16,
	       "unwind_table");

/* Gives the memory that a table is written into, once its size is known: 8-aligned and filled with
 * zeros, at a block's start or wholly in one block (pool__place() does). NULL: no room. */
struct unwind_sink {
	void *(*allot)(struct unwind_sink *self, size_t size);
};

/* Compiles .eh_frame, and .debug_frame where that says nothing; functions (of the symbol table) and
 * stubs that neither describes are followed by their instructions (code.h). -ENODATA: nothing of
 * these. -EBADMSG: no ELF file of this machine. -E2BIG: more than UNWIND_FUNCTIONS_MAX or
 * UNWIND_ROWS_MAX. Needs 4 bytes a row and 20 a function while it runs, besides 320 KB. */
#define UNWIND_FUNCTIONS_MAX (4u << 20)
#define UNWIND_ROWS_MAX (16u << 20)
int table__compile(const struct elf_bytes *elf, struct unwind_sink *sink,
		   struct unwind_table **ret);

/* Another table, in which the functions that hold one of these places (ELF addresses, ascending, at most
 * UNWIND_PLACES_MAX) were followed, too: a walk that came to them said PENDING, by a rule CODE_LATER. None of
 * the places has that rule then; what no symbol names is found by its instructions, or it is said to be
 * unknown. `last`: no code has that rule. Takes as long as the table is large: 10 ms a million rows. */
#define UNWIND_PLACES_MAX 64u
int table__follow(const struct elf_bytes *elf, const struct unwind_table *table,
		  const uint64_t *places, uint32_t n, bool last, struct unwind_sink *sink,
		  struct unwind_table **ret);

/* Who it is, without compiling: build-id and places. -ENODATA as above. */
int table__identify(const struct elf_bytes *elf, struct unwind_identity *ret);

/* Whether everything that a walker relies on holds, for bytes of unknown origin: 0 or -EBADMSG. */
int table__check(const void *bytes, size_t size);

static inline size_t table__size(const struct unwind_table *table)
{
	return (size_t)table->size * 8;
}

/* --- the cache on disk: a file for each identity in a directory that the caller chose --- */

/* `directory` is a descriptor; it must belong to the engine's user, as whoever writes there chooses
 * what stacks look like. */
struct unwind_cache {
	int directory;
};
/* -ENOENT: not there; -EBADMSG: damaged, it was removed. */
int cache__load(const struct unwind_cache *cache, const struct unwind_identity *identity,
		struct unwind_sink *sink, struct unwind_table **ret);
int cache__store(const struct unwind_cache *cache, const struct unwind_table *table);
/* Removes the files used longest ago until all of them are below `bytes`. */
int cache__trim(const struct unwind_cache *cache, uint64_t bytes);
/* Which file it is. -EPERM: the file system cannot be believed (FUSE): its table is not to be kept. */
int identity__from_file(struct unwind_identity *identity, int fd);

/* --- pools: arrays of blocks, in plain memory or a BPF map's --- */

struct unwind_pool {
	struct unwind_sink sink; /* allots from the pool */
	char *blocks;		 /* not owned; page-aligned, of zeros at first */
	uint32_t n;		 /* blocks */
	uint32_t next;		 /* the search for room begins here */
	uint16_t *used;		 /* two for each block: words in use, and by how many */
};
int pool__init(struct unwind_pool *pool, void *blocks, uint32_t n);
void pool__free(struct unwind_pool *pool);
/* A block's start, or a place within one block for what is smaller. NULL: no room. */
void *pool__place(struct unwind_pool *pool, size_t size);
void pool__release(struct unwind_pool *pool, void *place, size_t size);

/* The range of a table in pool `number`; its first byte is at `start` of a process in which the ELF
 * file's addresses are moved by `bias`. Cut to what the table knows of: size 0 when that is
 * nothing. */
struct unwind_placed {
	uint64_t start;
	struct unwind_range range;
};
void placed__make(struct unwind_placed *place, const struct unwind_pool *pool, uint16_t number,
		  const struct unwind_table *table, uint64_t bias, uint64_t start, uint64_t end);

/* --- lists --- */

/* Blocks that a list of n ranges takes. */
uint32_t ranges__blocks(uint32_t n);
/* Writes a list to `blocks`; `places` ascend and do not overlap (-EINVAL), at most
 * UNWIND_RANGES_MAX. */
int ranges__write(void *blocks, const struct unwind_placed *places, uint32_t n);
/* The n of a list, as they were written. */
void ranges__read(const void *blocks, uint32_t n, struct unwind_placed *ret);
/* Is each of the n ranges that were written there among `m` places, the same? But for those without a table. */
bool ranges__stay(const void *blocks, uint32_t n, const struct unwind_placed *places, uint32_t m);

/* --- a walk in user space --- */

struct unwind_walk {
	struct unwind_state state;
	const struct host_pool *pools;
	uint32_t n_pools;
	/* Memory recorded with the registers, and who is asked for all else (NULL: nobody). */
	uint64_t stack_at;
	const void *stack;
	size_t stack_size;
	struct host_reader *reader;
};
/* Walks from state.regs, known and exact on; `list` and `salt` as in struct unwind_process. Calls
 * `frame` for each frame, innermost first, which returns false to stop. Returns the loss that ended
 * it (LOSS_NONE: it came to the thread's entry, or was stopped). */
typedef bool unwind_frame(void *ctx, const struct unwind_state *state);
enum loss walk__run(struct unwind_walk *walk, uint64_t list, uint64_t salt, uint32_t max,
		    unwind_frame *frame, void *ctx);

#endif
