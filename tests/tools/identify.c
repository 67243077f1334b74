/* SPDX-License-Identifier: MIT */
/* Prints which CPython a process runs: "3.11.2 runtime 0x... code_type 0x...".
 * identify PID. Exit status 1: refused, and the reason is printed. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "broker/process.h"
#include "target/process.h"

int main(int argc, char **argv)
{
	struct process_fds fds = PROCESS_FDS_NONE;
	struct target_process process;
	struct target_problem problem;
	struct timespec begin, end;
	struct process_stat stat;
	struct image_key key;
	struct image image;
	char version[32];
	pid_t pid;
	int err;

	if (argc != 2)
		return 2;
	pid = atoi(argv[1]);
	err = process__open(pid, &fds, &stat);
	if (err) {
		printf("%s\n", broker_error__sentence(process__error(err)));
		return 1;
	}
	clock_gettime(CLOCK_MONOTONIC, &begin);
	key = (struct image_key){.arg_start = stat.arg_start, .start_data = stat.start_data};
	err = target_process__init(&process, pid, fds.mem, fds.maps, key);
	if (!err)
		err = target__identify(&process, &image, &key, version, &problem);
	clock_gettime(CLOCK_MONOTONIC, &end);
	if (err)
		printf("%s: %s\n", target_problem__sentence(problem.kind), problem.detail);
	else
		printf("%s runtime 0x%llx code_type 0x%llx\n", version, (unsigned long long)image.runtime,
		       (unsigned long long)image.code_type);
	fprintf(stderr, "%.2f ms\n", (double)(end.tv_sec - begin.tv_sec) * 1e3 +
					     (double)(end.tv_nsec - begin.tv_nsec) / 1e6);
	target_process__free(&process);
	process__close(&fds);
	return err ? 1 : 0;
}
