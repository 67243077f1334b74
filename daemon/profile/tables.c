/* SPDX-License-Identifier: MIT */
/* Rows are added when a sample needs them, and emitted in order of their numbers, each before the first sample that
 * names it. A function's name or a frame's line may come later than its row: the row waits, and with it all behind
 * it, up to a deadline. */
#include "profile/tables.h"

#include <errno.h>
#include <stdlib.h>

int tables__init(struct tables *tables, struct codes *codes, struct codemap *codemap, uint64_t *losses)
{
	*tables = (struct tables){.codes = codes, .codemap = codemap, .losses = losses};
	return hash_seed__draw(&tables->seed);
}

void tables__free(struct tables *tables)
{
	free(tables->functions);
	free(tables->by_key.slots);
	free(tables->modules);
	buf__free(&tables->noted_modules);
	free(tables->natives);
	arena__free(&tables->strings);
	free(tables->pendings);
	free(tables->by_pending.slots);
	free(tables->frames);
	free(tables->frame_states);
	free(tables->by_frame.slots);
	free(tables->stacks);
	free(tables->paths);
	free(tables->by_stack.slots);
}

/* A new epoch: counts go to 0, memory stays. Strings of native functions go; the code map may drop its names, too. */
void tables__clear(struct tables *tables)
{
	const struct tables old = *tables;

	arena__free(&tables->strings);
	buf__free(&tables->noted_modules);
	if (tables->codemap)
		codemap__new_epoch(tables->codemap);
	*tables = (struct tables){
		.codes = old.codes,
		.codemap = old.codemap,
		.without_lines = old.without_lines,
		.seed = old.seed,
		.losses = old.losses,
		.tick = old.tick,
		.replaced = old.replaced,
		.functions = old.functions, .functions_capacity = old.functions_capacity, .by_key = old.by_key,
		.modules = old.modules, .modules_capacity = old.modules_capacity,
		.natives = old.natives, .natives_capacity = old.natives_capacity,
		.pendings = old.pendings, .pendings_capacity = old.pendings_capacity, .by_pending = old.by_pending,
		.frames = old.frames, .frame_states = old.frame_states, .frames_capacity = old.frames_capacity,
		.by_frame = old.by_frame,
		.stacks = old.stacks, .paths = old.paths, .stacks_capacity = old.stacks_capacity, .by_stack = old.by_stack,
	};
	slots__clear(&tables->by_key);
	slots__clear(&tables->by_pending);
	slots__clear(&tables->by_frame);
	slots__clear(&tables->by_stack);
}

/* What a row has in an index, which is between three eighths and three quarters full. */
#define SLOT_BYTES 8u

/* What the epoch's limit is compared with: bytes of rows that are in use, since the arrays themselves stay for the
 * next epoch. */
uint64_t tables__used(const struct tables *tables)
{
	return (uint64_t)tables->n_functions * (sizeof(*tables->functions) + SLOT_BYTES) +
	       (uint64_t)tables->n_frames * (sizeof(*tables->frames) + 1 + SLOT_BYTES) +
	       (uint64_t)tables->n_stacks * (sizeof(*tables->stacks) + sizeof(*tables->paths) + SLOT_BYTES) +
	       (uint64_t)tables->n_natives * sizeof(*tables->natives) + (uint64_t)tables->n_modules * sizeof(*tables->modules) +
	       (uint64_t)tables->n_pendings * (sizeof(*tables->pendings) + SLOT_BYTES) + tables->strings.bytes;
}

uint64_t tables__bytes(const struct tables *tables)
{
	uint64_t slots = (uint64_t)tables->by_key.capacity + tables->by_frame.capacity +
			 tables->by_stack.capacity;

	return (uint64_t)tables->functions_capacity * sizeof(*tables->functions) +
	       (uint64_t)tables->frames_capacity * (sizeof(*tables->frames) + 1) +
	       (uint64_t)tables->stacks_capacity * (sizeof(*tables->stacks) + sizeof(*tables->paths)) +
	       (uint64_t)tables->natives_capacity * sizeof(*tables->natives) +
	       (uint64_t)tables->modules_capacity * sizeof(*tables->modules) + tables->noted_modules.len +
	       (uint64_t)tables->pendings_capacity * sizeof(*tables->pendings) +
	       tables->strings.bytes + slots * sizeof(uint32_t);
}

static bool hash_function(const void *holder, uint32_t i, uint64_t *ret)
{
	const struct tables *tables = holder;

	const struct function *function = &tables->functions[i];

	*ret = hash__pair(&tables->seed, function->key, function->module);
	return function->key || function->module;
}

static bool hash_frame(const void *holder, uint32_t i, uint64_t *ret)
{
	const struct tables *tables = holder;

	*ret = hash__pair(&tables->seed, tables->frames[i].function,
			  (uint32_t)tables->frames[i].offset);
	return tables->frame_states[i] != FRAME_REPLACED && tables->frame_states[i] != FRAME_PENDING;
}

static bool hash_stack(const void *holder, uint32_t i, uint64_t *ret)
{
	const struct tables *tables = holder;

	*ret = tables->paths[i];
	return true;
}

