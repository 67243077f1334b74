/* SPDX-License-Identifier: MIT */
/* Every input that is kept (tests/fuzz/corpus/TARGET/), once through its target: what fuzzing found stays found, with any compiler.
 *
 *     replay DIR    DIR/fuzz_x/... through the target fuzz_x */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* Each target's function is called as its file (Makefile): X(name). */
#define X(name) int name##_input(const uint8_t *data, size_t size);
#include "tests/fuzz/targets.inc"
#undef X

static const struct target {
	const char *name;
	int (*input)(const uint8_t *data, size_t size);
} targets[] = {
#define X(name) {#name, name##_input},
#include "tests/fuzz/targets.inc"
#undef X
};

static void replay(const struct target *target, const char *path)
{
	FILE *file = fopen(path, "re");
	struct stat status;
	uint8_t *data;
	size_t size;

	if (!file || fstat(fileno(file), &status)) {
		perror(path);
		exit(1);
	}
	size = (size_t)status.st_size;
	data = malloc(size ? size : 1); /* its own block: one byte too far is seen */
	if (!data || fread(data, 1, size, file) != size)
		exit(1);
	fclose(file);
	fprintf(stderr, "%s\n", path); /* for who reads how it ended */
	target->input(data, size);
	free(data);
}

/* How many there were. */
static unsigned replay_all(const struct target *target, const char *directory)
{
	char path[4096];
	struct dirent *entry;
	unsigned n = 0;
	DIR *dir;

	snprintf(path, sizeof(path), "%s/%s", directory, target->name);
	dir = opendir(path);
	while (dir && (entry = readdir(dir))) {
		snprintf(path, sizeof(path), "%s/%s/%s", directory, target->name, entry->d_name);
		if (entry->d_name[0] != '.') {
			replay(target, path);
			n++;
		}
	}
	if (dir)
		closedir(dir);
	return n;
}

int main(int argc, char **argv)
{
	unsigned n = 0, failed = 0;
	size_t i;

	for (i = 0; i < sizeof(targets) / sizeof(targets[0]) && argc == 2; i++) {
		int status, pipes[2];
		unsigned some = 0;
		pid_t child;

		if (pipe(pipes) || (child = fork()) < 0)
			return 1;
		if (!child) {
			some = replay_all(&targets[i], argv[1]);
			if (write(pipes[1], &some, sizeof(some)) != sizeof(some))
				return 1;
			exit(0); /* leaks are looked for there */
		}
		close(pipes[1]);
		if (read(pipes[0], &some, sizeof(some)) == sizeof(some))
			n += some;
		close(pipes[0]);
		if (waitpid(child, &status, 0) != child || status) {
			printf("[  FAILED  ] %s: status %d\n", targets[i].name, status);
			failed++;
		}
	}
	printf("[  PASSED  ] %u inputs of %zu targets.\n", n, i);
	return failed || !n;
}
