/* SPDX-License-Identifier: MIT */
/* DWARF 2 to 5, as far as it says where an address comes from in the source. Bytes are read where they lie
 * (debug_bytes.h); of a unit its abbreviations, functions and line rows are held, of one unit at a time.
 *
 * Left out: types; names of functions (the symbol table has them); what dwz moved to another file and what is in
 * .dwo files (lines are never there). All bytes may be anything: sizes are bounded here, time by dwarf.work.
 * Sources: DWARF 5 (7.5 for units and forms, 2.17 and 7.25 for ranges, 6.2 for lines), DWARF 4 for older ones.
 */
#ifndef CPROFD_SYMBOLS_DWARF_H
#define CPROFD_SYMBOLS_DWARF_H

#include <errno.h>

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
#define DWARF_ROWS_MAX (1u << 17)       /* line rows kept of a unit; larger ones are gone through for each address */
#define DWARF_FILES_MAX 65535u

struct dwarf_abbrev {
	uint64_t code;
	uint32_t specs, n_specs;
	uint16_t tag;
	bool children;
};

struct dwarf_abbrevs {
	struct dwarf_abbrev *items; /* owned; sorted by code */
	uint32_t n, capacity;
	struct dwarf_spec {
		uint16_t name, form;
		int32_t constant; /* DW_FORM_implicit_const */
	} *specs;
	uint32_t n_specs, specs_capacity;
};
void dwarf_abbrevs__free(struct dwarf_abbrevs *abbrevs);

struct dwarf {
	struct debug_section sections[DWARF_SECTION_COUNT];
	uint64_t work; /* bytes of sections that may still be read; what reads none is charged, too */
};
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
/* Where packed sections can be entered (unpack.h): how many places; all as bytes, appended; of the same file, into one that has none. */
unsigned dwarf__places(const struct dwarf *dwarf);
int dwarf__pack_places(const struct dwarf *dwarf, struct buf *to);
int dwarf__take_places(struct dwarf *dwarf, const char *data, size_t len);

/* What a value is, once its form was read. */
enum dwarf_class {
	VALUE_NONE,
	VALUE_ADDRESS,
	VALUE_ADDRESS_INDEX,
	VALUE_CONSTANT,
	VALUE_REFERENCE,   /* in .debug_info */
	VALUE_OFFSET,      /* in a section that the attribute tells */
	VALUE_RANGE_INDEX,
	VALUE_STRING,      /* at an offset in .debug_info, .debug_str, .debug_line_str: `section` */
	VALUE_STRING_INDEX,
	VALUE_OTHER,
};
struct dwarf_value {
	uint8_t class, section;
	uint64_t number;
};

struct dwarf_unit {
	struct dwarf *dwarf;
	uint64_t offset, end, root; /* of the header, behind it all, of the first DIE */
	uint64_t abbrevs_offset;
	uint8_t version, type, address_size, offset_size;
	/* of the first DIE */
	uint64_t low, address_base, ranges_base, strings_base;
	uint64_t lines;
	struct dwarf_value directory;
	bool has_lines, split; /* split: its DIEs are in another file */
};

/* What is asked of a debugging entry. */
struct dwarf_die {
	uint64_t offset, next, sibling; /* next: behind its attributes; sibling: 0 if unknown */
	uint16_t tag;                   /* 0: the end of a list of children */
	bool children, dwo;
	struct dwarf_value low, high, ranges, lines, directory, address_base, ranges_base, strings_base, call_file,
		call_line, call_column;
};

/* dwarf_form.c. `code`: up to this one (for a single entry), 0: all. */
int dwarf_abbrevs__read(struct dwarf_abbrevs *abbrevs, struct dwarf *dwarf, uint64_t offset, uint64_t code);
const struct dwarf_abbrev *dwarf_abbrevs__find(const struct dwarf_abbrevs *abbrevs, uint64_t code);

/* dwarf_form.c. Reads a value (ret may be NULL), or leaves it behind. */
void dwarf__value(const struct dwarf_unit *unit, struct debug_cursor *cursor, uint32_t form, int32_t constant,
		  struct dwarf_value *ret);
/* The number that stands in a section: of an index, or itself. */
int dwarf__address(const struct dwarf_unit *unit, const struct dwarf_value *value, uint64_t *ret);
/* Appends its text. -ENOENT: it is none, or is in another file. */
int dwarf__text(const struct dwarf_unit *unit, const struct dwarf_value *value, struct buf *ret);

/* dwarf_die.c */
/* The header at `offset`. -ENOENT: behind the last unit. */
int dwarf_unit__read(struct dwarf *dwarf, uint64_t offset, struct dwarf_unit *ret);
/* What its first DIE says of all. `abbrevs`: for that one, begun anew here. */
int dwarf_unit__root(struct dwarf_unit *unit, struct dwarf_abbrevs *abbrevs, struct dwarf_die *ret);
int dwarf_die__read(const struct dwarf_unit *unit, const struct dwarf_abbrevs *abbrevs, uint64_t offset,
		    struct dwarf_die *ret);

/* dwarf_ranges.c. Calls back for each range of addresses of a DIE, until that returns not 0: its result. */
typedef int dwarf_range(void *context, uint64_t start, uint64_t end);
int dwarf_die__ranges(const struct dwarf_unit *unit, const struct dwarf_die *die, dwarf_range *range, void *context);

/* dwarf_lines.c: the line table of a unit. */
struct dwarf_line {
	uint32_t offset;        /* from its sequence's start */
	uint32_t line;
	uint16_t file, column;
};
struct dwarf_sequence {
	uint64_t start, end;
	uint32_t first, n;      /* rows */
};
struct dwarf_file {
	struct dwarf_value name;
	uint32_t directory;
};
struct dwarf_lines {
	struct dwarf_sequence *sequences; /* owned */
	struct dwarf_line *rows;          /* owned */
	struct dwarf_file *files;         /* owned; directories first */
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
/* Appends a file's path, absolute if that can be known. */
int dwarf_lines__file(const struct dwarf_lines *lines, const struct dwarf_unit *unit, uint64_t file, struct buf *ret);

#endif
