/* SPDX-License-Identifier: MIT */
/* The CPU time of all descendants of a process: running children, found in /proc/PID/task/TID/children, and those
 * that ended and were waited for, whose time the kernel adds to the parent's cutime and cstime. If the descendants
 * took most of the time, the summary recommends -s. */
#include "cli/family.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define THREADS_MAX 1024u /* in all: each thread has a list of children, which is one file to read */
/* of generations: bounds the recursion, for a tree that grows while it is read */
#define DEPTH_MAX 256u

/* The sum so far, and how much was read for it. */
struct family {
	uint64_t ticks; /* USER_HZ, usually 10 ms */
	uint32_t threads;
};

/* /proc/PID/stat: "pid (comm) state ... utime stime cutime cstime", fields 14 to 17. */
static bool read_times(pid_t pid, uint64_t *ret_own, uint64_t *ret_waited)
{
	unsigned long user, system;
	long waited_user, waited_system;
	char path[64], text[1024];
	const char *at;
	FILE *file;
	size_t n;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	file = fopen(path, "re");
	if (!file)
		return false;
	n = fread(text, 1, sizeof(text) - 1, file);
	fclose(file);
	text[n] = '\0';
	/* comm may hold blanks and parentheses itself. The last ')' is the end of it, as what follows are a
	 * letter and numbers. */
	at = strrchr(text, ')');
	if (!at || sscanf(at + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu %ld %ld", &user, &system, &waited_user,
			  &waited_system) != 4)
		return false;
	*ret_own = user + system;
	*ret_waited = (uint64_t)(waited_user + waited_system);
	return true;
}

static void add_children(struct family *family, pid_t pid, unsigned depth);

/* `waited` of a descendant is the time of its own children that have ended. One that its parent has not yet
 * waited for is a zombie, still listed among the children, so nothing counts twice. */
static void add_process(struct family *family, pid_t pid, unsigned depth)
{
	uint64_t own, waited;

	if (depth > DEPTH_MAX || !read_times(pid, &own, &waited))
		return;
	family->ticks += own + waited;
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
	const uint64_t tick = 1000000000u / (uint64_t)sysconf(_SC_CLK_TCK);
	struct family family = {};
	uint64_t own, waited;

	if (!read_times(pid, &own, &waited))
		return false;
	add_children(&family, pid, 0);
	/* The process's own time is not part of it, that of the children that it waited for is. */
	*ret = (waited + family.ticks) * tick;
	return family.threads <= THREADS_MAX;
}
