/* SPDX-License-Identifier: MIT */
/* Abbreviations, and the values of attributes (DWARF 5, 7.5.3 to 7.5.6).
 *
 *    .debug_abbrev:  code(ULEB) tag(ULEB) children(1)  { attribute(ULEB) form(ULEB) [constant(SLEB)] } ... 0 0
 *
 * A form says how long a value is, so even attributes that nobody needs must have a known form: of an unknown one
 * the rest of the unit cannot be read. */
#include <dwarf.h>
#include <errno.h>
#include <stdlib.h>

#include "base/array.h"
#include "base/order.h"
#include "symbols/dwarf.h"

#define TEXT_MAX 8192u
#define JOINED_MAX (1 << 20)

void dwarf_abbrevs__free(struct dwarf_abbrevs *abbrevs)
{
	free(abbrevs->items);
	free(abbrevs->specs);
	*abbrevs = (struct dwarf_abbrevs){};
}

/* How many bytes a value of this form takes, where that does not depend on the value; -1: it does. */
static int form_size(const struct dwarf_unit *unit, uint64_t form)
{
	switch (form) {
	case DW_FORM_implicit_const:
	case DW_FORM_flag_present:
		return 0;
	case DW_FORM_data1:
	case DW_FORM_flag:
	case DW_FORM_ref1:
		return 1;
	case DW_FORM_data2:
	case DW_FORM_ref2:
		return 2;
	case DW_FORM_data4:
	case DW_FORM_ref4:
		return 4;
	case DW_FORM_data8:
	case DW_FORM_ref8:
	case DW_FORM_ref_sig8:
		return 8;
	case DW_FORM_strp:
	case DW_FORM_line_strp:
	case DW_FORM_sec_offset:
		return unit->offset_size;
	}
	return -1;
}

/* Attributes that nobody needs, one behind the other, are most of what a type has: their bytes are passed in one step. */
static bool join(struct dwarf_abbrevs *abbrevs, uint32_t first, int size)
{
	struct dwarf_spec *last = abbrevs->n_specs > first ? &abbrevs->specs[abbrevs->n_specs - 1] : NULL;

	if (!last || last->name || last->form || last->constant > JOINED_MAX)
		return false;
	last->constant += size;
	return true;
}

/* The attributes of one abbreviation, up to a pair of zeros. Constants matter for DW_AT_call_line and the like
 * alone: what does not fit into 31 bits is 0, unknown. */
static int read_specs(struct dwarf_abbrevs *abbrevs, const struct dwarf_unit *unit, struct debug_cursor *cursor)
{
	const uint32_t first = abbrevs->n_specs;
	uint64_t name, form;
	int64_t constant;
	int size, err;

	for (;;) {
		name = debug_cursor__uleb(cursor);
		form = debug_cursor__uleb(cursor);
		constant = form == DW_FORM_implicit_const ? debug_cursor__sleb(cursor) : 0;
		if (cursor->error || (!name && !form))
			return cursor->error;
		if (form > UINT16_MAX)
			return -EBADMSG;
		if (name > UINT16_MAX)
			name = UINT16_MAX; /* of nobody */
		size = dwarf_die__has((unsigned)name) ? -1 : form_size(unit, form);
		if (size >= 0 && join(abbrevs, first, size))
			continue;
		if (abbrevs->n_specs >= DWARF_SPECS_MAX)
			return -EBADMSG;
		err = ARRAY_RESERVE(abbrevs->specs, abbrevs->n_specs, abbrevs->specs_capacity);
		if (err)
			return err;
		abbrevs->specs[abbrevs->n_specs++] = size >= 0 ? (struct dwarf_spec){0, 0, size} : (struct dwarf_spec){
			(uint16_t)name, (uint16_t)form, constant < 0 || constant > INT32_MAX ? 0 : (int32_t)constant};
	}
}

/* Codes ascend from 1 in what compilers write, so that find() is an index; of others the array is sorted. The work
 * is charged even though the cursor was charged by windows: small tables of many units would be nearly free
 * otherwise. */
