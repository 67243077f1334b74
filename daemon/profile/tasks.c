/* SPDX-License-Identifier: MIT */
/* Processes and threads by pid and start time, as a pid alone comes again. A start is compared in clock ticks: the
 * sampler's is in ns, that of /proc in 1/100 s. */
#include "profile/tasks.h"

#include <stdlib.h>
#include <string.h>

/* USER_HZ is 100 on every architecture that this project knows. */
#define PROC_TICK_NS 10000000ull

static uint32_t bucket(uint32_t pid)
{
	return (pid ^ pid / TASKS_BUCKETS) % TASKS_BUCKETS;
}

bool tasks__same_start(uint64_t a, uint64_t b)
{
	return a / PROC_TICK_NS == b / PROC_TICK_NS;
}

void tasks__init(struct tasks *tasks)
{
	memset(tasks, 0, sizeof(*tasks));
	tasks->processes_end = &tasks->processes;
	tasks->threads_end = &tasks->threads;
}

void memo__free(struct memo *memo, struct tasks *tasks)
{
	tasks->memo_bytes -= (uint64_t)memo->capacity * sizeof(*memo->frames);
	free(memo->frames);
	*memo = (struct memo){};
}

static void free_thread(struct tasks *tasks, struct thread *thread)
{
	memo__free(&thread->memo, tasks);
	tasks->bytes -= sizeof(*thread);
	free(thread);
}

static void free_process(struct tasks *tasks, struct process *process)
{
	tasks->bytes -= sizeof(*process);
	free(process->name);
	free(process);
}

void tasks__free(struct tasks *tasks)
{
	while (tasks->threads) {
		struct thread *thread = tasks->threads;

		tasks->threads = thread->next;
		free_thread(tasks, thread);
	}
	while (tasks->processes) {
		struct process *process = tasks->processes;

		tasks->processes = process->next;
		free_process(tasks, process);
	}
}

/* exec_known: exactly that image; or the running image whose exec count is unknown. Otherwise the newest image of
 * the process. */
struct process *tasks__find_process(const struct tasks *tasks, uint32_t tgid, uint64_t start,
				    uint32_t exec, bool exec_known)
{
	struct process *process, *found = NULL;

	for (process = tasks->process_buckets[bucket(tgid)]; process;
	     process = process->same_bucket) {
		if (process->tgid != tgid || !tasks__same_start(process->start, start))
			continue;
		if (exec_known && process->exec_known && process->exec == exec)
			return process;
		/* Newest first: the image that it runs now, if its count is open. */
		if (!found && (!exec_known || (!process->exec_known && !process->ending)))
			found = process;
	}
	return found;
}

struct process *tasks__add_process(struct tasks *tasks, uint32_t tgid, uint64_t start)
{
	struct process *process = calloc(1, sizeof(*process));
	struct process **head = &tasks->process_buckets[bucket(tgid)];

	if (!process)
		return NULL;
	process->tgid = tgid;
	process->start = start;
	process->id = ID_NONE;
	process->same_bucket = *head;
	*head = process;
	*tasks->processes_end = process;
	tasks->processes_end = &process->next;
	tasks->n_processes++;
	tasks->bytes += sizeof(*process);
	return process;
}

struct thread *tasks__find_thread(const struct tasks *tasks, const struct process *process,
				  uint32_t tid, uint64_t start)
{
	struct thread *thread = tasks->thread_buckets[bucket(tid)];

	while (thread && (thread->tid != tid || thread->process != process ||
			  !tasks__same_start(thread->start, start)))
		thread = thread->same_bucket;
	return thread;
}

struct thread *tasks__add_thread(struct tasks *tasks, struct process *process, uint32_t tid,
				 uint64_t start)
{
	struct thread *thread = calloc(1, sizeof(*thread));
	struct thread **head = &tasks->thread_buckets[bucket(tid)];

	if (!thread)
		return NULL;
	thread->tid = tid;
	thread->start = start;
	thread->process = process;
	thread->id = ID_NONE;
	thread->same_bucket = *head;
	*head = thread;
	*tasks->threads_end = thread;
	tasks->threads_end = &thread->next;
	process->living++;
	tasks->n_threads++;
	tasks->bytes += sizeof(*thread);
	return thread;
}

/* Unlinks the ended ones while walking the list, and builds the buckets anew. A thread's process lives as long as
 * the thread: it ends later. */
void tasks__renew(struct tasks *tasks)
{
	struct thread **thread_at = &tasks->threads, *thread;
	struct process **process_at = &tasks->processes, *process;

	memset(tasks->process_buckets, 0, sizeof(tasks->process_buckets));
	memset(tasks->thread_buckets, 0, sizeof(tasks->thread_buckets));
	while ((thread = *thread_at)) {
		if (thread->ended) {
			*thread_at = thread->next;
			tasks->n_threads--;
			free_thread(tasks, thread);
			continue;
		}
		thread->id = ID_NONE;
		memo__free(&thread->memo, tasks);
		thread->same_bucket = tasks->thread_buckets[bucket(thread->tid)];
		tasks->thread_buckets[bucket(thread->tid)] = thread;
		thread_at = &thread->next;
	}
	tasks->threads_end = thread_at;
	while ((process = *process_at)) {
		if (process->ended) {
			*process_at = process->next;
			tasks->n_processes--;
			free_process(tasks, process);
			continue;
		}
		process->id = ID_NONE;
		process->same_bucket = tasks->process_buckets[bucket(process->tgid)];
		tasks->process_buckets[bucket(process->tgid)] = process;
		process_at = &process->next;
	}
	tasks->processes_end = process_at;
	tasks->n_ended = 0;
}
