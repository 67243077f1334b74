/* SPDX-License-Identifier: MIT */
/* What a recording may make its reader spend, in proportion to the file's size. A file that asks for more was made to: cprofd's
 * own have 3 to 7 bytes of text for each of their bytes, and need some 10 bytes of memory for it.
 *
 * Off until limits__begin(), which commands call that read files of anybody; process-wide, as the kernel's limit of memory is.
 * Threads: the main one. */
#ifndef CPROFD_LIMITS_H
#define CPROFD_LIMITS_H

#include <stdbool.h>
#include <stdint.h>

/* Bytes that a compressed recording may expand to: so many, and so many for each of its own. */
#define LIMIT_TEXT_BASE (32ull << 20)
#define LIMIT_TEXT_FACTOR 32u
/* Bytes of memory: so many, and for each byte of all files that are read. */
#define LIMIT_MEMORY_BASE (192ull << 20)
#define LIMIT_MEMORY_FACTOR 64u
/* Frames of stacks that are walked, for each table and each thread again. An hour's samples with stacks of 100 frames, no two of
 * them equal, have 10 for each byte and table; recursion 8,000 frames deep meets it after some minutes. */
#define LIMIT_FRAMES_BASE 300000000ull
#define LIMIT_FRAMES_FACTOR 256u
/* Bytes of collapsed stacks, in which each has all its frames by name. */
#define LIMIT_OUTPUT_BASE (1ull << 30)
#define LIMIT_OUTPUT_FACTOR 256u
/* Of what tells its size when it ends, as a pipe. */
#define LIMIT_PIPE (64ull << 20)

void limits__begin(void);
/* This file is going to be read, too: memory for it. */
void limits__add_file(int fd);
/* -E2BIG: so much text is too much for so many bytes of a compressed file. */
int limits__text(uint64_t text, uint64_t file);
/* So many frames of stacks are walked. -E2BIG: with all others they are too many. */
int limits__walk(uint64_t frames);
/* -E2BIG: so much collapsed text is too much. */
int limits__output(uint64_t bytes);
/* Which limit a reader's error means, a sentence; NULL: none. */
const char *limits__words(int err);

#endif
