/* SPDX-License-Identifier: MIT */
/* Native stacks that the sampler could not walk to their end, because an unwind table was still missing: walked
 * again over the copy of the stack that came with the sample, by the tables that exist by then. Caller:
 * profile/sample.c, until this gives something other than -EAGAIN. */
#include <errno.h>

#include "codemap/internal.h"

bool codemap__walks(const struct codemap *self)
{
	return self && self->modules;
}

int codemap__walk(struct codemap *self, const struct sample *sample, bool last, struct part_native_frames *ret)
{
	const struct record_header *header = &sample->record->header;
	struct modules_process *process = modules__of_task(self->modules, &header->task, header->time);
	const struct part_native_frames *native = sample->native;
	bool shorter = false;
	enum loss loss;
	uint64_t pc;

	if (!process)
		return last ? -ENOENT : -EAGAIN;
	modules__walk(self->modules, process, sample->stack, header->time, ret);
	loss = ret->part.loss;
	if (!loss)
		return 0;
	if (!ret->n) /* no memory to walk with */
		return last ? -ENOENT : -EAGAIN;
	pc = ret->pc[ret->n - 1];
	if (!last && modules__may_retry(self->modules, process, pc, loss, header->time)) {
		modules__wants(self->modules, process, pc, loss, header->time);
		return -EAGAIN;
	}
	if (loss == LOSS_PAGE_FAULT) { /* the copy ends: with the table in time it would not have mattered */
		ret->part.loss = native->part.loss;
		/* The sampler reads the whole stack: what lies beyond the copy may have stopped it. */
		shorter = ret->n < native->n;
		pc = shorter ? native->pc[native->n - 1] : pc;
	}
	modules__wants(self->modules, process, pc, ret->part.loss, header->time);
	return shorter ? -ENOENT : 0;
}
