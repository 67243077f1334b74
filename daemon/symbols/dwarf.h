/* SPDX-License-Identifier: MIT */
/* DWARF 2 to 5, as far as it says where an address comes from in the source. Bytes are read where they lie
 * (debug_bytes.h); of a unit its abbreviations, functions and line rows are held, of one unit at a time. The reader
 * is in layers, each a file:
 *
 *    dwarf_form.c    .debug_abbrev: the shape of entries; values of attributes by their forms
 *    dwarf_die.c     .debug_info: headers of units, one entry (DIE) at a time
 *    dwarf_ranges.c  .debug_ranges, .debug_rnglists: the addresses of an entry
 *    dwarf_lines.c   .debug_line: the line table of a unit
 *    unpacked.c      packed sections, unpacked on disk
 *    lines.c         the question: which unit, which function, which line
 *
 * A unit is one source file as it was compiled. Its root DIE has DW_AT_stmt_list (where its line table is),
 * DW_AT_comp_dir, and its ranges; below it are DW_TAG_subprogram, with DW_TAG_inlined_subroutine inside.
 *
 * Left out: types; names of functions (the symbol table has them); what dwz moved to another file, and what is in
 * .dwo files (lines are never there). All bytes may be anything: sizes are bounded here, time by dwarf.work.
 *
 * Sources: DWARF 5 (7.5 for units and forms, 2.17 and 7.25 for ranges, 6.2 for lines), DWARF 4 for older ones. Why
 * not libdw: it maps files (a file that shrinks kills the process), unpacks whole sections, and takes twice the
 * memory (docs/symbols.md).
 *
 * Threads: all that belongs to one struct dwarf belongs to one thread at a time. */
#pragma once

#include <errno.h>

#include "base/kept.h"
#include "symbols/debug_bytes.h"

/* X(id, name) */
#define DWARF_SECTIONS(X) \
	X(INFO, ".debug_info") \
	X(ABBREV, ".debug_abbrev") \
	X(LINE, ".debug_line") \
	X(LINE_STR, ".debug_line_str") \
	X(STR, ".debug_str") \
	X(STR_OFFSETS, ".debug_str_offsets") \
	X(RANGES, ".debug_ranges") \
	X(RNGLISTS, ".debug_rnglists") \
	X(ADDR, ".debug_addr")
#define DWARF_SECTION_ENUM(id, name) DWARF_##id,
enum { DWARF_SECTIONS(DWARF_SECTION_ENUM) DWARF_SECTION_COUNT };
#undef DWARF_SECTION_ENUM

#define DWARF_SPECS_MAX (1u << 18)      /* attributes in the abbreviations of a unit */
#define DWARF_UNIT_RANGES_MAX (1u << 17)
#define DWARF_FUNCTIONS_MAX (1u << 17)  /* ranges of functions of a unit */
#define DWARF_ROWS_MAX (1u << 17)       /* line rows kept of a unit; the program of a larger one runs again for each address */
#define DWARF_FILES_MAX 65535u          /* a file's number is below */

/* The shape of DIEs (DWARF 5, 7.5.3): tag and attributes are listed once, and each DIE names its abbreviation by
 * `code`. */
struct dwarf_abbrev {
	uint64_t code;
	uint32_t specs, n_specs;
	uint16_t tag;
	bool children;
};

/* The abbreviations of one unit; reused for the next one, its arrays only grow. */
struct dwarf_abbrevs {
	struct dwarf_abbrev *items; /* owned; sorted by code */
	uint32_t n, capacity;
	struct dwarf_spec {
		uint16_t name, form; /* both 0: bytes that nobody needs */
		int32_t constant;    /* DW_FORM_implicit_const; how many such bytes */
	} *specs;
	uint32_t n_specs, specs_capacity;
};
void dwarf_abbrevs__free(struct dwarf_abbrevs *abbrevs);

struct dwarf {
	struct debug_section sections[DWARF_SECTION_COUNT];
	struct elf_bytes unpacked; /* owned; of packed sections (dwarf__unpack()); fd -1: there are none */
	uint64_t work; /* budget in bytes of sections; set by lines.c before each question */
};
/* For work that reads no bytes: entries that are tiny, loops over ranges. -EFBIG: the budget is used up. */
static inline int dwarf__charge(struct dwarf *dwarf, uint64_t work)
{
	if (dwarf->work < work)
		return -EFBIG;
	dwarf->work -= work;
	return 0;
}
/* -ENOENT: no .debug_line, or none of the others that it takes. */
int dwarf__open(struct dwarf *dwarf, const struct elf_image *image);
void dwarf__close(struct dwarf *dwarf);
void dwarf__rest(struct dwarf *dwarf);
/* unpacked.c. Its packed sections are read from a file in `folder` from now on, to which they are unpacked if that was
 * not done before. Without effect if they are too large, or if that fails. `key`: of the file that has them. */
void dwarf__unpack(struct dwarf *dwarf, int folder, const struct kept_key *key);

/* What a value is, once its form was read. */
enum dwarf_class {
	VALUE_NONE,
	VALUE_ADDRESS,
	VALUE_ADDRESS_INDEX,
	VALUE_CONSTANT,
	VALUE_REFERENCE,   /* in .debug_info */
	VALUE_OFFSET,      /* in the section that the attribute implies */
	VALUE_RANGE_INDEX,
	VALUE_STRING,      /* at an offset in .debug_info, .debug_str, .debug_line_str: `section` */
	VALUE_STRING_INDEX,
	VALUE_OTHER,
};
/* The meaning of `number` depends on the class: an address, a constant (signed ones as two's complement), an
 * absolute offset in .debug_info, an offset in another section, or an index. VALUE_OTHER: it was skipped. */
