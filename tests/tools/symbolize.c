/* SPDX-License-Identifier: MIT */
/* Prints what the symbols stage tells of a file, for tests that compare it with
 * other tools.
 *
 *	symbolize find FILE [--no-debug]      vaddrs (hex) on stdin -> "vaddr start offset source name";
 *	                                      "vaddr - start size": a function without a name; "vaddr -": nothing
 *	symbolize lines FILE                  vaddrs on stdin -> "vaddr file:line:column"
 *	symbolize names [--jit]               manglings on stdin -> names for people
 *	symbolize kallsyms FILE               addresses on stdin -> "address name [module]"
 *	symbolize debuginfod FILE             as find, with the debug file that servers have
 *	symbolize stats FILE                  time and size of the index
 *	symbolize bench FILE                  vaddrs on stdin; time of resolving each, cold and
 *cached
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "symbols/symbols.h"

static const char *const source_words[] = {
#define SOURCE_WORD(id, word) [SYMBOL_FROM_##id] = word,
	SYMBOL_SOURCES(SOURCE_WORD)};

static int open_path(void *context, const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

	return fd < 0 ? -1 : fd;
}

static const struct symbol_opener opener = {.open = open_path};

static double now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static struct symbol_file *open_file(const char *path, int with_debug)
{
	struct symbol_file *file;
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	int err = fd < 0 ? -1 : symbol_file__open(fd, path, with_debug ? &opener : NULL, &file);

	if (!err)
		return file;
	fprintf(stderr, "%s: %d\n", path, err);
	exit(1);
}

static struct symbol_file *open_kernel(const char *path)
{
	struct symbol_file *file;
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	int err = fd < 0 ? -1 : symbol_file__open_kallsyms(fd, &file);

	if (!err)
		return file;
	fprintf(stderr, "%s: %d\n", path, err);
	exit(1);
}

static int next_address(unsigned long long *ret)
{
	return scanf("%llx", ret) == 1;
}

static void find(struct symbol_file *file, int kernel)
{
	struct symbol symbol = {};
	unsigned long long vaddr;

	while (next_address(&vaddr)) {
		int err = symbol_file__find(file, vaddr, &symbol);

		if (err == -ENOENT && !kernel && symbol.size)
			printf("%llx - %llx %llx\n", vaddr, (unsigned long long)symbol.start, (unsigned long long)symbol.size);
		else if (err)
			printf("%llx -\n", vaddr);
		else if (kernel)
			printf("%llx %llx %s %s\n", vaddr, (unsigned long long)symbol.start,
			       symbol.name.data, symbol.module.data);
		else
			printf("%llx %llx %llx %s%s %s\n", vaddr, (unsigned long long)symbol.start,
			       (unsigned long long)symbol.offset,
			       source_words[symbol.source], symbol.extended ? "+" : "",
			       symbol.name.data);
	}
	symbol__free(&symbol);
}

static void lines(struct symbol_file *file)
{
	struct source_line found;
	unsigned long long vaddr;

	while (next_address(&vaddr)) {
		if (symbol_file__line(file, vaddr, &found))
			printf("%llx -\n", vaddr);
		else
			printf("%llx %s:%u:%u\n", vaddr, found.file ? found.file : "?", found.line,
			       found.column);
	}
}

static void names(bool jit)
{
	struct buf out = {};
	char *line = NULL;
	size_t room = 0;
	ssize_t len;

	while ((len = getline(&line, &room, stdin)) > 0) {
		if (line[len - 1] == '\n')
			line[--len] = '\0';
		buf__clear(&out);
		if (symbol__display(line, (size_t)len, jit, &out))
			exit(1);
		printf("%.*s\n", (int)out.len, out.data);
	}
	free(line);
	buf__free(&out);
}

static void stats(const char *path)
{
	double begin = now_ms();
	struct symbol_file *file =
		!strcmp(path, "/proc/kallsyms") ? open_kernel(path) : open_file(path, 1);
	double end = now_ms();
	struct symbol_stats s;
	unsigned i;

	symbol_file__stats(file, &s);
	printf("%.1f ms, %zu bytes", end - begin, s.bytes);
	for (i = 0; i < SYMBOL_SOURCE_COUNT; i++)
		if (s.symbols[i])
			printf(", %s %u", source_words[i], s.symbols[i]);
	printf("\n");
	symbol_file__free(file);
}

static void debuginfod(const char *path)
{
	struct symbol_file *file = open_file(path, 0);
	struct debuginfod_job *job;
	const uint8_t *id;
	size_t len = symbol_file__build_id(file, &id);
	int fd = -1, err = debuginfod_job__start(id, len, &job);

	if (err) {
		const char *urls = getenv("DEBUGINFOD_URLS");

		printf("%s\n", urls && *urls ? "no libdebuginfod" : "not asked");
		symbol_file__free(file);
		return;
	}
	do {
		usleep(20000);
		fd = debuginfod_job__take(job);
	} while (fd == -EAGAIN);
	debuginfod_job__free(job);
	if (fd < 0 || symbol_file__add_debug_file(file, fd))
		printf("nothing: %d\n", fd);
	else
		find(file, 0);
	symbol_file__free(file);
}

static void bench(const char *path)
{
	struct symbol_file *file = open_file(path, 0);
	unsigned long long *addresses = NULL;
	struct symbol symbol = {};
	struct buf name = {};
	size_t n = 0, room = 0, i;
	double t[3];

	for (;;) {
		if (n == room)
			addresses =
				realloc(addresses, (room = room * 2 + 1024) * sizeof(*addresses));
		if (!next_address(&addresses[n]))
			break;
		n++;
	}
	t[0] = now_ms();
	for (i = 0; i < n; i++)
		symbol_file__find(file, addresses[i], &symbol);
	t[1] = now_ms();
	for (i = 0; i < n; i++) {
		buf__clear(&name);
		if (!symbol_file__find(file, addresses[i], &symbol))
			symbol__display(symbol.name.data, symbol.name.len, false, &name);
	}
	t[2] = now_ms();
	printf("%zu addresses: find %.2f us, with the name for people %.2f us\n", n,
	       (t[1] - t[0]) * 1e3 / (double)(n + !n), (t[2] - t[1]) * 1e3 / (double)(n + !n));
	buf__free(&name);
	symbol_file__free(file);
	symbol__free(&symbol);
	free(addresses);
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "", *path = argc > 2 ? argv[2] : "";
	struct symbol_file *file = NULL;

	if (!strcmp(what, "names")) {
		names(argc > 2);
	} else if (!strcmp(what, "stats") && argc > 2) {
		stats(path);
	} else if (!strcmp(what, "bench") && argc > 2) {
		bench(path);
	} else if (!strcmp(what, "debuginfod") && argc > 2) {
		debuginfod(path);
	} else if (!strcmp(what, "find") && argc > 2) {
		find(file = open_file(path, argc == 3), 0);
	} else if (!strcmp(what, "lines") && argc > 2) {
		lines(file = open_file(path, 1));
	} else if (!strcmp(what, "kallsyms") && argc > 2) {
		find(file = open_kernel(path), 1);
	} else {
		fputs("symbolize find|lines|names|kallsyms|stats|bench [FILE]\n", stderr);
		return 2;
	}
	symbol_file__free(file);
	return 0;
}
