/* SPDX-License-Identifier: MIT */
/* The CPU time of all descendants of a process: running children, found in /proc/PID/task/TID/children, and those
 * that ended and were waited for, whose time the kernel adds to the parent's cutime and cstime. If the descendants
 * took most of the time, the summary recommends -s. */
#include "cli/cli.h"

#include <dirent.h>

#include "broker/process.h"

#define THREADS_MAX 1024u /* in all: each thread has a list of children, which is one file to read */
/* of generations: bounds the recursion, for a tree that grows while it is read */
#define DEPTH_MAX 256u

/* The sum so far, and how much was read for it. */
struct family {
	uint64_t ticks;
	uint32_t threads;
};

static void add_children(struct family *family, pid_t pid, unsigned depth);

/* `waited` of a descendant is the time of its own children that have ended. One that its parent has not yet
 * waited for is a zombie, still listed among the children, so nothing counts twice. */
static void add_process(struct family *family, pid_t pid, unsigned depth)
{
	struct process_stat stat;

	if (depth > DEPTH_MAX || process__stat(pid, &stat))
		return;
	family->ticks += stat.ran_ticks + stat.waited_ticks;
	add_children(family, pid, depth);
}

/* The children that one thread forked. A kernel without CONFIG_PROC_CHILDREN has no such list. */
static void add_of_thread(struct family *family, pid_t pid, const char *tid, unsigned depth)
{
	char path[300];
	FILE *file;
	int child;

	snprintf(path, sizeof(path), "/proc/%d/task/%s/children", pid, tid);
	file = fopen(path, "re");
	if (!file)
		return;
	while (fscanf(file, "%d", &child) == 1)
		add_process(family, child, depth + 1);
	fclose(file);
}

static void add_children(struct family *family, pid_t pid, unsigned depth)
{
	struct dirent *entry;
	char path[64];
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	dir = opendir(path);
	/* A process or thread that ends meanwhile is skipped: its files are gone, and its time is in its
	 * parent's `waited`. The result is good enough for a hint. */
	while (dir && (entry = readdir(dir)))
		if (*entry->d_name != '.' && family->threads++ < THREADS_MAX)
			add_of_thread(family, pid, entry->d_name, depth);
	if (dir)
		closedir(dir);
}

bool family__cpu(pid_t pid, uint64_t *ret)
{
	struct family family = {};
	struct process_stat stat;

	if (process__stat(pid, &stat))
		return false;
	add_children(&family, pid, 0);
	/* The process's own time is not part of it, that of the children that it waited for is. */
	*ret = (stat.waited_ticks + family.ticks) * NS_PER_TICK;
	return family.threads <= THREADS_MAX;
}
