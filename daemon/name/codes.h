/* SPDX-License-Identifier: MIT */
/* Codes: the registry of captured code objects.
 *
 * The sampler sends a code object when a walk sees it for the first time (bpf/capture.h), as RECORD_CODE: names,
 * file, first line, line table. It may come several times, with its line table in pieces in any order. Its identity
 * is the capture key, which frames of samples carry; within the session it also has a serial number (from 0, in
 * order of arrival). Strings are kept once, in UTF-8. Keys are computed from the target's bytes, so the hash is
 * randomly seeded.
 *
 *    RECORD_CODE {key 0x51c0..., PART_QUALNAME "fib", PART_FILE "/home/me/fib.py", first_line 3, lines_total 18}
 *      -> codes__find(codes, 0x51c0...) = 7;  codes__position(codes, 7, offset 34) = line 5, column 12
 *
 * Callers: profile/profile.c adds, profile/tables.c asks. Memory: CODES_BYTES_MAX for everything; beyond that a new
 * code object is refused (-ENOSPC) until codes__retain() has freed some. Line tables longer than CODES_LINES_MAX are
 * not kept. Threads: one. Errors: -errno. */
#pragma once

#include <stdbool.h>

#include "cprofd/record.h"
#include "name/lines.h"

#define CODES_BYTES_MAX (8u << 20)
#define CODES_LINES_MAX (1u << 20)
#define CODE_NONE UINT32_MAX

struct code_pieces; /* which parts of a line table have come */

/* A code object. All strings are owned by the registry and never NULL; "" as long as they have not come. */
struct code {
	uint64_t key;
	uint64_t process_start; /* boottime ns; with tgid it names the process that it was read from */
	uint64_t address;       /* where it was; another object may be there by now */
	uint32_t tgid;
	const char *name;       /* qualified if this CPython has that; UTF-8 */
	const char *file;
	uint8_t *lines;         /* lines_total bytes; NULL: none came yet, or it is too long */
	struct code_pieces *pieces; /* NULL if complete or not begun */
	uint32_t first_line;
	uint32_t lines_total;
	uint32_t code_size;
	uint32_t first;         /* serial of the first equal one (names, line, line table) in any process */
	bool lines_whole;
	bool named;             /* name and file came */
	bool shim;              /* a frame of the interpreter, not a function of the program */
	uint8_t format;         /* enum py_lines, 0: unknown */
	bool renewed;           /* it came (again) after the last codes__renew() */
};

struct codes;
int codes__new(struct codes **ret);
struct codes *codes__free(struct codes *codes); /* NULL */

/* Takes a checked record (collect.h). `format`: that of the process it came from. *ret_serial: its serial;
 * *ret_changed: it is new, or more complete than before. -ENOSPC: refused. */
int codes__add(struct codes *codes, const struct record_code *record, enum py_lines format,
	       uint32_t *ret_serial, bool *ret_changed);

/* CODE_NONE: not captured. */
uint32_t codes__find(const struct codes *codes, uint64_t key);
/* Valid until the next codes__add() or codes__retain(). */
const struct code *codes__get(const struct codes *codes, uint32_t serial);
uint32_t codes__count(const struct codes *codes);
size_t codes__bytes(const struct codes *codes);

/* The source position of bytecode `offset`. -EAGAIN: the line table is not complete; -ERANGE, -EBADMSG as
 * lines__position(). *ret is zeroed on error. */
int codes__position(const struct codes *codes, uint32_t serial, int32_t offset,
		    struct position *ret);

/* From here on codes__add() sets code.renewed of what comes. */
void codes__renew(struct codes *codes);
/* Keeps only the code objects whose bit is set in `keep` (bit i % 8 of byte i / 8, by serial). They get new serial
 * numbers from 0, in the old order, so all serials that are stored elsewhere must be renumbered. -ENOMEM: nothing
 * changed. */
int codes__retain(struct codes *codes, const uint8_t *keep);
