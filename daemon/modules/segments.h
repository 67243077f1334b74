/* SPDX-License-Identifier: MIT */
/* Where an ELF file's code goes: its executable segments. Pure over a source; hostile bytes. */
#pragma once

#include <stdint.h>

#include "elf/bytes.h"

#define SEGMENTS_MAX 16u

struct segment {
	uint64_t offset, size; /* in the file */
	uint64_t vaddr;
};
struct segments {
	struct segment items[SEGMENTS_MAX];
	uint32_t n;
};

/* Errors are those of elf_image__open(); -EBADMSG, too, of what was never linked. */
int segments__read(const struct elf_bytes *elf, struct segments *ret);
/* What is added to the file's addresses where its byte `offset` lies at `address`. 0, -ENOENT. */
int segments__bias(const struct segments *segments, uint64_t offset, uint64_t address,
		   uint64_t *ret_bias);
