/* SPDX-License-Identifier: MIT */
/* Life of a code map, the generations of its answers, and what the loop asks of it. */
#include <errno.h>
#include <stdlib.h>

#include "codemap/internal.h"
#include "base/clock.h"

/* --- how long an answer holds --- */

/* Sums of counters. Two different states may have the same sum only if the counters moved against each other; they
 * only grow, and the factor (2^64 / golden ratio) keeps the namer's from being confused with modules'. */
struct code_generations codemap__generations(struct codemap *self, const struct record_task *task, uint64_t time)
{
	struct modules_process *process = task ? modules__of_task(self->modules, task, time) : NULL;

	return (struct code_generations){
		.all = (self->modules ? modules__changes(self->modules, process, time) : 0) +
		       self->namer->changes * 0x9e3779b97f4a7c15ull,
		.stable = modules__stable(process, time) + self->namer->renewed * 0x9e3779b97f4a7c15ull,
	};
}

uint32_t codemap__build_id(const struct codemap *self, uint64_t module, const uint8_t **ret)
{
	const struct module *found = module < self->n_files ? self->files[module].module : NULL;

	if (!found)
		return 0;
	*ret = found->build_id;
	return found->build_id_size;
}

uint64_t codemap__lines_generation(const struct codemap *self)
{
	return self->namer->changes + self->namer->lines_taken;
}

void codemap__new_epoch(struct codemap *self)
{
	known_names__new_epoch(&self->known);
}

/* --- what else is asked --- */

int codemap__eval_known(struct codemap *self, const struct record_task *task, uint64_t time)
{
	struct modules_process *process = modules__of_task(self->modules, task, time);
	const struct module *module = process ? modules__interpreter(process) : NULL;
	struct module_names *names = module ? files__names(self, module, (int32_t)task->tgid) : NULL;
	const struct eval_ranges *eval;
	int err;

	if (!names)
		return process && !module && modules_process__is_new(process, clock__now()) ? -EAGAIN : 0;
	if (!names->names)
		return modules__awaited(module) == -EAGAIN ? -EAGAIN : 0;
	err = names__eval(names->names, &eval);
	return err == -EAGAIN ? err : !err;
}

int codemap__read(struct codemap *self, const struct record_task *task, uint64_t time, uint64_t address, void *dst,
		  size_t size)
{
	struct modules_process *process =
		self->modules ? modules__process(self->modules, (int32_t)task->tgid, time) : NULL;

	return process && address ? modules_process__read(process, address, dst, size) : -EFAULT;
}

/* --- the loop that drives it --- */

void codemap__tick(struct codemap *self)
{
	if (!self)
		return;
	self->ticks++;
	namer__tick(self->namer);
}

bool codemap__reads(const struct codemap *self)
{
	return self && self->namer->reads;
}

bool codemap__waits(const struct codemap *self)
{
	return self && self->namer->waiting;
}

int codemap__event(const struct codemap *self)
{
	return self->namer->event;
}

/* --- life --- */

int codemap__new(struct modules *modules, bool kernel, int folder, struct codemap **ret)
{
	struct codemap *self = calloc(1, sizeof(*self));
	int err = self ? namer__new(folder, &self->namer) : -ENOMEM;

	err = err ?: hash_seed__draw(&self->known.seed);
	if (!err) {
		self->modules = modules;
		self->kernel = kernel ? namer__add_kernel(self->namer) : NULL;
		*ret = self;
	} else {
		codemap__free(self);
	}
	return err;
}

struct codemap *codemap__free(struct codemap *self)
{
	if (!self)
		return NULL;
	namer__free(self->namer, &self->known);
	free(self->files);
	free(self->objects);
	intern__free(&self->object_numbers);
	known_names__free(&self->known);
	symbol__free(&self->symbol);
	buf__free(&self->display);
	free(self);
	return NULL;
}
