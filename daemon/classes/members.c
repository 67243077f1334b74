/* SPDX-License-Identifier: MIT */
/* Finds CPython's tables in the data of a module by their form: each aligned word of a writable segment is tried as
 * the begin of a PyMethodDef, PyTypeObject, PyType_Spec or PyModuleDef. First all method tables, then their owners
 * (types and modules), as a method's name needs its owner's; tables without an owner give names without one.
 *
 *    PyMethodDef    name -> "append"   function -> code   flags 0x8   doc -> text
 *    PyTypeObject   24: name -> "list"   32: basicsize   48: dealloc -> code   96: number -> data   232: methods
 *    PyModuleDef    name -> "math"   doc -> text   size -1   methods -> table
 *
 * A form is a conjunction of many conditions, so that data which is none of these does not match by chance. If a
 * hostile file pretends, its functions have wrong names, as they could have by its symbols. */
#include "classes/search.h"

#include <ctype.h>
#include <string.h>

#include "base/array.h"
#include "base/search.h"

#define NAME_MAX_BYTES 128u
#define METHOD_BYTES 32u        /* PyMethodDef */
#define METHODS_A_TABLE 4096u
#define FREE_THREADED 16u       /* bytes by which a PyObject is larger there */

/* An identifier; with `dots`, a dotted name as types have ("numpy.ufunc"), where "-" is a part of "method-wrapper". */
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

int search__add(struct search *search, uint64_t address, const char *owner, const char *name,
	       enum callable_kind kind)
{
	size_t owner_size = owner && *owner && strcmp(owner, "builtins") ? strlen(owner) : 0;
	struct found found = {.address = address, .kind = (uint8_t)kind, .order = search->n};
	size_t size = strlen(name);
	char *text;
	int err;

	/* object.__init__ runs after every type's __new__: its name would say nothing. */
	if (kind == CALLABLE_NEW && !strcmp(owner, "object"))
		return 0;
	if (search->n >= CALLABLES_MAX)
		return -E2BIG;
	if (owner_size > 9 && !strncmp(owner, "builtins.", 9)) {
		owner += 9;
		owner_size -= 9;
	}
	text = arena__take(&search->out->names, owner_size + size + 2);
	err = text ? ARRAY_RESERVE(search->found, search->n, search->capacity)
		   : -ENOMEM;
	if (err)
		return err;
	memcpy(text, owner, owner_size);
	if (owner_size && size)
		text[owner_size++] = '.';
	search->out->builtins |= !strcmp(owner, "builtins") && !strcmp(name, "isinstance");
	memcpy(text + owner_size, name, size + 1);
	found.name = text;
	search->found[search->n++] = found;
	return 0;
}

/* --- methods: {name, function, flags, doc} --- */

/* Only known METH_ flags, among them at least one calling convention (Include/methodobject.h). */
static bool is_flags(uint64_t flags)
{
	return flags < 0x400 && flags & 0x8f;
}

static bool read_method(const struct data *data, uint64_t at, uint64_t *ret_function, char ret_name[NAME_MAX_BYTES])
{
	const uint8_t *bytes = data__at(data, at, METHOD_BYTES);
	struct {
		uint64_t name, function, flags, doc;
	} method;

	if (!bytes)
		return false;
	memcpy(&method, bytes, sizeof(method));
	*ret_function = method.function;
	return is_flags(method.flags) && (!method.function || data__is_code(data, method.function)) &&
	       (!method.doc || data__is_constant(data, method.doc) || data__is_variable(data, method.doc)) &&
	       read_name(data, method.name, false, ret_name);
}

static bool is_method(const struct data *data, uint64_t at)
{
	char name[NAME_MAX_BYTES];
	uint64_t function;

	return read_method(data, at, &function, name);
}

static int add_methods(struct search *search, uint64_t at, const char *owner)
{
	char name[NAME_MAX_BYTES];
	uint64_t function;
	int err = 0;

	for (uint32_t i = 0; !err && i < METHODS_A_TABLE && read_method(search->data, at, &function, name); i++, at += METHOD_BYTES)
		if (function)
			err = search__add(search, function, owner, name, CALLABLE_METHOD);
	return err;
}

