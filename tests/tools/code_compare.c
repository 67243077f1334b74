/* What the code of functions says of their frames, compared with what their call frame information
 * says: functions that have it are followed as if they had none (daemon/unwind/code.h), and at each
 * instruction what libdw says must hold in the state that was found.
 *
 *   code_compare [-v] FILE...     a line for each file, then sums; exit status 1: something was wrong
 *   find ... | code_compare       the same of the files named on stdin
 *
 * equal        what libdw says of CFA, rbp and rbx holds in our state, and our rule gives it
 * unsupported  we say that we do not know, and why
 * lost         the CFA is right; of rbp or rbx we say that we do not know
 * wrong        anything else
 *
 * contradicted wrong, in a function whose call frame information contradicts its own instructions: a
 *              push after which libdw's CFA is where it was, a register that is said to be saved where
 *              nothing stored it, a return that is not at the CFA; or by it a register is kept below rsp,
 *              and on our way it never was. (Hand-written assembly has such;
 *              LLVM says some epilogues an instruction late, gcc keeps rbp's old place in its last ones.)
 *
 * Not compared: functions with tables of landing pads, which only an exception leads to (a function
 * without call frame information has none); the cold halves of functions, which begin with a frame
 * (they are compared where another function's jump told the state); what libdw says by expressions that are
 * not understood here. */
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
	unsigned long functions, pads, fragments, entered, instructions, equal, lost, wrong, strange,
		contradicted, liars;
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
	printf("  %s: 0x%llx (of 0x%llx): %s: libdw says %d r%u%+lld %+lld; we say %d r%u%+lld %+lld, rbp %d%+lld\n",
	       c->path, (unsigned long long)pc, (unsigned long long)f->start, what, said->how,
	       said->reg, (long long)said->offset, (long long)said->outer, ours->cfa, ours->reg,
	       (long long)ours->offset, (long long)ours->outer, ours->places[CFI_FP].how,
	       (long long)ours->places[CFI_FP].offset);
}

/* --- does it contradict itself? --- */

static bool is_at(const struct said *said, unsigned reg)
{
	return said->how == SAID_SUM && said->reg == reg;
}

static bool same_said(const struct said *a, const struct said *b)
{
	return a->how == b->how && a->reg == b->reg && a->offset == b->offset && a->outer == b->outer;
}

/* Some instruction up to row `n` stored `reg` at CFA + `at`, by what libdw says of the CFA there. */
static bool was_stored(const struct row *rows, const struct code_op *ops, size_t n, uint8_t reg,
		       int64_t at)
{
	size_t i;

	for (i = 0; i <= n; i++) {
		if (ops[i].from != reg)
			continue;
		if ((ops[i].kind == CODE_PUSH && is_at(&rows[i].cfa, UNWIND_SP) &&
		     at == -rows[i].cfa.offset - 8) ||
		    (ops[i].kind == CODE_STORE && is_at(&rows[i].cfa, ops[i].to) &&
		     at == ops[i].value - rows[i].cfa.offset))
			return true;
	}
	return false;
}

static bool writes(const struct code_op *op, uint8_t reg)
{
	return op->writes >> reg & 1 || (reg == UNWIND_BP && op->kind == CODE_LEAVE);
}

static bool register_lies(const struct row *rows, const struct code_op *ops, size_t i, uint8_t reg,
			  const struct said *before, const struct said *after)
{
	if (before->how == SAID_NOTHING && after->how == SAID_READ && after->reg == CFA)
		return !was_stored(rows, ops, i, reg, after->offset);
	if (before->how == SAID_READ && after->how == SAID_NOTHING)
		return !writes(&ops[i], reg);
	if (after->how == SAID_NOTHING && writes(&ops[i], reg))
		return ops[i].kind != CODE_POP && ops[i].kind != CODE_LOAD &&
		       ops[i].kind != CODE_LEAVE;
	return before->how == SAID_READ && before->reg == reg && same_said(before, after) &&
	       writes(&ops[i], reg);
}

