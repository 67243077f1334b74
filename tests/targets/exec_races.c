/* SPDX-License-Identifier: MIT */
/* For tests/live/exec_races.py: keeps a secret on its stack, burns and sleeps, then ends.
 *
 *     exec_races LOG    a descriptor: gets CLOCK_MONOTONIC, ns, of when it has begun */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static volatile uint64_t sink;

static uint64_t now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static void burn(uint64_t ns)
{
	uint64_t end = now() + ns;

	while (now() < end)
		sink++;
}

static int guarded(int log, uint64_t mask)
{
	volatile uint64_t secret[512];
	unsigned i;

	/* The pattern is made here only, so that no file and no argument holds it. */
	for (i = 0; i < 512; i++)
		secret[i] = 0x5ec7e75ec7e70000u ^ mask;
	dprintf(log, "%llu\n", (unsigned long long)now());
	for (i = 0; i < 30; i++) {
		burn(3000000);
		usleep(2000);
	}
	return secret[7] == 0;
}

int main(int argc, char **argv)
{
	/* What the user may see has another one. */
	return argc == 2 ? guarded(atoi(argv[1]), strstr(argv[0], "own") ? 0x2222222222220000u : 0x1111111111110000u) : 2;
}
