/* SPDX-License-Identifier: MIT */
/* A PID namespace is known by the inode of /proc/PID/ns/pid; that of the kernel's first one is a constant. The
 * programs in the kernel compare pointers instead: namespace__describe() has one of them run here, and note its own
 * (bpf/ids.h). */
#include "broker/namespace.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <bpf/bpf.h>

#define FIRST 0xeffffffcu /* PROC_PID_INIT_INO, linux/proc_ns.h */

/* 0: it cannot be read. */
static uint32_t number_of(const char *path)
{
	struct stat stat_;

	return stat(path, &stat_) ? 0 : (uint32_t)stat_.st_ino;
}

uint32_t namespace__own(void)
{
	uint32_t number = number_of("/proc/self/ns/pid");

	return number == FIRST ? 0 : number;
}

/* /proc/self is resolved in the namespace that /proc was mounted for. */
bool namespace__has_proc(void)
{
	char self[16] = "";

	return readlink("/proc/self", self, sizeof(self) - 1) > 0 && atoi(self) == getpid();
}

/* pid 0: SO_PEERCRED has no number for a process outside of our namespace and those below it. */
bool namespace__is_other(pid_t pid)
{
	uint32_t number;
	char path[64];

	if (!pid)
		return true;
	snprintf(path, sizeof(path), "/proc/%d/ns/pid", pid);
	number = number_of(path);
	return number && number != number_of("/proc/self/ns/pid");
}

int namespace__describe(int program)
{
	LIBBPF_OPTS(bpf_test_run_opts, options);

	return bpf_prog_test_run_opts(program, &options) ? -errno : 0;
}
