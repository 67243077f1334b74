/* SPDX-License-Identifier: MIT */
/* The interpreter of call frame information (cfi.h): parses CIEs and FDEs of .eh_frame and .debug_frame, and runs their
 * DW_CFA_* instructions. A row is emitted whenever the pc advances after the state changed. For example, the FDE of a
 * function that pushes the frame pointer:
 *
 *    initial (CIE)                             CFA = stack pointer + 8,  return address at CFA - 8
 *    41        advance_loc 1                   -> row at +0
 *    0e 10     def_cfa_offset 16               CFA = stack pointer + 16
 *    86 02     offset 6, 2                     frame pointer at CFA - 16 (2 * data_align)
 *    43        advance_loc 3                   -> row at +1
 *    0d 06     def_cfa_register 6              CFA = frame pointer + 16
 *
 * Numbers of instructions and encodings are those of DWARF 5, 7.24, and LSB 5.0, 10.5.
 *
 * Hostile bytes: each read is bounded by the entry's end (LEB128 numbers move beyond it on failure, which is checked),
 * pcs may only ascend, and sums that overflow end the function with UNWIND_UNSUPPORTED_DAMAGED. Wrong but well-formed
 * information gives a wrong rule for that file, and nothing else. */
#include "unwind/cfi.h"

#include <errno.h>
#include <string.h>

#define REMEMBER_MAX 32u /* nested DW_CFA_remember_state; compilers nest one or two */

/* DW_EH_PE_*: format in bits 0-3, what it is relative to in bits 4-6, indirect in bit 7. */
enum pointer {
	PE_ABSOLUTE = 0x00,
	PE_ULEB = 0x01,
	PE_UDATA2 = 0x02,
	PE_UDATA4 = 0x03,
	PE_UDATA8 = 0x04,
	PE_SLEB = 0x09,
	PE_SDATA2 = 0x0a,
	PE_SDATA4 = 0x0b,
	PE_SDATA8 = 0x0c,
	PE_PCREL = 0x10,
	PE_DATAREL = 0x30,
	PE_OMIT = 0xff,
};

/* A number of fixed size, in the machine's byte order. */
static bool fixed(struct cfi_bytes *bytes, void *dst, size_t size)
{
	if ((size_t)(bytes->end - bytes->at) < size)
		return false;
	memcpy(dst, bytes->at, size);
	bytes->at += size;
	return true;
}

/* Reads an encoded pointer; its first byte is at ELF address `address`, to which it may be relative. */
static bool pointer(const struct cfi_section *section, struct cfi_bytes *bytes, uint64_t address,
		    unsigned encoding, uint64_t *ret)
{
	int16_t s2;
	int32_t s4;
	uint16_t u2;
	uint32_t u4;
	bool ok = true;

	switch (encoding & 0x0f) {
	case PE_ABSOLUTE:
	case PE_UDATA8:
	case PE_SDATA8:
		ok = fixed(bytes, ret, 8);
		break;
	case PE_UDATA4:
		ok = fixed(bytes, &u4, 4);
		*ret = ok ? u4 : 0;
		break;
	case PE_SDATA4:
		ok = fixed(bytes, &s4, 4);
		*ret = ok ? (uint64_t)(int64_t)s4 : 0;
		break;
	case PE_UDATA2:
		ok = fixed(bytes, &u2, 2);
		*ret = ok ? u2 : 0;
		break;
	case PE_SDATA2:
		ok = fixed(bytes, &s2, 2);
		*ret = ok ? (uint64_t)(int64_t)s2 : 0;
		break;
	case PE_ULEB:
		*ret = cfi_uleb(&bytes->at, bytes->end);
		ok = bytes->at <= bytes->end;
		break;
	case PE_SLEB:
		*ret = (uint64_t)cfi_sleb(&bytes->at, bytes->end);
		ok = bytes->at <= bytes->end;
		break;
	default:
		return false;
	}
	if (!ok)
		return false;
	switch (encoding & 0xf0) {
	case 0:
		return true;
	case PE_PCREL:
		*ret += address;
		return true;
	case PE_DATAREL:
		*ret += section->elf->got;
		return section->elf->got != 0;
	}
	return false; /* relative to a function or a segment, or indirect: no compiler writes it
			 here */
}