int tables__add_function(struct tables *tables, const struct function *function)
{
	return SLOTS_ADD(&tables->by_key, hash_function, tables, tables->functions, tables->n_functions, tables->functions_capacity, *function);
}

struct function *tables__find_function(const struct tables *tables, uint64_t module, uint64_t key)
{
	uint32_t row;

	if (!key && !module)
		return NULL;
	row = SLOTS_FIND(&tables->by_key, i, hash__pair(&tables->seed, key, module),
			 tables->functions[i].key == key && tables->functions[i].module == module);
	return row == SLOTS_NONE ? NULL : &tables->functions[row];
}

static bool named(const struct tables *tables, uint32_t serial)
{
	return serial != CODE_NONE && codes__get(tables->codes, serial)->named;
}

/* The function of a code object. Equal code objects (codes.h, `first`) share one row. One that was not captured yet
 * gets a row that waits for its name; function->code counts its uses meanwhile. Key 0 is no code object: it becomes
 * a note that is never named. */
static int function_of(struct tables *tables, uint64_t key, uint32_t *ret)
{
	struct function *found = tables__find_function(tables, 0, key), fresh = {.key = key};
	uint32_t note;

	if (found) {
		*ret = (uint32_t)(found - tables->functions);
		return 0;
	}
	if (!key) {
		int err = tables__note(tables, NOTE_UNKNOWN, &note);

		*ret = err ? 0 : tables->frames[note].function;
		return err;
	}
	fresh.code = codes__find(tables->codes, key);
	if (named(tables, fresh.code) && codes__get(tables->codes, fresh.code)->first != fresh.code)
		return function_of(tables, codes__get(tables->codes, codes__get(tables->codes, fresh.code)->first)->key, ret);
	fresh.since = tables->tick;
	fresh.note = NOTE_UNKNOWN;
	if (named(tables, fresh.code)) {
		fresh.state = FUNCTION_NAMED;
	} else {
		fresh.state = FUNCTION_WAITING;
		fresh.code = 0;
	}
	*ret = tables->n_functions;
	return tables__add_function(tables, &fresh);
}

int tables__add_frame(struct tables *tables, const struct frame_row *row, enum frame_state state)
{
	uint32_t capacity = tables->frames_capacity;
	int err = ARRAY_RESERVE(tables->frame_states, tables->n_frames, capacity);

	err = err ?: ARRAY_RESERVE(tables->frames, tables->n_frames, tables->frames_capacity);
	err = err ?: slots__reserve(&tables->by_frame, tables->n_frames, hash_frame, tables);
	if (err)
		return err;
	tables->frames[tables->n_frames] = *row;
	tables->frame_states[tables->n_frames] = (uint8_t)state;
	tables__enter_frame(tables, tables->n_frames++);
	return 0;
}

void tables__enter_frame(struct tables *tables, uint32_t frame)
{
	uint64_t hash;

	if (hash_frame(tables, frame, &hash))
		slots__enter(&tables->by_frame, hash, frame);
}

/* Fills in the line, if it is known by now. */
static enum frame_state locate(const struct tables *tables, struct frame_row *row)
{
	const struct function *function = &tables->functions[row->function];
	struct position position;
	int err;

	if (function->state == FUNCTION_WAITING)
		return FRAME_WAITING;
	if (function->state != FUNCTION_NAMED)
		return FRAME_KNOWN; /* nothing is to be known */
	err = codes__position(tables->codes, function->code, row->offset, &position);
	if (err)
		return err == -EAGAIN ? FRAME_WAITING : FRAME_BAD;
	row->line = position.line;
	row->column = position.column;
	return FRAME_KNOWN;
}

uint32_t tables__find_frame(const struct tables *tables, uint32_t function, int32_t offset)
{
	return SLOTS_FIND(&tables->by_frame, i, hash__pair(&tables->seed, function, (uint32_t)offset),
			  tables->frames[i].function == function && tables->frames[i].offset == offset &&
				  tables->frame_states[i] != FRAME_REPLACED && tables->frame_states[i] != FRAME_PENDING);
}

/* Counts a use of a frame that lacks something: as a loss, or in the row itself as long as it is not decided whether
 * it is one (function->code and row.line are counters then). True: it lacks nothing, and a memo may skip it next
 * time. */
static bool count_lacks(struct tables *tables, uint32_t frame)
{
	struct function *function = &tables->functions[tables->frames[frame].function];

	if (function->state == FUNCTION_WAITING)
		function->code++;
	else if (function->state == FUNCTION_UNKNOWN ||
		 (function->state == FUNCTION_NOTED && function->note == NOTE_UNKNOWN))
		tables->losses[LOSS_CODE_UNCAPTURED]++;
	else if (tables->frame_states[frame] == FRAME_WAITING)
		tables->frames[frame].line++;
	else if (tables->frame_states[frame] == FRAME_PARTIAL)
		tables->losses[LOSS_LINES_PARTIAL]++;
	else if (tables->frame_states[frame] == FRAME_BAD)
		tables->losses[LOSS_LINES_BAD]++;
	else
		return true;
	return false;
}