static bool stack_lies(const struct row *row, const struct row *next, const struct code_op *op)
{
	const struct said *a = &row->cfa, *b = &next->cfa;
	int64_t moved = 0;

	if (op->kind == CODE_RETURN)
		return a->how == SAID_SUM && a->reg == UNWIND_SP && a->offset != 8;
	if ((a->how != SAID_SUM && a->how != SAID_READ) || b->how != a->how || a->reg != b->reg)
		return false;
	if (a->reg != UNWIND_SP)
		return (a->offset == b->offset) == writes(op, (uint8_t)a->reg);
	if (op->kind == CODE_PUSH || op->kind == CODE_PUSH_LOAD)
		moved = 8;
	else if (op->kind == CODE_POP)
		moved = -8;
	else if (op->kind == CODE_LEA && op->to == UNWIND_SP && op->from == UNWIND_SP)
		moved = -op->value;
	else if (writes(op, UNWIND_SP))
		return op->kind == CODE_ALIGN || op->kind == CODE_OTHER;
	return b->offset - a->offset != moved;
}

static bool contradicts_itself(const struct compare *c, const struct code_decoder *decoder,
			       const struct function *f)
{
	struct code_op *ops = calloc(c->n_rows + 1, sizeof(*ops));
	const uint8_t *bytes = bytes_at(c->elf, f->start, f->size);
	bool lies = false;
	size_t i;

	for (i = 0; ops && i < c->n_rows; i++)
		code_decoder__run(decoder, bytes + (c->rows[i].pc - f->start),
				  (uint32_t)(f->start + f->size - c->rows[i].pc), 0, &ops[i]);
	for (i = 0; ops && !lies && i < c->n_rows; i++) {
		const struct row *row = &c->rows[i], *next = row + 1;

		if (!row->heard)
			continue;
		if (ops[i].kind == CODE_RETURN)
			lies = stack_lies(row, row, &ops[i]);
		if (i + 1 == c->n_rows || !next->heard || next->pc != row->pc + ops[i].length ||
		    ops[i].kind == CODE_RETURN || ops[i].kind == CODE_JUMP ||
		    ops[i].kind == CODE_AWAY || ops[i].kind == CODE_STOP ||
		    ops[i].kind == CODE_CALL || ops[i].kind == CODE_BAD)
			continue;
		lies = stack_lies(row, next, &ops[i]) ||
		       register_lies(c->rows, ops, i, UNWIND_BP, &row->bp, &next->bp) ||
		       register_lies(c->rows, ops, i, UNWIND_BASE, &row->base, &next->base);
	}
	free(ops);
	return lies;
}

/* --- comparing --- */

/* NULL: it is right. */
static const char *compare_row(struct compare *c, const struct row *row, struct cfi_state *ours)
{
	int why;

	*ours = (struct cfi_state){};
	why = row->known ? code_state__cfi(&row->state, ours) : row->why;
	c->sums.instructions++;
	if (why >= 0) {
		c->sums.unsupported[why]++;
		return show_unsupported ? "unsupported" : NULL;
	}
	/* A signal frame, a thread's first function, another thread's registers, an expression. */
	if (row->state.signal || row->cfa.how == SAID_OTHER || row->ra.how != SAID_READ ||
	    row->ra.reg != CFA || row->ra.offset != -8) {
		c->sums.strange++;
		return NULL;
	}
	if (ours->cfa == CFA_REGISTER && ours->reg != row->cfa.reg && ours->reg != UNWIND_SP &&
	    ours->reg != UNWIND_BP && row->state.regs[row->cfa.reg & 15].what != CODE_IS_FRAME) {
		c->sums.strange++; /* by a register that libdw does not speak of */
		return NULL;
	}
	if (!is_frame(&row->state, &row->cfa))
		return "CFA";
	if (ours->places[CFI_FP].how == CFI_UNDEFINED ||
	    ours->places[CFI_BASE].how == CFI_UNDEFINED) {
		c->sums.lost++;
		return NULL;
	}
	if (row->bp.how == SAID_OTHER || row->base.how == SAID_OTHER) {
		c->sums.strange++;
		return NULL;
	}
	if (!is_kept(&row->state, &row->bp, UNWIND_BP))
		return "rbp";
	if (!is_kept(&row->state, &row->base, UNWIND_BASE))
		return "rbx";
	c->sums.equal++;
	return NULL;
}

static struct said hear_cfa(Dwarf_Frame *frame)
{
	Dwarf_Op *ops;
	size_t n;

	if (dwarf_frame_cfa(frame, &ops, &n) || !n)
		return (struct said){.how = SAID_OTHER};
	return hear(ops, n, false);
}