/* Collects the begins of method tables; scanning goes by address, so they are sorted. */
static int find_tables(struct search *search, const struct data_segment *segment)
{
	uint64_t at, end = segment->end;
	int err = 0;

	for (at = (segment->start + 7) & ~7ull; !err && at < end && end - at >= METHOD_BYTES; at += 8) {
		if (!is_method(search->data, at))
			continue;
		err = ARRAY_ADD(search->tables, search->n_tables, search->tables_capacity, at);
		while (end - at >= 2 * METHOD_BYTES && is_method(search->data, at + METHOD_BYTES))
			at += METHOD_BYTES;
	}
	return err;
}

/* Index of the table that begins at `at`; n_tables: none does. */
static uint32_t table_at(const struct search *search, uint64_t at)
{
	uint32_t low = SEARCH(i, search->n_tables, search->tables[i] < at);

	return low < search->n_tables && search->tables[low] == at ? low : search->n_tables;
}

/* --- types --- */

/* memcpy: `type` is aligned in the file's addresses, not in our buffer. */
static uint64_t word_of(const uint8_t *type, uint32_t offset)
{
	uint64_t word;

	memcpy(&word, type + offset, sizeof(word));
	return word;
}

static bool is_zero_or(const struct data *data, uint64_t word, bool (*what)(const struct data *, uint64_t))
{
	return !word || what(data, word);
}

/* `functions`: offsets of members that must be 0 or point to code: tp_dealloc, tp_repr, tp_hash ... */
static bool is_type(const struct data *data, uint64_t at, char ret_name[NAME_MAX_BYTES])
{
	static const uint16_t functions[] = {48, 88, 120, 128, 136, 144, 152, 184, 192, 200, 216, 224, 296, 312, 320};
	const uint8_t *type = data__at(data, at, functions[sizeof(functions) / sizeof(functions[0]) - 1] + sizeof(uint64_t));

	if (!type || word_of(type, TYPE_BASICSIZE) > 1u << 16 || word_of(type, TYPE_ITEMSIZE) > 4096 || word_of(type, TYPE_FLAGS) >> 33 ||
	    !data__is_constant(data, word_of(type, TYPE_NAME)))
		return false;
	for (unsigned i = 0; i < sizeof(functions) / sizeof(functions[0]); i++)
		if (!is_zero_or(data, word_of(type, functions[i]), data__is_code))
			return false;
	for (unsigned i = TYPE_NUMBER; i <= TYPE_MAPPING; i += 8)
		if (!is_zero_or(data, word_of(type, i), data__is_variable))
			return false;
	/* a name such as __dict__ begins a PyGetSetDef */
	return read_name(data, word_of(type, TYPE_NAME), true, ret_name) && strncmp(ret_name, "__", 2);
}

/* Where objects of a PyType_Spec's type hold their vectorcall function: the offset of the member
 * __vectorcalloffset__ (Doc/c-api/call.rst). 0: they have none. */
static uint64_t vectorcall_offset(const struct data *data, uint64_t members)
{
	uint64_t name, offset;
	char text[NAME_MAX_BYTES];

	for (uint32_t i = 0; i < MEMBERS_MAX && data__word(data, members, &name) && name; i++, members += MEMBER_BYTES)
		if (read_name(data, name, false, text) && !strcmp(text, "__vectorcalloffset__") &&
		    data__word(data, members + 16, &offset))
			return offset;
	return 0;
}

static int add_slot_as(struct search *search, uint64_t function, const char *owner, const struct slot *slot)
{
	if (!slot->name)
		return search__add(search, function, "", CALLABLE_DEALLOC_NAME, CALLABLE_DEALLOC);
	return search__add(search, function, owner, slot->name, *slot->name ? CALLABLE_SLOT : CALLABLE_NEW);
}

/* All slots of a static type, then its method table. Of a free-threaded build `at` is 16 bytes further
 * (FREE_THREADED), so that the offsets are the same. */
