/* SPDX-License-Identifier: MIT */
/* Native code: an address -> its frame row. Most were sampled lately: their row is in the cache. Of the others the code
 * map says what they are, and that becomes rows of functions and frames.
 *
 *    code_location {module 5, function 0xccdb0, vaddr 0xccdf2, name "clock_nanosleep"}
 *      -> functions[8] {module 6, key 0xccdb0}  natives[3] {name, module "libc.so.6", file, line}
 *      -> frames[13] {function 8, offset 0x42}
 *
 * An address whose symbols are still being read becomes a frame without a function (FRAME_PENDING), which is filled
 * in later: the frame's number must not change, since stack nodes already refer to it. Two such frames may turn out
 * to be one location; they stay two rows.
 *
 * In the cache an entry with a generation that is not current is free: it is never found again, and is overwritten when
 * it has moved to the last way. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "profile/cache.h"
#include "profile/tables.h"

/* How many of the last rows are searched for an equal module name, so that it is stored once: most often it is
 * there. */
#define RECENT 16u
/* Part of a function's module: the interpreter's, though a row says that it is an ordinary library's. */
#define MODULE_INTERPRETER (1ull << 59)

static uint64_t module_of(const struct function *function) { return (function->module & ~MODULE_INTERPRETER) - 1; }

static const uint8_t kinds[] = {
	[LOCATION_UNKNOWN] = FUNCTION_NATIVE,
	[LOCATION_LIBRARY] = FUNCTION_NATIVE,
	[LOCATION_INTERPRETER] = FUNCTION_INTERPRETER,
	[LOCATION_JIT] = FUNCTION_JIT,
	[LOCATION_VDSO] = FUNCTION_NATIVE,
	[LOCATION_KERNEL] = FUNCTION_KERNEL,
};

/* A copy that lives as long as the epoch. NULL: no memory. */
static const char *keep(struct tables *tables, const char *text)
{
	size_t size = strlen(text) + 1;
	char *copy;

	if (size == 1)
		return "";
	copy = arena__take(&tables->strings, size);
	return copy ? memcpy(copy, text, size) : NULL;
}

static const char *keep_module(struct tables *tables, const char *name)
{
	for (uint32_t i = tables->n_natives; i && tables->n_natives - i < RECENT; i--)
		if (!strcmp(tables->natives[i - 1].module, name))
			return tables->natives[i - 1].module;
	return keep(tables, name);
}

/* Only files have a build id. One that is not read yet is asked again with its next function. */
static int note_module(struct tables *tables, uint64_t module, const char *name)
{
	const uint8_t *id;
	const uint32_t size = codemap__build_id(tables->codemap, module, &id);
	struct module_row row = {.name = name};
	char *text;
	bool first;
	int err = size ? buf__mark(&tables->noted_modules, module, &first) : 0;

	if (err || !size || !first)
		return err;
	row.build_id = text = arena__take(&tables->strings, 2 * size + 1);
	if (!text)
		return -ENOMEM;
	for (uint32_t i = 0; i < size; i++)
		sprintf(text + 2 * i, "%02x", id[i]);
	return ARRAY_ADD(tables->modules, tables->n_modules, tables->modules_capacity, row);
}

static enum frame_state state_of(const struct code_location *location)
{
	return location->lineless ? FRAME_KNOWN : FRAME_WAITING;
}

/* A new function with its name. `kept` names live in the code map until the epoch ends; others are copied. */
static int add_native(struct tables *tables, const struct code_location *location, uint64_t module, uint32_t *ret_function)
{
	struct function function = {.key = location->function,
				    .module = module,
				    .state = FUNCTION_CODE,
				    .since = tables->tick,
				    .code = tables->n_natives};
	struct native native = {.name = location->kept ? location->name : keep(tables, location->name),
				.module = keep_module(tables, location->module_name),
				.file = "",
				.start = location->start,
				.kind = kinds[location->kind <= LOCATION_KERNEL ? location->kind : 0]};
	int err = native.name && native.module ? 0 : -ENOMEM;

	native.lines_asked = state_of(location) == FRAME_KNOWN;
	err = err ?: note_module(tables, location->module, native.module);
	err = err ?: ARRAY_RESERVE(tables->natives, tables->n_natives, tables->natives_capacity);
	if (err)
		return err;
	tables->natives[tables->n_natives] = native;
	*ret_function = tables->n_functions;
	err = tables__add_function(tables, &function);
	tables->n_natives += !err;
	return err;
}

