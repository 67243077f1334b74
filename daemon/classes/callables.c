#include "classes/callables.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/slots.h"
#include "classes/classes.h"
#include "classes/data.h"
#include "classes/jumps.h"
#include "classes/slots.h"
#include "weave/frames.h"

#define NAME_MAX_BYTES 128u
#define METHOD_BYTES 32u        /* PyMethodDef */
#define METHODS_A_TABLE 4096u
#define FREE_THREADED 16u       /* what a PyObject has more */
#define SHARED 2u               /* a slot's function that more types have is the interpreter's helper */

/* A function on its way: the address that a table has. */
struct found {
	uint64_t address;
	const char *name;
	uint32_t order;
	uint8_t kind;
};

struct search {
	const struct data *data;
	struct callables *out;
	struct found *found;
	uint32_t n, capacity;
	uint64_t *tables; /* where tables of methods begin, by address */
	uint32_t n_tables, tables_capacity;
	uint8_t *owned;   /* of tables: it is known whose they are */
};

static bool is_name(const char *text, bool dots)
{
	const char *c;

	for (c = text; isalnum((unsigned char)*c) || *c == '_' || (dots && (*c == '.' || *c == '-')); c++)
		;
	return c > text && !*c && !isdigit((unsigned char)*text);
}

static bool read_name(const struct data *data, uint64_t vaddr, bool dots, char ret[NAME_MAX_BYTES])
{
	return data__is_constant(data, vaddr) && data__string(data, vaddr, ret, NAME_MAX_BYTES) &&
	       is_name(ret, dots);
}

/* "owner.name"; what is in `builtins` needs no owner. */
static int add(struct search *search, uint64_t address, const char *owner, const char *name,
	       enum callable_kind kind)
{
	size_t owner_size = owner && *owner && strcmp(owner, "builtins") ? strlen(owner) : 0;
	struct found found = {.address = address, .kind = (uint8_t)kind, .order = search->n};
	size_t size = strlen(name);
	char *text;
	int err;

	/* object.__init__ runs after every other type's __new__. */
	if (kind == CALLABLE_NEW && !strcmp(owner, "object"))
		return 0;
	if (search->n >= CALLABLES_MAX)
		return -E2BIG;
	if (owner_size > 9 && !strncmp(owner, "builtins.", 9)) {
		owner += 9;
		owner_size -= 9;
	}
	text = arena__take(&search->out->names, owner_size + size + 2);
	err = text ? array__reserve((void **)&search->found, sizeof(found), search->n, &search->capacity)
		   : -ENOMEM;
	if (err)
		return err;
	memcpy(text, owner, owner_size);
	if (owner_size && size)
		text[owner_size++] = '.';
	memcpy(text + owner_size, name, size + 1);
	found.name = text;
	search->found[search->n++] = found;
	return 0;
}

/* --- methods: {name, function, flags, doc} --- */

/* METH_VARARGS to METH_METHOD; one of the calling conventions. */
static bool is_flags(uint64_t flags)
{
	return flags < 0x400 && flags & 0x8f;
}

static bool is_method(const struct data *data, uint64_t at)
{
	uint64_t name, function, flags, doc;
	char text[NAME_MAX_BYTES];

	return data__word(data, at, &name) && data__word(data, at + 8, &function) &&
	       data__word(data, at + 16, &flags) && data__word(data, at + 24, &doc) && is_flags(flags) &&
	       (!function || data__is_code(data, function)) &&
	       (!doc || data__is_constant(data, doc) || data__is_variable(data, doc)) &&
	       read_name(data, name, false, text);
}

static int add_methods(struct search *search, uint64_t at, const char *owner)
{
	uint64_t name, function;
	char text[NAME_MAX_BYTES];
	uint32_t i;
	int err = 0;

	for (i = 0; !err && i < METHODS_A_TABLE && is_method(search->data, at); i++, at += METHOD_BYTES) {
		data__word(search->data, at, &name);
		data__word(search->data, at + 8, &function);
		if (function && read_name(search->data, name, false, text))
			err = add(search, function, owner, text, CALLABLE_METHOD);
	}
	return err;
}

static int find_tables(struct search *search, const struct data_segment *segment)
{
	uint64_t at, end = segment->end;
	int err = 0;

	for (at = (segment->start + 7) & ~7ull; !err && at < end && end - at >= METHOD_BYTES; at += 8) {
		if (!is_method(search->data, at))
			continue;
		err = array__reserve((void **)&search->tables, sizeof(at), search->n_tables,
				     &search->tables_capacity);
		if (!err)
			search->tables[search->n_tables++] = at;
		while (end - at >= 2 * METHOD_BYTES && is_method(search->data, at + METHOD_BYTES))
			at += METHOD_BYTES;
	}
	return err;
}

