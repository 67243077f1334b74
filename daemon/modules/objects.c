/* SPDX-License-Identifier: MIT */
/* Objects of JIT compilers: each that is registered (GDB interface, or a jitdump's record) gets an unwind table: from
 * its unwind information, and from their instructions for functions that have none (LLVM writes none for those that
 * cannot throw).
 *
 *    jit__poll() finds objects -> give(): ELF image -> table__compile(), here or in a worker -> objects__done()
 *
 * A compiler may register hundreds of objects a second, and runs them at once. So small ones are done in the loop,
 * within the tick that found them. */
#include <string.h>

#include "base/array.h"
#include "base/order.h"
#include "elf/elf.h"
#include "modules/internal.h"

#define IMAGE_MAX (16u << 20)
#define OBJECTS_MAX 65536u
#define GIVE_MAX 512u /* at once; the others wait for the next tick */
/* Of more objects that are new at once all but the newest are deferred: who was compiled long ago hardly runs again. */
#define GIVE_NEWEST 8u
/* Tables of small objects are made in the loop, in some 0.1 ms: waking a worker, and being woken by it, takes as long,
 * and the samplers' list has them sooner. */
#define NOW_BYTES (64u << 10)
#define NOW_MAX 8u /* at once */

/* The lists of the JITs that this process has mapped. A JIT's list is found through the symbol __jit_debug_descriptor
 * of the library that has it, once its file was read. */
static void find_lists(struct modules_process *process)
{
	for (uint32_t i = 0; i < process->n; i++) {
		struct code *code = &process->code[i];

		if (code->descriptor || !code->biased || !code->file->descriptor_at)
			continue;
		code->descriptor = true;
		if (jit_files__jit(process))
			jit__add_descriptor(process->jit, code->file->descriptor_at + code->bias);
	}
}

/* The image is a copy of the object as it was before it was linked: its instructions are taken from
 * where they run. What cannot be read is gone. */
static void take_code(struct modules_process *process, char *bytes, uint64_t size)
{
	struct elf_bytes from;
	struct elf_image image;
	uint64_t left = size;

	elf_bytes__init_memory(&from, bytes, size);
	if (elf_image__open(&from, ELF_SECTIONS, &image))
		return;
	for (uint32_t i = 0; image.type == ET_REL && i < image.n_sections; i++) {
		const Elf64_Shdr *s = &image.sections[i];

		if (!(s->sh_flags & SHF_EXECINSTR) || s->sh_type != SHT_PROGBITS || !s->sh_addr ||
		    !elf_bytes__has(&from, s->sh_offset, s->sh_size) || s->sh_size > left)
			continue;
		left -= s->sh_size;
		/* A read that fails half-way may have written: no mixture. */
		if (process->mem.reader.read(&process->mem.reader, bytes + s->sh_offset, s->sh_size,
					     s->sh_addr))
			memset(bytes + s->sh_offset, 0, s->sh_size);
	}
	elf_image__free(&image);
}

/* The image of an object of the GDB interface: as jit/ copied it when it found it, or read now. Its instructions
 * are those in place. */
static int registered(struct modules_process *process, const struct jit_object *o, void **ret, size_t *ret_size)
{
	if ((!o->has_unwind && !o->n_symbols) || !o->image_size || o->image_size > IMAGE_MAX)
		return -ENOENT;
	if (jit__take_image(process->jit, o->id, ret, ret_size)) {
		*ret_size = o->image_size;
		*ret = malloc(o->image_size);
		if (!*ret || process->mem.reader.read(&process->mem.reader, *ret, o->image_size, o->image)) {
			free(*ret);
			*ret = NULL;
			return -ENOENT;
		}
	}
	take_code(process, *ret, *ret_size);
	return 0;
}

/* A perf map's object is a batch of lines, without code of its own. */
static int of_lines(struct modules_process *process, const struct jit_object *o, void **ret, size_t *ret_size)
{
	return -ENOENT; /* jit_tables.c */
}

/* How to get an object's ELF image, by where it came from. */
static int (*const images[])(struct modules_process *process, const struct jit_object *o, void **ret, size_t *ret_size) = {
	[JIT_SOURCE_GDB] = registered, [JIT_SOURCE_JITDUMP] = jit_tables__image, [JIT_SOURCE_PERF_MAP] = of_lines};

