/* Objects of JIT compilers: each that is registered with unwind information gets a table. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "modules/internal.h"

#define IMAGE_MAX (16u << 20)
#define OBJECTS_MAX 65536u

/* The lists of the JITs that this process has mapped. */
static void find_lists(struct modules_process *process)
{
	uint32_t i;

	for (i = 0; i < process->n; i++) {
		struct code *code = &process->code[i];

		if (code->descriptor || !code->biased || !code->file->descriptor_at)
			continue;
		code->descriptor = true;
		if (!process->jit && !jit__new(NULL, &process->jit))
			jit__set_maker(process->jit, (uint32_t)process->id);
		if (process->jit)
			jit__add_descriptor(process->jit, code->file->descriptor_at + code->bias);
	}
}

static void give(struct modules *modules, struct modules_process *process,
		 const struct jit_object *o)
{
	struct job *job;

	if (o->source != JIT_SOURCE_GDB || !o->has_unwind || o->life.died_by || !o->image_size ||
	    o->image_size > IMAGE_MAX || process->n_objects == OBJECTS_MAX)
		return;
	job = calloc(1, sizeof(*job));
	if (!job)
		return;
	*job = (struct job){.fd = -1,
			    .bytes = malloc(o->image_size),
			    .size = o->image_size,
			    .tables = true,
			    .object = o->id,
			    .pid = process->pid,
			    .process = process->id};
	if (!job->bytes ||
	    process->mem.reader.read(&process->mem.reader, job->bytes, job->size, o->image) ||
	    worker__give(modules->worker, job))
		job__free(job);
}

void objects__poll(struct modules *modules, struct modules_process *process, uint64_t now)
{
	const struct jit_object *o;

	find_lists(process);
	if (!process->jit)
		return;
	if (jit__poll(process->jit, &process->mem.reader, process->inherited) != 1 &&
	    !process->inherited)
		return;
	process->inherited = false;
	modules->answers++;
	if (modules->tables)
		for (; (o = jit__object(process->jit, process->next_object));
		     process->next_object = o->id + 1)
			give(modules, process, o);
	objects__sweep(modules, process, now);
}

int objects__done(struct modules *modules, struct job *job)
{
	struct modules_process *process = modules->processes;
	struct object object = {.id = job->object}, *objects;

	while (process && process->id != job->process)
		process = process->next;
	if (!process || process->closed)
		return 0;
	process->done_object = job->object;
	if (!job->table)
		return 0;
	if (process->n_objects == process->objects_capacity) {
		uint32_t capacity = process->objects_capacity ? process->objects_capacity * 2 : 64;

		objects = reallocarray(process->objects, capacity, sizeof(*objects));
		if (!objects)
			return 0;
		process->objects = objects;
		process->objects_capacity = capacity;
	}
	if (!room__table(modules, job, &object.table))
		return -EAGAIN;
	if (!object.table.at)
		return 0;
	process->objects[process->n_objects++] = object;
	process->dirty = true;
	modules->counts.jit_tables++;
	return 0;
}

static void drop(struct modules *modules, struct object *object, uint64_t now)
{
	if (!sharers__leave(&object->sharers))
		return;
	room__retire(modules, object->table.pool, object->table.at, object->table.size, now);
	modules->counts.table_bytes -= object->table.size;
	modules->counts.jit_tables--;
}

void objects__sweep(struct modules *modules, struct modules_process *process, uint64_t now)
{
	uint32_t i, kept = 0;

	for (i = 0; i < process->n_objects; i++) {
		struct object *object = &process->objects[i];
		const struct jit_object *o = jit__object(process->jit, object->id);

		if (o && o->id == object->id && !o->life.died_by)
			process->objects[kept++] = *object;
		else
			drop(modules, object, now);
	}
	if (kept != process->n_objects)
		process->dirty = true;
	process->n_objects = kept;
}

void objects__free(struct modules *modules, struct modules_process *process, uint64_t now)
{
	uint32_t i;

	for (i = 0; i < process->n_objects; i++)
		drop(modules, &process->objects[i], now);
	free(process->objects);
	process->objects = NULL;
	process->n_objects = 0;
}