/* A frame that was emitted without its line (PARTIAL) gets a successor once the line is known: rows that were
 * emitted never change. */
int tables__frame(struct tables *tables, uint64_t key, int32_t offset, uint32_t *ret_frame,
		  bool *ret_clean)
{
	struct frame_row row = {.offset = offset};
	enum frame_state state;
	uint32_t frame;
	int err = function_of(tables, key, &row.function);

	if (err)
		return err;
	frame = tables__find_frame(tables, row.function, offset);
	if (frame != UINT32_MAX && tables->frame_states[frame] == FRAME_PARTIAL &&
	    locate(tables, &row) != FRAME_WAITING) {
		/* It was emitted without a line, which is known by now: a new row. */
		tables->frame_states[frame] = FRAME_REPLACED;
		frame = UINT32_MAX;
		row.line = row.column = 0;
	}
	if (frame == UINT32_MAX) {
		frame = tables->n_frames;
		state = locate(tables, &row);
		err = tables__add_frame(tables, &row, state);
		if (err)
			return err;
	}
	*ret_clean = count_lacks(tables, frame);
	*ret_frame = frame;
	return 0;
}

bool tables__is_shim(const struct tables *tables, uint32_t frame)
{
	const struct function *function = &tables->functions[tables->frames[frame].function];

	return function->state == FUNCTION_NAMED && codes__get(tables->codes, function->code)->shim;
}

int tables__note(struct tables *tables, enum note note, uint32_t *ret_frame)
{
	struct function function = {.state = FUNCTION_NOTED, .note = note};
	struct frame_row row = {.offset = -1};
	int err;

	if (!tables->note_frames[note]) {
		row.function = tables->n_functions;
		err = tables__add_function(tables, &function);
		err = err ?: tables__add_frame(tables, &row, FRAME_KNOWN);
		if (err)
			return err;
		tables->note_frames[note] = tables->n_frames;
	}
	*ret_frame = tables->note_frames[note] - 1;
	return 0;
}

/* A stack is hashed by its frames and not by its parent's id: so the hashes of all nodes of a sample are known
 * before the first one is found, and can be prefetched. */
static uint64_t path_of(const struct tables *tables, uint32_t parent, uint32_t frame)
{
	return hash__pair(&tables->seed, parent ? tables->paths[parent - 1] : 0, frame);
}

void tables__expect_stacks(const struct tables *tables, uint32_t parent, const uint32_t *frames, uint32_t n)
{
	const struct slots *slots = &tables->by_stack;
	uint64_t begin = parent ? tables->paths[parent - 1] : 0, path;
	uint32_t i, row;

	for (i = 0, path = begin; slots->capacity && i < n; i++) {
		path = hash__pair(&tables->seed, path, frames[i]);
		__builtin_prefetch(&slots->slots[slots__first(slots, path)], 1);
	}
	for (i = 0, path = begin; slots->capacity && i < n; i++) {
		path = hash__pair(&tables->seed, path, frames[i]);
		if (!slots__row(slots, slots__first(slots, path), &row))
			break; /* nor are those below it */
		__builtin_prefetch(&tables->stacks[row]);
		__builtin_prefetch(&tables->paths[row]);
	}
}

/* The node below `parent` (0: the root) for this frame; a new one if there is none. Invariant: a node's number is
 * greater than its parent's. */
int tables__stack(struct tables *tables, uint32_t parent, uint32_t frame, uint32_t *ret_stack)
{
	struct slots *slots = &tables->by_stack;
	const uint64_t hash = path_of(tables, parent, frame);
	uint32_t capacity = tables->stacks_capacity, known;
	int err;

	known = SLOTS_FIND(slots, i, hash, tables->stacks[i].parent == parent && tables->stacks[i].frame == frame);
	if (known != SLOTS_NONE) {
		*ret_stack = known + 1;
		return 0;
	}
	err = slots__reserve(slots, tables->n_stacks, hash_stack, tables);
	err = err ?: ARRAY_RESERVE(tables->paths, tables->n_stacks, capacity);
	if (!err)
		err = array__reserve((void **)&tables->stacks, sizeof(*tables->stacks),
				     tables->n_stacks, &tables->stacks_capacity);
	if (err)
		return err;
	tables->stacks[tables->n_stacks] = (struct stack_row){parent, frame};
	tables->paths[tables->n_stacks] = hash;
	slots__enter(slots, hash, tables->n_stacks);
	*ret_stack = ++tables->n_stacks;
	return 0;
}

/* A row that waited for this code object has its name now. One that was emitted as unknown is not found any more. */
void tables__code_changed(struct tables *tables, uint64_t key, uint32_t serial)
{
	struct function *function = tables__find_function(tables, 0, key);

	if (!function || !named(tables, serial))
		return;
	if (function->state == FUNCTION_WAITING) {
		function->state = FUNCTION_NAMED;
		function->code = serial;
	} else if (function->state == FUNCTION_UNKNOWN) {
		function->key = 0; /* it was emitted as unknown: the next sample gets a new row */
	}
}
