/* SPDX-License-Identifier: MIT */
/* Candidates: all names that a function's frame could stand for. Its own names; those of functions that end with a
 * jump to it (they leave no frame); those of slots that call it (specialised instructions call it directly). The
 * call site's bytecode decides later which one it was (profile/callee.c).
 *
 *    str.upper:  ...  jmp case_operation
 *    str.lower:  ...  jmp case_operation   ->  case_operation has the candidates str.upper, str.lower (deep 1)
 *
 * Cost: one pass over the first 4 KB of each function. */
#include "base/order.h"
#include "classes/search.h"

#include <string.h>

#include "base/array.h"

/* Beyond it, functions get only their own names. */
#define CANDIDATES_MAX 65536u

static int add_candidate(struct callables *out, uint64_t start, const struct found *found, uint32_t deep)
{
	return ARRAY_ADD(out->candidates, out->n_candidates, out->candidates_capacity,
			 (struct candidate){start, found->name, found->kind, (uint8_t)deep});
}

/* Functions of the C API that dispatch on an object's type (Include/abstract.h) run for every type: not a slot's body.
 * */
static bool dispatches(const struct data *data, uint64_t vaddr)
{
	static const char *const prefixes[] = {"PyObject_", "PyNumber_", "PySequence_", "PyMapping_", "PyIter_", NULL};

	return data__is_exported_as(data, vaddr, prefixes);
}

#define JUMPS_MAX 24u /* functions reached from one; more are helpers of large functions */

/* A function that ends with a jump to another has no frame while that one runs: it becomes a candidate there. */
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
				if (found->kind != CALLABLE_METHOD && dispatches(search->data, targets[j]))
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

	return ORDER(a->start, b->start) ?: ORDER(a->name, b->name);
}

/* A specialised instruction may skip the slot and call its helper: _PyLong_Multiply for int.__mul__. */
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

/* CPython 3.11+ specialises calls of these: the instruction calls the C API function directly (CALL_NO_KW_STR_1,
 * CALL_LEN ... in Python/bytecodes.c). */
static int add_specialised(struct search *search)
{
	static const struct {
		const char *symbol, *name;
	} calls[] = {
		{"PyObject_Str", "str"}, {"PySequence_Tuple", "tuple"}, {"PyObject_Size", "len"}, {"PyObject_Length", "len"},
		{"PyObject_IsInstance", "isinstance"}, {"_PyList_AppendTakeRefListResize", "list.append"}, {"PyList_Append", "list.append"},
		{"PyUnicode_Append", "str.__add__"}, /* up to 3.10 unicode_concatenate() is part of the eval loop */
	};
	struct found found = {.kind = CALLABLE_METHOD};
	uint64_t address;
	int err = 0;

	for (uint32_t i = 0; !err && i < sizeof(calls) / sizeof(calls[0]); i++) {
		found.name = calls[i].name;
		found.kind = strstr(found.name, "__") ? CALLABLE_SLOT : CALLABLE_METHOD;
		if (data__symbol(search->data, calls[i].symbol, &address))
			err = add_candidate(search->out, address, &found, 1);
	}
	return err;
}

/* Functions through which the eval loop makes calls (Include/abstract.h, Include/cpython/abstract.h), and those that
 * enter a Python function; up to 3.10 that jumps to a function of its own (function_code_fastcall). */
int search__machinery(struct search *search, const struct code_frames *frames)
{
	static const char *const symbols[] = {
		"PyObject_Vectorcall", "_PyObject_Vectorcall", "_PyObject_MakeTpCall", "PyObject_Call", "_PyObject_Call",
		"PyVectorcall_Call", "PyObject_CallObject", "PyObject_CallOneArg", "PyObject_CallNoArgs", "PyObject_CallFunctionObjArgs",
		"PyObject_VectorcallMethod", "PyObject_VectorcallDict", "_PyObject_FastCallDict", "_PyObject_FastCallDictTstate",
		"PyCFunction_Call", "_PyCFunction_FastCallDict",
	};
	/* What ends an object; a builtin type's dealloc calls the finalizer by itself. */
	static const char *const ends[] = {"_Py_Dealloc", "PyObject_CallFinalizer", "PyObject_CallFinalizerFromDealloc", "PyObject_ClearWeakRefs"};
	static const char entry[] = "_PyFunction_Vectorcall";
	uint64_t address, targets[JUMPS_FROM];
	uint32_t i, n = 0;
	int err = 0;

	for (i = 0; !err && i < sizeof(symbols) / sizeof(symbols[0]); i++)
		if (data__symbol(search->data, symbols[i], &address))
			err = search__add(search, address, "", CALLABLE_MACHINERY_NAME, CALLABLE_MACHINERY);
	for (i = 0; !err && i < sizeof(ends) / sizeof(ends[0]); i++)
		if (data__symbol(search->data, ends[i], &address))
			err = search__add(search, address, "", CALLABLE_DEALLOC_NAME, CALLABLE_DEALLOC);
	if (!err && data__symbol(search->data, entry, &address)) {
		err = search__add(search, address, "", CALLABLE_ENTRY_NAME, CALLABLE_ENTRY);
		n = jumps__from(search->data, frames, address, false, targets);
	}
	for (i = 0; !err && i < n; i++)
		if (!data__is_exported(search->data, targets[i]))
			err = search__add(search, targets[i], "", CALLABLE_ENTRY_NAME, CALLABLE_ENTRY);
	return err;
}

/* Fills out->candidates, sorted by address. */
int search__candidates(struct search *search, const struct code_frames *frames)
{
	int err = 0;

	for (uint32_t i = 0; !err && i < search->n; i++) {
		if (search->found[i].kind >= CALLABLE_MACHINERY)
			continue;
		err = add_candidate(search->out, search->found[i].address, &search->found[i], 0);
		if (!err && search->out->n_candidates < CANDIDATES_MAX)
			err = add_jumps(search, frames, &search->found[i]);
		if (!err && search->found[i].kind == CALLABLE_SLOT && search->out->n_candidates < CANDIDATES_MAX)
			err = add_called(search, frames, &search->found[i]);
	}
	err = err ?: add_specialised(search);
	if (search->out->n_candidates)
		qsort(search->out->candidates, search->out->n_candidates, sizeof(*search->out->candidates),
		      candidates_by_start);
	return err;
}
