/* SPDX-License-Identifier: MIT */
/* Files of /proc that anyone may read, about a target and about the engine itself: start times, names and CPU time of
 * threads, the command line, the container. Files that need privileges (mem, maps) are opened by the broker instead. Formats: proc(5).
 *
 * All of it is a snapshot of a process that runs on, and may be gone: each function has an answer for that. Text is
 * read by blocking__read(), as cmdline lies in the target's memory, where a page fault may hang. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>

#include "base/blocking.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "broker/process.h"
#include "serve/engine.h"

/* Reads a small file: bytes, NUL-terminated; -errno. */
static ssize_t slurp(const char *path, char *ret, size_t size)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -errno : blocking__read(fd, ret, size - 1);

	if (n < 0)
		return n;
	ret[n] = '\0';
	return n;
}

int proc__open_task(const struct record_task *task, const char *name)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/proc/%u/task/%u/%s", task->tgid, task->tid, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

/* Start of a task (boottime ns), from the text of its stat file. */
static bool parse_start(const char *stat, uint64_t *ret)
{
	const char *at = strrchr(stat, ')'); /* a comm may hold anything, ')' too */
	uint64_t ticks;

	if (!at)
		return false;
	/* field 22, starttime, is the 20th after the comm */
	if (sscanf(at + 1, " %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %" SCNu64,
		   &ticks) != 1)
		return false;
	*ret = clock__of_proc(ticks * NS_PER_TICK);
	return true;
}

/* Its name and CPU time: as the session begins (so that an idle thread is there, too), or at its end (`end`: what it
 * ran since its last sample). */
static void announce_thread(struct session *session, const struct tracee *tracee, int tid, bool end)
{
	char path[96], text[1024], comm[32] = "";
	struct profile_thread thread = {.tgid = (uint32_t)tracee->pid,
					.tid = (uint32_t)tid,
					.process_start = tracee->start,
					.name = comm,
					.time = engine__now()};
	ssize_t n;

	/* A session of a process counts what it may see, which the broker's answer says; who sees a host sees all. */
	if (session->host && tid == tracee->pid) {
		thread.exec_time = tracee->exec_time;
		thread.exec_cpu = tracee->exec_cpu;
	}
	snprintf(path, sizeof(path), "/proc/%d/task/%d/stat", tracee->pid, tid);
	if (slurp(path, text, sizeof(text)) < 0 || !parse_start(text, &thread.thread_start))
		return;
	snprintf(path, sizeof(path), "/proc/%d/task/%d/comm", tracee->pid, tid);
	n = slurp(path, comm, sizeof(comm));
	if (n > 0 && comm[n - 1] == '\n')
		comm[n - 1] = '\0';
	snprintf(path, sizeof(path), "/proc/%d/task/%d/schedstat", tracee->pid, tid);
	if (slurp(path, text, sizeof(text)) > 0)
		thread.cpu_known = sscanf(text, "%" SCNu64, (uint64_t *)&thread.cpu_time) == 1;
	if (end)
		profile__thread_cpu(session->profile, &thread);
	else
		profile__thread_listed(session->profile, &thread);
}

/* Threads that begin while the directory is read may be missed here; the sampler reports their clone. */
void proc__threads(struct session *session, const struct tracee *tracee, bool end)
{
	char path[64];
	struct dirent *entry;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/task", tracee->pid);
	dir = opendir(path);
	if (!dir)
		return;
	while ((entry = readdir(dir)))
		if (entry->d_name[0] != '.')
			announce_thread(session, tracee, atoi(entry->d_name), end);
	closedir(dir);
}

ssize_t proc__text(int32_t pid, const char *name, char *ret, size_t size)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/%s", pid, name);
	return slurp(path, ret, size);
}

/* A kernel thread, or a process that is exiting, has an empty cmdline. Control characters become spaces: the text ends
 * on terminals. */
