/* SPDX-License-Identifier: MIT */
/* Forked children: what their parent had at the fork is theirs. A fork copies the address space, so all mappings, JIT
 * objects and unwind tables hold for the child, too. Reading and building them anew for each child of a pool of
 * processes would take time, and the first samples would have no native stacks.
 *
 * Tables and lists are shared, with a count of references, until parent and child differ. NULL in place of a count
 * means one owner: most processes have no children. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "modules/internal.h"

int refcount__share(struct refcount **a, struct refcount **ret_b)
{
	if (!*a) {
		*a = malloc(sizeof(**a));
		if (!*a)
			return -ENOMEM;
		(*a)->n = 1;
	}
	(*a)->n++;
	*ret_b = *a;
	return 0;
}

bool refcount__drop(struct refcount **refcount)
{
	struct refcount *them = *refcount;

	*refcount = NULL;
	if (them && --them->n)
		return false;
	free(them);
	return true;
}

static bool same_image(const struct modules_process *a, const struct modules_process *b)
{
	return !memcmp(&a->key, &b->key, sizeof(a->key));
}

bool fork__is_eldest(const struct modules *modules, const struct modules_process *process)
{
	for (const struct modules_process *p = modules->processes; p; p = p->next)
		if (!p->closed && p->id < process->id && same_image(p, process))
			return false;
	return true;
}

struct modules_process *fork__eldest(const struct modules *modules, const struct image_key *image)
{
	struct modules_process *eldest = NULL;

	for (struct modules_process *p = modules->processes; p; p = p->next)
		if (!p->closed && (!eldest || p->id < eldest->id) && !memcmp(&p->key, image, sizeof(*image)))
			eldest = p;
	return eldest;
}

/* By comparing bytes: lists are small (32 bytes a range), and equal ones are frequent after forks. */
struct modules_process *fork__twin(struct modules *modules, struct modules_process *process,
				   const void *list, size_t size)
{
	if (process->list && process->list_size == size && !memcmp(process->list, list, size))
		return process;
	for (struct modules_process *p = modules->processes; p; p = p->next)
		if (p != process && p->list && p->list_size == size && same_image(p, process) &&
		    !memcmp(p->list, list, size))
			return p;
	return NULL;
}

/* --- a child --- */

/* Mappings that may have come after the fork are left out: if the child has them, its own /proc/PID/maps says so. */
static int fork_code(struct modules_process *to, const struct modules_process *from, uint64_t time)
{
	to->code = calloc(from->n + 1, sizeof(*to->code));
	if (!to->code)
		return -ENOMEM;
	for (uint32_t i = 0; i < from->n; i++)
		if (from->code[i].born <= time)
			to->code[to->n++] = from->code[i];
	to->maps_hash = to->n == from->n ? from->maps_hash : 0;
	return 0;
}

static int fork_jit(struct modules_process *to, struct modules_process *from, uint64_t time)
{
	int err = jit__fork(from->jit, time, &to->jit);

	if (err)
		return err;
	jit__set_origin(to->jit, (uint32_t)to->id);
	to->polled = from->polled < time ? from->polled : time;
	return objects__fork(to, from);
}

struct modules_process *modules__fork_process(struct modules *modules, int32_t pid, uint64_t parent,
					      uint64_t time, uint64_t now)
{
	struct modules_process *from = modules__numbered(modules, parent), *process;
	int err;

	process = from ? processes__add(modules, pid, &from->key, time) : NULL;
	if (!process)
		return NULL;
	process->read_at = process->read_end = time;
	process->runtime = from->runtime;
	process->interpreter = from->interpreter;
	err = fork_code(process, from, time);
	if (!err && from->jit)
		err = fork_jit(process, from, time);
	if (err) { /* its own files of /proc are all it has */
		processes__undo(modules, process, now);
		return NULL;
	}
	/* A list of before the fork holds for both. */
	process->dirty = !from->list || from->dirty || from->grown || from->list_at > time ||
			 process->n != from->n ||
			 !lists__share(modules, from, process, now);
	return process;
}
