/* SPDX-License-Identifier: MIT */
/* Prefaults the pages of a code object: reading them through /proc/PID/mem makes them resident, so that the sampler
 * can read them at the next tick. The values read are not trusted: addresses only lead to further reads of the same
 * target.
 *
 * Caller: serve/drain.c, when the sampler reports a code object that it could not read whole. To the target this is
 * as if it had touched the pages itself. */
#include <string.h>

#include "python/code.h"

#define PAGE 4096u
#define CODE_BYTES 256u /* a code object's members that are used, in any version */
#define VARIABLES_MAX RECORD_VARIABLES_MAX

/* One byte of each page from address to address + len. Ends at the first page that cannot be read. */
static void touch(struct host_reader *memory, uint64_t address, uint64_t len)
{
	uint64_t end = address + len;
	char byte;

	for (; address < end && !memory->read(memory, &byte, 1, address); address = (address | (PAGE - 1)) + 1)
		;
}

static uint64_t word_at(const uint8_t *raw, uint16_t offset)
{
	uint64_t word = 0;

	if (offset != PY_ABSENT && offset + sizeof(word) <= CODE_BYTES)
		memcpy(&word, raw + offset, sizeof(word));
	return word;
}

static void touch_string(struct host_reader *memory, const struct py_layout *layout, uint64_t string)
{
	if (string)
		touch(memory, string, layout->unicode_compact_data + RECORD_STRING_MAX);
}

static void touch_variables(struct host_reader *memory, const struct py_layout *layout, uint64_t tuple)
{
	uint64_t items[VARIABLES_MAX], n = 0;

	if (!tuple || memory->read(memory, &n, sizeof(n), tuple + layout->var_size))
		return;
	if (n > VARIABLES_MAX)
		n = VARIABLES_MAX;
	if (memory->read(memory, items, n * sizeof(items[0]), tuple + layout->tuple_items))
		return;
	for (uint64_t i = 0; i < n; i++)
		if (items[i])
			touch(memory, items[i], layout->unicode_compact_data + RECORD_VARIABLE_MAX);
}

void python_code__prefault(struct host_reader *memory, const struct py_layout *layout, uint64_t code)
{
	uint8_t raw[CODE_BYTES];
	uint64_t lines, size = 0;

	if (memory->read(memory, raw, sizeof(raw), code))
		return;
	touch_string(memory, layout, word_at(raw, layout->code_name));
	touch_string(memory, layout, word_at(raw, layout->code_qualname));
	touch_string(memory, layout, word_at(raw, layout->code_filename));
	touch_variables(memory, layout, word_at(raw, layout->code_varnames));
	if (layout->frames == PY_FRAMES_OBJECTS) { /* cellvars and freevars, as in bpf/capture.h */
		touch_variables(memory, layout, word_at(raw, layout->code_varnames + 8));
		touch_variables(memory, layout, word_at(raw, layout->code_varnames + 16));
	} else if (word_at(raw, layout->code_varnames + 8)) {
		touch(memory, word_at(raw, layout->code_varnames + 8), layout->bytes_data + VARIABLES_MAX);
	}
	lines = word_at(raw, layout->code_linetable);
	if (lines && !memory->read(memory, &size, sizeof(size), lines + layout->var_size))
		touch(memory, lines, layout->bytes_data + (size < RECORD_LINES_MAX ? size : RECORD_LINES_MAX));
}