static void hear_rows(struct compare *c)
{
	Dwarf_Addr start, end = 0;
	struct row said = {};
	bool signal;
	size_t i;

	for (i = 0; i < c->n_rows; i++) {
		struct row *row = &c->rows[i];

		if (!i || row->pc >= end) {
			Dwarf_Frame *frame = NULL;

			if (dwarf_cfi_addrframe(c->cfi, row->pc, &frame))
				return;
			dwarf_frame_info(frame, &start, &end, &signal);
			said.cfa = hear_cfa(frame);
			said.bp = hear_register(frame, UNWIND_BP);
			said.base = hear_register(frame, UNWIND_BASE);
			said.ra = hear_register(frame, UNWIND_PC);
			free(frame);
		}
		row->heard = true;
		row->cfa = said.cfa;
		row->bp = said.bp;
		row->base = said.base;
		row->ra = said.ra;
	}
}

static bool is_below(const struct row *row, const struct said *said)
{
	return said->how == SAID_READ && said->reg == CFA && is_at(&row->cfa, UNWIND_SP) &&
	       said->offset < -row->cfa.offset;
}

static void compare_rows(struct compare *c, const struct code_decoder *decoder,
			 const struct function *f)
{
	int lies = -1;
	size_t i;

	hear_rows(c);
	for (i = 0; i < c->n_rows && c->rows[i].heard; i++) {
		struct cfi_state ours;
		const char *what = compare_row(c, &c->rows[i], &ours);
		const struct said *said;

		if (!what)
			continue;
		if (what[0] != 'u' && lies < 0) {
			lies = contradicts_itself(c, decoder, f);
			c->sums.liars += lies != 0;
		}
		/* Below rsp, where nobody keeps anything: the place of another way here. */
		if (what[0] == 'r' && is_below(&c->rows[i], what[2] == 'p' ? &c->rows[i].bp
									     : &c->rows[i].base)) {
			c->sums.contradicted++;
			continue;
		}
		said = what[0] == 'C' || what[0] == 'u' ? &c->rows[i].cfa
		       : what[2] == 'p'			? &c->rows[i].bp
							: &c->rows[i].base;
		if (what[0] != 'u')
			*(lies ? &c->sums.contradicted : &c->sums.wrong) += 1;
		if (what[0] == 'u' || !lies)
			show(c, f, c->rows[i].pc, what, said, &ours);
	}
}

static bool begins_with_frame(struct compare *c, const struct function *f)
{
	Dwarf_Frame *frame = NULL;
	struct said cfa;

	if (dwarf_cfi_addrframe(c->cfi, f->start, &frame))
		return true;
	cfa = hear_cfa(frame);
	free(frame);
	return cfa.how != SAID_SUM || cfa.reg != UNWIND_SP || cfa.offset != 8;
}

static int run(struct compare *c, const struct code_decoder *decoder, const struct function *f,
	       const struct code_entry *entries, uint32_t n, bool half)
{
	struct code_function function = {.bytes = bytes_at(c->elf, f->start, f->size),
					 .size = (uint32_t)f->size,
					 .address = f->start,
					 .entries = entries,
					 .n_entries = n,
					 .half = half};

	c->n_rows = 0;
	return function.bytes ? code__run(decoder, &function, &c->rows_of) : -EIO;
}

static int by_address(const void *a, const void *b)
{
	const struct arrival *x = a, *y = b;

	return x->at < y->at ? -1 : x->at > y->at;
}

/* As the program does it: once for all, then again with the jumps that lead from one into another. */
static void compare_functions(struct compare *c, const struct code_decoder *decoder)
{
	static struct code_entry entries[4096];
	size_t i, k = 0;

	entries[0] = (struct code_entry){};
	for (i = 0; i < c->n_functions; i++)
		if (!begins_with_frame(c, &c->functions[i]))
			run(c, decoder, &c->functions[i], entries, 1, false);
	c->rows_of.leaves = NULL;
	if (c->n_arrivals)
		qsort(c->arrivals, c->n_arrivals, sizeof(*c->arrivals), by_address);
	for (i = 0; i < c->n_functions; i++) {
		const struct function *f = &c->functions[i];
		bool half = begins_with_frame(c, f);
		uint32_t n = half ? 0 : 1;

		*(half ? &c->sums.fragments : &c->sums.functions) += 1;
		c->sums.pads += !half && f->pads;
		entries[0] = (struct code_entry){};
		while (k < c->n_arrivals && c->arrivals[k].at < f->start)
			k++;
		for (; n < 4096 && k < c->n_arrivals && c->arrivals[k].at - f->start < f->size; k++)
			if (half || c->arrivals[k].at != f->start)
				entries[n++] = (struct code_entry){
					.at = (uint32_t)(c->arrivals[k].at - f->start),
					.state = &c->arrivals[k].state};
		if (!n || f->pads)
			continue;
		c->sums.entered += half;
		if (!run(c, decoder, f, entries, n, half || n > 1))
			compare_rows(c, decoder, f);
	}
}