/* Which table begins at `at`; n_tables: none. */
static uint32_t table_at(const struct search *search, uint64_t at)
{
	uint32_t low = 0, high = search->n_tables, middle;

	while (low < high) {
		middle = low + (high - low) / 2;
		if (search->tables[middle] < at)
			low = middle + 1;
		else
			high = middle;
	}
	return low < search->n_tables && search->tables[low] == at ? low : search->n_tables;
}

/* --- types --- */

static bool is_zero_or(const struct data *data, uint64_t at, bool (*what)(const struct data *, uint64_t))
{
	uint64_t word;

	return data__word(data, at, &word) && (!word || what(data, word));
}

static bool is_type(const struct data *data, uint64_t at, char ret_name[NAME_MAX_BYTES])
{
	static const uint16_t functions[] = {48, 88, 120, 128, 136, 144, 152, 184, 192, 200, 216, 224, 296, 312, 320};
	uint64_t name, basic, item, flags;
	unsigned i;

	if (!data__word(data, at + TYPE_NAME, &name) || !data__is_constant(data, name) ||
	    !data__word(data, at + TYPE_BASICSIZE, &basic) || basic > 1u << 16 ||
	    !data__word(data, at + TYPE_ITEMSIZE, &item) || item > 4096 ||
	    !data__word(data, at + TYPE_FLAGS, &flags) || flags >> 33)
		return false;
	for (i = 0; i < sizeof(functions) / sizeof(functions[0]); i++)
		if (!is_zero_or(data, at + functions[i], data__is_code))
			return false;
	for (i = TYPE_NUMBER; i <= TYPE_MAPPING; i += 8)
		if (!is_zero_or(data, at + i, data__is_variable))
			return false;
	return read_name(data, name, true, ret_name) && strncmp(ret_name, "__", 2); /* else a PyGetSetDef */
}

static int add_type(struct search *search, uint64_t at, const char *name)
{
	const struct data *data = search->data;
	uint64_t tables[] = {at, 0, 0, 0}, function, methods = 0;
	uint32_t i, table;
	int err = 0;

	data__word(data, at + TYPE_NUMBER, &tables[SLOT_NUMBER]);
	data__word(data, at + TYPE_SEQUENCE, &tables[SLOT_SEQUENCE]);
	data__word(data, at + TYPE_MAPPING, &tables[SLOT_MAPPING]);
	for (i = 0; !err && i < n_slots_of_types; i++) {
		const struct slot *slot = &slots_of_types[i];

		if (tables[slot->table] && (slot->offset || slot->table != SLOT_TYPE) &&
		    data__word(data, tables[slot->table] + slot->offset, &function) && function &&
		    data__is_code(data, function))
			err = add(search, function, name, slot->name, *slot->name ? CALLABLE_SLOT : CALLABLE_NEW);
	}
	data__word(data, at + TYPE_METHODS, &methods);
	table = methods ? table_at(search, methods) : search->n_tables;
	if (err || table == search->n_tables)
		return err;
	search->owned[table] = 1;
	return add_methods(search, methods, name);
}

/* PyType_Slot: {number, function}. */
static int add_slot(struct search *search, uint64_t number, uint64_t value, const char *owner)
{
	uint32_t i, table;

	if (number == SLOT_METHODS) {
		table = table_at(search, value);
		if (table == search->n_tables)
			return 0;
		search->owned[table] = 1;
		return add_methods(search, value, owner);
	}
	for (i = 0; i < n_slots_of_types; i++)
		if (slots_of_types[i].number == number && data__is_code(search->data, value))
			return add(search, value, owner, slots_of_types[i].name,
				   *slots_of_types[i].name ? CALLABLE_SLOT : CALLABLE_NEW);
	return 0;
}

/* PyType_Spec: name, int basicsize, int itemsize, unsigned flags, slots. */
static bool is_spec(const struct data *data, uint64_t at, uint64_t *ret_slots, char ret_name[NAME_MAX_BYTES])
{
	uint64_t name, sizes, flags, first, value;

	return data__word(data, at, &name) && data__is_constant(data, name) && data__word(data, at + 8, &sizes) &&
	       (int32_t)sizes < 1 << 16 && (int32_t)sizes > -(1 << 16) && sizes >> 32 <= 4096 &&
	       data__word(data, at + 16, &flags) && !(flags >> 32) && data__word(data, at + 24, ret_slots) &&
	       data__word(data, *ret_slots, &first) && first && first <= SLOT_LAST &&
	       data__word(data, *ret_slots + 8, &value) && read_name(data, name, true, ret_name);
}

