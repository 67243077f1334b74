/* SPDX-License-Identifier: MIT */
/* Tables compared with libdw, row by row, for whole ELF files: compare_file().
 *
 * At each row of libdw's and of ours both are evaluated on the same made-up registers and memory:
 * libdw's expressions by a small evaluator here, ours by the walker's unwind_apply(). The results
 * (CFA, return address, rbp, rbx; all registers for a signal frame) must be equal. What ours calls
 * unsupported is counted by reason; so is code without a rule that libdw has one for (missing), and
 * the other way around (too much). */
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

#include "base/cleanup.h"
#include "unwind/unwind.h"

/* Made-up memory: any word is a number above all registers. */
static uint64_t word_at(uint64_t address)
{
	uint64_t x = (address >> 3) * 0x9e3779b97f4a7c15ull;

	x ^= x >> 29;
	return ((x * 0xbf58476d1ce4e5b9ull) >> 20 | 1ull << 45) & ~7ull;
}

static int read_made_up(struct host_reader *reader, void *dst, size_t size, uint64_t address)
{
	size_t i;

	for (i = 0; i < size; i++) {
		uint64_t word = word_at(address + i);

		((char *)dst)[i] = (char)(word >> ((address + i) % 8 * 8));
	}
	return 0;
}

static uint64_t memory(uint64_t address)
{
	uint64_t word;

	read_made_up(NULL, &word, 8, address);
	return word;
}

enum verdict { VALUE, UNDEFINED, UNKNOWN };

/* libdw's operations -> a value. `place`: of a register, where an address is to be read from. */
static enum verdict evaluate(const uint64_t *regs, const Dwarf_Op *ops, size_t n, uint64_t cfa,
			     bool place, uint64_t *ret)
{
	uint64_t stack[16];
	unsigned depth = 0;
	size_t i;

	for (i = 0; i < n; i++) {
		const Dwarf_Op *op = &ops[i];
		uint64_t a;

		if (depth > 14)
			return UNKNOWN;
		if (op->atom >= DW_OP_breg0 && op->atom <= DW_OP_breg31) {
			if (op->atom - DW_OP_breg0 > 16)
				return UNKNOWN;
			stack[depth++] = regs[op->atom - DW_OP_breg0] + op->number;
			continue;
		}
		if (op->atom >= DW_OP_reg0 && op->atom <= DW_OP_reg31) {
			if (op->atom - DW_OP_reg0 > 16 || n != 1)
				return UNKNOWN;
			*ret = regs[op->atom - DW_OP_reg0];
			return VALUE;
		}
		if (op->atom >= DW_OP_lit0 && op->atom <= DW_OP_lit31) {
			stack[depth++] = op->atom - DW_OP_lit0;
			continue;
		}
		switch (op->atom) {
		case DW_OP_regx:
			if (op->number > 16 || n != 1)
				return UNKNOWN;
			*ret = regs[op->number];
			return VALUE;
		case DW_OP_bregx:
			if (op->number > 16)
				return UNKNOWN;
			stack[depth++] = regs[op->number] + op->number2;
			continue;
		case DW_OP_call_frame_cfa:
			stack[depth++] = cfa;
			continue;
		case DW_OP_stack_value:
			if (i + 1 != n || !depth)
				return UNKNOWN;
			place = false;
			continue;
		}
		if (!depth)
			return UNKNOWN;
		a = stack[depth - 1];
		switch (op->atom) {
		case DW_OP_deref:
			stack[depth - 1] = memory(a);
			continue;
		case DW_OP_plus_uconst:
			stack[depth - 1] = a + op->number;
			continue;
		}
		if (depth < 2)
			return UNKNOWN;
		depth--;
		switch (op->atom) {
		case DW_OP_plus:
			stack[depth - 1] += a;
			break;
		case DW_OP_and:
			stack[depth - 1] &= a;
			break;
		case DW_OP_shl:
			stack[depth - 1] <<= a;
			break;
		case DW_OP_ge:
			stack[depth - 1] = (int64_t)stack[depth - 1] >= (int64_t)a;
			break;
		default:
			return UNKNOWN;
		}
	}
	if (!depth)
		return UNKNOWN;
	*ret = place ? memory(stack[depth - 1]) : stack[depth - 1];
	return VALUE;
}

