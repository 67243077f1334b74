/* SPDX-License-Identifier: MIT */
/* Walks again what the sampler could not finish for lack of a table: registers and stack as they were recorded at the
 * tick (struct part_stack), with the tables that are there by now, over what was mapped at that time. It is the
 * sampler's own walker, compiled for user space (unwind/walk.c).
 *
 * A list of that time is made for it, which costs more than a walk; so it is kept, and used for all times between which
 * nothing came or went. */
#include <string.h>

#include "base/cleanup.h"
#include "modules/internal.h"

/* The list of a process at a time; it holds for all times between which nothing came or went. */
struct late {
	struct unwind_walk walk;
	struct host_pool pools[POOLS_MAX];
	void *list;
	uint32_t n;
	/* Lists made so far; mixed into the salt, so that the walker's caches keep none of the list before. */
	uint64_t lists;
	uint64_t process, time, now;
	uint64_t read_at, n_reports; /* of the process */
};

static bool lies_between(uint64_t t, uint64_t low, uint64_t high)
{
	return low <= t && t <= high;
}

/* Is the list of time `a` that of time `b`? Only if no mapping, object, file of a JIT or change has a time between
 * them. */
static bool is_same(const struct modules_process *process, uint64_t a, uint64_t b)
{
	uint64_t low = a < b ? a : b, high = a < b ? b : a;

	for (uint32_t i = 0; i < process->n + process->n_gone; i++)
		if (lies_between(process->code[i].born, low, high) ||
		    lies_between(process->code[i].died, low, high))
			return false;
	for (uint32_t i = 0; i < process->n_changes; i++)
		if (lies_between(process->changes[i].time, low, high))
			return false;
	for (uint32_t i = 0; i < process->n_given; i++)
		if (lies_between(process->given[i].time, low, high))
			return false;
	if (process->files && lies_between(process->files->news, low, high))
		return false;
	for (uint32_t i = 0; i < process->n_objects; i++) {
		const struct jit_object *o = jit__object(process->jit, process->objects[i].id);

		if (o && (lies_between(o->life.born_after, low, high) ||
			  lies_between(o->life.born_by, low, high) ||
			  lies_between(o->life.died_by, low, high)))
			return false;
	}
	return true;
}

/* True: late->list is that of `time`. Within one tick nothing new can have become known, hence the comparison with
 * `now`. */
static bool make_list(struct modules *modules, const struct modules_process *process, uint64_t time)
{
	struct late *late = modules->late;
	_cleanup_free_ struct unwind_entry *entries = NULL;
	uint32_t n, i;

	if (late->list && late->process == process->id && late->now == modules->now &&
	    late->read_at == process->read_at && late->n_reports == process->n_reports &&
	    (late->time == time || is_same(process, late->time, time)))
		return true;
	free(late->list);
	late->list = NULL;
	entries = lists__at(modules, process, time, &n);
	if (n &&
	    !posix_memalign(&late->list, UNWIND_BLOCK, (size_t)ranges__blocks(n) * UNWIND_BLOCK) &&
	    ranges__write(late->list, entries, n)) {
		free(late->list);
		late->list = NULL;
	}
	late->process = process->id;
	late->time = time;
	late->now = modules->now;
	late->read_at = process->read_at;
	late->n_reports = process->n_reports;
	late->n = n;
	late->lists++;
	for (i = 1; i < modules->n_pools; i++)
		late->pools[i] =
			(struct host_pool){modules->pools[i].memory,
					   (uint32_t)(modules->pools[i].bytes / UNWIND_BLOCK)};
	late->pools[UNWIND_POOL_LISTS] = (struct host_pool){late->list, ranges__blocks(n)};
	late->walk.pools = late->pools;
	late->walk.n_pools = modules->n_pools ? modules->n_pools : 1;
	return late->list != NULL;
}

static bool put_frame(void *ctx, const struct unwind_state *state)
{
	struct part_native_frames *to = ctx;

	to->pc[to->n++] =
		(state->regs[UNWIND_PC] & ~NATIVE_EXACT) | (state->exact ? NATIVE_EXACT : 0);
	return true;
}

void modules__walk(struct modules *modules, const struct modules_process *process,
		   const struct part_stack *stack, uint64_t time, struct part_native_frames *ret)
{
	struct late *late = modules->late ? modules->late : calloc(1, sizeof(*late));
	struct unwind_state *state;
	enum loss loss = LOSS_NATIVE_PENDING;

	modules->late = late;
	ret->n = 0;
	ret->flags = 0;
	ret->part.loss = loss;
	if (!late)
		return;
	state = &late->walk.state;
	_Static_assert(sizeof(state->regs) == sizeof(stack->regs), "by DWARF number");
	memcpy(state->regs, stack->regs, sizeof(state->regs));
	state->known = (1u << UNWIND_REGISTERS) - 1;
	state->exact = 1;
	if (make_list(modules, process, time)) {
		late->walk.stack_at = stack->sp;
		late->walk.stack = stack->bytes;
		late->walk.stack_size = stack->size;
		/* For the walker's caches each list is another process, by its salt alone. The walk mixes the list's
		 * number of changes into the salt; that is 0 here, as the same number in both would cancel out. */
		loss = walk__run(&late->walk, UNWIND_LIST(0, late->n, 0), late->lists * 0x9e3779b97f4a7c15ull, RECORD_NATIVE_FRAMES_MAX,
				 put_frame, ret);
	} else {
		put_frame(ret, state);
	}
	ret->part.loss = loss;
	ret->flags = loss ? 0 : NATIVE_WHOLE;
}

bool late__awaits_file(const struct modules_process *process)
{
	for (uint32_t i = 0; i < process->n; i++)
		if (process->code[i].file && process->code[i].file->seen.state == MODULE_WAITS)
			return true;
	return false;
}

/* Is it mapped now? Then its file can still be opened. */
static bool is_mapped(const struct modules_process *process, const struct file *file)
{
	for (uint32_t i = 0; i < process->n; i++)
		if (process->code[i].file == file)
			return true;
	return false;
}

/* The sample waits in the profile (profile/sample.c) as long as this is true: a table is being made, or the
 * mappings or a JIT's list were not read since that time. */
bool modules__may_retry(const struct modules *modules, const struct modules_process *process,
		    uint64_t pc, enum loss loss, uint64_t time)
{
	const struct code *code;

	if (loss != LOSS_NATIVE_MAPPING && loss != LOSS_NATIVE_PENDING)
		return false;
	pc = native_address(pc);
	code = modules_process__code(process, pc, time);
	if (loss ==
	    LOSS_NATIVE_PENDING) /* a file that could not be opened is requested again while it is mapped */
		return !code || !code->file ||
		       (code->file->seen.state == MODULE_READY ? !code->file->followed
			: code->file->state != FILE_NEW || is_mapped(process, code->file));
	if (!process->closed) {
		if (!code && process->read_at <= time)
			return true;
		/* The file may be a JIT compiler's, with the list of its objects; or the list was not read since. */
		if (late__awaits_file(process) || (process->jit && process->polled <= time))
			return true;
		if (jit_files__awaited(process) || jit_tables__may_retry(process, pc) ||
		    objects__is_deferred(process, pc, time))
			return true;
	}
	for (const struct job *job = modules->homeless; job; job = job->next)
		if (job->object && job->process == process->id)
			return true;
	return worker__has_objects(modules->worker, process->id);
}

void late__free(struct modules *modules)
{
	if (modules->late)
		free(modules->late->list);
	free(modules->late);
	modules->late = NULL;
}