/* The ELF address of a byte in the entry. */
static uint64_t address_of(const struct cfi_bytes *entry, const uint8_t *at)
{
	return entry->address + (uint64_t)(at - entry->at);
}

/* --- the machine --- */

/* One FDE's (or CIE's) instructions while they run. */
struct run {
	const struct cfi_section *section;
	const struct cfi_cie *cie;
	struct cfi_bytes bytes;
	struct cfi_state state;
	/* The stack of DW_CFA_remember_state. */
	struct cfi_state remembered[REMEMBER_MAX];
	unsigned depth;
	uint64_t pc, end;
	bool changed;	       /* the state changed after the last row */
	uint64_t rule;	       /* of the state (machine__plain); 0: it is made when it is needed */
	struct cfi_rows *rows; /* NULL while a CIE's instructions run: they have no pc */
};

/* The state was changed. */
static void change(struct run *run)
{
	run->changed = true;
	run->rule = 0;
}

/* What holds from run->pc on becomes a row. */
static inline int emit(struct run *run)
{
	run->changed = false;
	if (!run->rule && run->rows->rule)
		run->rule = machine__plain(&run->state, run->cie->signal);
	return run->rule ? run->rows->rule(run->rows, run->pc, run->rule) : run->rows->row(run->rows, run->pc, run->cie, &run->state, 0);
}

/* Moves the pc; what held until here becomes a row. */
static inline int advance(struct run *run, uint64_t pc)
{
	int err = 0;

	/* A CIE has no pc. */
	if (!run->rows)
		return -EBADMSG;
	if (pc < run->pc)
		return -EBADMSG;
	if (pc > run->pc && run->changed)
		err = emit(run);
	run->pc = pc;
	return err;
}

/* Registers above 254 become 255, which no rule accepts. */
static void set_cfa(struct run *run, uint64_t reg, int64_t offset)
{
	run->state.cfa = CFA_REGISTER;
	run->state.reg = reg < 255 ? (uint8_t)reg : 255;
	run->state.offset = run->state.kept = offset;
	run->state.outer = 0;
	change(run);
}

/* Where a register of the caller is, if it is one that is tracked. */
static void set_location(struct run *run, uint64_t reg, enum cfi_how how, uint64_t other,
		      int64_t offset)
{
	int slot = machine__slot(reg);

	if (slot < 0)
		return;
	run->state.places[slot] = (struct cfi_location){
		.how = how, .reg = other < 255 ? (uint8_t)other : 255, .offset = offset};
	change(run);
}

/* To what the CIE's instructions said. */
static void restore(struct run *run, uint64_t reg)
{
	int slot = machine__slot(reg);

	if (slot < 0)
		return;
	run->state.places[slot] = run->cie->initial.places[slot];
	change(run);
}