static int compare_file(const char *path, const struct code_decoder *decoder, struct sums *sums)
{
	struct compare c = {.path = path,
			    .rows_of = {.row = take_row, .leaves = take_arrival, .each = true}};
	int fd = open(path, O_RDONLY | O_CLOEXEC), err = -ENODATA;
	size_t i;

	if (fd < 0)
		return -errno;
	segments_of = NULL;
	c.elf = elf_begin(fd, ELF_C_READ_MMAP, NULL);
	c.cfi = c.elf ? dwarf_getcfi_elf(c.elf) : NULL;
	if (c.cfi && read_functions(&c)) {
		unsigned long unsupported = 0;

		compare_functions(&c, decoder);
		for (i = 0; i < UNWIND_UNSUPPORTED_COUNT; i++)
			unsupported += c.sums.unsupported[i];
		printf("%s: %lu functions (%lu with landing pads, not compared), %lu halves (%lu entered), "
		       "%lu instructions: equal %lu, lost %lu, unsupported %lu, not understood %lu, "
		       "contradicted %lu (in %lu functions), wrong %lu\n",
		       path, c.sums.functions, c.sums.pads, c.sums.fragments, c.sums.entered,
		       c.sums.instructions, c.sums.equal, c.sums.lost, unsupported, c.sums.strange,
		       c.sums.contradicted, c.sums.liars, c.sums.wrong);
		for (i = 0; i < sizeof(*sums) / sizeof(unsigned long); i++)
			((unsigned long *)sums)[i] += ((unsigned long *)&c.sums)[i];
		err = 0;
	}
	free(c.functions);
	free(c.rows);
	free(c.arrivals);
	if (c.cfi)
		dwarf_cfi_end(c.cfi);
	elf_end(c.elf);
	close(fd);
	return err;
}

int main(int argc, char **argv)
{
	static const char *const reasons[] = {
#define REASON(id, sentence) [UNWIND_UNSUPPORTED_##id] = sentence,
		UNWIND_UNSUPPORTED(REASON)};
	struct code_decoder *decoder;
	struct sums sums = {};
	unsigned long files = 0;
	char line[4096];
	int i;

	if (argc > 1 && !strcmp(argv[1], "-v")) {
		show_max = 100000;
		show_unsupported = getenv("CODE_UNSUPPORTED") != NULL;
		argv++;
		argc--;
	}
	elf_version(EV_CURRENT);
	if (code_decoder__new(&decoder))
		return 1;
	for (i = 1; argc > 1 ? i < argc : fgets(line, sizeof(line), stdin) != NULL; i++) {
		const char *path = argc > 1 ? argv[i] : line;

		line[strcspn(line, "\n")] = 0;
		files += !compare_file(path, decoder, &sums);
	}
	printf("%lu files, %lu functions, %lu instructions: equal %.4f %%, lost %.4f %%, not understood %.4f %%, contradicted %lu (in %lu functions), wrong %lu\n",
	       files, sums.functions + sums.entered - sums.pads, sums.instructions,
	       100.0 * (double)sums.equal / (double)(sums.instructions + !sums.instructions),
	       100.0 * (double)sums.lost / (double)(sums.instructions + !sums.instructions),
	       100.0 * (double)sums.strange / (double)(sums.instructions + !sums.instructions),
	       sums.contradicted, sums.liars, sums.wrong);
	for (i = 0; i < UNWIND_UNSUPPORTED_COUNT; i++)
		if (sums.unsupported[i])
			printf("unsupported: %lu (%.4f %%): %s\n", sums.unsupported[i],
			       100.0 * (double)sums.unsupported[i] / (double)sums.instructions,
			       reasons[i]);
	code_decoder__free(decoder);
	return sums.wrong || !files;
}
