/* SPDX-License-Identifier: MIT */
#include "cli/family.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"

#define PROCESSES_MAX 8192u

struct relative {
	pid_t pid, parent;
	uint64_t own, waited; /* ticks of the kernel's clock for people */
	bool descends;
};

/* /proc/PID/stat: "pid (comm) state ppid ... utime stime cutime cstime", fields 4 and 14 to 17. */
static bool read_stat(const char *pid, struct relative *ret)
{
	unsigned long user, system;
	long waited_user, waited_system;
	char path[300], text[1024];
	const char *at;
	int parent;
	FILE *file;
	size_t n;

	snprintf(path, sizeof(path), "/proc/%s/stat", pid);
	file = fopen(path, "re");
	if (!file)
		return false;
	n = fread(text, 1, sizeof(text) - 1, file);
	fclose(file);
	text[n] = '\0';
	at = strrchr(text, ')');
	if (!at || sscanf(at + 1, " %*c %d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu %ld %ld", &parent, &user, &system, &waited_user,
			  &waited_system) != 5)
		return false;
	*ret = (struct relative){
		.pid = atoi(pid), .parent = parent, .own = user + system, .waited = (uint64_t)(waited_user + waited_system)};
	return true;
}

static bool read_all(struct buf *all)
{
	struct dirent *entry;
	struct relative one;
	DIR *dir = opendir("/proc");
	int err = 0;

	if (!dir)
		return false;
	while (!err && (entry = readdir(dir)))
		if (*entry->d_name >= '0' && *entry->d_name <= '9' && read_stat(entry->d_name, &one))
			err = all->len / sizeof(one) < PROCESSES_MAX ? buf__append(all, &one, sizeof(one)) : -1;
	closedir(dir);
	return !err;
}

/* Parents may stand behind their children: until there is nothing new. */
static void mark(struct relative *all, size_t n, pid_t pid)
{
	bool more = true;
	size_t i, k;

	while (more) {
		more = false;
		for (i = 0; i < n; i++) {
			if (all[i].descends)
				continue;
			for (k = 0; k < n && !(all[k].pid == all[i].parent && (all[k].pid == pid || all[k].descends)); k++)
				;
			more |= all[i].descends = k < n;
		}
	}
}

bool family__cpu(pid_t pid, uint64_t *ret)
{
	const uint64_t tick = 1000000000u / (uint64_t)sysconf(_SC_CLK_TCK);
	bool known = false;
	struct buf all = {};
	struct relative *relatives;
	uint64_t ticks = 0;
	size_t i, n;

	if (read_all(&all)) {
		relatives = (struct relative *)all.data;
		n = all.len / sizeof(*relatives);
		mark(relatives, n, pid);
		for (i = 0; i < n; i++) {
			known |= relatives[i].pid == pid;
			if (relatives[i].pid == pid)
				ticks += relatives[i].waited;
			else if (relatives[i].descends)
				ticks += relatives[i].own + relatives[i].waited;
		}
	}
	buf__free(&all);
	*ret = ticks * tick;
	return known;
}
