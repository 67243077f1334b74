/* SPDX-License-Identifier: MIT */
/* Stacks of known shape, without frame pointers: recursion, callbacks out of libc, signal handlers, a stack
 * of variable size, system calls; in the first thread and in another. Runs for argv[1] seconds.
 * tests/live/native.py has the shapes. */
#include <alloca.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define APART __attribute__((noinline, noclone))

static volatile unsigned long sink;
static time_t until;

APART void spin(void)
{
	for (int i = 0; i < 20000; i++)
		sink += (unsigned long)i;
}

APART int recurse(int n)
{
	int got = 1;

	if (n)
		got += recurse(n - 1);
	else
		spin();
	sink += (unsigned long)got;
	return got;
}

APART int compare(const void *a, const void *b)
{
	for (int i = 0; i < 30; i++)
		sink += (unsigned long)i;
	return *(const int *)a - *(const int *)b;
}

APART void callbacks(void)
{
	int numbers[200];

	for (int i = 0; i < 200; i++)
		numbers[i] = (i * 7919) % 200;
	qsort(numbers, 200, sizeof(numbers[0]), compare);
	sink += (unsigned long)numbers[3];
}

APART void handler(int number)
{
	spin();
	sink++;
}

APART void signals(void)
{
	raise(SIGUSR1);
	sink++;
}

APART void room(size_t n)
{
	char *bytes = alloca(n);

	memset(bytes, 1, n);
	spin();
	sink += (unsigned long)bytes[n / 2];
}

APART void calls(void)
{
	char bytes[64];
	int pipes[2];

	if (pipe(pipes))
		return;
	for (int i = 0; i < 200; i++)
		sink += (unsigned long)write(pipes[1], bytes, sizeof(bytes)) + (unsigned long)read(pipes[0], bytes, sizeof(bytes));
	close(pipes[0]);
	close(pipes[1]);
}

APART void work(void)
{
	while (time(NULL) < until) {
		recurse(20);
		callbacks();
		signals();
		room(100 + sink % 5000);
		calls();
	}
	sink++;
}

APART void *thread_main(void *arg)
{
	work();
	sink++;
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t thread;

	until = time(NULL) + atoi(argv[1]);
	signal(SIGUSR1, handler);
	pthread_create(&thread, NULL, thread_main, NULL);
	work();
	pthread_join(thread, NULL);
	return sink == 42;
}