static int add_spec(struct search *search, uint64_t slots, const char *name)
{
	uint64_t number, value;
	uint32_t i;
	int err = 0;

	for (i = 0; !err && i < SLOT_LAST; i++, slots += 16) {
		if (!data__word(search->data, slots, &number) || !number || number > SLOT_LAST ||
		    !data__word(search->data, slots + 8, &value))
			break;
		err = add_slot(search, number, value, name);
	}
	return err;
}

/* PyModuleDef: base, name, doc, size, methods. */
static bool is_module(const struct search *search, uint64_t at, uint64_t *ret_methods, char ret_name[NAME_MAX_BYTES])
{
	uint64_t name, doc, size;

	return data__word(search->data, at, &name) && data__is_constant(search->data, name) &&
	       data__word(search->data, at + 8, &doc) &&
	       (!doc || data__is_constant(search->data, doc) || data__is_variable(search->data, doc)) &&
	       data__word(search->data, at + 16, &size) && ((int64_t)size == -1 || size < 1u << 20) &&
	       data__word(search->data, at + 24, ret_methods) &&
	       table_at(search, *ret_methods) != search->n_tables && read_name(search->data, name, true, ret_name);
}

static int find_owners(struct search *search, const struct data_segment *segment)
{
	char name[NAME_MAX_BYTES];
	uint64_t at, there;
	int err = 0;

	for (at = (segment->start + 7) & ~7ull; !err && at < segment->end; at += 8) {
		if (is_module(search, at, &there, name)) {
			search->owned[table_at(search, there)] = 1;
			err = add_methods(search, there, name);
		} else if (is_type(search->data, at, name)) {
			err = add_type(search, at, name);
		} else if (is_type(search->data, at + FREE_THREADED, name)) {
			continue; /* it is met there */
		} else if (is_spec(search->data, at, &there, name)) {
			err = add_spec(search, there, name);
		}
	}
	return err;
}

/* --- the collector --- */

#define CANDIDATES_MAX 65536u
#define COLLECTOR_BYTES 1000u /* 3.9 to 3.15 have 4 to 9 KB of it */

/* What both call may only tell callbacks before and after it calls the collector, which others may call, too. */
static int add_inner_collector(struct search *search, const struct code_frames *frames, uint64_t outer)
{
	uint64_t targets[JUMPS_FROM], best = 0, best_size = COLLECTOR_BYTES;
	const struct code_piece *piece;
	uint32_t i, n = jumps__from(search->data, frames, outer, true, targets);

	for (i = 0; i < n; i++) {
		piece = code_frames__find(frames, targets[i]);
		if (piece->size > best_size && !data__is_exported(search->data, targets[i])) {
			best = targets[i];
			best_size = piece->size;
		}
	}
	return best ? add(search, best, "", CALLABLE_COLLECTOR_NAME, CALLABLE_COLLECTOR) : 0;
}

/* gc.collect() and PyGC_Collect() both call the collector, which is no exported function; of what they
 * call else none is as large (Modules/gcmodule.c, Python/gc.c). */
static int add_collector(struct search *search, const struct code_frames *frames)
{
	uint64_t method = 0, exported, a[JUMPS_FROM], b[JUMPS_FROM], best = 0, best_size = 0;
	const struct code_piece *piece;
	uint32_t i, j, n, m;

	for (i = 0; i < search->n; i++)
		if (!strcmp(search->found[i].name, "gc.collect"))
			method = search->found[i].address;
	if (!method || !data__symbol(search->data, "PyGC_Collect", &exported))
		return 0;
	n = jumps__from(search->data, frames, method, true, a);
	m = jumps__from(search->data, frames, exported, true, b);
	for (i = 0; i < n; i++)
		for (j = 0; j < m; j++) {
			piece = code_frames__find(frames, a[i]);
			if (a[i] == b[j] && piece->size > best_size && !data__is_exported(search->data, a[i])) {
				best = a[i];
				best_size = piece->size;
			}
		}
	if (!best)
		return 0;
	i = (uint32_t)add(search, best, "", CALLABLE_COLLECTOR_NAME, CALLABLE_COLLECTOR);
	return i || best_size >= COLLECTOR_BYTES ? (int)i : add_inner_collector(search, frames, best);
}

/* --- rows --- */

