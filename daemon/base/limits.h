/* SPDX-License-Identifier: MIT */
/* Limits on what a recording may make its reader spend, in proportion to the file's size. A file that exceeds them was
 * made for that: cprofd's own recordings expand to 3 to 7 times their size, and need some 10 bytes of memory per byte.
 *
 * Off until limits__begin(), which commands call that read files from anywhere. Process-wide, as the kernel's memory
 * limit is. Threads: main only. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Each limit is BASE + FACTOR x size of the input. Text: bytes that a compressed recording may expand to. */
#define LIMIT_TEXT_BASE (32ull << 20)
#define LIMIT_TEXT_FACTOR 32u
/* Bytes of memory, by the size of all files that are read. */
#define LIMIT_MEMORY_BASE (192ull << 20)
#define LIMIT_MEMORY_FACTOR 64u
/* Frames of stacks that are walked, counted again for each table and thread. An hour of samples with stacks of 100
 * frames, all different, has 10 frames per byte and table; recursion 8,000 frames deep reaches the limit after some
 * minutes. */
#define LIMIT_FRAMES_BASE 300000000ull
#define LIMIT_FRAMES_FACTOR 256u
/* Bytes of collapsed stacks: each line repeats all names. */
#define LIMIT_OUTPUT_BASE (1ull << 30)
#define LIMIT_OUTPUT_FACTOR 256u
/* Assumed size of an input whose size is unknown, such as a pipe. */
#define LIMIT_PIPE (64ull << 20)

void limits__begin(void);
/* This file will be read, too: raises the memory limit. */
void limits__add_file(int fd);
/* -E2BIG: too much text for so many bytes of a compressed file. */
int limits__text(uint64_t text, uint64_t file);
/* Adds frames that are walked. -E2BIG: too many in all. */
int limits__walk(uint64_t frames);
/* -E2BIG: too much collapsed text. */
int limits__output(uint64_t bytes);
/* A sentence about the limit that a reader's error means; NULL: the error is no limit. */
const char *limits__words(int err);
