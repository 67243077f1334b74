/* SPDX-License-Identifier: MIT */
/* Answers "what is at this pc of this process, at this time?": whose mappings, which mapping, which file or object of a
 * JIT; for how long that holds; and which frames of a walk are true by it.
 *
 * The question is asked up to some seconds after the time that it is about, and things have changed by then. Therefore
 * mappings and objects have a time of birth and of death, and are kept for a while after it. */
#include <errno.h>

#include "modules/internal.h"
#include "base/search.h"

/* --- whose mappings? --- */

/* The image that this pid ran at that time: an exec closes one and opens the next, with the same pid. */
struct modules_process *modules__process(struct modules *modules, int32_t pid, uint64_t time)
{
	struct modules_process *process, *best = NULL;

	/* The newest come first. */
	for (process = modules->of_pid[(uint32_t)pid % MODULES_BUCKETS]; process; process = process->next_of_pid) {
		if (process->pid != pid)
			continue;
		if (!process->closed || time <= process->closed)
			best = process;
		if (process->opened <= time)
			break;
	}
	return best;
}

bool modules_process__is_later(const struct modules_process *process, uint64_t time)
{
	return process->opened > time;
}

struct modules_process *modules__of_task(struct modules *modules, const struct record_task *task, uint64_t time)
{
	struct modules_process *process = modules ? modules__process(modules, (int32_t)task->tgid, time) : NULL;

	if (!modules || (process && !modules_process__is_later(process, time)) || !modules->host->inherited)
		return process;
	return modules->host->inherited(modules->host, task, time, process);
}

struct modules_process *modules__numbered(const struct modules *modules, uint64_t id)
{
	struct modules_process *process = modules->processes;

	while (process && process->id != id)
		process = process->next;
	return process;
}

/* --- which mapping? --- */

/* Was the room of pc given away after `time`, and before the mappings were read last? Then what was found there did not
 * exist at `time`. */
static bool given_after(const struct modules_process *process, uint64_t pc, uint64_t time)
{
	for (uint32_t i = process->n_changes; i-- > 0;)
		if (process->changes[i].time > time && process->changes[i].time <= process->read_end &&
		    process->changes[i].start <= pc &&
		    pc < process->changes[i].end)
			return true;
	for (uint32_t i = process->n_given; i-- > 0 && process->given[i].time > time;)
		if (process->given[i].time <= process->read_end && process->given[i].start <= pc &&
		    pc < process->given[i].end)
			return true;
	return false;
}

/* Something was mapped at pc before `time`, and the mappings were not read since. */
static bool is_unseen(const struct modules_process *process, uint64_t pc, uint64_t time)
{
	for (uint32_t i = process->n_changes; i-- > 0 && process->changes[i].time > process->read_at;)
		if (process->changes[i].start <= pc && pc < process->changes[i].end &&
		    process->changes[i].time <= time)
			return true;
	return false;
}

/* What lay at pc at that time. In this order: what is mapped now, if it was by then; what is gone, by its times;
 * and what is mapped now, though it was seen later only. */
const struct code *modules_process__code(const struct modules_process *process, uint64_t pc,
				   uint64_t time)
{
	uint32_t low = SEARCH(k, process->n, process->code[k].start <= pc), i;

	if (is_unseen(process, pc, time))
		return NULL;
	if (low && given_after(process, pc, time))
		low = 0;
	if (low && pc < process->code[low - 1].end && process->code[low - 1].born <= time)
		return &process->code[low - 1];
	for (i = process->n; i < process->n + process->n_gone; i++)
		if (process->code[i].start <= pc && pc < process->code[i].end &&
		    process->code[i].born <= time && time <= process->code[i].died)
			return &process->code[i];
	/* The pc is older than the mapping's first sight. Nothing else is known to have been there, so the mapping is
	 * likely to have been there already. */
	return low && pc < process->code[low - 1].end && !process->code[low - 1].exact
		       ? &process->code[low - 1]
		       : NULL;
}

/* --- which file, or object of a JIT? --- */

/* Of a file's names only those that are certain: it was read since that time, and no other line of the time is for the
 * place. CPython's trampolines stay where they are. */
static int find_jit(const struct modules_process *process, uint64_t pc, uint64_t time, struct jit_found *ret)
{
	int err = process->jit ? jit__find(process->jit, pc, time, ret) : -ENOENT;

	if (err || ret->source == JIT_SOURCE_GDB || ret->kind == JIT_KIND_PY_TRAMPOLINE)
		return err;
	return ret->doubtful || !jit_files__known(process, ret->source, time) ? -ENOENT : 0;
}