static int add_type(struct search *search, uint64_t at, const char *name)
{
	const struct data *data = search->data;
	uint64_t tables[] = {at, 0, 0, 0}, function, methods = 0, flags = 0, offset = 0, maker = 0;
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
			err = add_slot_as(search, function, name, slot);
	}
	data__word(data, at + TYPE_FLAGS, &flags);
	data__word(data, at + TYPE_NEW, &maker);
	if (flags & TYPE_HAS_VECTORCALL && data__word(data, at + TYPE_VECTORCALL_OFFSET, &offset))
		search__instance(search, offset, at, maker, name);
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
			return add_slot_as(search, value, owner, &slots_of_types[i]);
	return 0;
}

/* PyType_Spec: name, int basicsize, int itemsize, unsigned flags, slots. */
static bool is_spec(const struct data *data, uint64_t at, uint64_t *ret_slots, char ret_name[NAME_MAX_BYTES])
{
	const uint8_t *bytes = data__at(data, at, 32);
	uint64_t first, value;
	struct {
		uint64_t name;
		int32_t basic;
		uint32_t item;
		uint64_t flags, slots;
	} spec;

	if (!bytes)
		return false;
	memcpy(&spec, bytes, sizeof(spec));
	*ret_slots = spec.slots;
	return !(spec.flags >> 32) && spec.item <= 4096 && spec.basic < 1 << 16 && spec.basic > -(1 << 16) &&
	       data__is_constant(data, spec.name) && data__word(data, spec.slots, &first) && first && first <= SLOT_LAST &&
	       data__word(data, spec.slots + 8, &value) && read_name(data, spec.name, true, ret_name);
}

/* Slots end with a number of 0. Members and tp_new are remembered for instances.c on the way. */
static int add_spec(struct search *search, uint64_t slots, const char *name)
{
	uint64_t number, value, members = 0, maker = 0;
	int err = 0;

	for (uint32_t i = 0; !err && i < SLOT_LAST; i++, slots += 16) {
		if (!data__word(search->data, slots, &number) || !number || number > SLOT_LAST ||
		    !data__word(search->data, slots + 8, &value))
			break;
		members = number == SLOT_MEMBERS ? value : members;
		maker = number == SLOT_NEW ? value : maker;
		err = add_slot(search, number, value, name);
	}
	if (members)
		search__instance(search, vectorcall_offset(search->data, members), 0, maker, name);
	return err;
}

/* PyModuleDef from its m_name on: name, doc, size, methods. `at` is that member, since m_base before it has nothing
 * to recognise. */
static bool is_module(const struct search *search, uint64_t at, uint64_t *ret_methods, char ret_name[NAME_MAX_BYTES])
{
	const struct data *data = search->data;
	const uint8_t *bytes = data__at(data, at, 32);
	struct {
		uint64_t name, doc;
		int64_t size;
		uint64_t methods;
	} module;

	if (!bytes)
		return false;
	memcpy(&module, bytes, sizeof(module));
	*ret_methods = module.methods;
	return module.size >= -1 && module.size < 1 << 20 && data__is_constant(data, module.name) &&
	       (!module.doc || data__is_constant(data, module.doc) || data__is_variable(data, module.doc)) &&
	       table_at(search, module.methods) != search->n_tables && read_name(data, module.name, true, ret_name);
}

/* Each word is tried as each kind, the rarest first. A table that was matched is not skipped: its inner words match
 * nothing. */
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
			continue; /* a free-threaded type, 16 bytes further: the loop comes to it */
		} else if (is_spec(search->data, at, &there, name)) {
			err = add_spec(search, there, name);
		}
	}
	return err;
}

int search__members(struct search *search)
{
	const struct data *data = search->data;
	int err = 0;

	for (uint32_t i = 0; !err && i < data->n_segments; i++)
		if (data->segments[i].writable)
			err = find_tables(search, &data->segments[i]);
	if (err)
		return err;
	search->owned = calloc(1, search->n_tables + 1);
	if (!search->owned)
		return -ENOMEM;
	for (uint32_t i = 0; !err && i < data->n_segments; i++)
		if (data->segments[i].writable)
			err = find_owners(search, &data->segments[i]);
	for (uint32_t i = 0; !err && i < search->n_tables; i++)
		if (!search->owned[i])
			err = add_methods(search, search->tables[i], "");
	return err;
}