/* Instructions with the high two bits 0: their operands follow as LEB128 numbers or blocks. */
static int extended(struct run *run, unsigned op, const uint8_t **at, const uint8_t *end)
{
	const struct cfi_cie *cie = run->cie;
	struct cfi_location place = {};
	uint64_t reg, value = 0;
	const uint8_t *from;
	int64_t offset;
	int slot;

	switch (op) {
	case 0x00: /* nop */
		return 0;
	case 0x01: { /* set_loc */
		struct cfi_bytes bytes = {.at = *at, .end = end};

		if (!pointer(run->section, &bytes, address_of(&run->bytes, *at), cie->encoding,
			     &value))
			return -EBADMSG;
		*at = bytes.at;
		return advance(run, value);
	}
	case 0x02: /* advance_loc1, 2, 4 */
	case 0x03:
	case 0x04:
	case 0x1d: { /* MIPS_advance_loc8 */
		size_t size = op == 0x1d ? 8 : (size_t)1 << (op - 0x02);

		if ((size_t)(end - *at) < size)
			return -EBADMSG;
		memcpy(&value, *at, size);
		*at += size;
		if (__builtin_mul_overflow(value, cie->code_align, &value) ||
		    __builtin_add_overflow(value, run->pc, &value))
			return -EBADMSG;
		return advance(run, value);
	}
	case 0x05: /* offset_extended */
		reg = cfi_uleb(at, end);
		offset = (int64_t)(cfi_uleb(at, end) * (uint64_t)cie->data_align);
		set_location(run, reg, CFI_OFFSET, 0, offset);
		return 0;
	case 0x06: /* restore_extended */
		restore(run, cfi_uleb(at, end));
		return 0;
	case 0x07: /* undefined */
		set_location(run, cfi_uleb(at, end), CFI_UNDEFINED, 0, 0);
		return 0;
	case 0x08: /* same_value */
		set_location(run, cfi_uleb(at, end), CFI_SAME, 0, 0);
		return 0;
	case 0x09: /* register */
		reg = cfi_uleb(at, end);
		set_location(run, reg, CFI_REGISTER, cfi_uleb(at, end), 0);
		return 0;
	case 0x0a: /* remember_state */
		if (run->depth == REMEMBER_MAX)
			return -EBADMSG;
		run->remembered[run->depth++] = run->state;
		return 0;
	case 0x0b: /* restore_state */
		if (!run->depth)
			return -EBADMSG;
		run->state = run->remembered[--run->depth];
		change(run);
		return 0;
	case 0x0c: /* def_cfa */
		reg = cfi_uleb(at, end);
		set_cfa(run, reg, (int64_t)cfi_uleb(at, end));
		return 0;
	case 0x12: /* def_cfa_sf */
		reg = cfi_uleb(at, end);
		set_cfa(run, reg,
			(int64_t)((uint64_t)cfi_sleb(at, end) * (uint64_t)cie->data_align));
		return 0;
	case 0x0d: /* def_cfa_register */
		/* DWARF requires that the CFA is register + offset now. libgcrypt has it after an expression; libgcc's
		 * unwinder then uses the offset from before the expression. */
		reg = cfi_uleb(at, end);
		if (run->state.cfa == CFA_UNDEFINED)
			return -EBADMSG;
		set_cfa(run, reg, run->state.kept);
		return 0;
	case 0x0e: /* def_cfa_offset, _sf */
	case 0x13:
		offset = op == 0x0e ? (int64_t)cfi_uleb(at, end)
				    : (int64_t)((uint64_t)cfi_sleb(at, end) *
						(uint64_t)cie->data_align);
		if (run->state.cfa != CFA_REGISTER)
			return -EBADMSG;
		set_cfa(run, run->state.reg, offset);
		return 0;
	case 0x0f: /* def_cfa_expression */
		value = cfi_uleb(at, end);
		if (*at > end || value > (uint64_t)(end - *at))
			return -EBADMSG;
		expression__cfa(*at, *at + value, &run->state);
		*at += value;
		change(run);
		return 0;
	case 0x10: /* expression */
	case 0x16: /* val_expression */
		reg = cfi_uleb(at, end);
		value = cfi_uleb(at, end);
		if (*at > end || value > (uint64_t)(end - *at))
			return -EBADMSG;
		from = *at;
		*at += value;
		slot = machine__slot(reg);
		if (slot < 0)
			return 0;
		if (op == 0x10)
			expression__location(from, *at, &place);
		else
			place.how = CFI_OTHER;
		run->state.places[slot] = place;
		change(run);
		return 0;
	case 0x11: /* offset_extended_sf */
	case 0x15: /* val_offset_sf */
		reg = cfi_uleb(at, end);
		offset = (int64_t)((uint64_t)cfi_sleb(at, end) * (uint64_t)cie->data_align);
		set_location(run, reg, op == 0x11 ? CFI_OFFSET : CFI_VAL_OFFSET, 0, offset);
		return 0;
	case 0x14: /* val_offset */
		reg = cfi_uleb(at, end);
		offset = (int64_t)(cfi_uleb(at, end) * (uint64_t)cie->data_align);
		set_location(run, reg, CFI_VAL_OFFSET, 0, offset);
		return 0;
	case 0x2e: /* GNU_args_size: only for exception handling */
		cfi_uleb(at, end);
		return 0;
	case 0x2f: /* GNU_negative_offset_extended */
		reg = cfi_uleb(at, end);
		offset = (int64_t)(0 - cfi_uleb(at, end) * (uint64_t)cie->data_align);
		set_location(run, reg, CFI_OFFSET, 0, offset);
		return 0;
	}
	return -EBADMSG; /* GNU_window_save and the like: of other architectures */
}

