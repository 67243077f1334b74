/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/* Paths of attributes (struct py_path): from the object that a local holds to the one that a rule names by. Needs pywalk.h. */
#pragma once

#include "state.h"

struct py_path_registers {
	__u64 a, b;
};
/* One step. 0: the objects are made otherwise. Not inlined, so that the verifier checks it once. */
HOST_APART int py_path_do(const struct py_path_step *step, struct py_path_registers *registers)
{
	__u64 word, from, flags;

	if (!step || !registers)
		return 0;
	flags = step->flags;
	from = flags & PY_PATH_FROM_B ? registers->b : registers->a;
	if (host_read(&word, sizeof(word), from + (__u64)(__s64)step->offset))
		return 0;
	if (flags & PY_PATH_CHECK) {
		if ((word ^ step->value) << (step->shift & 63))
			return 0;
	} else if (!word || (word & 7) != step->tag) {
		return 0;
	}
	if (flags & PY_PATH_TO_B)
		registers->b = word;
	else if (!(flags & PY_PATH_CHECK))
		registers->a = word;
	return 1;
}

/* The address of the object that the path leads to from the one at `address`. 0: the objects are made otherwise. */
HOST_APART __u64 py_path_run(const struct py_path *path, __u64 address)
{
	struct py_path_registers registers = {.a = address};
	__u32 i, written;

	if (!path)
		return 0;
	written = *(volatile const __u32 *)&path->written;
	HOST_NO_UNROLL
	for (i = 0; i < PY_PATH_STEPS; i++) {
		if (i >= path->n)
			break;
		if (!py_path_do(&path->steps[i], &registers))
			return 0;
	}
	return written & 1 || written != *(volatile const __u32 *)&path->written ? 0 : registers.a;
}

/* The same, by the path number `number` of the frames of this code. 0: the tick does not know the way. */
HOST_APART __u64 py_path(const struct image *image, const struct locals_captures *captured_locals, __u64 code, __u32 number, __u64 address)
{
	const struct py_path *path;
	__u64 type, key, found;
	__u32 set, way;

	if (!image || !captured_locals || host_read(&type, sizeof(type), address + image->layout.object_type))
		return 0;
	key = py_path_key(code, number, type);
	set = py_path_set(key) * PY_PATHS_WAYS;
	HOST_NO_UNROLL
	for (way = 0; way < PY_PATHS_WAYS; way++) {
		host_barrier(set);
		path = &captured_locals->paths[(set + way) & (PY_PATHS_SETS * PY_PATHS_WAYS - 1)];
		if (path->key != key)
			continue;
		found = py_path_run(path, address);
		if (found)
			return found;
	}
	return 0;
}
