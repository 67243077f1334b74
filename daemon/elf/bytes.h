/* SPDX-License-Identifier: MIT */
/* Where the bytes of an ELF file come from: an fd (read by pread, never mapped: a file that shrinks under a mapping
 * is a SIGBUS), memory of this process, or memory of a target. All parsers of ELF and DWARF in this tree read
 * through this, so each of them works on a file, on a JIT's image and on the vDSO.
 *
 * Owner: whoever calls init. Of a descriptor or memory that is only borrowed nobody calls free. Reads have no state:
 * any thread may read. A read of a file or a target may block; base/blocking.h bounds that. */
#pragma once

#include <stdbool.h>
#include <time.h>

#include "cprofd/host.h"

struct elf_bytes {
	int fd;			    /* -1: memory */
	const uint8_t *data;	    /* NULL: not of this process */
	uint64_t size;		    /* UINT64_MAX: a target's memory */
	struct timespec changed;    /* mtime when it was opened */
	uint64_t checked_at;	    /* when the last check found it unchanged: CLOCK_MONOTONIC_COARSE, ns */
	struct host_reader *reader; /* borrowed; NULL: no target's */
	uint64_t base;		    /* a target's address of the first byte */
};

#define ELF_BYTES_NONE {.fd = -1}

/* Takes size and mtime of the file now; does not take the fd over until elf_bytes__free(). -EINVAL: no regular file. */
int elf_bytes__init_fd(struct elf_bytes *bytes, int fd);
void elf_bytes__init_memory(struct elf_bytes *bytes, const void *data, size_t len);
void elf_bytes__init_target(struct elf_bytes *bytes, struct host_reader *reader, uint64_t base);
/* Closes the descriptor, frees the memory. */
void elf_bytes__free(struct elf_bytes *bytes);
/* All of it or an error: -ENODATA beyond the end or not mapped, -EIO. */
int elf_bytes__read(const struct elf_bytes *bytes, uint64_t at, void *dst, size_t len);
/* At most `len` bytes: what there is. *ret_len is 0 at and beyond the end. */
int elf_bytes__read_some(const struct elf_bytes *bytes, uint64_t at, void *dst, size_t len,
			 size_t *ret_len);
/* Was it written to since it was opened (size or mtime)? The file is checked once in a tick of the kernel (4 ms),
 * since mtimes change no more often. Always false of memory. */
bool elf_bytes__stale(const struct elf_bytes *bytes);

/* Do `size` bytes at `at` lie in it? */
static inline bool elf_bytes__has(const struct elf_bytes *bytes, uint64_t at, uint64_t size)
{
	return at <= bytes->size && size <= bytes->size - at;
}