/* The frame row of a location whose name is known, not entered into the table. Adds its function if that is new. */
static int row_of(struct tables *tables, const struct code_location *location, struct frame_row *ret)
{
	uint64_t module = location->module + 1, offset = location->vaddr - location->start;
	struct function *found = tables__find_function(tables, module, location->function);
	int err = 0;

	*ret = (struct frame_row){.offset = offset <= INT32_MAX ? (int32_t)offset : INT32_MAX};
	/* Nothing but its function can be shown of it. */
	if (location->lineless)
		ret->offset = 0;
	if (state_of(location) == FRAME_WAITING)
		ret->column = tables->tick;
	/* It was sampled before it was known which module is the interpreter: an emitted row stays, and it is another
	 * function from now on. */
	if (found && location->kind == LOCATION_INTERPRETER && tables->natives[found->code].kind == FUNCTION_NATIVE) {
		if ((uint32_t)(found - tables->functions) < tables->emitted_functions) {
			module |= MODULE_INTERPRETER;
			found = tables__find_function(tables, module, location->function);
		} else {
			tables->natives[found->code].kind = FUNCTION_INTERPRETER;
			found->trait = (struct trait){};
		}
	}
	if (found) {
		ret->function = (uint32_t)(found - tables->functions);
	} else {
		struct code_location named = *location;

		if (!named.name) /* codemap__locate() */
			codemap__name(tables->codemap, location->module, location->vaddr, &named);
		if (!named.name)
			named.name = named.module_name = "";
		err = add_native(tables, &named, module, &ret->function);
	}
	return err;
}

/* Values of function.module for functions without an address: callees, and notes. */
#define MODULE_CALLS (1ull << 60)
#define MODULE_SAYS (1ull << 61)

/* A function without an address, by its text: a callee ("list.append") or a note ("(without the GIL)"). One row for
 * each text. */
static int named(struct tables *tables, uint64_t module, uint8_t kind, const char *name, uint32_t *ret_frame)
{
	/* By the name's content: two processes' interpreters have it at two places. */
	uint64_t key = hash__bytes(&tables->seed, name, strlen(name));
	struct function *found = tables__find_function(tables, module, key), function = {
		.key = key, .module = module, .state = FUNCTION_CODE, .since = tables->tick, .code = tables->n_natives};
	struct native native = {.module = "", .file = "", .kind = kind, .lines_asked = true};
	struct frame_row row = {.function = tables->n_functions};
	int err;

	if (found) {
		*ret_frame = tables__find_frame(tables, (uint32_t)(found - tables->functions), 0);
		return 0;
	}
	native.name = keep(tables, name);
	err = native.name ? ARRAY_RESERVE(tables->natives, tables->n_natives, tables->natives_capacity)
			  : -ENOMEM;
	err = err ?: tables__add_function(tables, &function);
	if (err)
		return err;
	tables->natives[tables->n_natives++] = native;
	*ret_frame = tables->n_frames;
	return tables__add_frame(tables, &row, FRAME_KNOWN);
}

int tables__callee(struct tables *tables, const char *name, uint32_t *ret_frame)
{
	return named(tables, MODULE_CALLS, FUNCTION_CALL, name, ret_frame);
}

int tables__says(struct tables *tables, const char *words, uint32_t *ret_frame)
{
	return named(tables, MODULE_SAYS, FUNCTION_NOTE, words, ret_frame);
}

/* --- what has no name yet --- */

static bool hash_pending(const void *holder, uint32_t i, uint64_t *ret)
{
	const struct tables *tables = holder;

	*ret = hash__pair(&tables->seed, tables->pendings[i].vaddr, tables->pendings[i].module);
	return true;
}

static struct pending *find_pending(const struct tables *tables, const struct code_location *location)
{
	uint32_t row;