struct dwarf_value {
	uint8_t class, section;
	uint64_t number;
};

/* A unit's header and what its root says. Bases are those of the DWARF 5 tables that indexed forms refer to; 0 in
 * older versions. Only the header's part is valid before dwarf_unit__root(). */
struct dwarf_unit {
	struct dwarf *dwarf;
	uint64_t offset, end, root; /* of the header, of the unit's end, of the first DIE */
	uint64_t abbrevs_offset;
	uint8_t version, type, address_size, offset_size;
	/* of the first DIE */
	uint64_t low, address_base, ranges_base, strings_base;
	uint64_t lines;
	struct dwarf_value directory;
	bool has_lines, split; /* split: its DIEs are in another file */
	bool flat;             /* its language is C: no function is inside of a structure */
};

/* The attributes of a debugging entry that are needed here; VALUE_NONE if it lacks one. All offsets are in
 * .debug_info. */
struct dwarf_die {
	uint64_t offset, next, sibling; /* next: behind its attributes; sibling: 0 if unknown */
	uint16_t tag;                   /* 0: the end of a list of children */
	bool children, dwo;
	struct dwarf_value low, high, ranges, lines, directory, address_base, ranges_base, strings_base, language, call_file,
		call_line, call_column;
};

/* dwarf_form.c. Reads the unit's abbreviations, replacing those in `abbrevs`: up to the one with this code, or all of
 * them (0). */
int dwarf_abbrevs__read(struct dwarf_abbrevs *abbrevs, const struct dwarf_unit *unit, uint64_t code);
const struct dwarf_abbrev *dwarf_abbrevs__find(const struct dwarf_abbrevs *abbrevs, uint64_t code);

/* dwarf_form.c. Reads a value of this form, or skips it (ret NULL). Errors are the cursor's. */
void dwarf__value(const struct dwarf_unit *unit, struct debug_cursor *cursor, uint32_t form, int32_t constant,
		  struct dwarf_value *ret);
/* The address that a value stands for: itself, or found in .debug_addr by its index. -ENOENT: it is no address. */
int dwarf__address(const struct dwarf_unit *unit, const struct dwarf_value *value, uint64_t *ret);
/* Appends the text of a string value. -ENOENT: it is no string, or one in another file. */
int dwarf__text(const struct dwarf_unit *unit, const struct dwarf_value *value, struct buf *ret);

/* dwarf_die.c */
/* The header at `offset`. -ENOENT: behind the last unit. */
int dwarf_unit__read(struct dwarf *dwarf, uint64_t offset, struct dwarf_unit *ret);
/* Reads the unit's first DIE, which has what holds for the whole unit. `abbrevs` is replaced by those up to that
 * DIE's. */
int dwarf_unit__root(struct dwarf_unit *unit, struct dwarf_abbrevs *abbrevs, struct dwarf_die *ret);
int dwarf_die__read(const struct dwarf_unit *unit, const struct dwarf_abbrevs *abbrevs, uint64_t offset,
		    struct dwarf_die *ret);
/* Is it in struct dwarf_die? */
bool dwarf_die__has(unsigned attribute);

/* dwarf_ranges.c. Calls back for each range of addresses of a DIE, until that returns not 0, which is the result.
 * Ranges come from the file: they may be empty, overlap, or end before they begin; the callback copes. 0: all were
 * passed, or there are none. */
typedef int dwarf_range(void *context, uint64_t start, uint64_t end);
int dwarf_die__ranges(const struct dwarf_unit *unit, const struct dwarf_die *die, dwarf_range *range, void *context);

/* dwarf_lines.c: the line table of a unit. */
/* A row of the line table: from this address up to the next row's, code is of this line. Twelve bytes; file and
 * column have 16 bits; a larger file number is DWARF_FILES_MAX, a larger column 0: unknown. */
struct dwarf_line {
	uint32_t offset;        /* from its sequence's start */
	uint32_t line;
	uint16_t file, column;
};
/* A run of rows whose addresses ascend, [start, end). Code of -ffunction-sections has one for each function. */
struct dwarf_sequence {
	uint64_t start, end;
	uint32_t first, n;      /* rows */
};
struct dwarf_file {
	struct dwarf_value name;
	uint32_t directory;
};
/* The line table of one unit. Reused for the next one. */
struct dwarf_lines {
	struct dwarf_sequence *sequences; /* owned */
	struct dwarf_line *rows;          /* owned */
	struct dwarf_file *files;         /* owned; the directories first, then the files */
	uint32_t n_sequences, sequences_capacity, n_rows, rows_capacity, n_files, files_capacity, n_directories;
	uint32_t base_file; /* the number of the first */
	uint32_t base_directory;
	bool partial;       /* there are more rows than are kept */
};
int dwarf_lines__read(struct dwarf_lines *lines, const struct dwarf_unit *unit);
void dwarf_lines__free(struct dwarf_lines *lines);
/* -ENOENT: no row has the address. */
int dwarf_lines__find(const struct dwarf_lines *lines, const struct dwarf_unit *unit, uint64_t vaddr,
		      struct dwarf_line *ret);
/* Appends the path of file number `file`, absolute if its directories are known. -ENOENT: there is no such file, or
 * the number is not below DWARF_FILES_MAX. */
int dwarf_lines__file(const struct dwarf_lines *lines, const struct dwarf_unit *unit, uint64_t file, struct buf *ret);