static int by_address(const void *left, const void *right)
{
	const struct found *a = left, *b = right;

	if (a->address != b->address)
		return a->address < b->address ? -1 : 1;
	if (a->kind != b->kind)
		return a->kind < b->kind ? -1 : 1;
	return a->order < b->order ? -1 : a->order > b->order;
}

/* Of the names of one function: of a method the shortest ("set.union", not "frozenset.union"). */
static const struct found *choose(const struct found *found, uint32_t n)
{
	const struct found *best = found;
	uint32_t i, others = 0;

	for (i = 1; i < n && found[i].kind == found->kind; i++) {
		if (strcmp(found[i].name, best->name))
			others++;
		if (strlen(found[i].name) < strlen(best->name))
			best = &found[i];
	}
	return found->kind != CALLABLE_METHOD && others >= SHARED ? NULL : best;
}

static int add_candidate(struct callables *out, uint64_t start, const struct found *found, uint32_t deep)
{
	int err = array__reserve((void **)&out->candidates, sizeof(*out->candidates), out->n_candidates,
				 &out->candidates_capacity);

	if (!err)
		out->candidates[out->n_candidates++] = (struct candidate){start, found->name, found->kind, (uint8_t)deep};
	return err;
}

#define JUMPS_DEEP 3u
#define JUMPS_MAX 24u

/* A function that ends with a jump to another has no frame while that runs. */
static int add_jumps(struct search *search, const struct code_frames *frames, const struct found *found)
{
	uint64_t seen[JUMPS_MAX + JUMPS_FROM] = {found->address}, targets[JUMPS_FROM];
	uint32_t n_seen = 1, begin = 0, end = 1, deep, i, j, k, n;
	int err = 0;

	for (deep = 0; deep < JUMPS_DEEP && begin < end; deep++, begin = end, end = n_seen)
		for (i = begin; i < end && n_seen < JUMPS_MAX; i++) {
			n = jumps__from(search->data, frames, seen[i], false, targets);
			for (j = 0; !err && j < n && n_seen < JUMPS_MAX; j++) {
				for (k = 0; k < n_seen && seen[k] != targets[j]; k++)
					;
				if (k < n_seen)
					continue;
				seen[n_seen++] = targets[j];
				err = add_candidate(search->out, targets[j], found, deep + 1);
			}
		}
	return err;
}

static int candidates_by_start(const void *left, const void *right)
{
	const struct candidate *a = left, *b = right;

	if (a->start != b->start)
		return a->start < b->start ? -1 : 1;
	return a->name < b->name ? -1 : a->name > b->name;
}

static int add_row(struct search *search, const struct code_frames *frames, uint64_t start, const struct found *best)
{
	const struct code_piece *piece = code_frames__find(frames, start);
	struct callables *out = search->out;
	int err = array__reserve((void **)&out->rows, sizeof(*out->rows), out->n, &out->capacity);

	if (err)
		return err;
	out->rows[out->n++] = (struct callable){
		.of = out,
		.start = start,
		.end = piece && piece->start == start ? piece->start + piece->size : start + 1,
		.name = best ? best->name : NULL,
		.kind = best ? best->kind : CALLABLE_METHOD,
		.forwards = best ? class__forwards(best->name) : 0,
		.exported = !best && data__is_exported(search->data, start),
	};
	return 0;
}

/* An instruction that was specialised may call what the slot calls: _PyLong_Multiply for int.__mul__. */
static int add_called(struct search *search, const struct code_frames *frames, const struct found *found)
{
	uint64_t targets[JUMPS_FROM];
	uint32_t i, n = jumps__from(search->data, frames, found->address, true, targets);
	int err = 0;

	for (i = 0; !err && i < n; i++)
		if (!data__is_exported(search->data, targets[i]))
			err = add_candidate(search->out, targets[i], found, CANDIDATE_CALLED);
	return err;
}

/* 3.11+ specialises calls of these: the instruction calls the function of the C interface itself (CALL_NO_KW_STR_1,
 * CALL_LEN... of Python/bytecodes.c). */
static int add_specialised(struct search *search)
{
	static const struct {
		const char *symbol, *name;
	} calls[] = {
		{"PyObject_Str", "str"}, {"PySequence_Tuple", "tuple"}, {"PyObject_Size", "len"}, {"PyObject_Length", "len"},
		{"PyObject_IsInstance", "isinstance"}, {"_PyList_AppendTakeRefListResize", "list.append"}, {"PyList_Append", "list.append"},
		{"PyUnicode_Append", "str.__add__"}, /* up to 3.10 the eval loop itself does what unicode_concatenate is */
	};
	struct found found = {.kind = CALLABLE_METHOD};
	uint64_t address;
	uint32_t i;
	int err = 0;

	for (i = 0; !err && i < sizeof(calls) / sizeof(calls[0]); i++) {
		found.name = calls[i].name;
		found.kind = strstr(found.name, "__") ? CALLABLE_SLOT : CALLABLE_METHOD;
		if (data__symbol(search->data, calls[i].symbol, &address))
			err = add_candidate(search->out, address, &found, 1);
	}
	return err;
}

