/* SPDX-License-Identifier: MIT */
/* A program that registers and unregisters JIT objects as fast as it can, with the
 * GDB interface, as LLVM does it: push at the head, unlink, free, under one mutex. The
 * images have few sizes, so that malloc gives entry and image the very addresses of
 * the former ones, and each says in all its parts which object it is (elf_image.h).
 *
 *   jit_churn SECONDS [KEPT [THREADS [PADDING]]]
 *
 * KEPT objects (40) stay on the list on average. PADDING bytes (0) in the middle of each
 * image make a copy slow, but not the making of it. Prints {"registered": N} at the end.
 * The code addresses are made up: nothing is mapped there. */
#include <malloc.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../unit/elf_image.h"

struct jit_code_entry {
	struct jit_code_entry *next_entry, *prev_entry;
	const char *symfile_addr;
	uint64_t symfile_size;
};

struct jit_descriptor {
	uint32_t version, action_flag;
	struct jit_code_entry *relevant_entry, *first_entry;
};

struct jit_descriptor __jit_debug_descriptor = {.version = 1};

void __attribute__((noinline)) __jit_debug_register_code(void)
{
	__asm__ volatile("" ::: "memory");
}

#define SLOTS_MAX (1u << 18)

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct jit_code_entry *slots[SLOTS_MAX];
static unsigned kept = 40;
static size_t padding;
static uint32_t serial;
static volatile int stop;

static void register_object(uint32_t slot, uint32_t number)
{
	struct jit_code_entry *entry = malloc(sizeof(*entry));
	struct elf_image image;
	char *copy = malloc(sizeof(image) + padding);

	if (!entry || !copy)
		abort();
	elf_image__make(&image, number, 1 + number % IMAGE_COUNT_MAX, 0x7e0000000000 + slot * 0x10000ull);
	elf_image__pad(&image, padding);
	memcpy(copy, &image, IMAGE_HEAD);
	memcpy(copy + IMAGE_HEAD + padding, (char *)&image + IMAGE_HEAD, sizeof(image) - IMAGE_HEAD);
	entry->symfile_addr = copy;
	entry->symfile_size = sizeof(image) + padding;
	entry->prev_entry = NULL;
	entry->next_entry = __jit_debug_descriptor.first_entry;
	if (entry->next_entry)
		entry->next_entry->prev_entry = entry;
	__jit_debug_descriptor.first_entry = entry;
	__jit_debug_descriptor.relevant_entry = entry;
	__jit_debug_descriptor.action_flag = 1;
	__jit_debug_register_code();
	slots[slot] = entry;
}

static void unregister_object(uint32_t slot)
{
	struct jit_code_entry *entry = slots[slot];

	if (entry->next_entry)
		entry->next_entry->prev_entry = entry->prev_entry;
	if (entry->prev_entry)
		entry->prev_entry->next_entry = entry->next_entry;
	else
		__jit_debug_descriptor.first_entry = entry->next_entry;
	__jit_debug_descriptor.relevant_entry = entry;
	__jit_debug_descriptor.action_flag = 2;
	__jit_debug_register_code();
	free((void *)entry->symfile_addr);
	free(entry);
	slots[slot] = NULL;
}

static void *churn(void *arg)
{
	unsigned seed = (unsigned)(uintptr_t)arg;

	while (!stop) {
		uint32_t slot = (uint32_t)rand_r(&seed) % (2 * kept);

		pthread_mutex_lock(&lock);
		if (slots[slot])
			unregister_object(slot);
		else
			register_object(slot, ++serial);
		pthread_mutex_unlock(&lock);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	int seconds = argc > 1 ? atoi(argv[1]) : 1, n = argc > 3 ? atoi(argv[3]) : 2, i;
	pthread_t threads[16];

	if (argc > 2)
		kept = (unsigned)atoi(argv[2]);
	if (kept < 1 || kept > SLOTS_MAX / 2 || n < 1 || n > 16)
		return 2;
	if (argc > 4)
		padding = (size_t)atol(argv[4]);
	mallopt(M_MMAP_THRESHOLD, 1 << 30); /* the heap gives the same addresses again */
	mallopt(M_TRIM_THRESHOLD, 1 << 30);
	printf("ready\n");
	fflush(stdout);
	for (i = 0; i < n; i++)
		pthread_create(&threads[i], NULL, churn, (void *)(uintptr_t)(i + 1));
	nanosleep(&(struct timespec){.tv_sec = seconds}, NULL);
	stop = 1;
	for (i = 0; i < n; i++)
		pthread_join(threads[i], NULL);
	printf("{\"registered\": %u}\n", serial);
	return 0;
}