	if (!tables->n_pendings)
		return NULL;
	row = SLOTS_FIND(&tables->by_pending, i, hash__pair(&tables->seed, location->vaddr, location->module),
			 tables->pendings[i].vaddr == location->vaddr && tables->pendings[i].module == location->module);
	return row == SLOTS_NONE ? NULL : &tables->pendings[row];
}

static int add_pending(struct tables *tables, const struct code_location *location, uint32_t *ret_frame)
{
	struct pending pending = {location->module, location->vaddr, tables->n_frames, tables->tick, false};
	struct frame_row row = {.function = tables->n_pendings};
	int err = ARRAY_RESERVE(tables->pendings, tables->n_pendings, tables->pendings_capacity);

	if (err)
		return err;
	tables->pendings[tables->n_pendings] = pending;
	err = tables__add_frame(tables, &row, FRAME_PENDING) ?: slots__add(&tables->by_pending, tables->n_pendings, hash_pending, tables);
	if (err)
		return err;
	tables->n_pendings++;
	tables->n_unnamed++;
	*ret_frame = pending.frame;
	return 0;
}

/* The pending frame's location is known: it gets its function, and from now on is found by it. */
static int name(struct tables *tables, struct pending *pending, const struct code_location *location)
{
	struct frame_row row;
	int err = row_of(tables, location, &row);

	if (err)
		return err;
	tables->frames[pending->frame] = row;
	tables->frame_states[pending->frame] = (uint8_t)state_of(location);
	tables__enter_frame(tables, pending->frame);
	pending->named = true;
	tables->n_unnamed--;
	return 0;
}

/* After the deadline a row is emitted with what the code map has by then ("module+0xoffset"). O(pending), each tick
 * while there are any. */
int tables__name_pending(struct tables *tables, bool give_up)
{
	int err;

	for (uint32_t i = 0; tables->n_unnamed && i < tables->n_pendings; i++) {
		struct pending *pending = &tables->pendings[i];
		struct code_location location = {.module_name = "", .name = ""};

		if (pending->named)
			continue;
		err = codemap__name(tables->codemap, pending->module, pending->vaddr, &location);
		if (err == -EAGAIN && !give_up && tables->tick - pending->since < TABLES_DEADLINE_NAMES)
			continue;
		err = name(tables, pending, &location);
		if (err)
			return err;
	}
	if (tables->n_pendings && !tables->n_unnamed) {
		tables->n_pendings = 0;
		free(tables->by_pending.slots);
		tables->by_pending = (struct slots){};
	}
	return 0;
}

/* In this order: an address that was pending and can be named now; one that still is; a new one whose symbols are
 * being read; a known location. */
int tables__native(struct tables *tables, const struct code_location *location, uint32_t *ret_frame)
{
	struct pending *pending = find_pending(tables, location);
	struct frame_row row;
	int err;

	if (pending && !pending->named && !location->pending) {
		err = name(tables, pending, location);
		if (err)
			return err;
	}
	if (pending && (!pending->named || location->pending)) {
		*ret_frame = pending->frame;
		return 0;
	}
	if (location->pending)
		return add_pending(tables, location, ret_frame);
	err = row_of(tables, location, &row);
	if (err)
		return err;
	*ret_frame = tables__find_frame(tables, row.function, row.offset);
	if (*ret_frame != UINT32_MAX)
		return 0;
	*ret_frame = tables->n_frames;
	return tables__add_frame(tables, &row, state_of(location));
}

/* --- the cache (cache.h) --- */

void code_cache__clear(struct code_cache *cache)
{
	for (uint32_t i = 0; i < CACHED_LOCATIONS; i++)
		cache->locations[i].generation = 0;
	for (uint32_t i = 0; i < CACHED_RANGES; i++)
		cache->ranges[i].generation = 0;
}

void code_cache__drop(struct code_cache *cache, bool (*is_replaced)(const void *rows, uint32_t row), const void *rows)
{
	for (uint32_t i = 0; i < CACHED_LOCATIONS; i++)
		if (cache->locations[i].generation && is_replaced(rows, cache->locations[i].row))
			cache->locations[i].generation = 0;
	for (uint32_t i = 0; i < CACHED_RANGES; i++)
		if (cache->ranges[i].generation && is_replaced(rows, cache->ranges[i].row))
			cache->ranges[i].generation = 0;
}

