/* SPDX-License-Identifier: MIT */
/* Classes of samples: the table of the epoch, and what is remembered of stack nodes, since stacks repeat. A sample's
 * class is determined when its row is emitted: all names are known then.
 *
 *    frames_of()   the innermost run of a stack node, as traits (classes/classes.h)
 *    import_of()   is an import in progress in the frames further out?
 *    class__of()   decides;   class_id()   gives the class a number in the epoch's table
 *
 * Two caches make it cheap: of_stacks[node] has the class of each node that was a leaf (unless the kernel decides),
 * imports[node] the import phase. A node's class cannot change, as its frames do not. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "arch/arch.h"
#include "collect/collect.h"
#include "profile/internal.h"
#include "wait/wait.h"

#define FRAMES_MAX (RECORD_NATIVE_FRAMES_MAX * 2 + RECORD_KERNEL_FRAMES_MAX + 8u)

/* --- the table --- */

static bool hash_class(const void *holder, uint32_t i, uint64_t *ret)
{
	const struct profile *profile = holder;
	const char *detail = profile->classes.rows[i].detail;

	*ret = hash__bytes(&profile->tables.seed, detail, strlen(detail));
	return true;
}

/* The number of a class with this detail, from 1; a new row if it is new. Few: some hundred callees and system
 * calls. */
static int class_id(struct profile *profile, const struct class_result *result, uint32_t *ret)
{
	struct classes *classes = &profile->classes;
	size_t size = strlen(result->name) + 1;
	uint32_t kinds = classes->capacity, row;
	char *detail;
	int err;

	row = SLOTS_FIND(&classes->by_name, i, hash__bytes(&profile->tables.seed, result->name, size - 1),
			 classes->kinds[i] == result->kind && !strcmp(classes->rows[i].detail, result->name));
	if (row != SLOTS_NONE) {
		*ret = row + 1;
		return 0;
	}
	detail = arena__take(&classes->strings, size);
	err = detail ? ARRAY_RESERVE(classes->kinds, classes->n, kinds) : -ENOMEM;
	err = err ?: ARRAY_RESERVE(classes->rows, classes->n, classes->capacity);
	if (err)
		return err;
	memcpy(detail, result->name, size);
	classes->kinds[classes->n] = (uint8_t)result->kind;
	classes->rows[classes->n] = (struct class_row){class__name(result->kind), detail};
	err = slots__add(&classes->by_name, classes->n, hash_class, profile);
	classes->n += !err;
	*ret = classes->n;
	return err;
}

int classify__emit(struct profile *profile, struct event_sink *sink, bool all)
{
	struct classes *classes = &profile->classes;
	struct event event = {.kind = EVENT_CLASSES};
	uint32_t first = all ? 0 : classes->emitted, end = all ? classes->emitted : classes->n;

	if (first == end)
		return 0;
	event.rows.first = first + 1;
	event.rows.n = end - first;
	event.rows.rows = classes->rows + first;
	classes->emitted = end;
	return sink->event(sink, &event);
}

void classify__clear(struct profile *profile)
{
	struct classes *classes = &profile->classes;

	slots__clear(&classes->by_name);
	arena__free(&classes->strings);
	if (classes->n_stacks) {
		memset(classes->of_stacks, 0, classes->n_stacks * sizeof(*classes->of_stacks));
		memset(classes->imports, 0, classes->n_stacks);
	}
	classes->n = classes->emitted = 0;
}

void classify__free(struct profile *profile)
{
	struct classes *classes = &profile->classes;

	free(classes->rows);
	free(classes->kinds);
	free(classes->by_name.slots);
	arena__free(&classes->strings);
	free(classes->of_stacks);
	free(classes->imports);
	*classes = (struct classes){};
}

/* --- stacks --- */

/* Computed once for each function, when all names are there. */
static struct trait trait_of(struct tables *tables, uint32_t frame)
{
	struct function *function = &tables->functions[tables->frames[frame].function];

	if (function->trait.kind == TRAIT_NONE) {
		struct function_row row = tables__function_row(tables, tables->frames[frame].function);

		function->trait = class__trait((enum class_origin)row.kind, row.name, row.module, row.file);
	}
	return function->trait;
}

/* Makes room in both caches for all nodes there are. */
static int reserve(struct profile *profile)
{
	struct classes *classes = &profile->classes;
	uint32_t n = profile->tables.stacks_capacity + 1;
	uint32_t *of_stacks;
	uint8_t *imports;

	if (profile->tables.n_stacks < classes->n_stacks)
		return 0;
	of_stacks = realloc(classes->of_stacks, n * sizeof(*of_stacks));
	if (!of_stacks)
		return -ENOMEM;
	classes->of_stacks = of_stacks;
	imports = realloc(classes->imports, n);
	if (!imports)
		return -ENOMEM;
	classes->imports = imports;
	memset(of_stacks + classes->n_stacks, 0, (n - classes->n_stacks) * sizeof(*of_stacks));
	memset(imports + classes->n_stacks, 0, n - classes->n_stacks);
	classes->n_stacks = n;
	return 0;
}

/* The import phase of a node, from the nearest one further out that is known; all nodes between get theirs, too. It
 * ends: a caller's id is smaller. */
