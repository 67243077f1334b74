/* SPDX-License-Identifier: MIT */
/* Native unwind tables: compiled from the call frame information of ELF files, cached on disk, placed in the pools that
 * the walker of include/cprofd/unwind.h reads, and used for walks in user space, too.
 *
 *   ELF bytes -> table__compile() -> table -> pool__allot() -> range -> ranges__write() -> list of a process
 *
 * All bytes of ELF files and cache files may be hostile: they are read with bounds, never mapped; code whose
 * description does not decode gets a rule that says so. Nothing here keeps state between calls or has locks: any thread
 * may call, each with its own objects. Errors are -errno.
 *
 * Sources: System V ABI (ELF), DWARF 5 section 6.4, Linux Standard Base 5.0 "Exception Frames".
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/file_identity.h"
#include "cprofd/unwind.h"
#include "elf/bytes.h"

/* --- tables --- */

#define UNWIND_MAGIC 0x31757763u /* "cwu1" */
#define UNWIND_VERSION 5u

/* What a table was made from: the key of the cache. The author of an ELF file can forge its build-id and everything
 * else in it, so the file's identity as the kernel knows it is part of the key: the time of its last change (ctime)
 * cannot be chosen. */
struct unwind_identity {
	uint8_t build_id[32];	/* GNU build-id, filled up with zeros */
	uint32_t build_id_size; /* 0: there is none */
	uint32_t machine;	/* e_machine */
	uint64_t text, text_size, frames, frames_size; /* addresses of the ELF file */
	uint64_t symbols, symbols_size; /* offset in the file: a stripped file has other functions */
	struct file_identity file; /* zeros: not from a file (identity__from_file()) */
};

/* The head of a table. Positions count words of 8 bytes from here. The parts follow in the order rules, index, rows:
 * index[page] leads to the page's rows, a row is (offset in the page) << 16 | rule. */
struct unwind_table {
	uint32_t magic, version;
	uint64_t checksum; /* of everything after it; set by cache__store(), 0 otherwise */
	struct unwind_identity identity;
	uint64_t base;		  /* ELF address of the first page */
	uint64_t text, text_size; /* ELF addresses that it describes, within its pages */
	/* Words of the whole table, the head included. */
	uint32_t size;
	/* A page is 1 << shift bytes of code: 10 to 16. */
	uint32_t shift, pages;
	/* Position of the rules, and how many words they have (a LONG rule has two). */
	uint32_t rules, n_rules;
	uint32_t index;
	/* Position of the rows, and how many there are, padding included. */
	uint32_t rows, n_rows;
	/* Statistics */
	uint32_t functions; /* FDEs used */
	uint32_t dropped;   /* FDEs that are damaged, overlap, or describe no code of this file */
	uint32_t changes;   /* rows without padding */
	uint32_t followed;  /* functions without call frame information whose code was followed */
	uint32_t unsupported[16]; /* rows, by reason */
};
_Static_assert(sizeof(struct unwind_table) % 8 == 0 && UNWIND_UNSUPPORTED_COUNT <= 16,
	       "unwind_table");

/* Allocates memory for a table, before it is made for the size that it can have at most: 8-aligned and zeroed, at a block's
 * start or within one block (pool__allot() does that). NULL: no memory. It is the caller's, also if an error follows. */
struct unwind_sink {
	void *(*allot)(struct unwind_sink *self, size_t size);
};

/* Compiles .eh_frame, and .debug_frame where .eh_frame has no entry. Functions of the symbol table and PLT stubs that
 * neither describes are followed by their instructions (code.h). -ENODATA: the file has none of these. -EBADMSG: not an
 * ELF file of this architecture. -E2BIG: more than UNWIND_FUNCTIONS_MAX or UNWIND_ROWS_MAX. Memory while it runs: 4
 * bytes per row, 20 per function, and 320 KB. */
#define UNWIND_FUNCTIONS_MAX (4u << 20)
#define UNWIND_ROWS_MAX (16u << 20)
int table__compile(const struct elf_bytes *elf, struct unwind_sink *sink,
		   struct unwind_table **ret);

/* Makes a new table in which the functions that contain one of `vaddrs` are followed, too: ELF addresses, ascending, at
 * most UNWIND_VADDRS_MAX, at which walks stopped with PENDING because of the rule CODE_LATER. No place has that rule in
 * the new table; code without a symbol is found by its instructions, or marked as unknown. `last`: no code has that
 * rule any more. Time grows with the table: 10 ms per million rows. */