/* Generations are 64-bit sums that differ between processes; the ids that replace them are unique over all
 * processes, so that one entry's generation also says whose it is. */
struct code_now code_cache__now(struct code_cache *cache, struct code_seen *process, struct codemap *codemap,
				const struct record_task *task, uint64_t time)
{
	struct code_generations now = codemap__generations(codemap, task, time);

	if (!process->ids.all || process->last.all != now.all)
		process->ids.all = ++cache->ids;
	if (!process->ids.stable || process->last.stable != now.stable)
		process->ids.stable = ++cache->ids;
	process->last = now;
	return process->ids;
}

/* The ways of the ranges that may contain this address. */
static struct cached_range *ranges_of(struct code_cache *cache, uint64_t space, uint64_t address)
{
	uint64_t hash = hash__pair(&cache->seed, address >> CACHED_RANGE_SHIFT, space);

	return &cache->ranges[hash % (CACHED_RANGES / CACHED_WAYS) * CACHED_WAYS];
}

static bool in_range(struct code_cache *cache, uint64_t space, const struct code_now *now, uint64_t pc,
		     struct cached_location *ret)
{
	uint64_t address = native_address(pc);
	struct cached_range *known = ranges_of(cache, space, address), found;
	uint32_t way;

	for (way = 0; way < CACHED_WAYS; way++)
		if (known[way].generation == now->stable && address - known[way].from < known[way].size)
			break;
	if (way == CACHED_WAYS)
		return false;
	found = known[way];
	memmove(known + 1, known, way * sizeof(*known));
	*known = found;
	*ret = (struct cached_location){
		.pc = pc, .callable = found.callable, .generation = now->stable, .row = found.row, .role = found.role};
	return true;
}

static void keep_range(struct code_cache *cache, uint64_t space, const struct code_now *now, uint64_t pc,
		       const struct code_location *location, uint32_t row)
{
	struct cached_range *known = ranges_of(cache, space, native_address(pc));

	if (location->to - location->from > UINT32_MAX)
		return;
	memmove(known + 1, known, (CACHED_WAYS - 1) * sizeof(*known));
	*known = (struct cached_range){.from = location->from,
				       .callable = location->callable,
				       .size = (uint32_t)(location->to - location->from),
				       .generation = now->stable,
				       .row = row,
				       .role = location->role};
}

/* An answer that is not stable was stored under `all`, a stable one under `stable`; ids never collide, so comparing
 * with both is safe. */
static bool still_holds(const struct cached_location *known, const struct code_now *now, uint64_t pc)
{
	return known->pc == pc && (known->generation == now->stable || known->generation == now->all);
}

/* Moves the entry to the front; the ways before `way` move back by one. */
static const struct cached_location *put(struct cached_location *front, uint32_t way,
					 const struct cached_location *known)
{
	struct cached_location found = *known;

	memmove(front + 1, front, way * sizeof(*front));
	*front = found;
	return front;
}

/* Most hits are in front. A hit in a range becomes an entry of its own, so that the next lookup is shorter. */
const struct cached_location *code_cache__find(struct code_cache *cache, uint64_t space, const struct code_now *now,
					       uint64_t pc)
{
	struct cached_location *front = code_cache__front(cache, space, pc), found;

	if (still_holds(front, now, pc))
		return front;
	for (uint32_t way = 1; way < CACHED_WAYS; way++)
		if (still_holds(&front[way], now, pc))
			return put(front, way, &front[way]);
	return in_range(cache, space, now, pc, &found) ? put(front, CACHED_WAYS - 1, &found) : NULL;
}

const struct cached_location *code_cache__keep(struct code_cache *cache, uint64_t space, const struct code_now *now,
					       uint64_t pc, const struct code_location *location, uint32_t row)
{
	const bool stable = location && location->stable;
	const struct cached_location found = {.pc = pc,
					      .callable = location ? location->callable : NULL,
					      .generation = stable ? now->stable : now->all,
					      .row = row,
					      .role = location ? location->role : WEAVE_CODE};

	if (stable && location->to)
		keep_range(cache, space, now, pc, location, row);
	return put(code_cache__front(cache, space, pc), CACHED_WAYS - 1, &found);
}

