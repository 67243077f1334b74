/* SPDX-License-Identifier: MIT */
/* Line tables of code objects: bytecode offset -> source position.
 *
 * Three formats (enum py_lines): co_lnotab of 3.8/3.9 (Objects/lnotab_notes.txt),
 * the line table of 3.10 (PEP 626), the location table of 3.11+ (PEP 657,
 * InternalDocs/code_objects.md, Objects/locations.md). Pure functions over (buffer, length); the bytes
 * are the target's and may be anything. Threading: none kept.
 *
 * Example: a function at line 3 with `return fib(n-1) + fib(n-2)` in line 5; offset 34 is {line 5, end_line 5,
 * column 12, end_column 20}. Callers: name/codes.c for captured code, python/code.c for code that is read from a
 * sleeping process. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "cprofd/pylayout.h"

struct position {
	/* 0: the code has no line there. That is kept, never guessed. */
	uint32_t line, end_line;
	/* From 1 as in co_positions()+1, in UTF-8 bytes; 0: unknown (always before 3.11). */
	uint32_t column, end_column;
};

/* The position of the instruction at byte `offset` (in bytes for every version). offset < 0: the frame was entered but
 * has not executed an instruction; the position is (firstlineno, 0). -ERANGE: beyond the table; -EBADMSG: the table
 * does not decode up to there; both with a zeroed position. */
int lines__position(enum py_lines format, const void *table, size_t len, uint32_t firstlineno,
		    int32_t offset, struct position *ret);
