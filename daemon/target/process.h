/* SPDX-License-Identifier: MIT */
/* A process of the target, accessed through the descriptors that the broker passed: its memory, its mappings, and which
 * CPython it runs. Nothing here opens a path or needs privileges; all bytes read are the target's and may be anything.
 * Threads: one at a time for each struct target_process.
 */
#pragma once

#include <sys/types.h>

#include "cprofd/record.h"
#include "target/maps.h"

/* Reads all `size` bytes from /proc/PID/mem: 0, -EFAULT, or -ETIMEDOUT if a file system does not deliver the page
 * (base/blocking.h). */
int process_memory__read(int mem, void *dst, size_t size, uint64_t address);

/* The same as a reader. `fd`: /proc/PID/mem, borrowed. */
struct memory_reader {
	struct host_reader reader;
	int fd;
};
struct memory_reader memory_reader__of(int fd);

/* Made for one purpose (to identify a Python, or for a dump), and freed afterwards. */
struct target_process {
	struct host_reader reader; /* reads `mem`; -EFAULT for memory that cannot be read */
	pid_t pid;
	int mem, maps_fd;          /* borrowed: /proc/PID/mem, /proc/PID/maps */
	struct image_key key;      /* as the broker sent it */
	struct maps maps;
	bool mute;                 /* a read of its memory timed out */
	bool lacks_memory;         /* our own memory ran out */
};

/* Reads the mappings. -ESRCH: the process ended or runs another image now. -ENOMEM. */
int target_process__init(struct target_process *process, pid_t pid, int mem, int maps_fd,
			 struct image_key key);
void target_process__free(struct target_process *process);

/* X(id, sentence): why a process cannot be walked as a Python. */
#define TARGET_PROBLEMS(X) \
	X(NONE, "no problem") \
	X(NOT_PYTHON, "no CPython was found in this process") \
	X(GONE, "the process ended, or runs another program now") \
	X(NO_SYMBOL, "its Python lacks a symbol that is needed") \
	X(NO_VERSION, "it looks like a Python, but its version could not be read") \
	X(UNSUPPORTED, "this version of Python is not supported (%s are)") \
	X(LAYOUT, "the structure layout of this Python could not be determined") \
	X(STARTING, "its Python has not started yet, or its version could not be read") \
	X(MUTE, "its memory does not answer: a file system keeps a page of it back") \
	X(NO_MEMORY, "there is no memory left to look into it")
#define TARGET_PROBLEM_ENUM(id, sentence) TARGET_PROBLEM_##id,
enum target_problem_kind { TARGET_PROBLEMS(TARGET_PROBLEM_ENUM) TARGET_PROBLEM_COUNT };
#undef TARGET_PROBLEM_ENUM
const char *target_problem__sentence(enum target_problem_kind kind); /* valid until the thread's next call */

struct target_problem {
	enum target_problem_kind kind;
	char detail[192];          /* a version, a module or a symbol; or "" */
};

/* Finds the CPython: the address of its runtime, and its layout. `version` becomes "3.11.2", "3.14.0t". 0, or -errno
 * with *ret_problem: -ENOENT not a Python, -ENOTSUP not a supported one, -EBADMSG inconsistent, -ESRCH gone, -EAGAIN
 * try again in some ms, -ENOMEM. *ret_key is set in every case. */
int target__identify(struct target_process *process, struct image *ret_image,
		     struct image_key *ret_key, char version[32],
		     struct target_problem *ret_problem);
