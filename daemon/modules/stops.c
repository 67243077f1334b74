/* SPDX-License-Identifier: MIT */
/* Where walks stop: what is missing there (a file, a table, a perf map) is requested, and other stops are counted by
 * place, for tests (modules__stops()). What users read in `status` and in recordings is counted by profile/stops.c. */
#include <stdlib.h>
#include <string.h>

#include "arch/arch.h"
#include "base/blocking.h"
#include "modules/internal.h"

/* A small hash table: 16 probes, then the place is not counted. Only the end of a long path is kept. */
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

/* PENDING: the file's table, or the function's code, is not there yet. MAPPING: nothing is known at this address: new
 * code of a JIT, or a new mapping. */
void modules__wants(struct modules *modules, struct modules_process *process, uint64_t pc,
		    enum loss loss, uint64_t time)
{
	const struct code *code = modules_process__code(process, native_address(pc), time);
	struct jit_found found;
	bool known;

	if (loss == LOSS_NATIVE_PENDING && code && code->file)
		files__want(modules, code->file);
	if (loss == LOSS_NATIVE_PENDING && code && code->biased)
		files__follow(modules, code->file, native_address(pc) - code->bias);
	if (loss != LOSS_NATIVE_MAPPING)
		return;
	known = process->jit && !jit__find(process->jit, native_address(pc), time, &found);
	if (known)
		objects__want(modules, process, found.object);
	if (code) {
		jit_tables__want(modules, process, native_address(pc));
		if (!known)
			jit_files__miss(process, time);
	} else if (!(known && found.source == JIT_SOURCE_GDB) && time > process->asked_for) { /* its table needs no mapping */
		process->asked_for = time;
		process->poll_soon |= !process->pause; /* later ones wait, while it finds nothing */
	}
}

/* LOSS_NATIVE_PENDING is no stop to report: its table is on the way, and the sample is walked again. */
void modules__stopped(struct modules *modules, struct modules_process *process, uint64_t pc,
		      enum loss loss, uint64_t time)
{
	struct modules_found found;

	modules__wants(modules, process, pc, loss, time);
	if (loss == LOSS_NATIVE_PENDING) /* that passes by itself */
		return;
	pc = native_address(pc);
	modules__find(modules, process, pc, time, &found);
	count_stop(modules, &found, pc, loss);
}

/* In glibc's clone or clone3, where the new thread goes on: its stack is empty. */
bool modules__begins(const struct modules_process *process, uint64_t pc, uint64_t time)
{
	const struct code *code = pc & NATIVE_EXACT ? modules_process__code(process, native_address(pc), time) : NULL;
	uint8_t bytes[32] = {};
	uint64_t offset;

	pc = native_address(pc);
	if (!code || !code->file || code->file->fd < 0 || pc - code->start < 16 || code->end - pc < 16)
		return false;
	offset = pc - code->start + code->offset;
	return blocking__pread(code->file->fd, bytes, sizeof(bytes), offset - 16) == sizeof(bytes) && machine__begins_thread(bytes);
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