void proc__command(int32_t pid, char *ret, size_t size)
{
	ssize_t n = proc__text(pid, "cmdline", ret, size);

	if (n <= 0)
		n = proc__text(pid, "comm", ret, size);
	if (n <= 0) {
		*ret = '\0';
		return;
	}
	while (n && (ret[n - 1] == '\0' || ret[n - 1] == '\n'))
		ret[--n] = '\0';
	for (ssize_t i = 0; i < n; i++)
		if ((unsigned char)ret[i] < ' ')
			ret[i] = ' ';
}

int proc__container(int32_t pid, char ret[CONTAINER_ID_LEN + 1])
{
	char text[8192];
	ssize_t n = proc__text(pid, "cgroup", text, sizeof(text));

	if (n < 0)
		return (int)n;
	container__id(text, (size_t)n, ret);
	return 0;
}

/* "Uid:\t1000\t1000\t1000\t1000": real, effective, saved, of file systems. The kernel escapes newlines of the name above. */
int proc__uid(int32_t pid, uint32_t *ret)
{
	char text[1024];
	const char *at;
	ssize_t n = proc__text(pid, "status", text, sizeof(text));

	if (n < 0)
		return (int)n;
	at = strstr(text, "\nUid:\t");
	return at && sscanf(at, "\nUid:\t%" SCNu32, ret) == 1 ? 0 : -EBADMSG;
}

int proc__cpu_time(int32_t pid, uint64_t *ret)
{
	char text[128];
	ssize_t n = proc__text(pid, "schedstat", text, sizeof(text));

	if (n < 0)
		return (int)n;
	return sscanf(text, "%" SCNu64, ret) == 1 ? 0 : -EBADMSG;
}

/* A zombie is not alive: it runs nothing any more. Start times are compared in 10 ms, the precision of /proc (USER_HZ
 * is 100). */
bool proc__alive(int32_t pid, uint64_t start)
{
	char path[64], text[1024];
	const char *at;
	uint64_t now = 0;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	if (slurp(path, text, sizeof(text)) <= 0 || !parse_start(text, &now))
		return false;
	at = strrchr(text, ')');
	if (at[1] == ' ' && (at[2] == 'Z' || at[2] == 'X'))
		return false;
	return !start || now / PROC_START_NS == start / PROC_START_NS;
}

void proc__boot_id(char *ret, size_t size)
{
	ssize_t n = slurp("/proc/sys/kernel/random/boot_id", ret, size);

	if (n < 0)
		n = 0;
	while (n && ret[n - 1] == '\n')
		n--;
	ret[n] = '\0';
}

/* The first of its CPUs names the model; the engine sees no /sys, where libc looks for their number first. */
void proc__machine(char *ret, size_t size)
{
	char text[1024], model[128] = "CPU of an unknown model";
	const char *at = slurp("/proc/cpuinfo", text, sizeof(text)) > 0 ? strstr(text, "model name") : NULL;

	if (at)
		sscanf(at, "model name : %127[^\n]", model);
	snprintf(ret, size, "%s, %ld CPUs", model, sysconf(_SC_NPROCESSORS_ONLN));
}

/* /proc/self/statm: its sixth number is data + stack, in pages. */
uint64_t proc__own_data(void)
{
	unsigned long long pages = 0;
	char text[256];

	if (slurp("/proc/self/statm", text, sizeof(text)) <= 0 || sscanf(text, "%*u %*u %*u %*u %*u %llu", &pages) != 1)
		return 0;
	return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* smaps_rollup needs CONFIG_PROC_PAGE_MONITOR; without it RSS, the second number of statm. */
uint64_t proc__own_memory(void)
{
	char text[4096];
	const char *at;

	if (slurp("/proc/self/smaps_rollup", text, sizeof(text)) > 0 && (at = strstr(text, "\nPss:")))
		return strtoull(at + 5, NULL, 10) * 1024;
	if (slurp("/proc/self/statm", text, sizeof(text)) > 0 && (at = strchr(text, ' ')))
		return strtoull(at, NULL, 10) * (uint64_t)sysconf(_SC_PAGESIZE);
	return 0;
}
