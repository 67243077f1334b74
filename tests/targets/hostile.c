/* SPDX-License-Identifier: MIT */
/* What a hostile target does to what cprofd reads of it. A library that tests/targets/hostile.py loads; the thread that calls it holds the
 * GIL and never comes back, so that the interpreter's own memory may be spoiled: only a profiler reads it any more. Also the victim whose file
 * is damaged (victim()): a native stack of its own.
 *
 * Build: gcc -shared -fPIC -g hostile.c -o hostile.so */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { ONCE, STORM, PAGES };

struct region {
	uint64_t at, size;
};

static uint64_t state;

static uint64_t draw(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state;
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void spin(double seconds)
{
	double until = now() + seconds;

	while (now() < until)
		;
}

/* Words that parsers trip over. */
static uint64_t bad(const struct region *regions, uint32_t n)
{
	const struct region *other = &regions[draw() % n];
	static const uint64_t fixed[] = {0, 1, 2, 7, UINT64_MAX, INT64_MAX, 1ull << 63, 1ull << 31, UINT32_MAX, 1ull << 32, 0xffff888000000000ull,
					 0xffffffff81000000ull, 0x7fffffffeff8ull, 0x800000000000ull, 4095, 0x7fffffff, 1ull << 40};

	switch (draw() % 5) {
	case 0:
		return fixed[draw() % (sizeof(fixed) / sizeof(fixed[0]))];
	case 1:
		return other->at;
	case 2:
		return other->at + draw() % (other->size + 1);
	case 3:
		return (other->at | 4095) - draw() % 16; /* the end of its page */
	default:
		return draw() >> draw() % 64;
	}
}

static uint64_t *word_in(const struct region *regions, uint32_t n)
{
	const struct region *region = &regions[draw() % n];
	uint64_t at = draw() % 8 ? draw() % (region->size / 8) * 8 : draw() % (region->size - 7);

	return (uint64_t *)(region->at + at);
}

static void spoil(const struct region *regions, uint32_t n)
{
	uint64_t value = bad(regions, n);

	memcpy(word_in(regions, n), &value, sizeof(value));
}

/* A word is wrong for a moment, most often; some stay so. */
static void storm(const struct region *regions, uint32_t n)
{
	uint64_t *word = word_in(regions, n), good, value = bad(regions, n);

	memcpy(&good, word, sizeof(good));
	memcpy(word, &value, sizeof(value));
	spin((double)(draw() % 3000) / 1e6);
	if (draw() % 16)
		memcpy(word, &good, sizeof(good));
}

static void pages(const struct region *regions, uint32_t n)
{
	char *page = (char *)(regions[draw() % n].at & ~4095ull);

	mprotect(page, 4096, PROT_NONE);
	spin((double)(draw() % 3000) / 1e6);
	mprotect(page, 4096, PROT_READ | PROT_WRITE);
	spin((double)(draw() % 1000) / 1e6);
}

/* Says that it is ready when what is wrong from the begin on is so. */
void hostile_spoil(const struct region *given, uint32_t n, uint64_t seed, int how, uint32_t words, double seconds)
{
	struct region *regions = malloc(n * sizeof(*regions));
	double until = now() + seconds;
	uint32_t i;

	memcpy(regions, given, n * sizeof(*regions)); /* which it may spoil, too */
	state = seed * 0x9e3779b97f4a7c15ull + 1;
	for (i = 0; how == ONCE && i < words; i++)
		spoil(regions, n);
	(void)!write(1, "ready\n", 6);
	while (now() < until) {
		if (how == STORM)
			storm(regions, n);
		else if (how == PAGES)
			pages(regions, n);
		else
			spin(0.01);
	}
	_exit(0);
}

/* --- pages of a file that is never read --- */

/* What lies there is the file's from now on; the thread touches nothing of it. */
void hostile_mute(const struct region *given, uint32_t n, int file, double seconds)
{
	double until = now() + seconds;
	struct region *regions = mmap(NULL, (n + 1) * sizeof(*regions), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint32_t i;

	memcpy(regions, given, n * sizeof(*regions));
	for (i = 0; i < n; i++)
		if (mmap((void *)(regions[i].at & ~4095ull), 4096, PROT_READ, MAP_PRIVATE | MAP_FIXED, file, 0) == MAP_FAILED)
			_exit(1);
	(void)!write(1, "ready\n", 6);
	while (now() < until)
		spin(0.01);
	_exit(0);
}

/* --- the GDB interface of JIT compilers --- */

struct entry {
	struct entry *next, *prev;
	const void *image;
	uint64_t size;
};

struct descriptor {
	uint32_t version, action;
	struct entry *relevant, *first;
} __jit_debug_descriptor = {.version = 1};

void __attribute__((noinline)) __jit_debug_register_code(void)
{
	__asm__ volatile("");
}

enum { CYCLE, SELF, HUGE_SIZE, GARBAGE, FLIPPED, LONG, CHANGES, WILD };
#define ENTRIES 64u
#define LONG_LIST 300000u

static void flip(char *bytes, size_t size, unsigned bits)
{
	while (bits--)
		bytes[draw() % size] ^= (char)(1u << draw() % 8);
}

static void set(struct entry *entries, uint32_t i, uint32_t n, const char *image, uint64_t size, int how)
{
	struct entry *entry = &entries[i];
	char *copy = malloc(size + 8);

	memcpy(copy, image, size);
	entry->next = i + 1 < n ? entry + 1 : NULL;
	entry->prev = i ? entry - 1 : NULL;
	entry->image = copy;
	entry->size = size;
	if (how == GARBAGE)
		for (uint64_t k = draw() % 64; k + 8 < size; k += 8)
			*(uint64_t *)(copy + k) = draw();
	if (how == FLIPPED || how == CHANGES)
		flip(copy, draw() % 2 ? 64 : size, 1 + draw() % 64);
	if (how == HUGE_SIZE)
		entry->size = draw() >> draw() % 64;
	if (how == WILD) {
		entry->image = (void *)bad(&(struct region){(uint64_t)copy, size}, 1);
		entry->size = draw() % 100000;
	}
}

void hostile_jit(const char *image, uint64_t size, uint64_t seed, int how, double seconds)
{
	uint32_t n = how == LONG ? LONG_LIST : ENTRIES;
	struct entry *entries = calloc(n, sizeof(*entries));
	double until = now() + seconds;
	uint64_t first;

	state = seed * 0x9e3779b97f4a7c15ull + 1;
	for (uint32_t i = 0; i < n; i++)
		if (i < ENTRIES)
			set(entries, i, n, image, size, how);
		else
			entries[i] = (struct entry){i + 1 < n ? &entries[i + 1] : NULL, &entries[i - 1], image, size};
	if (how == CYCLE)
		entries[n - 1].next = &entries[draw() % n];
	if (how == SELF)
		entries[draw() % n].next = &entries[draw() % n];
	first = how == WILD ? (uint64_t)entries : (uint64_t)entries[0].image;
	__jit_debug_descriptor.first = entries;
	__jit_debug_descriptor.relevant = entries;
	__jit_debug_descriptor.action = 1;
	(void)!write(1, "ready\n", 6);
	while (now() < until) {
		spin(0.0005);
		if (how != CHANGES && how != WILD)
			continue;
		storm((struct region[]){{(uint64_t)&__jit_debug_descriptor, sizeof(struct descriptor)},
					{(uint64_t)entries, n * sizeof(*entries)},
					{first, 64}},
		      3);
		__jit_debug_register_code();
	}
	_exit(0);
}

static void *rests(void *context)
{
	char frame[32768];

	memset(frame, 1, sizeof(frame));
	*(volatile char *)context = frame[0];
	pause();
	return NULL;
}

/* The stack of a thread that sleeps, but for its end, where the kernel looks when the thread is killed. */
void hostile_mute_stack(int file, double seconds)
{
	size_t size = 262144, i;
	char *stack = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct region regions[64];
	volatile char begun = 0;
	pthread_attr_t attr;
	pthread_t thread;

	pthread_attr_init(&attr);
	pthread_attr_setstack(&attr, stack, size);
	pthread_create(&thread, &attr, rests, (void *)&begun);
	while (!begun)
		usleep(1000);
	usleep(100000);
	for (i = 0; i < size / 4096 - 4; i++)
		regions[i] = (struct region){(uint64_t)stack + i * 4096, 4096};
	hostile_mute(regions, (uint32_t)i, file, seconds);
}

/* Its list begins in such a page; or the first image lies there. */
void hostile_mute_jit(int file, int image, double seconds)
{
	static struct entry entry;
	void *page = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, file, 0);

	entry = (struct entry){.image = page, .size = 4096};
	__jit_debug_descriptor.first = image ? &entry : page;
	hostile_mute(NULL, 0, file, seconds);
}

/* --- code in anonymous memory, for maps and dumps that name it --- */

void *hostile_code(uint64_t size)
{
	static const uint8_t code[] = {0x48, 0x83, 0xec, 0x18,		  /* sub $24, %rsp */
				       0x48, 0xff, 0xcf, 0x75, 0xfb,	  /* dec %rdi; jne */
				       0x48, 0x83, 0xc4, 0x18, 0xc3};	  /* add $24, %rsp; ret */
	char *at = mmap(NULL, size, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	for (uint64_t i = 0; i + sizeof(code) < size; i += 64)
		memcpy(at + i, code, sizeof(code));
	return at;
}

void hostile_run(char *code, uint64_t size, double seconds)
{
	double until = now() + seconds;

	(void)!write(1, "ready\n", 6);
	while (now() < until)
		((void (*)(uint64_t))(code + draw() % (size / 64) * 64))(20000);
	_exit(0);
}

/* --- a native stack whose file is damaged --- */

static volatile uint64_t sink;
#define LEVEL(n, below) \
	static __attribute__((noinline)) void level_##n(int depth) \
	{ \
		sink += (uint64_t)depth; \
		below; \
		sink -= 1; \
	}
LEVEL(0, spin(0.001))
LEVEL(1, level_0(depth))
LEVEL(2, level_1(depth))
LEVEL(3, level_2(depth); level_1(depth))
LEVEL(4, for (int i = 0; i < depth; i++) level_3(i))

void victim(double seconds)
{
	double until = now() + seconds;

	state = 88172645463325252ull;
	(void)!write(1, "ready\n", 6);
	while (now() < until)
		level_4(1 + (int)(draw() % 8));
	_exit(0);
}
