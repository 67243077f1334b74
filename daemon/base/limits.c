/* SPDX-License-Identifier: MIT */
/* Each limit is a number, and so much more for each byte of the file. */
#include "base/limits.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>

static struct {
	bool on;
	uint64_t files;  /* bytes of all input files */
	uint64_t memory; /* bytes */
	uint64_t frames; /* walked so far */
	char words[160]; /* sentence about the limit that was exceeded last */
} limits;

void limits__begin(void)
{
	limits.on = true;
}

static void set_memory(uint64_t bytes)
{
#ifdef __SANITIZE_ADDRESS__
	(void)bytes; /* AddressSanitizer maps terabytes */
#else
	struct rlimit limit;

	if (getrlimit(RLIMIT_DATA, &limit))
		return;
	limit.rlim_cur = bytes < limit.rlim_max ? bytes : limit.rlim_max;
	setrlimit(RLIMIT_DATA, &limit);
#endif
}

void limits__add_file(int fd)
{
	struct stat status;
	uint64_t size = LIMIT_PIPE;

	if (!limits.on)
		return;
	if (!fstat(fd, &status) && S_ISREG(status.st_mode))
		size = (uint64_t)status.st_size;
	limits.files += size;
	limits.memory = LIMIT_MEMORY_BASE + LIMIT_MEMORY_FACTOR * limits.files; /* a file has less than 2^50 */
	set_memory(limits.memory);
}

static int refuse(const char *format, uint64_t base, unsigned factor)
{
	snprintf(limits.words, sizeof(limits.words), format, (unsigned long long)base, factor);
	return -E2BIG;
}

int limits__text(uint64_t text, uint64_t file)
{
	if (!limits.on || text <= LIMIT_TEXT_BASE + LIMIT_TEXT_FACTOR * file)
		return 0;
	return refuse("it expands to more than %llu MB and %u times its size", LIMIT_TEXT_BASE >> 20, LIMIT_TEXT_FACTOR);
}

int limits__walk(uint64_t frames)
{
	limits.frames += frames;
	if (!limits.on || limits.frames <= LIMIT_FRAMES_BASE + LIMIT_FRAMES_FACTOR * limits.files)
		return 0;
	return refuse("its stacks have more than %llu million frames, and %u for each of its bytes", LIMIT_FRAMES_BASE / 1000000, LIMIT_FRAMES_FACTOR);
}

int limits__output(uint64_t bytes)
{
	if (!limits.on || bytes <= LIMIT_OUTPUT_BASE + LIMIT_OUTPUT_FACTOR * limits.files)
		return 0;
	return refuse("it makes more than %llu MB of text, and %u bytes for each of its own", LIMIT_OUTPUT_BASE >> 20, LIMIT_OUTPUT_FACTOR);
}

const char *limits__words(int err)
{
	if (!limits.on || (err != -E2BIG && err != -ENOMEM))
		return NULL;
	if (err == -ENOMEM)
		snprintf(limits.words, sizeof(limits.words), "it needs more than %llu MB of memory, %llu MB and %u times its size",
			 (unsigned long long)limits.memory >> 20, LIMIT_MEMORY_BASE >> 20, LIMIT_MEMORY_FACTOR);
	return limits.words;
}