static enum verdict libdw_register(Dwarf_Frame *frame, int reg, const uint64_t *regs, uint64_t cfa,
				   uint64_t *ret)
{
	Dwarf_Op space[3], *ops;
	size_t n;

	if (dwarf_frame_register(frame, reg, space, &ops, &n))
		return UNKNOWN;
	if (!n) {
		*ret = regs[reg];
		return ops ? UNDEFINED : VALUE;
	}
	return evaluate(regs, ops, n, cfa, true, ret);
}

/* rbx of which nothing is said is unchanged (psABI, 3.2.1). libdw 0.188 says "undefined": its table
 * of registers that are preserved has the number 0 for rbx, which is rax. */
static uint64_t libdw_base(Dwarf_Frame *frame, const uint64_t *regs, uint64_t cfa)
{
	uint64_t value = 0;

	return libdw_register(frame, UNWIND_BASE, regs, cfa, &value) == UNDEFINED
		       ? regs[UNWIND_BASE]
		       : value;
}

/* --- ours --- */

struct sink {
	struct unwind_sink sink;
	void *memory;
	size_t blocks;
};

static void *sink_allot(struct unwind_sink *self, size_t size)
{
	struct sink *sink = (struct sink *)self;

	sink->blocks = size / 4096 + 1;
	sink->memory = aligned_alloc(4096, sink->blocks * 4096);
	if (sink->memory)
		memset(sink->memory, 0, sink->blocks * 4096);
	return sink->memory;
}

/* Where our rule changes, ascending. */
struct changes {
	uint64_t *pcs;
	size_t n;
};

static int changes_of(const struct unwind_table *t, struct changes *ret)
{
	const uint64_t *words = (const uint64_t *)t;
	const uint32_t *rows = (const uint32_t *)(words + t->rows);
	uint32_t page, i;

	ret->n = 0;
	ret->pcs = malloc(((size_t)t->pages + t->n_rows + 1) * 8);
	if (!ret->pcs)
		return -ENOMEM;
	for (page = 0; page < t->pages; page++) {
		uint64_t entry = words[t->index + page],
			 start = t->base + ((uint64_t)page << t->shift);

		ret->pcs[ret->n++] = start;
		for (i = 0; i < (uint16_t)(entry >> 32); i++)
			ret->pcs[ret->n++] = start + (rows[(uint32_t)entry + i] >> 16);
	}
	return 0;
}

struct sums {
	unsigned long rows, wrong, missing, too_much, padding, lost_bp, lost_base, unlisted, followed,
		unknown;
	unsigned long unsupported[UNWIND_UNSUPPORTED_COUNT];
};

struct comparison {
	const char *path;
	struct unwind_range range;
	struct unwind_state state;
	struct sums sums;
	unsigned shown;
	bool by_rows;  /* there is no .eh_frame_hdr: where functions begin is not known */
	bool followed; /* functions were followed by their code, which code_compare looks at */
	bool unlisted; /* the file has functions that its .eh_frame_hdr does not list */
};

static void show(struct comparison *c, uint64_t pc, const char *what)
{
	if (c->shown++ < 5)
		printf("  %s: 0x%llx: %s\n", c->path, (unsigned long long)pc, what);
}

static int our_rule(struct comparison *c, uint64_t pc, __u64 *rule, __u64 *second)
{
	int loss;

	c->state.recent[0].range = c->range;
	loss = unwind_table_find(&c->state, 0, pc);
	*rule = c->state.rule;
	*second = c->state.second;
	return loss;
}

