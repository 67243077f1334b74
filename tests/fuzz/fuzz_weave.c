/* SPDX-License-Identifier: MIT */
/* Any flags and marks: each frame comes at most once, in its own order, and none goes
 * missing without a word. */
#include <stdlib.h>
#include <string.h>

#include "weave/weave.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	static struct py_frame python[256];
	static uint8_t native[256];
	static struct weave_item items[512 + WEAVE_ITEMS_MORE];
	struct weave_input in = {.python = python, .native = native};
	uint32_t i, next_python = 0, next_native = 0;
	struct weave_result ret;

	if (len < 2)
		return 0;
	in.python_whole = data[0] & 1;
	in.native_whole = data[0] & 2;
	in.eval_known = data[0] & 4;
	in.n_python = data[1];
	data += 2;
	len -= 2;
	if (in.n_python > len)
		in.n_python = (uint32_t)len;
	in.n_native = len - in.n_python > 255 ? 255 : (uint32_t)(len - in.n_python);
	for (i = 0; i < in.n_python; i++)
		python[i].flags = (data[i] & 31u) | (data[i] >> 5 & 1u) << PY_FRAME_LOOPS_INSIDE_SHIFT |
				  (data[i] >> 6) << PY_FRAME_LOOPS_OUTSIDE_SHIFT;
	for (i = 0; i < in.n_native; i++)
		native[i] = data[in.n_python + i] % FRAME_ROLES;
	weave(&in, items, &ret);
	if (ret.n > in.n_python + in.n_native + WEAVE_ITEMS_MORE)
		abort();
	for (i = 0; i < ret.n; i++) {
		if (items[i].kind == WEAVE_PYTHON && items[i].index != next_python++)
			abort();
		if (items[i].kind != WEAVE_NATIVE)
			continue;
		for (; next_native < items[i].index; next_native++)
			if (!ret.loss && native[next_native] != WEAVE_EVAL &&
			    native[next_native] != WEAVE_HANDLER)
				abort(); /* only the eval loop's own frames are replaced */
		if (items[i].index != next_native++)
			abort();
	}
	if (next_python != in.n_python || next_native > in.n_native)
		abort();
	return 0;
}
