/* SPDX-License-Identifier: MIT */
/* Spins (or waits) in a place that a line on stdin names, until the next line: each letter but the last is a frame,
 * outermost first. Built twice: with -DLIBRARY as a shared library, and without as the program that calls it.
 *
 *   r N   recursion, N deep       l   through the shared library and back      q   as qsort's callback
 *   a     alloca                  b   a realigned stack                        s   in a signal's handler
 *   t     a handler on a stack of its own
 * and at the end: x spin here, y spin in the library, p call through the PLT, v call into the vDSO, w wait in
 * pause(), n wait in nanosleep(). A line "PATH\n" is answered by "PATH\n" when it is there. */
#include <alloca.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define APART __attribute__((noinline, noclone))

extern volatile unsigned long turn;      /* counts lines */
extern volatile unsigned long sink;
void library_through(void (*next)(const char *), const char *path);
void library_spin(unsigned long mine);
void library_nothing(void);

#ifdef LIBRARY
volatile unsigned long turn, sink;

APART static void library_inner(void (*next)(const char *), const char *path, int depth)
{
	char room[100];

	memset(room, depth, sizeof(room));
	if (depth)
		library_inner(next, path, depth - 1);
	else
		next(path);
	sink += (unsigned long)room[depth];
}

void library_through(void (*next)(const char *), const char *path)
{
	library_inner(next, path, 3);
	sink++;
}

void library_spin(unsigned long mine)
{
	while (turn == mine)
		sink++;
	sink++;
}

void library_nothing(void)
{
	sink++;
}
#else
static unsigned long mine;
static const char *signal_path;

static void step(const char *path);

/* Here a thread is when its place is reached: frames further in may come and go. */
APART void place_spin(void)
{
	while (turn == mine)
		sink++;
	sink++;
}

APART void place_library(void)
{
	library_spin(mine);
	sink++;
}

APART void place_plt(void)
{
	while (turn == mine)
		library_nothing();
	sink++;
}

APART void place_vdso(void)
{
	struct timespec now;

	while (turn == mine) {
		clock_gettime(CLOCK_MONOTONIC, &now);
		sink += (unsigned long)now.tv_nsec;
	}
	sink++;
}

APART void place_wait(void)
{
	while (turn == mine)
		pause();
	sink++;
}

APART void place_sleep(void)
{
	struct timespec until = {.tv_sec = 1000};

	while (turn == mine)
		nanosleep(&until, NULL);
	sink++;
}

APART void recurse(const char *path, int n)
{
	if (n)
		recurse(path, n - 1);
	else
		step(path);
	sink += (unsigned long)n;
}

static const char *sorted_path;

APART int compare(const void *a, const void *b)
{
	const char *path = sorted_path;

	sorted_path = NULL;
	if (path)
		step(path);
	sink++;
	return *(const int *)a - *(const int *)b;
}

APART void sort(const char *path)
{
	int numbers[] = {3, 1, 2};

	sorted_path = path;
	qsort(numbers, 3, sizeof(numbers[0]), compare);
	sink += (unsigned long)numbers[0];
}

APART void room(const char *path)
{
	char *bytes = alloca(strlen(path) * 48 + 8);

	memset(bytes, 1, 8);
	step(path);
	sink += (unsigned long)bytes[0];
}

APART void aligned(const char *path)
{
	char bytes[64 + strlen(path)] __attribute__((aligned(64)));

	memset(bytes, 1, sizeof(bytes));
	step(path);
	sink += (unsigned long)bytes[1];
}

APART void handler(int number)
{
	step(signal_path);
	sink++;
}

APART void by_signal(const char *path, int number)
{
	signal_path = path;
	raise(number);
	sink++;
}

APART static void step(const char *path)
{
	switch (*path) {
	case 'r':
		recurse(path + 2, path[1] - '0');
		break;
	case 'l':
		library_through(step, path + 1);
		break;
	case 'q':
		sort(path + 1);
		break;
	case 'a':
		room(path + 1);
		break;
	case 'b':
		aligned(path + 1);
		break;
	case 's':
		by_signal(path + 1, SIGUSR1);
		break;
	case 't':
		by_signal(path + 1, SIGUSR2);
		break;
	case 'x':
		place_spin();
		break;
	case 'y':
		place_library();
		break;
	case 'p':
		place_plt();
		break;
	case 'v':
		place_vdso();
		break;
	case 'w':
		place_wait();
		break;
	case 'n':
		place_sleep();
		break;
	}
	sink++;
}

static char line[256], next[256];
static pthread_t walker;

static void nothing(int number)
{
}

/* Reads lines while the first thread is where the last one said. */
APART static void *reader(void *arg)
{
	while (fgets(next, sizeof(next), stdin)) {
		turn++;
		/* Until it came out of its wait and took the line. */
		while (*next) {
			pthread_kill(walker, SIGALRM);
			usleep(1000);
		}
	}
	_exit(0);
}

int main(void)
{
	struct sigaction action = {.sa_handler = handler, .sa_flags = SA_NODEFER};
	stack_t stack = {.ss_size = 1 << 16};
	pthread_t thread;

	sigaction(SIGUSR1, &action, NULL);
	action.sa_flags |= SA_ONSTACK;
	sigaction(SIGUSR2, &action, NULL);
	action = (struct sigaction){.sa_handler = nothing};
	sigaction(SIGALRM, &action, NULL);
	stack.ss_sp = malloc(stack.ss_size);
	sigaltstack(&stack, NULL);
	walker = pthread_self();
	pthread_create(&thread, NULL, reader, NULL);
	for (;;) {
		while (!*next)
			usleep(500);
		strcpy(line, next);
		mine = turn;
		*next = '\0';
		usleep(3000); /* the reader's last signal */
		fputs(line, stdout);
		fflush(stdout);
		step(line);
	}
}
#endif
