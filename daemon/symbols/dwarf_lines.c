/* SPDX-License-Identifier: MIT */
/* The line table of a unit: its program is run once, and the rows are kept in twelve bytes each. Of a table with
 * more rows than DWARF_ROWS_MAX nothing is kept: its program runs again for each address.
 *
 * The program (DWARF 5, 6.2.5) drives a state machine of address, file, line and column; most bytes are "special
 * opcodes" that advance address and line at once and emit a row:
 *
 *    opcode - first_special = address advance * range + (line advance - base)
 *
 * A program may emit rows for ever only if it has bytes for ever: the cursor's work bounds it. */
#include <dwarf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/search.h"
#include "symbols/dwarf.h"

#define FORMATS_MAX 16u

/* One run over a line table: its header's parameters, and where it is. `lengths`: of each standard opcode, how many
 * ULEB operands it has, so that opcodes of later versions can be skipped. */
struct program {
	struct dwarf_unit unit;   /* whose sizes are those of the line table */
	struct debug_cursor cursor;
	uint64_t instructions;    /* where they begin */
	uint8_t step, range, first_special, lengths[256];
	int8_t base;
};

void dwarf_lines__free(struct dwarf_lines *lines)
{
	free(lines->sequences);
	free(lines->rows);
	free(lines->files);
	*lines = (struct dwarf_lines){};
}

/* --- the header --- */

static int add_file(struct dwarf_lines *lines, const struct dwarf_file *file)
{
	if (lines->n_files >= 2 * DWARF_FILES_MAX)
		return -EBADMSG;
	return ARRAY_ADD(lines->files, lines->n_files, lines->files_capacity, *file);
}

/* DWARF 2 to 4: directories, then files, each list ended by an empty name. */
static int old_tables(struct dwarf_lines *lines, struct debug_cursor *cursor)
{
	struct dwarf_file file = {.name = {VALUE_STRING, DWARF_LINE, 0}};
	unsigned table;
	int err = 0;

	lines->base_directory = lines->base_file = 1; /* 0: the unit's own */
	for (table = 0; table < 2; table++) {
		for (;;) {
			file.name.number = cursor->at;
			if (!debug_cursor__u8(cursor))
				break;
			debug_cursor__skip_string(cursor);
			if (table) {
				file.directory = (uint32_t)debug_cursor__uleb(cursor);
				debug_cursor__uleb(cursor); /* its time, and its size */
				debug_cursor__uleb(cursor);
			}
			err = cursor->error ? cursor->error : add_file(lines, &file);
			if (err)
				return err;
		}
		if (!table)
			lines->n_directories = lines->n_files;
	}
	return cursor->error;
}

/* DWARF 5: what an entry consists of, then the entries. */
static int new_table(struct dwarf_lines *lines, struct program *program)
{
	struct debug_cursor *cursor = &program->cursor;
	struct {
		uint32_t type, form;
	} formats[FORMATS_MAX];
	uint64_t count;
	unsigned n = debug_cursor__u8(cursor), i;
	int err = 0;

	if (n > FORMATS_MAX)
		return -EBADMSG;
	for (i = 0; i < n; i++) {
		formats[i].type = (uint32_t)debug_cursor__uleb(cursor);
		formats[i].form = (uint32_t)debug_cursor__uleb(cursor);
	}
	for (count = debug_cursor__uleb(cursor); !err && count; count--) {
		struct dwarf_file file = {};
		struct dwarf_value value;

		for (i = 0; i < n; i++) {
			dwarf__value(&program->unit, cursor, formats[i].form, 0, &value);
			if (formats[i].type == DW_LNCT_path)
				file.name = value;
			else if (formats[i].type == DW_LNCT_directory_index)
				file.directory = (uint32_t)value.number;
		}
		err = cursor->error ? cursor->error : add_file(lines, &file);
	}
	return err ? err : cursor->error;
}

/* Reads the header up to the instructions. header_length says where these begin, whatever follows the fields that
 * are known. `lines` may be NULL: the names of files are not wanted. */
