/* SPDX-License-Identifier: MIT */
/* What tables cost: unwind_bench FILE...  Of each file, in a process of its own: time to compile
 * (the best of 5, page cache warm, and the first), to write to and load from the cache, rows,
 * rules, size, and how much the process grew at its peak. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "unwind/unwind.h"

struct sink {
	struct unwind_sink sink;
	void *memory;
};

static void *sink_allot(struct unwind_sink *self, size_t size)
{
	struct sink *sink = (struct sink *)self;

	free(sink->memory);
	sink->memory = calloc(1, size);
	return sink->memory;
}

static double now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static long peak_kb(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return usage.ru_maxrss;
}

/* Of all files; in memory that their processes share. */
static struct {
	unsigned long files, rows, bytes;
} *sums;

static int bench(const char *path)
{
	struct sink sink = {.sink.allot = sink_allot};
	char directory[] = "/tmp/unwind_bench.XXXXXX";
	double begin, first = 0, best = 1e9, store, load;
	struct unwind_cache cache;
	struct elf_bytes file;
	struct unwind_table *t = NULL, head;
	long before = peak_kb(), peak = 0;
	int fd = open(path, O_RDONLY | O_CLOEXEC), i, err;

	if (fd < 0 || elf_bytes__init_fd(&file, fd))
		return perror(path), 1;
	for (i = 0; i < 5; i++) {
		begin = now_ms();
		err = table__compile(&file, &sink.sink, &t);
		if (err)
			return fprintf(stderr, "%s: %s\n", path, strerror(-err)), 1;
		begin = now_ms() - begin;
		if (!i) {
			first = begin;
			peak = peak_kb();
		}
		if (begin < best)
			best = begin;
	}
	head = *t;
	sums->files++;
	sums->rows += head.changes;
	sums->bytes += table__size(&head);
	if (!mkdtemp(directory))
		return perror(directory), 1;
	cache.directory = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	begin = now_ms();
	err = cache__store(&cache, t);
	store = now_ms() - begin;
	begin = now_ms();
	if (!err)
		err = cache__load(&cache, &head.identity, &sink.sink, &t);
	load = now_ms() - begin;
	printf("%s\n    compiled in %.1f ms (first %.1f); cache: written in %.1f ms, loaded in "
	       "%.1f ms%s\n",
	       path, best, first, store, load, err ? " FAILED" : "");
	printf("    %u functions, %u rows, %u words of rules, %u pages of %u bytes\n",
	       head.functions, head.changes, head.n_rules, head.pages, 1u << head.shift);
	printf("    %.2f MB, %.2f bytes a row; peak of the compiler %.1f MB with the table\n",
	       (double)table__size(&head) / 1e6,
	       (double)table__size(&head) / (head.changes + !head.changes),
	       (double)(peak - before) / 1e3);
	cache__trim(&cache, 0);
	rmdir(directory);
	return err != 0;
}

int main(int argc, char **argv)
{
	int i, status, bad = argc < 2;

	sums = mmap(NULL, sizeof(*sums), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (sums == MAP_FAILED)
		return 1;
	for (i = 1; i < argc; i++) {
		pid_t pid;

		fflush(stdout);
		pid = fork();
		if (!pid)
			return bench(argv[i]) | fflush(stdout);
		if (pid < 0 || waitpid(pid, &status, 0) != pid || status)
			bad = 1;
	}
	printf("%lu files: %.2f bytes a row\n", sums->files, (double)sums->bytes / (double)(sums->rows + !sums->rows));
	return bad;
}
