/* SPDX-License-Identifier: MIT */
/* The addresses of a debugging entry, in the four ways that DWARF has for them: low and high; an offset into
 * .debug_ranges (up to DWARF 4); an offset into .debug_rnglists; an index in front of that (DWARF 5, 2.17.3).
 *
 * Each entry of a list is charged, and DWARF_UNIT_RANGES_MAX bounds a list without an end. The callbacks of lines.c
 * and line_spans.c drop what is empty. */
#include <dwarf.h>
#include <errno.h>

#include "symbols/dwarf.h"

#define ENTRY 16u /* what one is charged with */

/* DWARF 2 to 4: pairs that count from the unit's base, or from the last base that the list gave. 0, 0 ends it. */
static int pairs(const struct dwarf_unit *unit, uint64_t offset, dwarf_range *range, void *context)
{
	uint64_t base = unit->low, from, to;
	struct debug_cursor cursor;
	uint32_t i;
	int err;

	debug_cursor__init(&cursor, &unit->dwarf->sections[DWARF_RANGES], offset);
	for (i = 0; i < DWARF_UNIT_RANGES_MAX; i++) {
		if (dwarf__charge(unit->dwarf, ENTRY))
			return -EFBIG;
		from = debug_cursor__uint(&cursor, unit->address_size);
		to = debug_cursor__uint(&cursor, unit->address_size);
		if (cursor.error || (!from && !to))
			return cursor.error;
		if (from == UINT64_MAX) {
			base = to;
			continue;
		}
		err = range(context, base + from, base + to);
		if (err)
			return err;
	}
	return -EBADMSG;
}

/* The next operand, an index in .debug_addr. An error is left in the cursor. */
static uint64_t indexed(const struct dwarf_unit *unit, struct debug_cursor *cursor)
{
	const struct dwarf_value value = {.class = VALUE_ADDRESS_INDEX, .number = debug_cursor__uleb(cursor)};
	uint64_t address = 0;
	int err = cursor->error ? 0 : dwarf__address(unit, &value, &address);

	if (err)
		cursor->error = err;
	return address;
}

/* DWARF 5, 7.25: each entry is a kind (DW_RLE_*) and its operands. */
static int list(const struct dwarf_unit *unit, uint64_t offset, dwarf_range *range, void *context)
{
	uint64_t base = unit->low, from, to;
	struct debug_cursor cursor;
	uint32_t i;
	int err;

	debug_cursor__init(&cursor, &unit->dwarf->sections[DWARF_RNGLISTS], offset);
	for (i = 0; i < DWARF_UNIT_RANGES_MAX; i++) {
		if (dwarf__charge(unit->dwarf, ENTRY))
			return -EFBIG;
		switch (debug_cursor__u8(&cursor)) {
		case DW_RLE_end_of_list:
			return cursor.error;
		case DW_RLE_base_addressx:
			base = indexed(unit, &cursor);
			continue;
		case DW_RLE_base_address:
			base = debug_cursor__uint(&cursor, unit->address_size);
			continue;
		case DW_RLE_startx_endx:
			from = indexed(unit, &cursor);
			to = indexed(unit, &cursor);
			break;
		case DW_RLE_startx_length:
			from = indexed(unit, &cursor);
			to = from + debug_cursor__uleb(&cursor);
			break;
		case DW_RLE_offset_pair:
			from = base + debug_cursor__uleb(&cursor);
			to = base + debug_cursor__uleb(&cursor);
			break;
		case DW_RLE_start_end:
			from = debug_cursor__uint(&cursor, unit->address_size);
			to = debug_cursor__uint(&cursor, unit->address_size);
			break;
		case DW_RLE_start_length:
			from = debug_cursor__uint(&cursor, unit->address_size);
			to = from + debug_cursor__uleb(&cursor);
			break;
		default:
			return -EBADMSG;
		}
		if (cursor.error)
			return cursor.error;
		err = range(context, from, to);
		if (err)
			return err;
	}
	return -EBADMSG;
}

/* DW_AT_high_pc is an address, or since DWARF 4 a constant: then it counts from low_pc. An entry without addresses
 * (a declaration) is 0 ranges, and no error. */
int dwarf_die__ranges(const struct dwarf_unit *unit, const struct dwarf_die *die, dwarf_range *range, void *context)
{
	uint64_t offset = die->ranges.number, low, high;
	struct debug_cursor cursor;
	int err;

	if (die->ranges.class == VALUE_RANGE_INDEX) {
		if (offset > UINT32_MAX)
			return -EBADMSG;
		debug_cursor__init(&cursor, &unit->dwarf->sections[DWARF_RNGLISTS],
				   unit->ranges_base + offset * unit->offset_size);
		offset = unit->ranges_base + debug_cursor__uint(&cursor, unit->offset_size);
		return cursor.error ? cursor.error : list(unit, offset, range, context);
	}
	if (die->ranges.class == VALUE_OFFSET || die->ranges.class == VALUE_CONSTANT)
		return unit->version >= 5 ? list(unit, offset, range, context)
					  : pairs(unit, offset, range, context);
	if (die->low.class == VALUE_NONE || die->high.class == VALUE_NONE)
		return 0;
	err = dwarf__address(unit, &die->low, &low);
	if (err)
		return err;
	if (die->high.class == VALUE_CONSTANT)
		high = low + die->high.number;
	else if ((err = dwarf__address(unit, &die->high, &high)))
		return err;
	return range(context, low, high);
}
