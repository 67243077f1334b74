/* SPDX-License-Identifier: MIT */
/* What the engine knows of processes and threads without a record: what it found in /proc when a session began, or
 * by identifying a new process. Records and these reports may come in any order; records are more exact (ns instead
 * of 10 ms), so a report never overrides them. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "profile/internal.h"

int profile__process(struct profile *profile, const struct profile_process *info)
{
	struct process *process = tasks__find_process(
		&profile->tasks, info->tgid, info->process_start, info->exec, info->exec_known);
	char *name = info->name ? strdup(info->name) : NULL;

	if (info->name && !name)
		return -ENOMEM;
	if (!process)
		process = life__add_process(profile, info->tgid, info->process_start, info->time);
	if (!process) {
		free(name);
		return -ENOMEM;
	}
	life__show(profile, process, info->time);
	process->authorised = true;
	if (info->exec_known) {
		process->exec = info->exec;
		process->exec_known = true;
	}
	if (info->parent)
		process->parent = info->parent;
	free(process->name);
	process->name = name;
	process->lines = info->lines;
	process->runtime = info->runtime;
	process->runtime_end = info->runtime_end;
	strncpy(process->python, info->python ? info->python : "", PYTHON_LEN - 1);
	strncpy(process->unsupported, info->unsupported ? info->unsupported : "", PYTHON_LEN - 1);
	if (info->container)
		strncpy(process->container, info->container, CONTAINER_ID_LEN);
	if (info->lines)
		profile->lines = info->lines;
	process->changed = true;
	return 0;
}

void profile__authorised(struct profile *profile, uint32_t tgid, uint64_t process_start, uint32_t exec)
{
	struct process *process = tasks__find_process(&profile->tasks, tgid, process_start, exec, true);

	if (process)
		process->authorised = true;
}

static struct thread *find(struct profile *profile, const struct profile_thread *info,
			   struct process **ret_process)
{
	*ret_process =
		tasks__find_process(&profile->tasks, info->tgid, info->process_start, 0, false);
	return *ret_process ? tasks__find_thread(&profile->tasks, *ret_process, info->tid,
						 info->thread_start)
			    : NULL;
}

/* The CPU time from /proc is a baseline that may be a scheduler tick old (`cpu_base`, see cpu.c). */
static struct thread *add(struct profile *profile, struct process *process, const struct profile_thread *info)
{
	struct thread *thread = life__add_thread(profile, process, info->tid, info->thread_start, info->time);

	if (!thread)
		return NULL;
	if (!thread->cpu_known && info->cpu_known) {
		thread->cpu_known = true;
		thread->cpu_base = CPU_LISTED;
		thread->cpu_seen = info->cpu_time;
	}
	if (info->name)
		strncpy(thread->comm, info->name, sizeof(thread->comm) - 1);
	return thread;
}

int profile__thread_listed(struct profile *profile, const struct profile_thread *info)
{
	struct process *process;
	struct thread *thread = find(profile, info, &process);

	if (!process)
		return -ESRCH;
	if (process->ending)
		return 0;
	if (!thread) /* records know it better */
		thread = add(profile, process, info);
	if (thread && info->exec_time)
		life__since_exec(thread, info->exec_time, info->exec_cpu);
	return thread ? 0 : -ENOMEM;
}

int profile__thread_cpu(struct profile *profile, const struct profile_thread *info)
{
	struct process *process;
	struct thread *thread = find(profile, info, &process);

	if (!thread)
		return -ESRCH;
	if (!thread->ending && !thread->lost && !process->withheld && info->cpu_known)
		thread->cpu_final = info->cpu_time;
	return 0;
}

int profile__process_gone(struct profile *profile, uint32_t tgid, uint64_t process_start,
			  uint64_t time)
{
	int err = -ESRCH;

	for (struct process *process = profile->tasks.processes; process; process = process->next)
		if (process->tgid == tgid && tasks__same_start(process->start, process_start)) {
			life__end_process(profile, process, time); /* of each image */
			err = 0;
		}
	return err;
}
