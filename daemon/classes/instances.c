/* SPDX-License-Identifier: MIT */
/* Functions that each object has a pointer to. A type with tp_vectorcall_offset (PEP 590) says that calling an
 * object runs the function stored in the object at that offset: ufuncs, partial, NumPy's dispatchers. No table has
 * that function, but the code that makes such an object stores it at the type's offset. It is found there, where its
 * address is loaded and soon after stored: in the type's tp_new, what that calls, or a function that refers to the
 * type, as other types have other members at that offset.
 *
 *    lea   ufunc_vectorcall, reg     a function's address is loaded ...
 *    mov   reg, 0x18(obj)            ... and stored at the offset that type "ufunc" has  ->  "numpy.ufunc.__call__"
 *
 * The code is tried at every byte, 64 KB at a time (arch/arch.h decodes). A store that only looks like one needs an
 * offset of a known type, a function's first byte, and a function that makes this type: chance does not bring these
 * together. */
#include "classes/search.h"

#include <errno.h>
#include <string.h>

#include "arch/arch.h"

#define MAKER_BYTES (8u << 10) /* PyUFunc_FromFuncAndData... has 1 KB */

void search__instance(struct search *search, uint64_t offset, uint64_t at, uint64_t maker, const char *type)
{
	struct search_instance *instance = &search->instances[search->n_instances];

	if (!offset || offset > 4096 || offset % 8 || search->n_instances == SEARCH_INSTANCES)
		return;
	instance->offset = offset;
	instance->at = at;
	instance->maker = maker;
	snprintf(instance->type, sizeof(instance->type), "%s", type);
	search->n_instances++;
}

static bool is_offset(const struct search *search, uint64_t offset)
{
	for (uint32_t i = 0; offset && i < search->n_instances; i++)
		if (search->instances[i].offset == offset)
			return true;
	return false;
}

/* Does code of `piece` refer to what is at `vaddr`, by a distance or, in a program at a fixed address, by that? */
static bool refers(const struct data *data, const struct code_piece *piece, uint64_t vaddr)
{
	uint8_t code[MAKER_BYTES];
	uint32_t size = piece->size < sizeof(code) ? (uint32_t)piece->size : (uint32_t)sizeof(code), i;
	int32_t word;

	if (!data__bytes(data, piece->start, code, size))
		return false;
	for (i = 0; i + sizeof(word) <= size; i++) {
		memcpy(&word, code + i, sizeof(word));
		if (piece->start + i + sizeof(word) + (uint64_t)(int64_t)word == vaddr || (uint64_t)(int64_t)word == vaddr)
			return true;
	}
	return false;
}

/* Does the type's tp_new call this function, or jump to it? One that sets members makes no object itself (setup_ga() of
 * types.GenericAlias). */
static bool is_called_by(const struct search *search, const struct code_frames *frames, uint64_t maker, uint64_t function)
{
	uint64_t called[JUMPS_FROM];
	uint32_t n = maker ? jumps__from(search->data, frames, maker, true, called) : 0;

	for (uint32_t i = 0; i < n; i++)
		if (called[i] == function)
			return true;
	return false;
}

/* The type whose objects the code at `vaddr` makes, and that have a function at `offset`. */
static const struct search_instance *type_at(const struct search *search, const struct code_frames *frames, uint64_t vaddr, uint64_t offset)
{
	const struct code_piece *piece = code_frames__find(frames, vaddr);

	for (uint32_t i = 0; piece && i < search->n_instances; i++) {
		const struct search_instance *instance = &search->instances[i];

		if (instance->offset != offset)
			continue;
		if (piece->start == instance->maker || (instance->at && refers(search->data, piece, instance->at)) ||
		    is_called_by(search, frames, instance->maker, piece->start))
			return instance;
	}
	return NULL;
}

/* The type whose objects get the function that the instruction at `code` loads the address of. */
static const struct search_instance *type_of(const struct search *search, const struct code_frames *frames, const uint8_t *code, uint64_t vaddr)
{
	const struct search_instance *type = NULL;
	uint64_t offsets[MACHINE_STORES];
	uint32_t i, n = machine__stores(code, offsets);

	for (i = 0; !type && i < n; i++)
		if (is_offset(search, offsets[i]))
			type = type_at(search, frames, vaddr, offsets[i]);
	return type;
}

/* What a Python function has is how it is entered (_PyFunction_Vectorcall, where that name is not exported): no
 * function of C that it calls. */
static int add(struct search *search, uint64_t function, const char *type)
{
	if (!strcmp(type, "function"))
		return search__add(search, function, "", CALLABLE_ENTRY_NAME, CALLABLE_ENTRY);
	return search__add(search, function, type, "__call__", CALLABLE_INSTANCE);
}

/* The code at `vaddr` may load a function's address. One that is exported has a name, and others call it
 * (_PyFunction_Vectorcall). */
static int take(struct search *search, const struct code_frames *frames, const uint8_t *code, uint64_t vaddr)
{
	const struct search_instance *type;
	const struct code_piece *piece;
	uint64_t function;

	if (!machine__address(code, vaddr, &function) || !data__is_code(search->data, function))
		return 0;
	piece = code_frames__find(frames, function);
	if (!piece || piece->start != function || data__is_exported(search->data, function))
		return 0;
	type = type_of(search, frames, code, vaddr);
	return type ? add(search, function, type->type) : 0;
}

struct scan {
	struct search *search;
	const struct code_frames *frames;
};

/* machine__address_loads() gives a bit for each of the next MACHINE_SCAN bytes that could begin such a load; most have
 * none. */
static int find_stores(void *ctx, uint64_t vaddr, const uint8_t *code, uint32_t size)
{
	const struct scan *scan = ctx;
	uint32_t i, j, may;
	int err = 0;

	for (i = 0; !err && i < DATA_CODE_AT_ONCE && i + MACHINE_STORES_BYTES <= size; i += MACHINE_SCAN)
		for (may = machine__address_loads(code + i); !err && may; may &= may - 1) {
			j = i + (uint32_t)__builtin_ctz(may);
			if (j + MACHINE_STORES_BYTES > size)
				break;
			err = take(scan->search, scan->frames, code + j, vaddr + j);
		}
	return err;
}

int search__instances(struct search *search, const struct code_frames *frames)
{
	struct scan scan = {search, frames};
	int err = search->n_instances ? data__each_code(search->data, MACHINE_STORES_BYTES, find_stores, &scan) : 0;

	return err == -EBADMSG ? 0 : err;
}
