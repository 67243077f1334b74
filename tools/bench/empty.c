/* SPDX-License-Identifier: MIT */
/* Ticks of an empty BPF program on every thread of a process: what a timer costs before
 * anything is done in it.   empty OBJECT PID RATE SECONDS [PROGRAM...]
 * PROGRAM: empty_switch or filter_switch, at each switch of any thread as well; filter_waking, at each wake-up. */
#include <dirent.h>
#include <errno.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <bpf/libbpf.h>

int main(int argc, char **argv)
{
	struct perf_event_attr attr = {.type = PERF_TYPE_SOFTWARE,
				       .size = sizeof(attr),
				       .config = PERF_COUNT_SW_CPU_CLOCK,
				       .inherit = 1,
				       .inherit_thread = 1};
	struct bpf_object *object;
	struct dirent *entry;
	char path[64];
	int prog, i, n = 0;
	DIR *tasks;

	if (argc < 5) {
		fprintf(stderr, "usage: empty OBJECT PID RATE SECONDS [PROGRAM...]\n");
		return 2;
	}
	attr.sample_period = 1000000000ull / strtoul(argv[3], NULL, 10);
	object = bpf_object__open_file(argv[1], NULL);
	if (!object || bpf_object__load(object)) {
		fprintf(stderr, "empty: cannot load %s\n", argv[1]);
		return 1;
	}
	for (i = 5; i < argc; i++)
		if (!bpf_program__attach(bpf_object__find_program_by_name(object, argv[i]))) {
			fprintf(stderr, "empty: cannot attach %s\n", argv[i]);
			return 1;
		}
	prog = bpf_program__fd(bpf_object__next_program(object, NULL));
	snprintf(path, sizeof(path), "/proc/%s/task", argv[2]);
	tasks = opendir(path);
	if (!tasks) {
		perror(path);
		return 1;
	}
	while ((entry = readdir(tasks))) {
		int fd;

		if (entry->d_name[0] == '.')
			continue;
		fd = syscall(SYS_perf_event_open, &attr, atoi(entry->d_name), -1, -1, PERF_FLAG_FD_CLOEXEC);
		if (fd < 0 || ioctl(fd, PERF_EVENT_IOC_SET_BPF, prog)) {
			fprintf(stderr, "empty: thread %s: %s\n", entry->d_name, strerror(errno));
			return 1;
		}
		n++;
	}
	closedir(tasks);
	printf("ready %d\n", n);
	fflush(stdout);
	sleep(atoi(argv[4]));
	bpf_object__close(object);
	return 0;
}