/* Names of one function, and which names jump to which function. */
static int find_candidates(struct search *search, const struct code_frames *frames)
{
	uint32_t i;
	int err = 0;

	for (i = 0; !err && i < search->n; i++) {
		if (search->found[i].kind == CALLABLE_COLLECTOR)
			continue;
		err = add_candidate(search->out, search->found[i].address, &search->found[i], 0);
		if (!err && search->out->n_candidates < CANDIDATES_MAX)
			err = add_jumps(search, frames, &search->found[i]);
		if (!err && search->found[i].kind == CALLABLE_SLOT && search->out->n_candidates < CANDIDATES_MAX)
			err = add_called(search, frames, &search->found[i]);
	}
	if (!err)
		err = add_specialised(search);
	if (search->out->n_candidates)
		qsort(search->out->candidates, search->out->n_candidates, sizeof(*search->out->candidates),
		      candidates_by_start);
	return err;
}

static int make_rows(struct search *search, const struct code_frames *frames)
{
	struct callables *out = search->out;
	uint64_t start;
	uint32_t i = 0, at = 0, n, first;
	int err;

	if (!search->n)
		return 0;
	qsort(search->found, search->n, sizeof(*search->found), by_address);
	err = find_candidates(search, frames);
	while (!err && (i < search->n || at < out->n_candidates)) {
		start = i < search->n ? search->found[i].address : UINT64_MAX;
		if (at < out->n_candidates && out->candidates[at].start < start)
			start = out->candidates[at].start;
		for (n = 0; i + n < search->n && search->found[i + n].address == start; n++)
			;
		for (first = at; at < out->n_candidates && out->candidates[at].start == start; at++)
			;
		err = add_row(search, frames, start, n ? choose(&search->found[i], n) : NULL);
		if (err)
			break;
		out->rows[out->n - 1].first = first;
		out->rows[out->n - 1].n = at - first;
		/* What many types share is a helper, whoever jumps to it. */
		if (n && !out->rows[out->n - 1].name)
			out->n--;
		i += n;
	}
	return err;
}

static int search_all(struct search *search)
{
	const struct data *data = search->data;
	uint32_t i;
	int err = 0;

	for (i = 0; !err && i < data->n_segments; i++)
		if (data->segments[i].writable)
			err = find_tables(search, &data->segments[i]);
	if (err)
		return err;
	search->owned = calloc(1, search->n_tables + 1);
	if (!search->owned)
		return -ENOMEM;
	for (i = 0; !err && i < data->n_segments; i++)
		if (data->segments[i].writable)
			err = find_owners(search, &data->segments[i]);
	for (i = 0; !err && i < search->n_tables; i++)
		if (!search->owned[i])
			err = add_methods(search, search->tables[i], "");
	return err;
}

int callables__find(struct unwind_source *elf, struct callables *ret)
{
	struct search search = {.out = ret};
	struct code_frames frames = {};
	struct data data;
	int err;

	*ret = (struct callables){};
	err = data__open(elf, "PyModule", &data);
	if (err)
		return err;
	search.data = &data;
	err = search_all(&search);
	if (!err || err == -E2BIG) {
		code_frames__open(elf, &frames); /* without it rows have one byte */
		err = add_collector(&search, &frames);
		if (!err)
			err = make_rows(&search, &frames);
		code_frames__free(&frames);
	}
	free(search.found);
	free(search.tables);
	free(search.owned);
	data__free(&data);
	if (err)
		callables__free(ret);
	return err;
}

void callables__free(struct callables *callables)
{
	free(callables->rows);
	free(callables->candidates);
	arena__free(&callables->names);
	*callables = (struct callables){};
}

const struct callable *callables__at(const struct callables *callables, uint64_t vaddr)
{
	uint32_t low = 0, high = callables->n, middle;

	while (low < high) {
		middle = low + (high - low) / 2;
		if (callables->rows[middle].start <= vaddr)
			low = middle + 1;
		else
			high = middle;
	}
	return low && vaddr < callables->rows[low - 1].end ? &callables->rows[low - 1] : NULL;
}