static int begin(struct program *program, const struct dwarf_unit *unit, struct dwarf_lines *lines)
{
	struct debug_cursor *cursor = &program->cursor;
	uint64_t length;
	unsigned i;
	int err = 0;

	program->unit = *unit;
	program->unit.offset_size = 4;
	debug_cursor__init(cursor, &unit->dwarf->sections[DWARF_LINE], unit->lines);
	length = debug_cursor__uint(cursor, 4);
	if (length == 0xffffffff) {
		program->unit.offset_size = 8;
		length = debug_cursor__uint(cursor, 8);
	}
	if (cursor->error || length > cursor->end - cursor->at)
		return cursor->error ? cursor->error : -EBADMSG;
	cursor->end = cursor->at + length;
	program->unit.version = (uint8_t)debug_cursor__uint(cursor, 2);
	if (program->unit.version < 2 || program->unit.version > 5)
		return -EBADMSG;
	if (program->unit.version >= 5 &&
	    (debug_cursor__u8(cursor) != unit->address_size || debug_cursor__u8(cursor)))
		return -EBADMSG;
	length = debug_cursor__uint(cursor, program->unit.offset_size);
	if (cursor->error || length > cursor->end - cursor->at)
		return cursor->error ? cursor->error : -EBADMSG;
	program->instructions = cursor->at + length;
	program->step = debug_cursor__u8(cursor);
	if (program->unit.version >= 4)
		debug_cursor__u8(cursor); /* operations of an instruction: of VLIW machines */
	debug_cursor__u8(cursor);         /* is_stmt */
	program->base = (int8_t)debug_cursor__u8(cursor);
	program->range = debug_cursor__u8(cursor);
	program->first_special = debug_cursor__u8(cursor);
	if (!program->range || !program->first_special)
		return -EBADMSG;
	for (i = 1; i < program->first_special; i++)
		program->lengths[i] = debug_cursor__u8(cursor);
	if (!lines) {
		cursor->at = program->instructions;
		return cursor->error;
	}
	if (program->unit.version < 5) {
		err = old_tables(lines, cursor);
	} else {
		err = new_table(lines, program);
		lines->n_directories = lines->n_files;
		err = err ?: new_table(lines, program);
	}
	cursor->at = program->instructions;
	return err;
}

/* --- the program --- */

struct state {
	uint64_t address, file, line, column;
};

/* Callbacks of run(): `row` for each row, `end` at the end of a sequence. A result other than 0 ends the run. */
struct rows {
	int (*row)(struct rows *rows, const struct state *state);
	int (*end)(struct rows *rows, uint64_t address);
};

/* An extended opcode: 0, its length, its code. *ret_end: the sequence is over. Those that are not known are skipped
 * by their length. */
static void extended(struct debug_cursor *cursor, struct state *state, bool *ret_end)
{
	uint64_t size = debug_cursor__uleb(cursor), from = cursor->at;
	uint8_t code;

	if (!size)
		return;
	code = debug_cursor__u8(cursor);
	*ret_end = code == DW_LNE_end_sequence;
	if (code == DW_LNE_set_address && size == 9)
		state->address = debug_cursor__uint(cursor, 8);
	if (size > cursor->end - from) {
		cursor->error = cursor->error ? cursor->error : -EBADMSG;
		size = cursor->end - from;
	}
	cursor->at = from + size;
}

/* True: there is a row. */
static bool standard(const struct program *program, struct debug_cursor *cursor, uint8_t code, struct state *state)
{
	unsigned i;

	switch (code) {
	case DW_LNS_copy:
		return true;
	case DW_LNS_advance_pc:
		state->address += debug_cursor__uleb(cursor) * program->step;
		return false;
	case DW_LNS_advance_line:
		state->line += (uint64_t)debug_cursor__sleb(cursor);
		return false;
	case DW_LNS_set_file:
		state->file = debug_cursor__uleb(cursor);
		return false;
	case DW_LNS_set_column:
		state->column = debug_cursor__uleb(cursor);
		return false;
	case DW_LNS_const_add_pc:
		state->address += (uint64_t)((255 - program->first_special) / program->range) * program->step;
		return false;
	case DW_LNS_fixed_advance_pc:
		state->address += debug_cursor__uint(cursor, 2);
		return false;
	}
	for (i = 0; i < program->lengths[code]; i++)
		debug_cursor__uleb(cursor);
	return false;
}

