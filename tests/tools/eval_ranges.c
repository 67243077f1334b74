/* SPDX-License-Identifier: MIT */
/* eval_ranges FILE [--no-names]: where the eval loop lies in a module, a line for each range:
 * start, end (hexadecimal vaddrs), mark, and how it was found. --no-names: only what .dynsym
 * exports is known. */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "weave/eval_ranges.h"

/* A copy of the file without .symtab, as strip leaves it. */
static int strip(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC), copy = fileno(tmpfile());
	Elf64_Ehdr head;
	char bytes[65536];
	ssize_t n;

	while ((n = read(fd, bytes, sizeof(bytes))) > 0)
		if (write(copy, bytes, (size_t)n) != n)
			exit(1);
	if (pread(copy, &head, sizeof(head), 0) != sizeof(head))
		exit(1);
	for (unsigned i = 0; i < head.e_shnum; i++) {
		off_t at = (off_t)(head.e_shoff + i * sizeof(Elf64_Shdr));
		Elf64_Shdr section;

		if (pread(copy, &section, sizeof(section), at) != sizeof(section))
			exit(1);
		if (section.sh_type != SHT_SYMTAB)
			continue;
		section.sh_type = SHT_NULL;
		if (pwrite(copy, &section, sizeof(section), at) != sizeof(section))
			exit(1);
	}
	close(fd);
	return copy;
}

int main(int argc, char **argv)
{
	static const char *const roles[] = {
		[WEAVE_EVAL] = "eval", [WEAVE_HANDLER] = "handler", [WEAVE_CODE] = "code"};
	struct symbol_file *symbols;
	struct elf_bytes file;
	struct eval_ranges ranges;
	struct timespec a, b;
	int fd, err;
	uint32_t i;

	if (argc < 2)
		return 2;
	fd = argc > 2 ? strip(argv[1]) : open(argv[1], O_RDONLY | O_CLOEXEC);
	if (fd < 0 || elf_bytes__init_fd(&file, fd) ||
	    symbol_file__open(dup(fd), NULL, NULL, &symbols)) {
		fprintf(stderr, "%s: cannot be opened\n", argv[1]);
		return 1;
	}
	clock_gettime(CLOCK_MONOTONIC, &a);
	err = eval_ranges__find(&file, symbols, &ranges);
	clock_gettime(CLOCK_MONOTONIC, &b);
	fprintf(stderr, "%.1f ms, %s\n",
		(double)(b.tv_sec - a.tv_sec) * 1e3 + (double)(b.tv_nsec - a.tv_nsec) / 1e6,
		err ? strerror(-err) : "found");
	for (i = 0; !err && i < ranges.n; i++) {
		const struct eval_range *range = &ranges.ranges[i];

		printf("%llx %llx %s %s\n", (unsigned long long)range->start,
		       (unsigned long long)range->end, roles[range->role],
		       range->by_jumps ? "jumps" : "name");
	}
	eval_ranges__free(&ranges);
	symbol_file__free(symbols);
	close(fd);
	return err ? 1 : 0;
}
