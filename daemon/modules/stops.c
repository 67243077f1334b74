/* SPDX-License-Identifier: MIT */
/* Where walks stop: what is missing there (a file, a table, a perf map) is requested. The stops that users read in
 * `status` and in recordings are counted by profile/stops.c. */
#include "arch/arch.h"
#include "base/blocking.h"
#include "modules/internal.h"

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
			jit_files__miss(process);
	} else if (!(known && found.source == JIT_SOURCE_GDB) && time > process->asked_for) { /* its table needs no mapping */
		process->asked_for = time;
		process->poll_soon |= !process->pause; /* later ones wait, while it finds nothing */
	}
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
