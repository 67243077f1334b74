/* SPDX-License-Identifier: MIT */
/* A small program without Python, as births.py makes it: `alpha` for a quarter of MS of its own CPU time, then `beta` for the rest. What each took
 * goes to a slot of the memory that it was given. births MS MIXED NUMBER SLOT FD */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

struct told {
	double cpu[2], wall[2];
};

static double now(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

__attribute__((noinline)) void alpha(double until)
{
	while (now(CLOCK_THREAD_CPUTIME_ID) < until)
		;
	__asm__ volatile("");
}

__attribute__((noinline)) void beta(double until)
{
	while (now(CLOCK_THREAD_CPUTIME_ID) < until)
		;
	__asm__ volatile("");
}

int main(int argc, char **argv)
{
	double ms = atof(argv[1]), cpu[3], wall[3];
	int i, mixed = atoi(argv[2]), number = atoi(argv[3]), slot = atoi(argv[4]);
	size_t size = (slot + 1) * sizeof(struct told);
	struct told *told = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, atoi(argv[5]), 0);

	if (argc < 6 || told == MAP_FAILED)
		return 1;
	for (i = 0; i < 3; i++) {
		cpu[i] = now(CLOCK_THREAD_CPUTIME_ID);
		wall[i] = now(CLOCK_MONOTONIC);
		if (i == 0 && (!mixed || number % 2))
			alpha(cpu[0] + ms / 4e3);
		if (i == 1 && (!mixed || number % 2 == 0))
			beta(cpu[1] + ms * 3 / 4e3);
	}
	for (i = 0; i < 2; i++) {
		told[slot].cpu[i] = cpu[i + 1] - cpu[i];
		told[slot].wall[i] = wall[i + 1] - wall[i];
	}
	return 0;
}