static enum import_phase import_of(struct profile *profile, uint32_t stack)
{
	struct tables *tables = &profile->tables;
	uint8_t *imports = profile->classes.imports;
	uint32_t path[256], n, at;
	enum import_phase phase;

	imports[0] = IMPORT_NO + 1;
	while (!imports[stack]) {
		/* A long path is done in pieces of 256 nodes, the outermost first. */
		for (n = 0, at = stack; !imports[at]; at = tables->stacks[at - 1].parent)
			path[n++ % 256] = at;
		phase = (enum import_phase)(imports[at] - 1);
		for (at = n < 256 ? n : 256; at; at--, n--) {
			uint32_t node = path[(n - 1) % 256];

			phase = class__import(phase, trait_of(tables, tables->stacks[node - 1].frame));
			imports[node] = (uint8_t)(phase + 1);
		}
	}
	return (enum import_phase)(imports[stack] - 1);
}

/* Frames further out than one of these do not matter: class__of() takes the innermost, unless the thread was in the
 * kernel. */
static bool decides(enum trait_kind kind)
{
	return kind == TRAIT_GC || kind == TRAIT_JIT || kind == TRAIT_RULE;
}

/* The frames of a stack node from the leaf to the innermost Python frame, or to the first one that decides alone
 * (*ret_decided). */
static uint32_t frames_of(struct profile *profile, uint32_t stack, bool kernel, struct class_frame *frames,
			  bool *ret_decided)
{
	struct tables *tables = &profile->tables;
	struct function_row row;
	struct trait trait;
	uint32_t n = 0, frame;

	*ret_decided = false;
	for (; stack && n < FRAMES_MAX; stack = tables->stacks[stack - 1].parent) {
		frame = tables->stacks[stack - 1].frame;
		trait = trait_of(tables, frame);
		row = (struct function_row){.name = "", .module = ""};
		/* A rule that decides names the class by itself. */
		if (kernel || trait.kind != TRAIT_RULE)
			row = tables__function_row(tables, tables->frames[frame].function);
		frames[n++] = (struct class_frame){trait, row.name, row.module};
		*ret_decided = !kernel && decides(frames[n - 1].trait.kind);
		if (*ret_decided || frames[n - 1].trait.kind == TRAIT_PYTHON || frames[n - 1].trait.kind == TRAIT_IMPORT)
			break;
	}
	return n;
}

/* A wait's class follows from its cause. A sample in the kernel is not cached by its stack, as the same stack may be
 * in different system calls. */
int classify__item(struct profile *profile, struct item *item)
{
	struct class_frame *frames = profile->stack->classified;
	struct class_input in = {.frames = frames, .kernel = item->kernel};
	uint32_t *known, stack = item->row.stack;
	struct class_result result;
	bool decided;
	int err;

	if (item->wait) {
		result = (struct class_result){item->ready || item->row.cause == WAIT_READY ? CLASS_READY : CLASS_WAITING,
					       item->row.cause == WAIT_READY ? "" : wait__name((enum wait_cause)item->row.cause)};
		return class_id(profile, &result, &item->row.class_id);
	}
	if (!item->native && item->kernel == KERNEL_NO)
		return 0; /* without native frames nothing more is known */
	err = reserve(profile);
	if (err)
		return err;
	known = item->kernel == KERNEL_NO ? &profile->classes.of_stacks[stack] : NULL;
	if (known && *known) {
		item->row.class_id = *known;
		return 0;
	}
	in.n = frames_of(profile, stack, item->kernel != KERNEL_NO, frames, &decided);
	if (!decided)
		in.import = import_of(profile, stack);
	class__of(&in, &result);
	err = class_id(profile, &result, &item->row.class_id);
	if (!err && known)
		*known = item->row.class_id;
	return err;
}

int classify__without_gil(struct profile *profile, struct item *item)
{
	return class_id(profile, &(struct class_result){CLASS_WITHOUT_GIL, ""}, &item->row.class_id);
}

/* A tick in the kernel: behind a system call's instruction, or anywhere else. Most often its number is loaded right
 * before it. */
uint16_t classify__kernel(struct profile *profile, const struct sample *sample,
			  const struct part_native_frames *native)
{
	struct codemap *codemap = profile->options.codemap;
	uint8_t before[MACHINE_SYSCALL_BYTES] = {};
	uint64_t pc;
	int number;

	if (!(sample->record->flags & SAMPLE_IN_KERNEL))
		return KERNEL_NO;
	if (!codemap || !native || !native->n)
		return KERNEL_FAULT;
	pc = native->pc[0] & ~NATIVE_EXACT;
	if (codemap__read(codemap, &sample->record->header.task, sample->record->header.time, pc - sizeof(before), before, sizeof(before)) &&
	    codemap__read(codemap, &sample->record->header.task, sample->record->header.time, pc - MACHINE_SYSCALL_LAST,
			  before + sizeof(before) - MACHINE_SYSCALL_LAST, MACHINE_SYSCALL_LAST))
		return KERNEL_FAULT;
	number = machine__syscall(before);
	if (number == MACHINE_NO_SYSCALL)
		return KERNEL_FAULT;
	return number >= 0 ? (uint16_t)(KERNEL_NUMBERED + number) : KERNEL_CALL;
}
