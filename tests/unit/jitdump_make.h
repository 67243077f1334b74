/* SPDX-License-Identifier: MIT */
/* Writes records of a jitdump field by field, as its specification draws them (Linux,
 * tools/perf/Documentation/jitdump-specification.txt). */
#pragma once

#include <elf.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"

static inline void put32(struct buf *b, uint32_t value) { buf__append(b, &value, 4); }
static inline void put64(struct buf *b, uint64_t value) { buf__append(b, &value, 8); }

static inline void jitdump__head(struct buf *b, uint64_t flags)
{
	put32(b, 0x4a695444);
	put32(b, 1);
	put32(b, 40);
	put32(b, EM_X86_64);
	put32(b, 0);
	put32(b, (uint32_t)getpid());
	put64(b, 0);
	put64(b, flags);
}

static inline void jitdump__prefix(struct buf *b, uint32_t id, size_t body, uint64_t time)
{
	put32(b, id);
	put32(b, (uint32_t)(16 + body));
	put64(b, time);
}

static inline void jitdump__load_code(struct buf *b, uint64_t time, const char *name, uint64_t address,
				      const void *code, size_t size, uint64_t index)
{
	jitdump__prefix(b, 0, 40 + strlen(name) + 1 + size, time);
	put32(b, (uint32_t)getpid());
	put32(b, (uint32_t)gettid());
	put64(b, address); /* vma */
	put64(b, address);
	put64(b, size);
	put64(b, index);
	buf__append(b, name, strlen(name) + 1);
	buf__append(b, code, size);
}

static inline void jitdump__load(struct buf *b, uint64_t time, const char *name, uint64_t address,
				 size_t size, uint64_t index)
{
	_cleanup_free_ char *code = calloc(1, size);

	jitdump__load_code(b, time, name, address, code, size, index);
}

static inline void jitdump__move(struct buf *b, uint64_t time, uint64_t from, uint64_t to, uint64_t size,
				 uint64_t index)
{
	jitdump__prefix(b, 1, 48, time);
	put32(b, (uint32_t)getpid());
	put32(b, (uint32_t)gettid());
	put64(b, to); /* vma */
	put64(b, from);
	put64(b, to);
	put64(b, size);
	put64(b, index);
}

static inline void jitdump__lines(struct buf *b, uint64_t time, uint64_t address, const char *file,
				  uint32_t line)
{
	jitdump__prefix(b, 2, 16 + 16 + strlen(file) + 1, time);
	put64(b, address);
	put64(b, 1);
	put64(b, address);
	put32(b, line);
	put32(b, 0);
	buf__append(b, file, strlen(file) + 1);
}

static inline void jitdump__close(struct buf *b, uint64_t time) { jitdump__prefix(b, 3, 0, time); }

static inline void jitdump__unwinding(struct buf *b, uint64_t time, const void *bytes, size_t size,
				      size_t hdr_size)
{
	jitdump__prefix(b, 4, 24 + size, time);
	put64(b, size);
	put64(b, hdr_size);
	put64(b, 0);
	buf__append(b, bytes, size);
}

static inline void jitdump__unknown(struct buf *b, uint64_t time)
{
	jitdump__prefix(b, 77, 5, time);
	buf__append(b, "extra", 5);
}