/* Has its table made: here, if it is small and not one of many, else by a worker. */
static void give(struct modules *modules, struct modules_process *process, const struct jit_object *o, uint32_t *now)
{
	struct job *job;

	if (o->life.died_by || process->n_objects == OBJECTS_MAX)
		return;
	job = calloc(1, sizeof(*job));
	if (!job)
		return;
	*job = (struct job){.fd = -1,
			    .tables = true,
			    .rank = JOB_WANTED, /* it runs now, and is small */
			    .object = o->id,
			    .pid = process->pid,
			    .process = process->id};
	if (images[o->source](process, o, &job->bytes, &job->size)) {
		job__free(job);
	} else if (job->size <= NOW_BYTES && *now < NOW_MAX) {
		++*now;
		worker__do(modules->worker, job);
		modules__done(modules, job);
	} else if (worker__give(modules->worker, job)) {
		job__free(job);
	}
}

/* NULL: it is not kept any more. */
static const struct jit_object *object_of(const struct modules_process *process, uint32_t id)
{
	const struct jit_object *o = jit__object(process->jit, id); /* it, or the next */

	return o && o->id == id ? o : NULL;
}

/* --- deferred objects: a table is made when a walk stops in one --- */

static uint32_t *find_deferred(const struct modules_process *process, uint32_t id)
{
	return process->n_deferred ? bsearch(&id, process->deferred, process->n_deferred, sizeof(id), order__u32) : NULL;
}

static bool defer(struct modules_process *process, uint32_t id)
{
	if (process->n_deferred == OBJECTS_MAX ||
	    ARRAY_RESERVE(process->deferred, process->n_deferred, process->deferred_capacity))
		return false;
	process->deferred[process->n_deferred++] = id;
	return true;
}

bool objects__is_deferred(const struct modules_process *process, uint64_t pc, uint64_t time)
{
	struct jit_found found;

	return process->n_deferred && !jit__find(process->jit, pc, time, &found) && find_deferred(process, found.object);
}

void objects__want(struct modules *modules, struct modules_process *process, uint32_t id)
{
	uint32_t *at = find_deferred(process, id), by_worker = NOW_MAX;
	const struct jit_object *o;

	if (!at)
		return;
	memmove(at, at + 1, (size_t)(&process->deferred[--process->n_deferred] - at) * sizeof(*at));
	o = object_of(process, id);
	if (o)
		give(modules, process, o, &by_worker);
}

static void remove_ended(struct modules_process *process)
{
	uint32_t i, kept = 0;

	for (i = 0; i < process->n_deferred; i++) {
		const struct jit_object *o = object_of(process, process->deferred[i]);

		if (o && !o->life.died_by)
			process->deferred[kept++] = process->deferred[i];
	}
	process->n_deferred = kept;
}

/* All of its objects were inherited. */
static bool has_table(const struct modules_process *process, uint32_t id)
{
	const struct object wanted = {.id = id};

	return bsearch(&wanted, process->objects, process->n_objects, sizeof(wanted), order__u32);
}

int objects__fork(struct modules_process *to, struct modules_process *from)
{
	int err = 0;

	to->inherited = true;
	to->objects = calloc(from->n_objects + 1, sizeof(*to->objects));
	if (!to->objects)
		return -ENOMEM;
	to->objects_capacity = from->n_objects + 1;
	for (uint32_t i = 0; !err && i < from->n_objects; i++) {
		const struct jit_object *o = jit__object(to->jit, from->objects[i].id);
		struct object *fresh = &to->objects[to->n_objects];

		if (!o || o->id != from->objects[i].id)
			continue;
		*fresh = from->objects[i];
		err = refcount__share(&from->objects[i].refcount, &fresh->refcount);
		to->n_objects += !err;
	}
	/* Tables come in no order. What the worker has in hand for the parent is made for the child, too. */
	qsort(to->objects, to->n_objects, sizeof(*to->objects), order__u32);
	return err;
}

static uint32_t count_new(const struct modules_process *process)
{
	const struct jit_object *o;
	uint32_t id = process->next_object, n = 0;

	for (; (o = jit__object(process->jit, id)); id = o->id + 1)
		n += o->source == JIT_SOURCE_GDB;
	return n;
}