/* Runs the program to the end of the table, or until a callback returns not 0, which is the result. */
static int run(const struct program *program, struct debug_cursor *cursor, struct rows *rows)
{
	static const struct state first = {.file = 1, .line = 1};
	struct state state = first;
	int err = 0;

	while (!err && cursor->at < cursor->end) {
		uint8_t code = debug_cursor__u8(cursor);
		bool row = false, end = false;

		if (code >= program->first_special) {
			code -= program->first_special;
			state.address += (uint64_t)(code / program->range) * program->step;
			state.line += (uint64_t)(int64_t)(program->base + code % program->range);
			row = true;
		} else if (code) {
			row = standard(program, cursor, code, &state);
		} else {
			extended(cursor, &state, &end);
		}
		if (cursor->error)
			return cursor->error;
		if (row)
			err = rows->row(rows, &state);
		if (!end)
			continue;
		err = rows->end(rows, state.address);
		state = first;
	}
	return err;
}

/* A line or column that does not fit is unknown (0), a file number that does not becomes
 * DWARF_FILES_MAX, which no file has. */
static struct dwarf_line line_of(const struct state *state, uint64_t start)
{
	return (struct dwarf_line){
		.offset = (uint32_t)(state->address - start),
		.line = state->line > UINT32_MAX ? 0 : (uint32_t)state->line,
		.file = state->file > DWARF_FILES_MAX ? DWARF_FILES_MAX : (uint16_t)state->file,
		.column = state->column > UINT16_MAX ? 0 : (uint16_t)state->column,
	};
}

/* --- all rows --- */

struct keeper {
	struct rows rows;
	struct dwarf_lines *lines;
	struct dwarf_sequence sequence;
};

/* Adds a row if it changes anything. Of several rows at one address the last one counts, as debuggers have it: those
 * before it have no code. */
static int keep(struct rows *rows, const struct state *state)
{
	struct keeper *keeper = (struct keeper *)rows;
	struct dwarf_lines *lines = keeper->lines;
	struct dwarf_sequence *sequence = &keeper->sequence;
	struct dwarf_line line, *last;
	int err;

	if (!sequence->n) {
		sequence->start = state->address;
		sequence->first = lines->n_rows;
	}
	line = line_of(state, sequence->start);
	last = sequence->n ? &lines->rows[lines->n_rows - 1] : NULL;
	if (state->address - sequence->start > UINT32_MAX || (last && last->offset > line.offset))
		return 0; /* no compiler goes back */
	if (last && last->offset == line.offset) {
		*last = line;
		return 0;
	}
	if (last && last->line == line.line && last->file == line.file && last->column == line.column)
		return 0;
	if (lines->n_rows >= DWARF_ROWS_MAX)
		return -EFBIG;
	err = ARRAY_ADD(lines->rows, lines->n_rows, lines->rows_capacity, line);
	if (err)
		return err;
	sequence->n++;
	return 0;
}

static int keep_end(struct rows *rows, uint64_t address)
{
	struct keeper *keeper = (struct keeper *)rows;
	struct dwarf_lines *lines = keeper->lines;
	struct dwarf_sequence *sequence = &keeper->sequence;
	int err = 0;

	if (sequence->n && address > sequence->start && address - sequence->start <= UINT32_MAX) {
		err = ARRAY_RESERVE(lines->sequences, lines->n_sequences, lines->sequences_capacity);
		sequence->end = address;
		if (!err)
			lines->sequences[lines->n_sequences++] = *sequence;
	}
	sequence->n = 0;
	return err;
}

/* A table with more than DWARF_ROWS_MAX rows is not kept at all (`partial`): half of one would answer wrongly. The
 * distinction from an exhausted budget, which is -EFBIG as well, is that the rows were full. */
int dwarf_lines__read(struct dwarf_lines *lines, const struct dwarf_unit *unit)
{
	struct keeper keeper = {{keep, keep_end}, lines, {}};
	struct program program;
	int err;

	lines->n_sequences = lines->n_rows = lines->n_files = lines->n_directories = 0;
	lines->base_file = lines->base_directory = 0;
	lines->partial = false;
	err = begin(&program, unit, lines);
	err = err ?: run(&program, &program.cursor, &keeper.rows);
	if (err != -EFBIG || lines->n_rows < DWARF_ROWS_MAX)
		return err;
	lines->partial = true;
	free(lines->rows);
	lines->rows = NULL;
	lines->n_rows = lines->rows_capacity = lines->n_sequences = 0;
	return 0;
}

/* --- one address --- */

/* Of a partial table: runs until the row that holds vaddr is passed. Rows of a sequence ascend, so the answer is the
 * row before the first one behind vaddr. */
