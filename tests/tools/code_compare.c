/* SPDX-License-Identifier: MIT */
/* What the code of functions says of their frames, compared with what their call frame information
 * says: functions that have it are followed as if they had none (daemon/unwind/code.h), and at each
 * instruction what libdw says must hold in the state that was found.
 *
 *   code_compare [-v] FILE...     a line for each file, then sums; exit status 1: something was
 * wrong find ... | code_compare       the same of the files named on stdin
 *
 *   code_compare -f ...           functions are not told where they begin: of each, one instruction is given, and code
 * from some functions before it to some behind it (code__find)
 *
 * equal        what libdw says of CFA, rbp and rbx holds in our state, and our rule gives it
 * unsupported  we say that we do not know, and why
 * lost         the CFA is right; of rbp or rbx we say that we do not know
 * wrong        anything else
 *
 * contradicted wrong, in a function whose call frame information contradicts its own instructions:
 * a push after which libdw's CFA is where it was, a register that is said to be saved where nothing
 * stored it, a return that is not at the CFA; or by it a register is kept below rsp, and on our way
 * it never was; or the jump to a cold half is said to be made from another frame than the half's.
 * (Hand-written assembly has such; LLVM says some epilogues an instruction late, gcc keeps rbp's
 * old place in its last ones.)
 *
 * Not compared: functions with tables of landing pads, which only an exception leads to (a function
 * without call frame information has none); the cold halves of functions, which begin with a frame
 * (they are compared where another function's jump told the state); what libdw says by expressions
 * that are not understood here. */
#include "code_oracle.h"

/* --- does it contradict itself? --- */

static bool is_at(const struct said *said, unsigned reg)
{
	return said->how == SAID_SUM && said->reg == reg;
}

static bool same_said(const struct said *a, const struct said *b)
{
	return a->how == b->how && a->reg == b->reg && a->offset == b->offset &&
	       a->outer == b->outer;
}

/* Some instruction up to row `n` stored `reg` at CFA + `at`, by what libdw says of the CFA there.
 */
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
			 const struct function *f, bool half)
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
		/* The first of a half: what is said of the jump to it holds, as its function was
		 * compared; then this does not. */
		if (what[0] == 'C' && half && !i) {
			c->sums.contradicted++;
			continue;
		}
		/* Below rsp, where nobody keeps anything: the place of another way here. */
		if (what[0] == 'r' &&
		    is_below(&c->rows[i], what[2] == 'p' ? &c->rows[i].bp : &c->rows[i].base)) {
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

/* As the program does it: once for all, then again with the jumps that lead from one into another.
 */
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
			compare_rows(c, decoder, f, half);
	}
}

/* An instruction in the function, some way into it. */
static uint32_t some_place(const struct code_decoder *decoder, const uint8_t *bytes, uint64_t size, size_t i)
{
	uint32_t wanted = (uint32_t)(i * 2654435761u % size), at = 0;
	struct code_op op;

	for (;;) {
		code_decoder__run(decoder, bytes + at, (uint32_t)(size - at), at, &op);
		if (at + op.length > wanted || at + op.length >= size)
			return at;
		at += op.length;
	}
}

static bool find_functions;
static unsigned long places, found, found_exactly;

#define AROUND 6u

static void compare_found(struct compare *c, const struct code_decoder *decoder)
{
	struct code_entry entry = {};
	size_t i, k, n;

	c->rows_of.leaves = NULL;
	for (i = 0; i < c->n_functions; i++) {
		const struct function *f = &c->functions[i], *first = f, *last = f;
		uint32_t place, start, end;
		struct function found_at;
		const uint8_t *bytes;

		if (f->pads || begins_with_frame(c, f))
			continue;
		if (i >= AROUND && f->start - c->functions[i - AROUND].start < CODE_FUNCTION_MAX / 2)
			first = &c->functions[i - AROUND];
		while (first < f && begins_with_frame(c, first))
			first++;
		if (i + 2 < c->n_functions && f[2].start - f->start < CODE_FUNCTION_MAX / 2)
			last = f + 2;
		bytes = bytes_at(c->elf, first->start, last->start + last->size - first->start);
		if (!bytes || f->size > CODE_FUNCTION_MAX / 2)
			continue;
		places++;
		c->sums.functions++;
		place = (uint32_t)(f->start - first->start) +
			some_place(decoder, bytes + (f->start - first->start), f->size, i);
		if (code__find(decoder,
			       &(struct code_bytes){bytes, (uint32_t)(last->start + last->size - first->start),
						    first->start},
			       place, &start, &end))
			continue;
		found++;
		found_at = (struct function){.start = first->start + start, .size = end - start};
		found_exactly += found_at.start == f->start;
		if (run(c, decoder, &found_at, &entry, 1, false))
			continue;
		for (k = n = 0; k < c->n_rows; k++)
			if (c->rows[k].pc - f->start < f->size)
				c->rows[n++] = c->rows[k];
		c->n_rows = n;
		compare_rows(c, decoder, f, false);
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

		(find_functions ? compare_found : compare_functions)(&c, decoder);
		for (i = 0; i < UNWIND_UNSUPPORTED_COUNT; i++)
			unsupported += c.sums.unsupported[i];
		printf("%s: %lu functions (%lu with landing pads, not compared), %lu halves (%lu "
		       "entered), "
		       "%lu instructions: equal %lu, lost %lu, unsupported %lu, not understood "
		       "%lu, "
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

	if (argc > 1 && !strcmp(argv[1], "-f")) {
		find_functions = true;
		argv++;
		argc--;
	}
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
	printf("%lu files, %lu functions, %lu instructions: equal %.4f %%, lost %.4f %%, not "
	       "understood %.4f %%, contradicted %lu (in %lu functions), wrong %lu\n",
	       files, sums.functions + sums.entered - sums.pads, sums.instructions,
	       100.0 * (double)sums.equal / (double)(sums.instructions + !sums.instructions),
	       100.0 * (double)sums.lost / (double)(sums.instructions + !sums.instructions),
	       100.0 * (double)sums.strange / (double)(sums.instructions + !sums.instructions),
	       sums.contradicted, sums.liars, sums.wrong);
	if (find_functions)
		printf("of %lu places the function was found %lu times, %lu times it begins where call frame "
		       "information says\n",
		       places, found, found_exactly);
	for (i = 0; i < UNWIND_UNSUPPORTED_COUNT; i++)
		if (sums.unsupported[i])
			printf("unsupported: %lu (%.4f %%): %s\n", sums.unsupported[i],
			       100.0 * (double)sums.unsupported[i] / (double)sums.instructions,
			       reasons[i]);
	code_decoder__free(decoder);
	return sums.wrong || !files;
}