static void make_up(struct comparison *c, uint64_t pc)
{
	struct unwind_state *s = &c->state;
	unsigned i;

	for (i = 0; i < UNWIND_REGISTERS; i++)
		s->regs[i] = (word_at(i * 8 + 0x7000) & 0xffffff00) + (1ull << 40);
	s->regs[UNWIND_SP] = 1ull << 39;
	s->regs[UNWIND_PC] = pc;
	s->known = (1u << UNWIND_REGISTERS) - 1;
	s->exact = 1;
	s->window.size = 0;
	s->base_at = 0;
}

static void compare_row(struct comparison *c, Dwarf_Frame *frame, uint64_t pc)
{
	uint64_t regs[UNWIND_REGISTERS], cfa = 0, ra = 0, bp = 0, sp = 0;
	__u64 rule, second;
	enum verdict cfa_verdict = UNDEFINED, ra_verdict, bp_verdict, sp_verdict;
	Dwarf_Op *ops;
	size_t n;
	int got;

	c->sums.rows++;
	if (our_rule(c, pc, &rule, &second)) {
		c->sums.wrong++;
		show(c, pc, "our table is broken");
		return;
	}
	if (unwind_rule_kind(rule) == UNWIND_KIND_NONE ||
	    rule == UNWIND_RULE_UNSUPPORTED(UNWIND_UNSUPPORTED_CODE_LATER)) {
		c->sums.missing++;
		show(c, pc, "libdw has a rule here, we have none");
		return;
	}
	if (unwind_rule_kind(rule) == UNWIND_KIND_UNSUPPORTED) {
		c->sums.unsupported[(uint32_t)rule % UNWIND_UNSUPPORTED_COUNT]++;
		if ((uint32_t)rule == UNWIND_UNSUPPORTED_DAMAGED)
			show(c, pc, "we say damaged, libdw has a rule");
		return;
	}
	make_up(c, pc);
	memcpy(regs, c->state.regs, sizeof(regs));
	if (!dwarf_frame_cfa(frame, &ops, &n) && n)
		cfa_verdict = evaluate(regs, ops, n, 0, false, &cfa);
	ra_verdict = libdw_register(frame, UNWIND_PC, regs, cfa, &ra);
	if (ra_verdict == UNDEFINED || unwind_rule_kind(rule) == UNWIND_KIND_END) {
		if (ra_verdict != UNDEFINED || unwind_rule_kind(rule) != UNWIND_KIND_END) {
			c->sums.wrong++;
			show(c, pc, "only one says that the return address is undefined");
		}
		return;
	}
	bp_verdict = libdw_register(frame, UNWIND_BP, regs, cfa, &bp);
	sp_verdict = libdw_register(frame, UNWIND_SP, regs, cfa, &sp);
	if (cfa_verdict != VALUE || ra_verdict != VALUE || sp_verdict != VALUE) {
		c->sums.unknown++;
		show(c, pc, "libdw's rule is not understood by this program");
		return;
	}
	got = unwind_apply(&c->state);
	if (got || c->state.regs[UNWIND_SP] != cfa || sp != cfa || c->state.regs[UNWIND_PC] != ra) {
		char text[160];

		snprintf(text, sizeof(text),
			 "rule %llx %llx (%d): CFA %llx is %llx, return address %llx is %llx",
			 (unsigned long long)rule, (unsigned long long)second, got,
			 (unsigned long long)c->state.regs[UNWIND_SP], (unsigned long long)cfa,
			 (unsigned long long)c->state.regs[UNWIND_PC], (unsigned long long)ra);
		c->sums.wrong++;
		show(c, pc, text);
	} else if (!(c->state.known >> UNWIND_BP & 1)) {
		c->sums.lost_bp++;
	} else if (!(c->state.known >> UNWIND_BASE & 1)) {
		c->sums.lost_base++;
	} else if (libdw_base(frame, regs, cfa) !=
		   (c->state.base_at ? memory(c->state.base_at) : c->state.regs[UNWIND_BASE])) {
		c->sums.wrong++;
		show(c, pc, "rbx differs");
	} else if (bp_verdict != VALUE || c->state.regs[UNWIND_BP] != bp) {
		c->sums.wrong++;
		show(c, pc, "rbp differs");
	}
	if (!got && unwind_rule_kind(rule) == UNWIND_KIND_CONTEXT) {
		unsigned reg;

		for (reg = 0; reg < 16; reg++) {
			uint64_t value;

			if (libdw_register(frame, reg, regs, cfa, &value) != VALUE ||
			    value != c->state.regs[reg]) {
				c->sums.wrong++;
				show(c, pc, "a register of a signal frame differs");
			}
		}
	}
}

