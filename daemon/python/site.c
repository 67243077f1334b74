/* SPDX-License-Identifier: MIT */
/* Reads a call site: the bytecode up to a frame's position, decoded by classes/bytecode.c, and the names that it
 * loads.
 *
 * Caller: serve/site.c, once for each call site that is sampled. Example: frame at offset 34 of fib() -> co_names
 * ("np", "sin"), CALL with names[own - 1] "sin", an attribute of the global "np". */
#include <errno.h>
#include <string.h>

#include "python/code.h"
#include "python/object.h"

#define CODE_MAX 65536u /* bytes of bytecode; longer functions get no call sites */

/* Where a code object has its bytecode: in itself since 3.11, in a bytes object before. */
struct instructions {
	uint64_t address;
	uint32_t size;         /* bytes */
	uint64_t names, n;     /* co_names and its length */
};

static int find_instructions(struct values *values, uint64_t code, struct instructions *ret)
{
	const struct py_layout *l = values->layout;
	bool object = l->frames == PY_FRAMES_OBJECTS;
	uint64_t size = 0;

	ret->address = code + l->code_instructions;
	if (object && object__word(values, ret->address, &ret->address))
		return -ENOENT;
	if (object__items(values, object ? ret->address : code, &size))
		return -ENOENT;
	if (object)
		ret->address += l->bytes_data;
	else
		size *= 2;
	if (!size || size > CODE_MAX)
		return -ENOENT;
	ret->size = (uint32_t)size;
	return object__word(values, code + l->code_names, &ret->names) || object__items(values, ret->names, &ret->n) ? -ENOENT : 0;
}

static bool add_name(struct values *values, const struct instructions *in, uint32_t i, struct call_site *ret)
{
	uint64_t string;

	if (i >= in->n || object__item(values, in->names, i, &string) || object__ascii(values, string, ret->names[ret->n], CALL_SITE_NAME))
		return false;
	ret->n++;
	return true;
}

/* The C function of a method descriptor, through its PyMethodDef (ml_name, ml_meth). The object may be anything else;
 * the caller only uses an address at which a known callable begins. */
static uint64_t function_of(struct values *values, uint64_t object)
{
	uint64_t method = 0, function = 0;

	if (object__word(values, object + values->layout->descriptor_method, &method) || object__word(values, method + 8, &function))
		return 0;
	return function;
}

/* Only what stands before the instruction is read, as nothing behind it matters. Names go into ret->names once each:
 * the callee's first, then its owner's, then others. *ret is zeroed by the caller. */
int python_site__read(struct values *values, uint64_t code, uint32_t offset, struct call_site *ret)
{
	const struct py_layout *l = values->layout;
	uint8_t bytes[CODE_MAX];
	struct instructions in;
	struct bytecode_site site;
	uint64_t pointer;

	if (find_instructions(values, code, &in))
		return -ENOENT;
	if (offset + 2 < in.size) /* later instructions say nothing about this one */
		in.size = offset + 2;
	if (object__read(values, bytes, in.size, in.address))
		return -ENOENT;
	bytecode__site(l->version >> 8 & 0xff, bytes, in.size, offset, &site);
	ret->kind = site.kind;
	ret->exact = site.exact;
	ret->builtin = site.builtin;
	ret->inlines = l->frames != PY_FRAMES_OBJECTS;
	ret->callee = site.callee;
	if (site.pointer && site.pointer + 8 <= in.size) {
		memcpy(&pointer, bytes + site.pointer, 8);
		ret->function = function_of(values, pointer);
	}
	if (site.named && add_name(values, &in, site.own, ret))
		ret->own = ret->n;
	if (site.owned && add_name(values, &in, site.owner, ret))
		ret->owner = ret->n;
	ret->of_global = site.of_global;
	for (uint32_t i = 0; i < site.n && ret->n < CALL_SITE_NAMES; i++)
		if (!(site.named && site.names[i] == site.own) && !(site.owned && site.names[i] == site.owner))
			add_name(values, &in, site.names[i], ret);
	return 0;
}
