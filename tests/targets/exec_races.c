/* SPDX-License-Identifier: MIT */
/* For tests/live/exec_races.py: keeps a secret on its stack, burns and sleeps, until it is killed.
 *
 *     exec_races LOG    a descriptor: gets CLOCK_MONOTONIC, ns, of when it has begun
 *
 * As a library it gives its process many threads: crowd(). */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define LIVES_MS 60000u
#define BACK_MS 100u
#define GUARDED_MASK 0x1111111111110000u
#define OWN_MASK 0x2222222222220000u

static volatile uint64_t sink;
static unsigned pause_us;

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

/* The time is up to when its secret is there. */
static uint64_t guarded(int log, uint64_t mask, unsigned lives_ms)
{
	volatile uint64_t secret[512];
	unsigned i;

	/* The pattern is made here only, so that no file and no argument holds it. */
	for (i = 0; i < 512; i++)
		secret[i] = 0x5ec7e75ec7e70000u ^ mask;
	dprintf(log, "%llu\n", (unsigned long long)now());
	for (i = 0; i < lives_ms / 5; i++) {
		burn(3000000);
		usleep(2000);
	}
	memset((void *)secret, 0, sizeof(secret));
	return now();
}

/* A setuid program that becomes its user again, as sudo does, and runs a program of the user's. */
static int back(char *program, int log, char *log_word)
{
	char *name = strstr(program, "back");

	dprintf(log, "%llu\n", (unsigned long long)guarded(log, GUARDED_MASK, BACK_MS));
	if (setresgid(getgid(), getgid(), getgid()) || setresuid(getuid(), getuid(), getuid()))
		return 3;
	memcpy(name, "own", 4);
	execl(program, program, log_word, NULL);
	return 4;
}

static void *member(void *unused)
{
	for (;;) {
		burn(5000);
		usleep(pause_us);
	}
	return NULL;
}

/* n threads that run and sleep, and need no interpreter's lock for it: together they take a few hundredths of a CPU. How many there are. */
int crowd(int n)
{
	pthread_attr_t attr;
	pthread_t thread;
	int i;

	pause_us = n < 200 ? 20000 : (unsigned)n * 200;
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 32768);
	for (i = 0; i < n; i++)
		if (pthread_create(&thread, &attr, member, NULL))
			break;
	return i;
}

int main(int argc, char **argv)
{
	int log = argc == 2 ? atoi(argv[1]) : -1;

	if (log < 0)
		return 2;
	if (strstr(argv[0], "back"))
		return back(argv[0], log, argv[1]);
	/* What the user may see has another one. */
	guarded(log, strstr(argv[0], "own") ? OWN_MASK : GUARDED_MASK, LIVES_MS);
	return 0;
}