int dwarf_abbrevs__read(struct dwarf_abbrevs *abbrevs, const struct dwarf_unit *unit, uint64_t code)
{
	struct dwarf_abbrev abbrev;
	struct debug_cursor cursor;
	bool sorted = true;
	int err = 0;

	abbrevs->n = abbrevs->n_specs = 0;
	debug_cursor__init(&cursor, &unit->dwarf->sections[DWARF_ABBREV], unit->abbrevs_offset);
	while (!err && (abbrev.code = debug_cursor__uleb(&cursor))) {
		abbrev.tag = (uint16_t)debug_cursor__uleb(&cursor);
		abbrev.children = debug_cursor__u8(&cursor);
		abbrev.specs = abbrevs->n_specs;
		err = read_specs(abbrevs, unit, &cursor);
		abbrev.n_specs = abbrevs->n_specs - abbrev.specs;
		if (!err && abbrevs->n >= DWARF_SPECS_MAX)
			err = -EBADMSG;
		err = err ?: ARRAY_RESERVE(abbrevs->items, abbrevs->n, abbrevs->capacity);
		if (err)
			break;
		sorted &= !abbrevs->n || abbrevs->items[abbrevs->n - 1].code < abbrev.code;
		abbrevs->items[abbrevs->n++] = abbrev;
		if (abbrev.code == code)
			break;
	}
	err = err ?: cursor.error;
	err = err ?: dwarf__charge(unit->dwarf, cursor.at - unit->abbrevs_offset);
	if (!err && !sorted)
		qsort(abbrevs->items, abbrevs->n, sizeof(abbrev), order__u64);
	return err;
}

const struct dwarf_abbrev *dwarf_abbrevs__find(const struct dwarf_abbrevs *abbrevs, uint64_t code)
{
	const struct dwarf_abbrev key = {.code = code};

	if (code - 1 < abbrevs->n && abbrevs->items[code - 1].code == code) /* as compilers number them */
		return &abbrevs->items[code - 1];
	return abbrevs->n ? bsearch(&key, abbrevs->items, abbrevs->n, sizeof(key), order__u64) : NULL;
}

/* --- forms --- */

static void set(struct dwarf_value *ret, enum dwarf_class class, uint64_t number)
{
	*ret = (struct dwarf_value){.class = (uint8_t)class, .number = number};
}

static void string(struct dwarf_value *ret, unsigned section, uint64_t number)
{
	*ret = (struct dwarf_value){VALUE_STRING, (uint8_t)section, number};
}

/* DW_FORM_indirect may name itself again and again: four times are followed. References within the unit are made
 * absolute. */
void dwarf__value(const struct dwarf_unit *unit, struct debug_cursor *cursor, uint32_t form, int32_t constant,
		  struct dwarf_value *ret)
{
	unsigned wide = unit->offset_size, i;
	struct dwarf_value none;