/* def_cfa_offset by a number of one byte, of `left` bytes: most of what follows an advance. */
static inline bool sets_offset(const struct run *run, const uint8_t *at, size_t left)
{
	return left >= 2 && at[0] == 0x0e && at[1] < 0x80 && run->state.cfa == CFA_REGISTER;
}

/* Of the rule only the offset changes. */
static inline void set_offset(struct run *run, uint8_t offset)
{
	run->state.offset = run->state.kept = offset;
	run->state.outer = 0;
	run->changed = true;
	if (run->rule)
		run->rule = unwind_rule_moved(run->rule, offset);
}

/* Runs all instructions. 0, -EBADMSG (damaged from run->pc on), or the error of rows->row(). */
static int execute(struct run *run)
{
	const uint8_t *at = run->bytes.at, *end = run->bytes.end;
	const struct cfi_cie *cie = run->cie;
	uint64_t pc;
	int err = 0;

	while (at < end && !err && (!run->rows || run->pc < run->end)) {
		unsigned op = *at++, low = op & 0x3f;

		switch (op >> 6) {
		case 1: /* advance_loc */
			if (__builtin_mul_overflow(low, cie->code_align, &pc) ||
			    __builtin_add_overflow(pc, run->pc, &pc))
				return -EBADMSG;
			err = advance(run, pc);
			if (!err && pc < run->end && sets_offset(run, at, (size_t)(end - at))) {
				set_offset(run, at[1]);
				at += 2;
			}
			break;
		case 2: /* offset */
			set_location(run, low, CFI_OFFSET, 0,
				  (int64_t)(cfi_uleb(&at, end) * (uint64_t)cie->data_align));
			break;
		case 3: /* restore */
			restore(run, low);
			break;
		default:
			err = extended(run, op, &at, end);
		}
		if (at > end)
			return -EBADMSG;
	}
	return err;
}

int fde__run(const struct cfi_section *section, const struct cfi_cie *cie, struct cfi_bytes bytes,
	     uint64_t start, uint64_t size, struct cfi_rows *rows)
{
	struct run run;
	int err;

	/* Member by member: clearing remembered[], 3 KB, would take most of the time. */
	run.section = section;
	run.cie = cie;
	run.bytes = bytes;
	run.state = cie->initial;
	run.depth = 0;
	run.pc = start;
	run.end = start + size;
	run.changed = true;
	run.rule = 0;
	run.rows = rows;
	err = execute(&run);
	if (err == -EBADMSG)
		/* Rows before the damage are right, and stay. */
		return rows->row(rows, run.pc, cie, NULL, UNWIND_UNSUPPORTED_DAMAGED);
	if (!err && run.pc < run.end && run.changed)
		err = emit(&run);
	return err;
}

/* --- entries --- */

/* The augmentation string and data of a CIE (LSB 5.0, 10.6.1.1.1). An unknown letter ends the parsing: the meaning of
 * the rest is unknown, but 'z' gives its length, so it can be skipped. */