/* True: all were given. At most GIVE_MAX in one tick: after an attach to a process with thousands of objects, the loop
 * must go on. */
static bool give_new(struct modules *modules, struct modules_process *process)
{
	uint32_t given = 0, now = 0, left = count_new(process);
	const struct jit_object *o;

	for (; (o = jit__object(process->jit, process->next_object)); process->next_object = o->id + 1) {
		bool is_old = o->source == JIT_SOURCE_GDB && left-- > GIVE_NEWEST;

		if (process->inherited && has_table(process, o->id))
			continue;
		if (is_old && defer(process, o->id))
			continue;
		if (!process->inherited && given++ == GIVE_MAX)
			return false;
		give(modules, process, o, &now);
	}
	return true;
}

/* `polled` moves only if everything is known: lists were read, all objects given to workers, files read to their
 * end. */
void objects__poll(struct modules *modules, struct modules_process *process, uint64_t now)
{
	bool news, all;
	int polled;

	find_lists(process);
	jit_files__scan(modules, process, now);
	news = jit_files__poll(modules, process, now);
	if (!process->jit)
		return;
	polled = jit__poll(process->jit, &process->mem.reader, process->inherited);
	all = !modules->tables || give_new(modules, process);
	if (polled >= 0 && all && jit_files__current(process))
		process->polled = now;
	news |= polled == 1 || process->inherited;
	process->inherited = false;
	if (!news)
		return;
	modules->answers++;
	objects__sweep(modules, process, now);
}

/* The process may be gone by now, or its objects dropped: then the table goes with the job. */
int objects__done(struct modules *modules, struct job *job)
{
	struct modules_process *process = modules->processes;
	struct object object = {.id = job->object};

	while (process && process->id != job->process)
		process = process->next;
	if (!process || process->closed)
		return 0;
	if (job->object == WORKER_JIT_BLOCK)
		return jit_tables__done(modules, process, job);
	if (!job->table)
		return 0;
	if (ARRAY_RESERVE(process->objects, process->n_objects, process->objects_capacity))
		return 0;
	if (!room__table(modules, job, &object.table))
		return -EAGAIN;
	if (!object.table.at)
		return 0;
	process->objects[process->n_objects++] = object;
	process->grown = true;
	return 0;
}

/* A table that forked children share goes with the last of them. */
static void drop(struct modules *modules, struct object *object, uint64_t now)
{
	if (!refcount__drop(&object->refcount))
		return;
	room__retire(modules, object->table.pool, object->table.at, object->table.size, now);
	modules->counts.table_bytes -= object->table.size;
}

/* Removes objects that ended OBJECT_KEPT_NS ago, from the front part (listed) and the rest, in one pass. */
void objects__sweep(struct modules *modules, struct modules_process *process, uint64_t now)
{
	uint64_t ends = jit__ends(process->jit);
	uint32_t i, kept = 0, listed = 0, ended = 0;

	if (ends == process->ends && !process->n_ended)
		return;
	remove_ended(process);
	for (i = 0; i < process->n_objects; i++) {
		struct object *object = &process->objects[i];
		const struct jit_object *o = object_of(process, object->id);

		if (o && (!o->life.died_by || now < o->life.died_by + OBJECT_KEPT_NS)) {
			ended += o->life.died_by != 0;
			process->objects[kept++] = *object;
		} else {
			drop(modules, object, now);
		}
		if (i < process->n_listed)
			listed = kept;
	}
	process->dirty |= ends != process->ends;
	process->ends = ends;
	process->n_ended = ended;
	process->n_objects = kept;
	process->n_listed = listed;
}

void objects__free(struct modules *modules, struct modules_process *process, uint64_t now)
{
	for (uint32_t i = 0; i < process->n_objects; i++)
		drop(modules, &process->objects[i], now);
	free(process->objects);
	free(process->deferred);
	process->objects = NULL;
	process->deferred = NULL;
	process->n_objects = process->n_deferred = 0;
}

bool modules__jit_files(const struct modules *modules)
{
	for (const struct modules_process *process = modules->processes; process; process = process->next)
		if (!process->closed && process->jit && jit__has_files(process->jit))
			return true;
	return false;
}