int modules__find(struct modules *modules, const struct modules_process *process, uint64_t pc,
		  uint64_t time, struct modules_found *ret)
{
	const struct code *code = modules_process__code(process, pc, time);
	const bool memory = !code || !code->file || files__is_memory(code->file);
	int err;

	*ret = (struct modules_found){};
	err = memory ? find_jit(process, pc, time, &ret->object) : -ENOENT;
	if (err && code && !code->file)
		err = jit_tables__copy(process, pc, &ret->object);
	if (err && memory && code)
		jit_files__miss(process);
	if (err && code && code->file) {
		ret->module = &code->file->seen;
		ret->interpreter = code->file == process->interpreter;
		ret->stable = code < process->code + process->n && !files__is_memory(code->file) && code->file->seen.state != MODULE_WAITS;
		ret->start = code->start;
		ret->end = code->end;
		/* Until the worker has read the segments, only the offset in the file is known. */
		ret->vaddr_known =
			code->biased || (code->file->segments.n &&
					 !segments__bias(&code->file->segments, code->offset,
							 code->start, &ret->vaddr));
		ret->vaddr = code->biased	? pc - code->bias
			     : ret->vaddr_known ? pc - ret->vaddr
						: pc - code->start + code->offset;
		return 0;
	}
	ret->jit = !err;
	return err && code ? 0 : err;
}

/* --- how long does an answer hold? --- */

/* Combines what is known (answers) with how many changes lie before that time: for two times with the same number, all
 * answers are the same. */
uint64_t modules__changes(const struct modules *modules, const struct modules_process *process,
			  uint64_t time)
{
	uint64_t n = process ? process->changes_gone : 0;

	for (uint32_t i = 0; process && i < process->n_changes; i++)
		n += process->changes[i].time <= time;
	return modules->answers << 20 ^ n;
}

/* Counts what is known, not the time of the question: a sample that is handled again is older than others before it,
 * and would otherwise have another number. */
uint64_t modules__stable(const struct modules_process *process, uint64_t time)
{
	uint64_t answers = process ? process->file_answers : 0;
	uint32_t n = 0, i;

	for (i = 0; process && i < process->n_changes; i++)
		n += process->changes[i].file && process->changes[i].time <= time;
	return answers << 20 ^ n;
}

/* --- walks --- */

/* Walks between `time` of a change and the list that knows of it may have used a wrong table in that range. The frame
 * in the range itself is true (its pc was read from the one before, which is trusted); what was found through its
 * table, further out, is not. */
static uint32_t trusted(const struct change *changes, uint32_t n_changes, const __u64 *pc, uint32_t n, uint64_t time)
{
	for (uint32_t k = n_changes; k-- > 0;) {
		const struct change *change = &changes[k];

		if (time < change->time || (change->known && time >= change->known))
			continue;
		for (uint32_t i = 0; i + 1 < n; i++) {
			uint64_t at = native_address(pc[i]);

			if (change->start <= at && at < change->end)
				n = i + 1;
		}
	}
	return n;
}

uint32_t modules_process__trusted(const struct modules_process *process, const __u64 *pc,
				  uint32_t n, uint64_t time)
{
	n = trusted(process->changes, process->n_changes, pc, n, time);
	return process->files ? trusted(process->files->changes, process->files->n_changes, pc, n, time) : n;
}

bool modules_process__near_jit(const struct modules_process *process, const __u64 *pc, uint32_t n, uint64_t time)
{
	const struct jit_reach *reach = process->jit ? jit__reach(process->jit) : NULL;
	const struct code *code;

	for (uint32_t i = 0; reach && i < n; i++) {
		if (!reach__has(reach, native_address(pc[i])))
			continue;
		code = modules_process__code(process, native_address(pc[i]), time);
		if (!code || !code->file || files__is_memory(code->file)) /* else a library lies between objects */
			return true;
	}
	return false;
}

/* --- other questions about modules and processes --- */

int modules__awaited(const struct module *module)
{
	const struct file *file = (const struct file *)module; /* its first member */

	return file->image || file->fd >= 0 || file->seen.state == MODULE_BARE ? -ENOENT : -EAGAIN;
}

int modules__bytes(const struct modules *modules, const struct module *module, struct module_bytes *ret)
{
	const struct file *file = (const struct file *)module;

	if (file->fd < 0 && !file->image)
		return modules__awaited(module);
	*ret = (struct module_bytes){file->fd, file->image, file->image_size};
	return 0;
}

bool modules_process__is_new(const struct modules_process *process, uint64_t now)
{
	return now < process->opened + 1000 * MS;
}

uint64_t modules_process__id(const struct modules_process *process)
{
	return process->id;
}

int modules__jit_object(const struct modules *modules, uint64_t process, uint32_t object, struct jit_object *ret,
			int *ret_mem)
{
	const struct modules_process *found = modules__numbered(modules, process);
	const struct jit_object *o = found && found->jit && found->mem.fd >= 0 ? jit__object(found->jit, object) : NULL;

	if (!o || o->id != object)
		return -ENOENT;
	*ret = *o;
	*ret_mem = found->mem.fd;
	return 0;
}

const struct module *modules__interpreter(const struct modules_process *process)
{
	return process->interpreter ? &process->interpreter->seen : NULL;
}

int modules_process__read(struct modules_process *process, uint64_t address, void *dst, size_t size)
{
	return process->mem.fd < 0 ? -EFAULT : process_memory__read(process->mem.fd, dst, size, address);
}