static bool augmentation(const struct cfi_section *section, struct cfi_bytes *entry,
			 uint64_t address, const char *letters, struct cfi_cie *cie)
{
	const uint8_t *begin = entry->at, *after;
	uint64_t length, ignored;

	if (!*letters)
		return true;
	if (*letters != 'z')
		return false; /* "eh": gcc 2 */
	cie->augmented = true;
	length = cfi_uleb(&entry->at, entry->end);
	if (entry->at > entry->end || length > (uint64_t)(entry->end - entry->at))
		return false;
	after = entry->at + length;
	for (letters++; *letters; letters++) {
		struct cfi_bytes data = {.at = entry->at, .end = after};
		uint8_t encoding;

		switch (*letters) {
		case 'S':
			cie->signal = true;
			continue;
		case 'R':
			if (!fixed(&data, &cie->encoding, 1))
				return false;
			break;
		case 'L':
			if (!fixed(&data, &encoding, 1))
				return false;
			break;
		case 'P':
			/* The personality routine: parsed for its length only. */
			if (!fixed(&data, &encoding, 1) ||
			    (encoding != PE_OMIT &&
			     !pointer(section, &data, address + (uint64_t)(data.at - begin),
				      encoding & 0x0f, &ignored)))
				return false;
			break;
		default:
			/* Ends the loop: the next letter is a NUL. */
			letters = "\0\0";
			continue;
		}
		entry->at = data.at;
	}
	entry->at = after;
	return true;
}

/* On an error ret->bad stays true, and so all of its FDEs are dropped. */
void cie__parse(const struct cfi_section *section, struct cfi_bytes entry, struct cfi_cie *ret)
{
	struct cfi_bytes at = entry;
	struct cfi_cie cie = {.id = ret->id, .encoding = PE_ABSOLUTE, .bad = true};
	/* A CIE's instructions give the state that each of its functions begins with. They have no pc, so advances are
	 * refused (run.rows is NULL). */
	struct run run = {.section = section, .cie = &cie};
	const char *letters;
	uint64_t return_column;
	uint8_t version, sizes[2], column;

	*ret = cie;
	if (!fixed(&at, &version, 1) || (version != 1 && version != 3 && version != 4))
		return;
	letters = (const char *)at.at;
	at.at = memchr(at.at, 0, (size_t)(at.end - at.at));
	if (!at.at)
		return;
	at.at++;
	/* Version 4 has sizes of an address and of a segment selector: 8 and 0 here. */
	if (version == 4 && (!fixed(&at, sizes, 2) || sizes[0] != 8 || sizes[1]))
		return;
	cie.code_align = cfi_uleb(&at.at, at.end);
	if (at.at > at.end)
		return;
	cie.data_align = cfi_sleb(&at.at, at.end);
	if (at.at > at.end)
		return;
	if (version == 1) {
		if (!fixed(&at, &column, 1))
			return;
		return_column = column;
	} else {
		return_column = cfi_uleb(&at.at, at.end);
		if (at.at > at.end)
			return;
	}
	/* Which column of the rules is the return address; psABI fixes it for this machine. */
	if (return_column != MACHINE_RETURN ||
	    !augmentation(section, &at, address_of(&entry, at.at), letters, &cie))
		return;
	run.bytes = at;
	run.bytes.address = address_of(&entry, at.at);
	if (execute(&run))
		return;
	cie.initial = run.state;
	cie.bad = false;
	*ret = cie;
}

/* The range: its start as the CIE's encoding says it, then its size in the same format, but not relative to
 * anything. */
int fde__parse(const struct cfi_section *section, const struct cfi_cie *cie,
	       struct cfi_bytes *entry, uint64_t *ret_start, uint64_t *ret_size)
{
	struct cfi_bytes at = *entry;

	if (cie->bad || !pointer(section, &at, at.address, cie->encoding, ret_start) ||
	    !pointer(section, &at, 0, cie->encoding & 0x0f, ret_size))
		return -EBADMSG;
	if (cie->augmented) {
		uint64_t length = cfi_uleb(&at.at, at.end);

		if (at.at > at.end || length > (uint64_t)(at.end - at.at))
			return -EBADMSG;
		at.at += length;
	}
	at.address = address_of(entry, at.at);
	*entry = at;
	return 0;
}
