/* SPDX-License-Identifier: MIT */
/* Prints what Python code can call in a module: address, kind, name. callables FILE */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "classes/callables.h"

int main(int argc, char **argv)
{
	struct callables callables;
	struct elf_bytes file;
	uint32_t i;
	int err, fd = argc == 2 ? open(argv[1], O_RDONLY) : -1;

	if (fd < 0 || elf_bytes__init_fd(&file, fd))
		return 2;
	err = callables__find(&file, &callables);
	if (err) {
		fprintf(stderr, "%s: %s\n", argv[1], strerror(-err));
		return 1;
	}
	for (i = 0; i < callables.n; i++)
		printf("%llx %llx %u %s\n", (unsigned long long)callables.rows[i].start,
		       (unsigned long long)(callables.rows[i].end - callables.rows[i].start),
		       callables.rows[i].kind, callables.rows[i].name ? callables.rows[i].name : "");
	for (i = 0; i < callables.n_candidates; i++)
		printf("  %llx %u %s\n", (unsigned long long)callables.candidates[i].start, callables.candidates[i].kind,
		       callables.candidates[i].name);
	callables__free(&callables);
	return 0;
}
