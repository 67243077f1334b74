/* SPDX-License-Identifier: MIT */
/* A JIT with a jitdump: functions that spin, made, moved and replaced, each run for a
 * while; what perf makes of its file is compared with what the reader does.
 *
 *   jitdump_target DIR      writes DIR/jit-PID.dump */
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <time.h>

#include "../unit/jitdump_make.h"

static uint64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void flush(int fd, struct buf *b)
{
	if (write(fd, b->data, b->len) != (ssize_t)b->len)
		exit(1);
	buf__clear(b);
}

static void run(void *code, unsigned ms)
{
	uint64_t end = now() + ms * 1000000ull;

	while (now() < end)
		((void (*)(long))code)(100000);
}

int main(int argc, char **argv)
{
	static const uint8_t spin[] = {0x48, 0xff, 0xcf, 0x75, 0xfb, 0xc3}; /* dec rdi; jne -5; ret */
	char path[4096], name[64], *code;
	struct buf b = {};
	unsigned i;
	int fd;

	if (argc != 2)
		return 2;
	snprintf(path, sizeof(path), "%s/jit-%d.dump", argv[1], getpid());
	fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0644);
	if (fd < 0)
		return 1;
	jitdump__head(&b, 0);
	flush(fd, &b);
	/* This mapping tells perf of the file. */
	if (mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0) == MAP_FAILED)
		return 1;
	code = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (code == MAP_FAILED)
		return 1;
	for (i = 0; i < 24; i++) {
		/* Six places, so that each is used again for the next function. */
		char *at = code + 8192 * (i % 6);

		memcpy(at, spin, sizeof(spin));
		snprintf(name, sizeof(name), "spin number %u", i);
		jitdump__load_code(&b, now(), name, (uint64_t)(uintptr_t)at, at, sizeof(spin), i);
		flush(fd, &b);
		run(at, 60);
	}
	jitdump__close(&b, now());
	flush(fd, &b);
	buf__free(&b);
	return 0;
}
