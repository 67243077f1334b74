/* SPDX-License-Identifier: MIT */
/* What code_compare reads of a file: its functions by .eh_frame_hdr's table, what libdw says of
 * their frames, and our rows of the same code. */
#pragma once

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <errno.h>
#include <fcntl.h>
#include <gelf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "unwind/code.h"

struct sums {
	unsigned long functions, pads, fragments, entered, instructions, equal, lost, wrong,
		strange, contradicted, liars;
	unsigned long unsupported[UNWIND_UNSUPPORTED_COUNT];
};

struct function {
	uint64_t start, size;
	bool pads;
};

/* What libdw says of a value: register + offset, *(register + offset) + outer. */
struct said {
	enum { SAID_NOTHING, SAID_SUM, SAID_READ, SAID_OTHER } how;
	unsigned reg; /* 100: the CFA */
	int64_t offset, outer;
};
#define CFA 100u

struct row {
	uint64_t pc;
	bool known;
	int why;
	struct code_state state;
	bool heard;
	struct said cfa, bp, base, ra;
};

struct arrival {
	uint64_t at;
	struct code_state state;
};

struct compare {
	struct code_rows rows_of;
	const char *path;
	Elf *elf;
	Dwarf_CFI *cfi;
	struct row *rows;
	size_t n_rows, capacity;
	struct arrival *arrivals;
	size_t n_arrivals, arrivals_capacity;
	struct function *functions;
	size_t n_functions;
	struct sums sums;
	unsigned shown;
};

static unsigned show_max = 5;
static bool show_unsupported;

/* --- functions of a file, by .eh_frame_hdr's table --- */

/* Of the file at hand. */
static Elf *segments_of;
static size_t segments_n;
static struct {
	GElf_Phdr phdr;
	const uint8_t *data;
} segments[64];

static const uint8_t *bytes_at(Elf *elf, uint64_t address, size_t size)
{
	size_t n = segments_n, i;

	if (segments_of != elf) {
		size_t count;

		segments_of = elf;
		segments_n = n = 0;
		if (elf_getphdrnum(elf, &count))
			return NULL;
		for (i = 0; i < count && n < 64; i++) {
			Elf_Data *data;

			if (!gelf_getphdr(elf, (int)i, &segments[n].phdr) ||
			    segments[n].phdr.p_type != PT_LOAD || !segments[n].phdr.p_filesz)
				continue;
			data = elf_getdata_rawchunk(elf, (int64_t)segments[n].phdr.p_offset,
						    segments[n].phdr.p_filesz, ELF_T_BYTE);
			if (data)
				segments[n++].data = data->d_buf;
		}
		segments_n = n;
	}
	for (i = 0; i < n; i++) {
		uint64_t in = address - segments[i].phdr.p_vaddr;

		if (in < segments[i].phdr.p_filesz && size <= segments[i].phdr.p_filesz - in)
			return segments[i].data + in;
	}
	return NULL;
}

static uint64_t uleb(const uint8_t **at)
{
	uint64_t value = 0;
	unsigned shift = 0;

	do
		value |= (uint64_t)(**at & 127) << shift, shift += 7;
	while (*(*at)++ & 128 && shift < 63);
	return value;
}

/* An FDE as gcc and LLVM write them: 4 bytes relative to their place. */
static bool read_fde(struct compare *c, uint64_t address, struct function *ret)
{
	const uint8_t *fde = bytes_at(c->elf, address, 24), *cie, *at;
	int32_t start, lsda = 0;
	uint32_t length, back, size;
	const char *letters;

	if (!fde)
		return false;
	memcpy(&length, fde, 4);
	memcpy(&back, fde + 4, 4);
	memcpy(&start, fde + 8, 4);
	memcpy(&size, fde + 12, 4);
	cie = bytes_at(c->elf, address + 4 - back, 32);
	if (!cie || length == 0xffffffff)
		return false;
	letters = (const char *)cie + 9;
	ret->start = address + 8 + (uint64_t)(int64_t)start;
	ret->size = size;
	at = fde + 16;
	if (letters[0] == 'z' && uleb(&at) >= 4 && strchr(letters, 'L'))
		memcpy(&lsda, at, 4);
	ret->pads = lsda != 0;
	return size > 0;
}

static bool read_functions(struct compare *c)
{
	size_t n, i;
	GElf_Phdr phdr;
	Elf_Data *data;

	if (elf_getphdrnum(c->elf, &n))
		return false;
	for (i = 0; i < n; i++) {
		const char *bytes;
		int32_t pair[2];
		uint32_t count, k;

		if (!gelf_getphdr(c->elf, (int)i, &phdr) || phdr.p_type != PT_GNU_EH_FRAME)
			continue;
		data = elf_getdata_rawchunk(c->elf, (int64_t)phdr.p_offset, phdr.p_filesz,
					    ELF_T_BYTE);
		if (!data || data->d_size < 12)
			return false;
		bytes = data->d_buf;
		memcpy(&count, bytes + 8, 4);
		if (memcmp(bytes, "\1\x1b\3\x3b", 4) || count > (data->d_size - 12) / 8)
			return false;
		c->functions = malloc((count + 1) * sizeof(*c->functions));
		for (k = 0; c->functions && k < count; k++) {
			memcpy(pair, bytes + 12 + k * 8, 8);
			if (read_fde(c, phdr.p_vaddr + (uint64_t)(int64_t)pair[1],
				     &c->functions[c->n_functions]))
				c->n_functions++;
		}
		return c->functions != NULL;
	}
	return false;
}

