/* What is at pc, and where walks stop. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "modules/internal.h"

int modules__find(struct modules *modules, const struct modules_process *process, uint64_t pc,
		  uint64_t time, struct modules_found *ret)
{
	const struct code *code = processes__code(process, pc, time);
	int err;

	*ret = (struct modules_found){};
	if (code && code->file) {
		ret->module = &code->file->seen;
		ret->interpreter = code->file == process->interpreter;
		ret->vaddr_known =
			code->biased || (code->file->segments.n &&
					 !segments__bias(&code->file->segments, code->offset,
							 code->start, &ret->vaddr));
		ret->vaddr = code->biased	? pc - code->bias
			     : ret->vaddr_known ? pc - ret->vaddr
						: pc - code->start + code->offset;
		return 0;
	}
	err = process->jit ? jit__find(process->jit, pc, time, &ret->object) : -ENOENT;
	ret->jit = !err;
	return err && code ? 0 : err;
}

/* --- where walks stop --- */

static void count_stop(struct modules *modules, const struct modules_found *found, uint64_t pc,
		       enum loss loss)
{
	uint32_t module = found->module ? found->module->id : 0, i;
	uint64_t offset = found->module ? found->vaddr : pc;
	uint32_t at =
		(uint32_t)((offset * 0x9e3779b97f4a7c15ull) >> 40) ^ module ^ (uint32_t)loss << 4;
	size_t len;

	for (i = 0; i < 16; i++) {
		struct modules_stop *stop = &modules->stops[(at + i) % STOPS];

		if (!stop->count) {
			*stop = (struct modules_stop){.loss = loss, .offset = offset};
			modules->stop_modules[(at + i) % STOPS] = module;
			len = found->module ? strlen(found->module->path) : 0;
			if (found->module)
				strncpy(stop->path,
					found->module->path +
						(len >= sizeof(stop->path)
							 ? len - sizeof(stop->path) + 1
							 : 0),
					sizeof(stop->path) - 1);
		}
		if (stop->loss == loss && stop->offset == offset &&
		    modules->stop_modules[(at + i) % STOPS] == module) {
			stop->count++;
			return;
		}
	}
}

void modules__stopped(struct modules *modules, struct modules_process *process, uint64_t pc,
		      enum loss loss, uint64_t time)
{
	bool exact = pc & NATIVE_EXACT;
	struct modules_found found;

	pc = (pc & ~NATIVE_EXACT) - (exact ? 0 : 1);
	if (loss == LOSS_NATIVE_PENDING) { /* that passes by itself, the sooner the better */
		const struct code *code = processes__code(process, pc, time);

		if (code && code->file && code->file->state == FILE_NEW) {
			modules->hot = code->file;
			code->file->urgent = true;
		}
		return;
	}
	if (loss == LOSS_NATIVE_MAPPING && !processes__code(process, pc, time) &&
	    time > process->asked_for) {
		process->asked_for = time;
		process->look_soon |= !process->pause; /* later ones wait, while it finds nothing */
	}
	modules__find(modules, process, pc, time, &found);
	count_stop(modules, &found, pc, loss);
}

static int by_count(const void *a, const void *b)
{
	const struct modules_stop *x = a, *y = b;

	return x->count > y->count ? -1 : x->count < y->count;
}

uint32_t modules__stops(const struct modules *modules, struct modules_stop *ret, uint32_t max)
{
	struct modules_stop sorted[STOPS];
	uint32_t n = 0;

	memcpy(sorted, modules->stops, sizeof(sorted));
	qsort(sorted, STOPS, sizeof(sorted[0]), by_count);
	while (n < max && n < STOPS && sorted[n].count) {
		ret[n] = sorted[n];
		n++;
	}
	return n;
}
