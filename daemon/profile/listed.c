/* SPDX-License-Identifier: MIT */
/* What the engine knows of processes and threads without a record: what it found in /proc when a session began, or
 * by identifying a new process. Records and these reports may come in any order; records are more exact (ns instead
 * of 10 ms), so a report never overrides them. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "profile/internal.h"

int profile__process(struct profile *profile, const struct profile_process *told)
{
	struct process *process = tasks__find_process(
		&profile->tasks, told->tgid, told->process_start, told->exec, told->exec_known);
	char *name = told->name ? strdup(told->name) : NULL;

	if (told->name && !name)
		return -ENOMEM;
	if (!process)
		process = life__add_process(profile, told->tgid, told->process_start, told->time);
	if (!process) {
		free(name);
		return -ENOMEM;
	}
	life__show(profile, process, told->time);
	if (told->exec_known) {
		process->exec = told->exec;
		process->exec_known = true;
	}
	if (told->parent)
		process->parent = told->parent;
	free(process->name);
	process->name = name;
	process->lines = told->lines;
	process->runtime = told->runtime;
	process->runtime_end = told->runtime_end;
	strncpy(process->python, told->python ? told->python : "", PYTHON_LEN - 1);
	strncpy(process->unsupported, told->unsupported ? told->unsupported : "", PYTHON_LEN - 1);
	if (told->lines)
		profile->lines = told->lines;
	process->changed = true;
	return 0;
}

static struct thread *find(struct profile *profile, const struct profile_thread *told,
			   struct process **ret_process)
{
	*ret_process =
		tasks__find_process(&profile->tasks, told->tgid, told->process_start, 0, false);
	return *ret_process ? tasks__find_thread(&profile->tasks, *ret_process, told->tid,
						 told->thread_start)
			    : NULL;
}

/* The CPU time from /proc is a baseline that may be a scheduler tick old (`cpu_rough`, see cpu.c). */
int profile__thread_listed(struct profile *profile, const struct profile_thread *told)
{
	struct process *process;
	struct thread *thread = find(profile, told, &process);

	if (!process)
		return -ESRCH;
	if (process->ending || thread)
		return 0; /* records know it better */
	thread = life__add_thread(profile, process, told->tid, told->thread_start, told->time);
	if (!thread)
		return -ENOMEM;
	if (!thread->cpu_known && told->cpu_known) {
		thread->cpu_known = thread->cpu_rough = true;
		thread->cpu_seen = told->cpu_time;
	}
	if (told->name)
		strncpy(thread->comm, told->name, sizeof(thread->comm) - 1);
	return 0;
}

int profile__thread_cpu(struct profile *profile, const struct profile_thread *told)
{
	struct process *process;
	struct thread *thread = find(profile, told, &process);

	if (!thread)
		return -ESRCH;
	if (!thread->ending && !thread->lost && !process->withheld && told->cpu_known)
		thread->cpu_final = told->cpu_time;
	return 0;
}

int profile__process_gone(struct profile *profile, uint32_t tgid, uint64_t process_start,
			  uint64_t time)
{
	struct process *process;
	int err = -ESRCH;

	for (process = profile->tasks.processes; process; process = process->next)
		if (process->tgid == tgid && tasks__same_start(process->start, process_start)) {
			life__end_process(profile, process, time); /* of each image */
			err = 0;
		}
	return err;
}