/* --- ours --- */

static int take_row(struct code_rows *rows, uint64_t pc, const struct code_state *state, int why)
{
	struct compare *c = (struct compare *)rows;
	struct row *row;

	if (c->n_rows == c->capacity) {
		c->capacity = c->capacity ? c->capacity * 2 : 4096;
		c->rows = realloc(c->rows, c->capacity * sizeof(*c->rows));
		if (!c->rows)
			return -ENOMEM;
	}
	row = &c->rows[c->n_rows++];
	row->pc = pc;
	row->known = state != NULL;
	row->why = why;
	if (state)
		row->state = *state;
	return 0;
}

static int take_arrival(struct code_rows *rows, uint64_t target, const struct code_state *state)
{
	struct compare *c = (struct compare *)rows;

	if (c->n_arrivals == c->arrivals_capacity) {
		c->arrivals_capacity = c->arrivals_capacity ? c->arrivals_capacity * 2 : 256;
		c->arrivals = realloc(c->arrivals, c->arrivals_capacity * sizeof(*c->arrivals));
		if (!c->arrivals)
			return -ENOMEM;
	}
	c->arrivals[c->n_arrivals++] = (struct arrival){.at = target, .state = *state};
	return 0;
}

/* --- libdw's --- */

static struct said hear(const Dwarf_Op *ops, size_t n, bool place)
{
	struct said said = {.how = SAID_OTHER};
	size_t i = 1;

	if (!n)
		return said;
	/* An expression for a register begins with the CFA on its stack. */
	if (place && n > 1 && ops[0].atom == DW_OP_call_frame_cfa && ops[1].atom >= DW_OP_breg0 &&
	    ops[1].atom <= DW_OP_breg15) {
		ops++;
		n--;
	}
	if (ops[0].atom >= DW_OP_breg0 && ops[0].atom <= DW_OP_breg15) {
		said.reg = ops[0].atom - DW_OP_breg0;
		said.offset = (int64_t)ops[0].number;
	} else if (ops[0].atom == DW_OP_bregx && ops[0].number < 16) {
		said.reg = (unsigned)ops[0].number;
		said.offset = (int64_t)ops[0].number2;
	} else if (ops[0].atom == DW_OP_call_frame_cfa) {
		said.reg = CFA;
	} else {
		return said;
	}
	said.how = SAID_SUM;
	for (; i < n; i++) {
		if (ops[i].atom == DW_OP_plus_uconst && said.how == SAID_SUM)
			said.offset += (int64_t)ops[i].number;
		else if (ops[i].atom == DW_OP_plus_uconst)
			said.outer += (int64_t)ops[i].number;
		else if (ops[i].atom == DW_OP_deref && said.how == SAID_SUM)
			said.how = SAID_READ;
		else
			return (struct said){.how = SAID_OTHER};
	}
	if (place)
		said.how = said.how == SAID_SUM ? SAID_READ : SAID_OTHER;
	return said;
}

static struct said hear_register(Dwarf_Frame *frame, int reg)
{
	Dwarf_Op space[3], *ops;
	size_t n;

	if (dwarf_frame_register(frame, reg, space, &ops, &n))
		return (struct said){.how = SAID_OTHER};
	/* libdw 0.188 takes rbx, of which nothing is said, for undefined. */
	return n ? hear(ops, n, true) : (struct said){.how = SAID_NOTHING};
}

/* The value that it is in our state. */
static struct code_value value_of(const struct code_state *s, const struct said *said)
{
	struct code_value value = {};

	if (said->reg == CFA)
		value = (struct code_value){.what = CODE_IS_FRAME};
	else
		value = s->regs[said->reg];
	value.at += (int32_t)said->offset;
	if (said->how == SAID_READ) {
		value = code_state__word(s, value);
		value.at += (int32_t)said->outer;
	}
	return value;
}

static bool is_frame(const struct code_state *s, const struct said *said)
{
	struct code_value value = value_of(s, said);

	return value.what == CODE_IS_FRAME && !value.at;
}

static bool is_kept(const struct code_state *s, const struct said *said, uint8_t reg)
{
	struct code_value value = said->how == SAID_NOTHING ? s->regs[reg] : value_of(s, said);

	return value.what == CODE_IS_ENTRY && value.reg == reg;
}

static void show(struct compare *c, const struct function *f, uint64_t pc, const char *what,
		 const struct said *said, const struct cfi_state *ours)
{
	if (c->shown++ >= show_max)
		return;
	printf("  %s: 0x%llx (of 0x%llx): %s: libdw says %d r%u%+lld %+lld; we say %d r%u%+lld "
	       "%+lld, rbp %d%+lld\n",
	       c->path, (unsigned long long)pc, (unsigned long long)f->start, what, said->how,
	       said->reg, (long long)said->offset, (long long)said->outer, ours->cfa, ours->reg,
	       (long long)ours->offset, (long long)ours->outer, ours->places[CFI_FP].how,
	       (long long)ours->places[CFI_FP].offset);
}