#define UNWIND_VADDRS_MAX 64u
int table__follow(const struct elf_bytes *elf, const struct unwind_table *table,
		  const uint64_t *vaddrs, uint32_t n, bool last, struct unwind_sink *sink,
		  struct unwind_table **ret);

/* The identity alone, without compiling. -ENODATA as above. */
int table__identify(const struct elf_bytes *elf, struct unwind_identity *ret);

/* Checks bytes of unknown origin for everything that the walker relies on: 0 or -EBADMSG. */
int table__check(const void *bytes, size_t size);

static inline size_t table__size(const struct unwind_table *table)
{
	return (size_t)table->size * 8;
}

/* --- the cache on disk: one file per identity, in a directory that the caller chooses --- */

/* `directory` is a descriptor. Only the engine's user may write there: whoever can, decides what stacks look like. */
struct unwind_cache {
	int directory;
};
/* Its size, by its head, which cache__load() reads again. Errors as there; nothing is removed. */
int cache__size(const struct unwind_cache *cache, const struct unwind_identity *identity, size_t *ret);
/* -ENOENT: not cached; -EBADMSG: the file was damaged and is removed. */
int cache__load(const struct unwind_cache *cache, const struct unwind_identity *identity,
		struct unwind_sink *sink, struct unwind_table **ret);
/* Writes the table under its identity's name; replaces an older file. */
int cache__store(const struct unwind_cache *cache, const struct unwind_table *table);
/* Removes the least recently used files until the rest has at most `bytes`. */
int cache__trim(const struct unwind_cache *cache, uint64_t bytes);
/* Sets identity->file. -EPERM: a file system that cannot be trusted (FUSE): the table must not be cached. */
int identity__from_file(struct unwind_identity *identity, int fd);

/* --- pools: arrays of blocks, in plain memory or the memory of a BPF map --- */

struct unwind_pool {
	struct unwind_sink sink; /* allots from the pool */
	char *blocks;		 /* not owned; page-aligned, of zeros at first */
	uint32_t n;		 /* blocks */
	uint32_t next;		 /* the first block that may have room */
	uint16_t *used;		 /* two for each block (pool.c) */
};
/* 0 or -ENOMEM. `blocks`: n blocks of UNWIND_BLOCK bytes. */
int pool__init(struct unwind_pool *pool, void *blocks, uint32_t n);
void pool__free(struct unwind_pool *pool);
/* Memory at a block's start, or within one block if it is smaller. NULL: no room. */
void *pool__allot(struct unwind_pool *pool, size_t size);
void pool__release(struct unwind_pool *pool, void *at, size_t size);

/* The range [start, end) of a process that a table in pool `number` describes; `bias` is the file's load bias there. It
 * is cut to what the table describes; size 0 if that is nothing. */
struct unwind_entry {
	uint64_t start;
	struct unwind_range range;
};
void unwind_entry__make(struct unwind_entry *entry, const struct unwind_pool *pool, uint16_t number,
		  const struct unwind_table *table, uint64_t bias, uint64_t start, uint64_t end);

/* --- lists: all ranges of a process, sorted --- */

/* Number of blocks that a list of n ranges takes. */
uint32_t ranges__blocks(uint32_t n);
/* Writes a list to `blocks`; `entries` ascend and do not overlap (-EINVAL), at most
 * UNWIND_RANGES_MAX. */
int ranges__write(void *blocks, const struct unwind_entry *entries, uint32_t n);
/* Reads back the n ranges of a list. */
void ranges__read(const void *blocks, uint32_t n, struct unwind_entry *ret);
/* Are all n ranges of the list, except those without a table, among the `m` entries, unchanged? */
bool ranges__stay(const void *blocks, uint32_t n, const struct unwind_entry *entries, uint32_t m);

/* --- a walk in user space --- */

struct unwind_walk {
	struct unwind_state state;
	const struct host_pool *pools;
	uint32_t n_pools;
	/* The copy of the stack that was recorded with the registers, and a reader for all other memory (NULL: none).
	 * */
	uint64_t stack_at;
	const void *stack;
	size_t stack_size;
	struct host_reader *reader;
};
/* Walks from state.regs (with `known` and `exact` set); `list` and `salt` as in struct unwind_process. Calls `frame`
 * for each frame, innermost first, until it returns false. Returns the loss that ended the walk; LOSS_NONE: it reached
 * the thread's entry, or `frame` stopped it. */
typedef bool unwind_frame(void *ctx, const struct unwind_state *state);
enum loss walk__run(struct unwind_walk *walk, uint64_t list, uint64_t salt, uint32_t max,
		    unwind_frame *frame, void *ctx);
