/* SPDX-License-Identifier: MIT */
/* A JIT compiler in the small, which tells perf's files what it makes, and its standard output what it runs when.
 *
 *   jit_files FILE STEPS MS WHAT     FILE: "map" (/tmp/perf-PID.map), "dump" (jit-PID.dump, in the folder where it is
 *                                    started), "rows" (a dump with unwind information), "none"
 *                                    WHAT: "plain", "blind" (nobody can follow its code), "apart" (no place is used again),
 *                                    "truncate", "again" (the file)
 *
 * Step N, of so many MS of its own CPU time, makes `outer N`, which calls from_outer() here, which calls `inner N`, which spins; the places are used again.
 * "N BEGIN END" is printed for each: CLOCK_MONOTONIC ns. */
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <time.h>

#include "../unit/jitdump_make.h"

#define PLACES 4u
#define APART 60u

/* Three ways of a frame; each calls rdi with rsi. */
static const uint8_t no_frame[] = {0x48, 0x83, 0xec, 0x18,	      /* sub $24, %rsp */
				   0x48, 0x89, 0xf8, 0x48, 0x89, 0xf7, /* mov %rdi, %rax; mov %rsi, %rdi */
				   0xff, 0xd0,			      /* call *%rax */
				   0x48, 0x83, 0xc4, 0x18, 0xc3};
static const uint8_t by_rbp[] = {0x55, 0x48, 0x89, 0xe5,		    /* push %rbp; mov %rsp, %rbp */
				 0x48, 0x83, 0xec, 0x40, 0x48, 0x83, 0xe4, 0xe0, /* sub $64, %rsp; and $-32, %rsp */
				 0x48, 0x89, 0xf8, 0x48, 0x89, 0xf7, 0xff, 0xd0, 0xc9, 0xc3}; /* ..; leave */
static const uint8_t pushes[] = {0x53, 0x41, 0x54, 0x41, 0x55, /* push %rbx, %r12, %r13 */
				 0x48, 0x89, 0xf8, 0x48, 0x89, 0xf7, 0xff, 0xd0,
				 0x41, 0x5d, 0x41, 0x5c, 0x5b, 0xc3};
/* It returns to its own second half, so that nobody can tell who only looks at it. */
static const uint8_t blind[] = {0x48, 0x83, 0xec, 0x18, 0x48, 0x8d, 0x05, 0x02, 0x00, 0x00, 0x00, /* ..; lea 2(%rip), %rax */
				0x50, 0xc3,							   /* push %rax; ret */
				0x48, 0x89, 0xf8, 0x48, 0x89, 0xf7, 0xff, 0xd0, 0x48, 0x83, 0xc4, 0x18, 0xc3};
static const uint8_t spin[] = {0x48, 0xff, 0xcf, 0x75, 0xfb, 0xc3}; /* dec %rdi; jne; ret */

static const struct outer {
	const uint8_t *bytes;
	size_t size;
} outers[] = {{no_frame, sizeof(no_frame)}, {by_rbp, sizeof(by_rbp)}, {pushes, sizeof(pushes)}};

static const char *way, *what;
static int file = -1;
static void (*inner)(long);
static uint64_t index_of;

static uint64_t clock_of(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static uint64_t now(void)
{
	return clock_of(CLOCK_MONOTONIC);
}

static void open_file(void)
{
	bool map = !strcmp(way, "map");
	char path[64];
	struct buf head = {};

	if (!strcmp(way, "none"))
		return;
	snprintf(path, sizeof(path), map ? "/tmp/perf-%d.map" : "jit-%d.dump", getpid());
	if (file >= 0) {
		close(file);
		unlink(path);
	}
	file = open(path, O_RDWR | O_CREAT | O_TRUNC | O_APPEND, 0600);
	if (file < 0)
		exit(1);
	if (map)
		return;
	jitdump__head(&head, 0);
	if (write(file, head.data, head.len) != (ssize_t)head.len ||
	    mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, file, 0) == MAP_FAILED)
		exit(1);
	buf__free(&head);
}

/* .eh_frame of a function of `size` bytes that takes `room` in its first 4, as it lies behind it. */
static void put_rows(struct buf *b, size_t size, uint8_t room)
{
	const size_t code = (size + 7) & ~7ul;
	uint8_t frames[] = {20, 0, 0, 0, 0, 0, 0, 0, 1, 'z', 'R', 0, 1, 0x78, 16, 1, 0x1b, 12, 7, 8, 0x90, 1, 0, 0,
			    20, 0, 0, 0, 28, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x44, 14, (uint8_t)(room + 8), 0, 0, 0, 0};
	int32_t begin = -(int32_t)(code + 32), length = (int32_t)size;

	memcpy(frames + 32, &begin, 4); /* from that field to the function's first byte */
	memcpy(frames + 36, &length, 4);
	jitdump__unwinding(b, now(), frames, sizeof(frames), 0);
}

static void tell(const char *name, const uint8_t *at, size_t size, uint8_t room)
{
	struct buf b = {};

	if (!strcmp(way, "rows"))
		put_rows(&b, size, room);
	if (!strcmp(way, "map"))
		buf__printf(&b, "%lx %zx %s\n", (unsigned long)at, size, name);
	else
		jitdump__load_code(&b, now(), name, (uint64_t)(uintptr_t)at, at, size, ++index_of);
	if (file >= 0 && write(file, b.data, b.len) != (ssize_t)b.len)
		exit(1);
	buf__free(&b);
}

__attribute__((noinline)) void from_outer(long n)
{
	inner(n);
	__asm__ volatile("");
}

__attribute__((noinline)) static void run(void *outer, uint64_t end)
{
	while (clock_of(CLOCK_THREAD_CPUTIME_ID) < end)
		((void (*)(void (*)(long), long))outer)(from_outer, 200000);
}

int main(int argc, char **argv)
{
	unsigned steps = argc == 5 ? (unsigned)atoi(argv[2]) : 0, i;
	uint8_t *code = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint64_t begin, ms;

	if (!steps || code == MAP_FAILED)
		return 2;
	way = argv[1];
	what = argv[4];
	ms = (uint64_t)atoi(argv[3]);
	open_file();
	for (i = 0; i < steps; i++) {
		struct outer outer = outers[i % 3];
		uint8_t *place = code + 8192 * (i % (strcmp(what, "apart") ? PLACES : APART));
		char name[32];

		if (!strcmp(what, "blind") || !strcmp(way, "rows"))
			outer = (struct outer){blind, sizeof(blind)};
		if (i == steps / 2 && !strcmp(what, "truncate") && ftruncate(file, 0))
			return 1;
		if (i == steps / 2 && !strcmp(what, "again"))
			open_file();
		memcpy(place, outer.bytes, outer.size);
		memcpy(place + 4096, spin, sizeof(spin));
		snprintf(name, sizeof(name), "outer %u", i);
		tell(name, place, outer.size, 24);
		snprintf(name, sizeof(name), "inner %u", i);
		tell(name, place + 4096, sizeof(spin), 0);
		inner = (void (*)(long))(void *)(place + 4096);
		begin = now();
		run(place, clock_of(CLOCK_THREAD_CPUTIME_ID) + ms * 1000000);
		printf("%u %lu %lu\n", i, (unsigned long)begin, (unsigned long)now());
		fflush(stdout);
	}
	return 0;
}
