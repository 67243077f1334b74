/* SPDX-License-Identifier: MIT */
/* Reading a process's memory and mappings through descriptors (process.h). Reads go through base/blocking.h, because a
 * page of a FUSE file can make them hang. */
#include "target/process.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "base/blocking.h"

static const char *const sentences[] = {
#define TARGET_SENTENCE(id, sentence) [TARGET_PROBLEM_##id] = sentence,
	TARGET_PROBLEMS(TARGET_SENTENCE)
};

/* Only one sentence has a part that is not constant: the versions that are supported. */
const char *target_problem__sentence(enum target_problem_kind kind)
{
	static _Thread_local char with_versions[96];

	if (kind == TARGET_PROBLEM_UNSUPPORTED) {
		snprintf(with_versions, sizeof(with_versions), sentences[kind], py_versions);
		return with_versions;
	}
	return (unsigned)kind < TARGET_PROBLEM_COUNT ? sentences[kind] : "an unknown problem";
}

int process_memory__read(int mem, void *dst, size_t size, uint64_t address)
{
	size_t done = 0;

	/* Upper half: the kernel's addresses, which pread() would take for negative offsets. */
	if (address >> 63 || address + size < address)
		return -EFAULT;
	/* Short reads end at a page that is missing; the next read says why. */
	while (done < size) {
		ssize_t got = blocking__pread(mem, (char *)dst + done, size - done, address + done);

		if (got == -EINTR)
			continue;
		if (got <= 0)
			return got == -ETIMEDOUT ? -ETIMEDOUT : -EFAULT;
		done += (size_t)got;
	}
	return 0;
}

/* Address 0 is a NULL pointer of the target's: no system call for it. */
static int read_fd(struct host_reader *self, void *dst, size_t size, uint64_t address)
{
	return address ? process_memory__read(((const struct memory_reader *)self)->fd, dst, size, address) : -EFAULT;
}

struct memory_reader memory_reader__of(int fd)
{
	return (struct memory_reader){.reader.read = read_fd, .fd = fd};
}

/* As host_reader: any error is -EFAULT, and that a read timed out is remembered for the message. */
static int read_mem(struct host_reader *self, void *dst, size_t size, uint64_t address)
{
	struct target_process *process =
		(struct target_process *)((char *)self - offsetof(struct target_process, reader));
	int err = process_memory__read(process->mem, dst, size, address);

	process->mute |= err == -ETIMEDOUT;
	return err ? -EFAULT : 0;
}

int target_process__init(struct target_process *process, pid_t pid, int mem, int maps_fd,
			 struct image_key key)
{
	*process = (struct target_process){
		.reader = {.read = read_mem},
		.pid = pid,
		.mem = mem,
		.maps_fd = maps_fd,
		.key = key,
	};
	return maps__read(maps_fd, &process->maps);
}

void target_process__free(struct target_process *process)
{
	maps__free(&process->maps);
}
