/* SPDX-License-Identifier: MIT */
/* A code map that a test makes up: the functions of codemap/codemap.h that profile and dump call, by those that the
 * test fills in. In one file of a program alone, which is linked without daemon/codemap then. */
#pragma once

#include <errno.h>

#include "codemap/codemap.h"

struct codemap {
	int (*find)(struct codemap *self, const struct record_task *task, uint64_t address, uint64_t time,
		    struct code_location *ret);
	int (*name)(struct codemap *self, uint64_t module, uint64_t vaddr, struct code_location *ret);
	uint64_t (*changes)(struct codemap *self, const struct record_task *task, uint64_t time);
	int (*eval_known)(struct codemap *self, const struct record_task *task, uint64_t time);
	/* NULL: none is known. */
	int (*line)(struct codemap *self, uint64_t module, uint64_t vaddr, const char **ret_file, uint32_t *ret_line,
		    uint32_t *ret_column);
	/* NULL: there are none. */
	uint32_t (*build_id)(uint64_t module, const uint8_t **ret);
	/* NULL: it does not walk. */
	int (*walk)(struct codemap *self, const struct sample *sample, bool last, struct part_native_frames *ret);
	/* NULL: changes(). */
	uint64_t (*stable)(struct codemap *self, const struct record_task *task, uint64_t time);
};

int codemap__find(struct codemap *self, const struct record_task *task, uint64_t address, uint64_t time,
		  struct code_location *ret)
{
	return self->find(self, task, address, time, ret);
}

int codemap__locate(struct codemap *self, const struct record_task *task, uint64_t address, uint64_t time,
		    struct code_location *ret)
{
	return self->find(self, task, address, time, ret);
}

int codemap__name(struct codemap *self, uint64_t module, uint64_t vaddr, struct code_location *ret)
{
	return self->name(self, module, vaddr, ret);
}

struct code_generations codemap__generations(struct codemap *self, const struct record_task *task, uint64_t time)
{
	return (struct code_generations){
		.all = self->changes(self, task, time),
		.stable = self->stable ? self->stable(self, task, time) : self->changes(self, task, time),
	};
}

int codemap__eval_known(struct codemap *self, const struct record_task *task, uint64_t time)
{
	return self->eval_known(self, task, time);
}

int codemap__line(struct codemap *self, uint64_t module, uint64_t vaddr, const char **ret_file, uint32_t *ret_line,
		  uint32_t *ret_column)
{
	return self->line ? self->line(self, module, vaddr, ret_file, ret_line, ret_column) : -ENOENT;
}

int codemap__read(struct codemap *self, const struct record_task *task, uint64_t time, uint64_t address, void *dst,
		  size_t size)
{
	return -EFAULT;
}

bool codemap__walks(const struct codemap *self)
{
	return self && self->walk;
}

int codemap__walk(struct codemap *self, const struct sample *sample, bool last, struct part_native_frames *ret)
{
	return self->walk(self, sample, last, ret);
}

uint32_t codemap__build_id(const struct codemap *self, uint64_t module, const uint8_t **ret)
{
	return self->build_id ? self->build_id(module, ret) : 0;
}

uint64_t codemap__lines_generation(const struct codemap *self)
{
	return 0;
}

void codemap__new_epoch(struct codemap *self) {}