int code_cache__ask(struct code_cache *cache, struct tables *tables, uint64_t space, const struct record_header *header,
		    const struct code_now *now, uint64_t pc, const struct cached_location **ret)
{
	struct code_location location = {.module_name = "", .name = ""};
	int err = codemap__locate(tables->codemap, &header->task, native_address(pc), header->time, &location);
	const struct code_location *found = err ? NULL : &location;
	uint32_t frame;

	err = found ? tables__native(tables, found, &frame) : tables__note(tables, NOTE_NO_PLACE, &frame);
	if (!err)
		*ret = code_cache__keep(cache, space, now, pc, found, frame);
	return err;
}

/* --- lines --- */

/* -EAGAIN: not known yet. JIT objects have their lines with them, so these are there soon. */
static int ask_line(const struct tables *tables, const struct function *function, uint32_t offset, const char **ret_file,
		    uint32_t *ret_line, uint32_t *ret_column)
{
	const struct native *native = &tables->natives[function->code];

	if (tables->without_lines && native->kind != FUNCTION_JIT)
		return -ENOENT;
	return codemap__line(tables->codemap, module_of(function), native->start + offset, ret_file, ret_line, ret_column);
}

/* The function's own file and line, from its first address. False: not known yet. An answer is final. */
bool tables__native_lines(struct tables *tables, struct function *function)
{
	struct native *native = &tables->natives[function->code];
	const char *file = NULL, *kept;
	uint32_t line = 0, column = 0;
	int err;

	if (native->lines_asked)
		return true;
	err = ask_line(tables, function, 0, &file, &line, &column);
	if (err == -EAGAIN)
		return false;
	native->lines_asked = true;
	kept = !err && file ? keep(tables, file) : NULL;
	if (kept) {
		native->file = kept;
		native->line = line;
	}
	return true;
}

/* Into row->line and row->column. False: not known yet. The row keeps line 0 if the answer is that there is none. */
bool tables__native_line(const struct tables *tables, const struct function *function,
			 struct frame_row *row)
{
	const struct native *native = &tables->natives[function->code];
	const char *file = NULL;
	uint32_t line = 0, column = 0;
	int err;

	err = ask_line(tables, function, (uint32_t)row->offset, &file, &line, &column);
	/* A line of another file (an inlined function's) would be shown in this one. */
	if (!err && file && line && !strcmp(file, native->file)) {
		row->line = line;
		row->column = column;
	}
	return err != -EAGAIN;
}

/* Is a question about this function's lines worth repeating? The namer remembers questions, so only new ones are;
 * but lines of a JIT object come in steps, each of which needs a call. */
static bool asks_on(const struct tables *tables, const struct function *function, bool fresh)
{
	return function->state == FUNCTION_CODE && (fresh || tables->natives[function->code].kind == FUNCTION_JIT);
}

/* Questions are asked ahead for all rows that wait, not only for the first: the namer answers those of one module
 * together. Rows that were asked for already are skipped until something was answered. */
void tables__ask_lines(struct tables *tables)
{
	const uint64_t news = tables->codemap ? codemap__lines_generation(tables->codemap) : 0;
	const bool all = !news || news != tables->asked_news; /* some may have found no room, or were forgotten */
	struct function *function;
	struct frame_row row;

	for (uint32_t i = tables->emitted_functions; i < tables->n_functions; i++)
		if (asks_on(tables, &tables->functions[i], all || i >= tables->asked_functions))
			tables__native_lines(tables, &tables->functions[i]);
	for (uint32_t i = tables->emitted_frames; i < tables->n_frames; i++) {
		if (tables->frame_states[i] != FRAME_WAITING)
			continue;
		row = tables->frames[i];
		function = &tables->functions[row.function];
		if (asks_on(tables, function, all || i >= tables->asked_frames))
			tables__native_line(tables, function, &row);
	}
	tables->asked_news = news;
	tables->asked_functions = tables->n_functions;
	tables->asked_frames = tables->n_frames;
}