struct seeker {
	struct rows rows;
	uint64_t vaddr;
	struct state last;
	bool any, found;
};

static bool passed(struct seeker *seeker, uint64_t address)
{
	seeker->found = seeker->any && seeker->last.address <= seeker->vaddr && seeker->vaddr < address;
	return seeker->found;
}

static int seek(struct rows *rows, const struct state *state)
{
	struct seeker *seeker = (struct seeker *)rows;

	if (passed(seeker, state->address))
		return 1;
	seeker->last = *state;
	seeker->any = true;
	return 0;
}

static int seek_end(struct rows *rows, uint64_t address)
{
	struct seeker *seeker = (struct seeker *)rows;

	if (passed(seeker, address))
		return 1;
	seeker->any = false;
	return 0;
}

static int seek_row(const struct dwarf_unit *unit, uint64_t vaddr, struct dwarf_line *ret)
{
	struct seeker seeker = {.rows = {seek, seek_end}, .vaddr = vaddr};
	struct program program;
	int err = begin(&program, unit, NULL);

	err = err ?: run(&program, &program.cursor, &seeker.rows);
	if (!seeker.found)
		return err < 0 ? err : -ENOENT;
	*ret = line_of(&seeker.last, seeker.last.address);
	return 0;
}

int dwarf_lines__find(const struct dwarf_lines *lines, const struct dwarf_unit *unit, uint64_t vaddr,
		      struct dwarf_line *ret)
{
	uint32_t i, until;

	if (lines->partial)
		return seek_row(unit, vaddr, ret);
	for (i = 0; i < lines->n_sequences; i++) {
		const struct dwarf_sequence *sequence = &lines->sequences[i];
		const struct dwarf_line *rows = &lines->rows[sequence->first];

		if (vaddr < sequence->start || vaddr >= sequence->end)
			continue;
		/* The last that begins up to there. */
		until = SEARCH(k, sequence->n, rows[k].offset <= vaddr - sequence->start);
		*ret = rows[until ? until - 1 : 0];
		return 0;
	}
	return -ENOENT;
}

/* --- files --- */

static int text_of(const struct dwarf_lines *lines, const struct dwarf_unit *unit, uint64_t number, uint32_t from,
		   uint32_t end, uint32_t base, struct buf *ret)
{
	struct dwarf_unit sizes = *unit;

	sizes.offset_size = 4; /* of indexed strings, which are not in line tables */
	if (number < base || number - base >= end - from)
		return -ENOENT;
	return dwarf__text(&sizes, &lines->files[from + number - base].name, ret);
}

/* Puts `before` in front of the path that `text` holds from `at` on, to make it absolute: "nanosleep.c" ->
 * "time/nanosleep.c" -> "/build/glibc/time/nanosleep.c". An absolute path stays as it is. */
static int put_before(struct buf *text, size_t at, struct buf *before)
{
	size_t len = text->len - at;
	int err;

	if (!before->len || text->data[at] == '/')
		return 0;
	if (before->data[before->len - 1] != '/' && buf__append(before, "/", 1))
		return -ENOMEM;
	err = buf__reserve(text, before->len);
	if (err)
		return err;
	memmove(text->data + at + before->len, text->data + at, len);
	memcpy(text->data + at, before->data, before->len);
	text->len += before->len;
	return 0;
}

int dwarf_lines__file(const struct dwarf_lines *lines, const struct dwarf_unit *unit, uint64_t file, struct buf *ret)
{
	uint32_t directory;
	size_t at = ret->len;
	_cleanup_(buf__free) struct buf part = {};
	int err;

	if (file >= DWARF_FILES_MAX)
		return -ENOENT;
	err = text_of(lines, unit, file, lines->n_directories, lines->n_files, lines->base_file, ret);
	if (!err && ret->len == at)
		err = -ENOENT;
	if (err)
		return err;
	directory = lines->files[lines->n_directories + file - lines->base_file].directory;
	err = text_of(lines, unit, directory, 0, lines->n_directories, lines->base_directory, &part);
	err = err ?: put_before(ret, at, &part);
	buf__clear(&part);
	if (!err || err == -ENOENT)
		err = dwarf__text(unit, &unit->directory, &part);
	err = err ?: put_before(ret, at, &part);
	return err == -ENOMEM ? err : 0;
}
