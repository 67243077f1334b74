/* SPDX-License-Identifier: MIT */
/* Pages that an interrupt could not read, because they are mapped but were never
 * used by this process (names and tables of the frozen modules above all): reading
 * them here makes them resident, and the next sample is whole. Nothing that is
 * read is believed: addresses only lead to further reads of the same target. */
#include <string.h>
#include <unistd.h>

#include "serve/engine.h"
#include "target/process.h"

#define PAGE 4096u
#define CODE_BYTES 256u
#define VARIABLES_MAX RECORD_VARIABLES_MAX

static bool read_at(int mem, uint64_t address, void *ret, size_t size)
{
	return address && !process_memory__read(mem, ret, size, address);
}

static void prefault(int mem, uint64_t address, uint64_t len)
{
	uint64_t end = address + len;
	char byte;

	for (; address < end && read_at(mem, address, &byte, 1); address = (address | (PAGE - 1)) + 1)
		;
}

static uint64_t word_at(const uint8_t *raw, uint16_t offset)
{
	uint64_t word = 0;

	if (offset != PY_ABSENT && offset + sizeof(word) <= CODE_BYTES)
		memcpy(&word, raw + offset, sizeof(word));
	return word;
}

static void prefault_string(int mem, const struct py_layout *layout, uint64_t string)
{
	if (string)
		prefault(mem, string, layout->unicode_compact_data + RECORD_STRING_MAX);
}

static void prefault_variables(int mem, const struct py_layout *layout, uint64_t tuple)
{
	uint64_t items[VARIABLES_MAX], n = 0;

	if (!tuple || !read_at(mem, tuple + layout->var_size, &n, sizeof(n)))
		return;
	if (n > VARIABLES_MAX)
		n = VARIABLES_MAX;
	if (!read_at(mem, tuple + layout->tuple_items, items, n * sizeof(items[0])))
		return;
	for (uint64_t i = 0; i < n; i++)
		if (items[i])
			prefault(mem, items[i], layout->unicode_compact_data + RECORD_VARIABLE_MAX);
}

/* Does the record lack what a capture sends when it could read all? Further
 * pieces of a line table come alone. */
static bool is_whole(const struct record_code *code)
{
	const struct record_part *lines = record__part(code, PART_LINES), *variables = record__part(code, PART_VARIABLES);

	if (lines && ((const struct part_bytes *)lines)->offset)
		return true;
	/* A qualified name that equals the name is left out. */
	return lines && record__part(code, PART_NAME) && record__part(code, PART_FILE) &&
	       variables && !variables->loss;
}

void prefault__code(struct engine *engine, struct tracee *tracee, const struct record_code *code)
{
	const struct py_layout *layout = &tracee->image.layout;
	uint8_t raw[CODE_BYTES];
	uint64_t lines, size = 0;

	if (!tracee->image.runtime || is_whole(code))
		return;
	if (tracee->mem < 0) {
		tracee__ask_memory(engine, tracee);
		return;
	}
	if (!read_at(tracee->mem, code->address, raw, sizeof(raw)))
		return;
	prefault_string(tracee->mem, layout, word_at(raw, layout->code_name));
	prefault_string(tracee->mem, layout, word_at(raw, layout->code_qualname));
	prefault_string(tracee->mem, layout, word_at(raw, layout->code_filename));
	prefault_variables(tracee->mem, layout, word_at(raw, layout->code_varnames));
	if (layout->frames == PY_FRAMES_OBJECTS) { /* bpf/capture.h: what lies beside */
		prefault_variables(tracee->mem, layout, word_at(raw, layout->code_varnames + 8));
		prefault_variables(tracee->mem, layout, word_at(raw, layout->code_varnames + 16));
	} else if (word_at(raw, layout->code_varnames + 8)) {
		prefault(tracee->mem, word_at(raw, layout->code_varnames + 8), layout->bytes_data + VARIABLES_MAX);
	}
	lines = word_at(raw, layout->code_linetable);
	if (lines && read_at(tracee->mem, lines + layout->var_size, &size, sizeof(size)))
		prefault(tracee->mem, lines, layout->bytes_data + (size < RECORD_LINES_MAX ? size : RECORD_LINES_MAX));
}
