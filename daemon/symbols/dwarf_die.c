/* SPDX-License-Identifier: MIT */
/* Units and debugging entries (DIEs) of .debug_info (DWARF 5, 7.5.1 and 7.5.2).
 *
 *    unit    length(4)  version(2)  [type(1)  address_size(1)]  abbrevs_offset  [address_size(1)]  DIEs ...
 *    DIE     code(ULEB)  values of the attributes that abbreviation `code` lists; children follow, up to a code of 0
 *
 * Nothing is built in memory: a DIE is read when a walk comes to it, and the walk goes on at die.next or
 * die.sibling. */
#include <dwarf.h>
#include <errno.h>
#include <string.h>

#include "symbols/dwarf.h"

/* Of a packed section: it is gone through once to find the units, at some 150 MB a second. */
#define PACKED_MAX (96u << 20)

int dwarf__open(struct dwarf *dwarf, const struct elf_image *image)
{
	static const char *const names[] = {
#define DWARF_SECTION_NAME(id, name) [DWARF_##id] = name,
		DWARF_SECTIONS(DWARF_SECTION_NAME)};
#undef DWARF_SECTION_NAME
	unsigned i;
	int err = 0;

	memset(dwarf->sections, 0, sizeof(dwarf->sections));
	dwarf->unpacked = (struct elf_bytes)ELF_BYTES_NONE;
	for (i = 0; i < DWARF_SECTION_COUNT && !err; i++) {
		err = debug_section__open(&dwarf->sections[i], image, names[i], PACKED_MAX, &dwarf->work);
		if (err == -ENOENT && i != DWARF_INFO && i != DWARF_ABBREV && i != DWARF_LINE)
			err = 0;
	}
	if (err)
		dwarf__close(dwarf);
	return err;
}

void dwarf__close(struct dwarf *dwarf)
{
	unsigned i;

	for (i = 0; i < DWARF_SECTION_COUNT; i++)
		debug_section__close(&dwarf->sections[i]);
	elf_bytes__free(&dwarf->unpacked);
}

void dwarf__rest(struct dwarf *dwarf)
{
	unsigned i;

	for (i = 0; i < DWARF_SECTION_COUNT; i++)
		debug_section__rest(&dwarf->sections[i]);
}

/* A length of 0xffffffff announces DWARF's 64-bit format, whose offsets have 8 bytes (7.4). The unit's end is
 * checked against the section, so a walk over units always advances. */
int dwarf_unit__read(struct dwarf *dwarf, uint64_t offset, struct dwarf_unit *ret)
{
	struct debug_cursor cursor;
	uint64_t length;

	debug_cursor__init(&cursor, &dwarf->sections[DWARF_INFO], offset);
	if (offset >= cursor.end)
		return -ENOENT;
	*ret = (struct dwarf_unit){.dwarf = dwarf, .offset = offset, .offset_size = 4, .type = DW_UT_compile};
	length = debug_cursor__uint(&cursor, 4);
	if (length == 0xffffffff) {
		ret->offset_size = 8;
		length = debug_cursor__uint(&cursor, 8);
	}
	if (cursor.error || length > cursor.end - cursor.at || length < 7)
		return cursor.error ? cursor.error : -EBADMSG;
	ret->end = cursor.end = cursor.at + length;
	ret->version = (uint8_t)debug_cursor__uint(&cursor, 2);
	if (ret->version >= 5) {
		ret->type = debug_cursor__u8(&cursor);
		ret->address_size = debug_cursor__u8(&cursor);
		ret->abbrevs_offset = debug_cursor__uint(&cursor, ret->offset_size);
		if (ret->type == DW_UT_skeleton || ret->type == DW_UT_split_compile)
			debug_cursor__skip(&cursor, 8);
	} else {
		ret->abbrevs_offset = debug_cursor__uint(&cursor, ret->offset_size);
		ret->address_size = debug_cursor__u8(&cursor);
	}
	ret->root = cursor.at;
	/* Another version's form is not known; the unit is left behind. */
	if (ret->version < 2 || ret->version > 5 || ret->address_size != 8)
		ret->type = DW_UT_type;
	return cursor.error;
}

static uint64_t number(const struct dwarf_value *value, uint64_t otherwise)
{
	return value->class == VALUE_CONSTANT || value->class == VALUE_OFFSET ? value->number : otherwise;
}

/* DW_LANG_C17 and C23 are 0x2c and 0x3e; dwarf.h of Debian 12 does not know the latter. */
static bool is_c(const struct dwarf_value *language)
{
	if (language->class != VALUE_CONSTANT)
		return false;
	switch (language->number) {
	case DW_LANG_C89:
	case DW_LANG_C:
	case DW_LANG_C99:
	case DW_LANG_C11:
	case 0x2c:
	case 0x3e:
		return true;
	}
	return false;
}