/* Starts of functions by the file's own .eh_frame_hdr. */
static uint64_t *starts_of(Elf *elf, size_t *ret_n)
{
	size_t n, i;
	GElf_Phdr phdr;
	Elf_Data *data;
	uint64_t *starts = NULL;

	*ret_n = 0;
	if (elf_getphdrnum(elf, &n))
		return NULL;
	for (i = 0; i < n; i++) {
		const char *bytes;
		int32_t pair[2];
		uint32_t count, k;

		if (!gelf_getphdr(elf, (int)i, &phdr) || phdr.p_type != PT_GNU_EH_FRAME)
			continue;
		data = elf_getdata_rawchunk(elf, (int64_t)phdr.p_offset, phdr.p_filesz, ELF_T_BYTE);
		if (!data || data->d_size < 12)
			return NULL;
		bytes = data->d_buf;
		if (memcmp(bytes, "\1\x1b\3\x3b", 4))
			return NULL;
		memcpy(&count, bytes + 8, 4);
		if (count > (data->d_size - 12) / 8)
			return NULL;
		starts = malloc((count + 1) * sizeof(*starts));
		for (k = 0; starts && k < count; k++) {
			memcpy(pair, bytes + 12 + k * 8, 8);
			starts[k] = phdr.p_vaddr + (uint64_t)(int64_t)pair[0];
		}
		*ret_n = starts ? count : 0;
		return starts;
	}
	return NULL;
}

/* From `pc` on, as far as libdw knows and below `limit`. Returns where that ends. */
static uint64_t compare_from(struct comparison *c, Dwarf_CFI *cfi, const struct changes *changes,
			     size_t *at, uint64_t pc, uint64_t limit)
{
	while (pc < limit) {
		Dwarf_Frame *frame = NULL;
		Dwarf_Addr start, end;
		bool signal;

		if (dwarf_cfi_addrframe(cfi, pc, &frame))
			break;
		dwarf_frame_info(frame, &start, &end, &signal);
		compare_row(c, frame, pc);
		while (*at < changes->n && changes->pcs[*at] <= pc)
			(*at)++;
		while (*at < changes->n && changes->pcs[*at] < end && changes->pcs[*at] < limit)
			compare_row(c, frame, changes->pcs[(*at)++]);
		free(frame);
		if (end <= pc)
			break;
		pc = end;
	}
	return pc < limit ? pc : limit;
}

static bool says_nothing(__u64 rule)
{
	return unwind_rule_kind(rule) == UNWIND_KIND_NONE || unwind_rule_kind(rule) == UNWIND_KIND_END ||
	       rule == UNWIND_RULE_UNSUPPORTED(UNWIND_UNSUPPORTED_CODE_LATER);
}