	if (!ret)
		ret = &none;
	*ret = (struct dwarf_value){.class = VALUE_OTHER};
	for (i = 0; form == DW_FORM_indirect && i < 4; i++)
		form = (uint32_t)debug_cursor__uleb(cursor);
	switch (form) {
	case DW_FORM_addr:
		return set(ret, VALUE_ADDRESS, debug_cursor__uint(cursor, unit->address_size));
	case DW_FORM_addrx:
	case DW_FORM_GNU_addr_index:
		return set(ret, VALUE_ADDRESS_INDEX, debug_cursor__uleb(cursor));
	case DW_FORM_addrx1:
	case DW_FORM_addrx2:
	case DW_FORM_addrx3:
	case DW_FORM_addrx4:
		return set(ret, VALUE_ADDRESS_INDEX, debug_cursor__uint(cursor, form - DW_FORM_addrx1 + 1));
	case DW_FORM_data1:
	case DW_FORM_flag:
		return set(ret, VALUE_CONSTANT, debug_cursor__u8(cursor));
	case DW_FORM_data2:
		return set(ret, VALUE_CONSTANT, debug_cursor__uint(cursor, 2));
	case DW_FORM_data4: /* up to DWARF 3 also what sec_offset says */
		return set(ret, VALUE_CONSTANT, debug_cursor__uint(cursor, 4));
	case DW_FORM_data8:
		return set(ret, VALUE_CONSTANT, debug_cursor__uint(cursor, 8));
	case DW_FORM_udata:
		return set(ret, VALUE_CONSTANT, debug_cursor__uleb(cursor));
	case DW_FORM_sdata:
		return set(ret, VALUE_CONSTANT, (uint64_t)debug_cursor__sleb(cursor));
	case DW_FORM_implicit_const:
		return set(ret, VALUE_CONSTANT, (uint64_t)constant);
	case DW_FORM_flag_present:
		return set(ret, VALUE_CONSTANT, 1);
	case DW_FORM_sec_offset:
		return set(ret, VALUE_OFFSET, debug_cursor__uint(cursor, wide));
	case DW_FORM_ref1:
		return set(ret, VALUE_REFERENCE, unit->offset + debug_cursor__u8(cursor));
	case DW_FORM_ref2:
		return set(ret, VALUE_REFERENCE, unit->offset + debug_cursor__uint(cursor, 2));
	case DW_FORM_ref4:
		return set(ret, VALUE_REFERENCE, unit->offset + debug_cursor__uint(cursor, 4));
	case DW_FORM_ref8:
		return set(ret, VALUE_REFERENCE, unit->offset + debug_cursor__uint(cursor, 8));
	case DW_FORM_ref_udata:
		return set(ret, VALUE_REFERENCE, unit->offset + debug_cursor__uleb(cursor));
	case DW_FORM_ref_addr:
		return set(ret, VALUE_REFERENCE,
			   debug_cursor__uint(cursor, unit->version < 3 ? unit->address_size : wide));
	case DW_FORM_rnglistx:
		return set(ret, VALUE_RANGE_INDEX, debug_cursor__uleb(cursor));
	case DW_FORM_string:
		string(ret, cursor->section == &unit->dwarf->sections[DWARF_LINE] ? DWARF_LINE : DWARF_INFO,
		       cursor->at);
		debug_cursor__skip_string(cursor);
		return;
	case DW_FORM_strp:
		return string(ret, DWARF_STR, debug_cursor__uint(cursor, wide));
	case DW_FORM_line_strp:
		return string(ret, DWARF_LINE_STR, debug_cursor__uint(cursor, wide));
	case DW_FORM_strx:
	case DW_FORM_GNU_str_index:
		return set(ret, VALUE_STRING_INDEX, debug_cursor__uleb(cursor));
	case DW_FORM_strx1:
	case DW_FORM_strx2:
	case DW_FORM_strx3:
	case DW_FORM_strx4:
		return set(ret, VALUE_STRING_INDEX, debug_cursor__uint(cursor, form - DW_FORM_strx1 + 1));
	case DW_FORM_block1:
		return debug_cursor__skip(cursor, debug_cursor__u8(cursor));
	case DW_FORM_block2:
		return debug_cursor__skip(cursor, debug_cursor__uint(cursor, 2));
	case DW_FORM_block4:
		return debug_cursor__skip(cursor, debug_cursor__uint(cursor, 4));
	case DW_FORM_block:
	case DW_FORM_exprloc:
		return debug_cursor__skip(cursor, debug_cursor__uleb(cursor));
	case DW_FORM_data16:
		return debug_cursor__skip(cursor, 16);
	case DW_FORM_ref_sig8:
	case DW_FORM_ref_sup8:
		return debug_cursor__skip(cursor, 8);
	case DW_FORM_ref_sup4:
		return debug_cursor__skip(cursor, 4);
	case DW_FORM_strp_sup: /* in dwz's file */
	case DW_FORM_GNU_strp_alt:
	case DW_FORM_GNU_ref_alt:
		return debug_cursor__skip(cursor, wide);
	case DW_FORM_loclistx:
		debug_cursor__uleb(cursor);
		return;
	default: /* its size is not known: nothing behind it can be read */
		cursor->error = cursor->error ? cursor->error : -EBADMSG;
		cursor->at = cursor->end;
	}
}

/* An index refers to .debug_addr (DWARF 5, 7.27). It is bounded to 32 bits so that the product cannot overflow;
 * beyond the section's end the cursor fails. */
int dwarf__address(const struct dwarf_unit *unit, const struct dwarf_value *value, uint64_t *ret)
{
	struct debug_cursor cursor;

	*ret = value->number;
	if (value->class == VALUE_ADDRESS)
		return 0;
	if (value->class != VALUE_ADDRESS_INDEX)
		return -ENOENT;
	if (value->number > UINT32_MAX)
		return -EBADMSG;
	debug_cursor__init(&cursor, &unit->dwarf->sections[DWARF_ADDR],
			   unit->address_base + value->number * unit->address_size);
	*ret = debug_cursor__uint(&cursor, unit->address_size);
	return cursor.error;
}

/* A string's index goes through .debug_str_offsets (DWARF 5, 7.26). The text is cut at TEXT_MAX. */
int dwarf__text(const struct dwarf_unit *unit, const struct dwarf_value *value, struct buf *ret)
{
	unsigned section = value->section;
	uint64_t at = value->number;
	struct debug_cursor cursor;

	if (value->class == VALUE_STRING_INDEX) {
		if (at > UINT32_MAX)
			return -EBADMSG;
		debug_cursor__init(&cursor, &unit->dwarf->sections[DWARF_STR_OFFSETS],
				   unit->strings_base + at * unit->offset_size);
		at = debug_cursor__uint(&cursor, unit->offset_size);
		if (cursor.error)
			return cursor.error;
		section = DWARF_STR;
	} else if (value->class != VALUE_STRING) {
		return -ENOENT;
	}
	debug_cursor__init(&cursor, &unit->dwarf->sections[section], at);
	return debug_cursor__string(&cursor, TEXT_MAX, ret);
}