/* Reads the abbreviations only as far as the root's code: that is mostly the first, and a unit's table has hundreds. */
int dwarf_unit__root(struct dwarf_unit *unit, struct dwarf_abbrevs *abbrevs, struct dwarf_die *ret)
{
	uint64_t head = unit->offset_size == 8 ? 16 : 8;
	struct debug_cursor cursor;
	int err;

	*ret = (struct dwarf_die){};
	debug_cursor__init(&cursor, &unit->dwarf->sections[DWARF_INFO], unit->root);
	err = dwarf_abbrevs__read(abbrevs, unit, debug_cursor__uleb(&cursor));
	err = err ?: dwarf_die__read(unit, abbrevs, unit->root, ret);
	if (err)
		return err;
	unit->split = ret->dwo || unit->type == DW_UT_skeleton;
	unit->has_lines = ret->lines.class == VALUE_CONSTANT || ret->lines.class == VALUE_OFFSET;
	unit->lines = ret->lines.number;
	unit->directory = ret->directory;
	unit->flat = is_c(&ret->language);
	/* Without an attribute: behind the section's first header. */
	unit->address_base = number(&ret->address_base, unit->version >= 5 ? head : 0);
	unit->strings_base = number(&ret->strings_base, unit->version >= 5 ? head : 0);
	unit->ranges_base = number(&ret->ranges_base, unit->version >= 5 ? head + 4 : 0);
	if (dwarf__address(unit, &ret->low, &unit->low))
		unit->low = 0;
	return 0;
}

/* NULL: not needed; the value is skipped. */
static struct dwarf_value *member(struct dwarf_die *die, unsigned attribute)
{
	switch (attribute) {
	case DW_AT_low_pc:
		return &die->low;
	case DW_AT_high_pc:
		return &die->high;
	case DW_AT_ranges:
		return &die->ranges;
	case DW_AT_stmt_list:
		return &die->lines;
	case DW_AT_comp_dir:
		return &die->directory;
	case DW_AT_addr_base:
	case DW_AT_GNU_addr_base:
		return &die->address_base;
	case DW_AT_rnglists_base:
		return &die->ranges_base;
	case DW_AT_str_offsets_base:
		return &die->strings_base;
	case DW_AT_language:
		return &die->language;
	case DW_AT_call_file:
		return &die->call_file;
	case DW_AT_call_line:
		return &die->call_line;
	case DW_AT_call_column:
		return &die->call_column;
	}
	return NULL;
}

bool dwarf_die__has(unsigned attribute)
{
	struct dwarf_die die;

	return attribute == DW_AT_sibling || attribute == DW_AT_dwo_name || attribute == DW_AT_GNU_dwo_name || member(&die, attribute);
}

/* Charged by the number of attributes, as forms of no bytes (DW_FORM_implicit_const, DW_FORM_flag_present) read
 * nothing: a file could otherwise have us walk through a quarter of a million of them for one byte. */
int dwarf_die__read(const struct dwarf_unit *unit, const struct dwarf_abbrevs *abbrevs, uint64_t offset,
		    struct dwarf_die *ret)
{
	const struct dwarf_abbrev *abbrev;
	struct dwarf_value sibling;
	struct debug_cursor cursor;
	uint64_t code;
	uint32_t i;

	*ret = (struct dwarf_die){.offset = offset};
	debug_cursor__init(&cursor, &unit->dwarf->sections[DWARF_INFO], offset);
	cursor.end = cursor.end < unit->end ? cursor.end : unit->end;
	code = debug_cursor__uleb(&cursor);
	ret->next = cursor.at;
	if (cursor.error || !code)
		return cursor.error;
	abbrev = dwarf_abbrevs__find(abbrevs, code);
	if (!abbrev)
		return -EBADMSG;
	if (dwarf__charge(unit->dwarf, 4 * (uint64_t)abbrev->n_specs))
		return -EFBIG;
	ret->tag = abbrev->tag;
	ret->children = abbrev->children;
	for (i = 0; i < abbrev->n_specs; i++) {
		const struct dwarf_spec *spec = &abbrevs->specs[abbrev->specs + i];

		if (!spec->name && !spec->form) {
			debug_cursor__skip(&cursor, (uint32_t)spec->constant);
			continue;
		}
		if (spec->name == DW_AT_sibling) {
			dwarf__value(unit, &cursor, spec->form, spec->constant, &sibling);
			if (sibling.class == VALUE_REFERENCE)
				ret->sibling = sibling.number;
			continue;
		}
		ret->dwo |= spec->name == DW_AT_dwo_name || spec->name == DW_AT_GNU_dwo_name;
		dwarf__value(unit, &cursor, spec->form, spec->constant, member(ret, spec->name));
	}
	ret->next = cursor.at;
	/* Backwards it would never end. */
	if (ret->sibling <= ret->next || ret->sibling > unit->end)
		ret->sibling = 0;
	return cursor.error;
}