/* Code between two functions must have no rule, but for the padding behind the first. */
static void compare_gap(struct comparison *c, const struct changes *changes, size_t at, uint64_t pc,
			uint64_t limit)
{
	__u64 rule, second;

	if (pc >= limit || c->by_rows)
		return;
	if (limit <= ((pc + 15) & ~15ull)) {
		c->sums.padding++;
		return;
	}
	for (;;) {
		if (our_rule(c, pc, &rule, &second) ||
		    !says_nothing(rule)) {
			*(c->unlisted ? &c->sums.unlisted
			  : c->followed ? &c->sums.followed
					: &c->sums.too_much) += 1;
			if (!c->unlisted && !c->followed)
				show(c, pc, "we have a rule here, libdw has none");
		}
		while (at < changes->n && changes->pcs[at] <= pc)
			at++;
		if (at == changes->n || changes->pcs[at] >= limit)
			return;
		pc = changes->pcs[at];
	}
}

static int compare_file(const char *path, struct sums *sums, unsigned long *functions)
{
	static struct comparison c;
	struct sink sink = {.sink.allot = sink_allot};
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct unwind_table *table;
	struct elf_bytes file;
	struct host_pool pool;
	struct changes changes = {};
	size_t n, i, at = 0;
	uint64_t *starts, text_end;
	Dwarf_CFI *cfi;
	Elf *elf;
	int err;

	if (fd < 0 || elf_bytes__init_fd(&file, fd))
		return -ENOENT;
	err = table__compile(&file, &sink.sink, &table);
	if (err)
		return err;
	memset(&c, 0, sizeof(c));
	c.path = path;
	if (table__check(table, table__size(table))) {
		c.sums.wrong++;
		show(&c, 0, "our table is refused by our own check");
	}
	elf = elf_begin(fd, ELF_C_READ_MMAP, NULL);
	cfi = elf ? dwarf_getcfi_elf(elf) : NULL;
	starts = elf ? starts_of(elf, &n) : NULL;
	if (!starts && !changes_of(table, &changes)) { /* linear in libdw: by our own rows */
		starts = changes.pcs;
		n = changes.n;
		changes.pcs = NULL;
		c.by_rows = true;
	}
	pool = (struct host_pool){.blocks = sink.memory, .n = (uint32_t)sink.blocks};
	host_pools_current = &pool;
	host_pools_n = 1;
	c.range = (struct unwind_range){.origin = table->base,
					.shift = (uint8_t)table->shift,
					.index = table->index,
					.rows = table->rows,
					.rules = table->rules};
	text_end = table->text + table->text_size;
	c.followed = table->followed != 0;
	c.unlisted = starts && table->functions - table->followed > n;
	if (cfi && starts && n && !changes_of(table, &changes)) {
		compare_gap(&c, &changes, 0, table->text, starts[0]);
		for (i = 0; i < n; i++) {
			uint64_t limit = i + 1 < n ? starts[i + 1] : text_end, end;

			if (starts[i] < table->text || starts[i] >= text_end)
				continue;
			end = compare_from(&c, cfi, &changes, &at, starts[i], limit);
			compare_gap(&c, &changes, at, end, limit);
		}
		printf("%s: %u functions (.eh_frame_hdr: %zu, dropped %u), %u rows, %u rule words, "
		       "shift %u, "
		       "%.2f bytes a row; compared %lu rows, wrong %lu, missing %lu, too much %lu, "
		       "rbp lost %lu, "
		       "not compared %lu\n",
		       path, table->functions, n, table->dropped, table->changes, table->n_rules,
		       table->shift,
		       table->changes ? (double)table__size(table) / table->changes : 0,
		       c.sums.rows, c.sums.wrong, c.sums.missing, c.sums.too_much, c.sums.lost_bp,
		       c.sums.unknown);
		*functions += table->functions;
		for (i = 0; i < sizeof(*sums) / sizeof(unsigned long); i++)
			((unsigned long *)sums)[i] += ((unsigned long *)&c.sums)[i];
	} else {
		err = -ENOTSUP;
	}
	free(changes.pcs);
	free(starts);
	if (cfi)
		dwarf_cfi_end(cfi);
	elf_end(elf);
	free(sink.memory);
	return err;
}
