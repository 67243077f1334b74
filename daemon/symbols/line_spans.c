/* SPDX-License-Identifier: MIT */
/* What is kept of lines: for a function, its addresses as spans of one line each. Of code that was inlined the line
 * of the call counts, so that a span's line is always one of the function that the symbol names. */
#include "symbols/line_spans.h"

#include <dwarf.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/order.h"
#include "base/search.h"

#define DEPTH_MAX 300u
#define INLINED_MAX 8192u
#define NUMBERS 64u /* files of one unit whose text is looked up once */

#define NEIGHBOURS 8u /* code of functions may overlap: so many that begin before an address are tried */

void line_spans__free(struct line_spans *spans)
{
	free(spans->blocks);
	buf__free(&spans->bytes);
	arena__free(&spans->strings);
	*spans = (struct line_spans){};
}

/* --- bytes of a block: LEB128 numbers. First how many spans there are. Of each span: the bytes since the span
 * before, times 4, and which of file and column changed; the lines since the span before, as a zigzag number (-1 is
 * 1, 1 is 2); then the new file and column, if they changed. Example: span at +8, one line further, same file and
 * column: 20 02. --- */

#define FILE_CHANGED 1u
#define COLUMN_CHANGED 2u

struct line_span {
	uint64_t at; /* from the block's start, up to the next span */
	uint32_t line, column;
	uint32_t file; /* in files[], from 1 on; 0: not known */
};

static int put(struct buf *bytes, uint64_t number)
{
	uint8_t leb[10];
	unsigned n = 0;

	do {
		leb[n++] = (uint8_t)((number & 0x7f) | (number > 0x7f ? 0x80 : 0));
		number >>= 7;
	} while (number);
	return buf__append(bytes, leb, n);
}

/* A LEB128 number. Behind the end there are zeros, so stored bytes that were damaged give a wrong line at worst, and
 * no read out of bounds. */
static uint64_t get(const struct buf *bytes, size_t *at)
{
	uint64_t number = 0;
	unsigned shift = 0;
	uint8_t byte;

	do {
		byte = *at < bytes->len ? (uint8_t)bytes->data[(*at)++] : 0;
		if (shift < 64)
			number |= (uint64_t)(byte & 0x7f) << shift;
		shift += 7;
	} while (byte & 0x80);
	return number;
}

static int put_span(struct buf *bytes, const struct line_span *before, const struct line_span *span)
{
	int64_t lines = (int64_t)span->line - before->line;
	uint64_t head = (span->at - before->at) << 2;
	int err;

	head |= (span->file != before->file ? FILE_CHANGED : 0) | (span->column != before->column ? COLUMN_CHANGED : 0);
	err = put(bytes, head);
	err = err ?: put(bytes, (uint64_t)lines << 1 ^ (uint64_t)(lines >> 63));
	if (!err && head & FILE_CHANGED)
		err = put(bytes, span->file);
	if (!err && head & COLUMN_CHANGED)
		err = put(bytes, span->column);
	return err;
}

static void get_span(const struct buf *bytes, size_t *at, struct line_span *span)
{
	uint64_t head = get(bytes, at), lines = get(bytes, at);

	span->at += head >> 2;
	span->line = (uint32_t)(span->line + (lines >> 1 ^ -(lines & 1)));
	if (head & FILE_CHANGED)
		span->file = (uint32_t)get(bytes, at);
	if (head & COLUMN_CHANGED)
		span->column = (uint32_t)get(bytes, at);
}

/* The last span that begins up to `offset`. A stored count may be anything: no more than a block's spans are read. */
static void find_in(const struct line_spans *spans, const struct line_block *block, uint64_t offset, struct source_line *ret)
{
	struct line_span span = {}, next = {};
	size_t at = block->at;
	uint64_t n = get(&spans->bytes, &at);

	for (uint64_t i = 0; i < n && i < LINE_SPANS_BLOCK; i++) {
		get_span(&spans->bytes, &at, &next);
		if (next.at > offset)
			break;
		span = next;
	}
	ret->line = span.line;
	ret->column = span.column;
	ret->file = span.file && span.file <= spans->n_files ? spans->files[span.file - 1] : NULL;
}

/* The number of blocks that begin at vaddr or before. */
static uint32_t count_until(const struct line_spans *spans, uint64_t vaddr)
{
	return SEARCH(i, spans->n_blocks, spans->blocks[i].start <= vaddr);
}

/* Blocks are sorted by start, the longer first. Where functions share code the innermost of the last NEIGHBOURS that
 * hold vaddr answers. */
static const struct line_block *block_of(const struct line_spans *spans, uint64_t vaddr)
{
	uint32_t n = count_until(spans, vaddr);

	for (uint32_t back = 0; n && back < NEIGHBOURS; n--, back++)
		if (vaddr - spans->blocks[n - 1].start < spans->blocks[n - 1].size)
			return &spans->blocks[n - 1];
	return NULL;
}

bool line_spans__find(const struct line_spans *spans, uint64_t vaddr, struct source_line *ret)
{
	const struct line_block *block = block_of(spans, vaddr);

	if (!block || block->at == UINT32_MAX)
		return false;
	find_in(spans, block, vaddr - block->start, ret);
	return true;
}

/* --- functions that were inlined in it, the outermost --- */

/* One range of an inlined function's code, and where it is called. Line and column are 0 if the entry lacks them. */
struct call {
	uint64_t start, end;
	uint64_t file; /* UINT64_MAX: unknown */
	uint32_t line, column;
};

/* What one function's spans are made with. A file's number in the unit is resolved to its text once (numbers[],
 * texts[]): most functions use two or three files. */
struct builder {
	const struct line_unit *of;
	uint64_t start, end; /* of the function */
	struct call call; /* whose ranges are read */
	struct call *calls;
	uint32_t n, capacity;
	uint64_t numbers[NUMBERS];
	uint32_t texts[NUMBERS], n_numbers;
	struct buf text;
	/* the block that is being filled */
	uint64_t block;
	struct line_span spans[LINE_SPANS_BLOCK]; /* from `block` on */
	uint32_t n_spans;
};

/* A dwarf_range callback: what of the range lies in the function. */
static int add_call(void *context, uint64_t start, uint64_t end)
{
	struct builder *builder = context;
	int err;

	start = start > builder->start ? start : builder->start;
	end = end < builder->end ? end : builder->end;
	if (start >= end)
		return 0;
	if (builder->n >= INLINED_MAX)
		return -EFBIG;
	err = ARRAY_RESERVE(builder->calls, builder->n, builder->capacity);
	if (err)
		return err;
	builder->call.start = start;
	builder->call.end = end;
	builder->calls[builder->n++] = builder->call;
	return 0;
}

static int is_any(void *context, uint64_t start, uint64_t end)
{
	return start < end;
}

/* Adds the ranges of an inlined call. > 0: the DIE has code, so its children may be calls, too (of a call they are
 * not visited: the outermost counts); 0: skip them; < 0: -errno. */
static int visit(struct builder *builder, const struct dwarf_die *die)
{
	const struct dwarf_unit *unit = builder->of->unit;
	int err;

	if (die->tag == DW_TAG_lexical_block || die->tag == DW_TAG_try_block || die->tag == DW_TAG_catch_block ||
	    die->tag == DW_TAG_with_stmt)
		err = dwarf_die__ranges(unit, die, is_any, NULL);
	else if (die->tag != DW_TAG_inlined_subroutine)
		return 0;
	else {
		builder->call = (struct call){
			.file = die->call_file.class == VALUE_CONSTANT ? die->call_file.number : UINT64_MAX,
			.line = die->call_line.class == VALUE_CONSTANT ? (uint32_t)die->call_line.number : 0,
			.column = die->call_column.class == VALUE_CONSTANT ? (uint32_t)die->call_column.number : 0,
		};
		err = dwarf_die__ranges(unit, die, add_call, builder);
	}
	return err == -EBADMSG ? 0 : err;
}

/* All inlined calls of the function whose DIE is `at`, the outermost of each. A walk in the order of the file:
 * `depth` counts the lists of children that are open, `passed` is the depth at which a subtree that does not matter
 * began (0: none). It ends when the function's own children do. */
static int find_calls(struct builder *builder, uint64_t at)
{
	const struct dwarf_unit *unit = builder->of->unit;
	unsigned depth = 0, passed = 0; /* passed: the depth in what does not count */
	struct dwarf_die die;
	int err;

	while (at < unit->end) {
		err = dwarf_die__read(unit, builder->of->abbrevs, at, &die);
		if (err)
			return err;
		at = die.next;
		if (!die.tag) {
			passed = passed && depth <= passed ? 0 : passed;
			if (!depth || !--depth)
				break;
			continue;
		}
		err = depth && !passed ? visit(builder, &die) : !depth;
		if (err < 0)
			return err;
		if (!die.children) {
			if (!depth)
				break;
			continue;
		}
		if (!err && die.sibling) {
			at = die.sibling;
			continue;
		}
		if (++depth >= DEPTH_MAX)
			return -EBADMSG;
		if (!err && !passed)
			passed = depth;
	}
	return 0;
}

/* --- spans --- */

/* The number of this text, its NUL counted in `len`. */
static int number_of(struct line_spans *spans, const char *text, size_t len, uint32_t *ret)
{
	uint32_t i;
	char *copy;

	for (i = 0; i < spans->n_files; i++)
		if (!strcmp(spans->files[i], text)) {
			*ret = i + 1;
			return 0;
		}
	if (spans->n_files == LINE_SPANS_FILES_MAX || !(copy = arena__take(&spans->strings, len)))
		return -EFBIG;
	spans->files[spans->n_files++] = memcpy(copy, text, len);
	*ret = spans->n_files;
	return 0;
}

static int file_of(struct line_spans *spans, struct builder *builder, uint64_t number, uint32_t *ret)
{
	uint32_t i;
	int err;

	for (i = 0; i < builder->n_numbers; i++)
		if (builder->numbers[i] == number) {
			*ret = builder->texts[i];
			return 0;
		}
	*ret = 0;
	buf__clear(&builder->text);
	err = number == UINT64_MAX ? -ENOENT
				   : dwarf_lines__file(builder->of->table, builder->of->unit, number, &builder->text);
	if (err == -ENOMEM || (!err && buf__append(&builder->text, "", 1)))
		return -ENOMEM;
	if (!err && number_of(spans, builder->text.data, builder->text.len, ret))
		return -EFBIG;
	if (builder->n_numbers < NUMBERS) {
		builder->numbers[builder->n_numbers] = number;
		builder->texts[builder->n_numbers++] = *ret;
	}
	return 0;
}

/* Appends a block at the end: the caller sorts when it has added all. */
static int add_block(struct line_spans *spans, uint64_t start, uint64_t end, uint32_t at)
{
	if (spans->n_blocks >= LINE_SPANS_BLOCKS_MAX || end - start > UINT32_MAX)
		return -EFBIG;
	return ARRAY_ADD(spans->blocks, spans->n_blocks, spans->blocks_capacity,
			 (struct line_block){start, (uint32_t)(end - start), at});
}

static int put_block(struct line_spans *spans, uint64_t start, uint64_t end, const struct line_span *items, uint32_t n)
{
	size_t at = spans->bytes.len;
	struct line_span before = {};
	int err = at < LINE_SPANS_BYTES_MAX ? put(&spans->bytes, n) : -EFBIG;

	for (uint32_t i = 0; !err && i < n; i++) {
		err = put_span(&spans->bytes, &before, &items[i]);
		before = items[i];
	}
	err = err ?: add_block(spans, start, end, (uint32_t)at);
	if (err)
		spans->bytes.len = at;
	return err;
}

/* The block goes up to `end`. */
static int end_block(struct line_spans *spans, struct builder *builder, uint64_t end)
{
	int err = builder->n_spans ? put_block(spans, builder->block, end, builder->spans, builder->n_spans) : 0;

	builder->n_spans = 0;
	return err;
}

/* Begins a span at `at`, unless it would be equal to the last one. A full block is closed first: the new span begins
 * the next. */
static int add(struct line_spans *spans, struct builder *builder, uint64_t at, uint64_t file, uint32_t line, uint32_t column)
{
	struct line_span span = {.line = line, .column = column};
	const struct line_span *last = builder->n_spans ? &builder->spans[builder->n_spans - 1] : NULL;
	int err = file_of(spans, builder, file, &span.file);

	if (!err && last && last->line == line && last->column == column && last->file == span.file)
		return 0;
	if (!err && builder->n_spans == LINE_SPANS_BLOCK)
		err = end_block(spans, builder, at);
	if (err)
		return err;
	if (!builder->n_spans)
		builder->block = at;
	span.at = at - builder->block;
	builder->spans[builder->n_spans++] = span;
	return 0;
}

/* The sequence that contains all of [start, end); NULL: none does. */
static const struct dwarf_sequence *sequence_of(const struct dwarf_lines *table, uint64_t start, uint64_t end)
{
	uint32_t i;

	for (i = 0; i < table->n_sequences; i++)
		if (table->sequences[i].start <= start && start < table->sequences[i].end)
			return end <= table->sequences[i].end ? &table->sequences[i] : NULL;
	return NULL;
}

/* The last row that begins up to there. */
static uint32_t first_row(const struct dwarf_line *rows, uint32_t n, uint64_t offset)
{
	const uint32_t until = SEARCH(i, n, rows[i].offset <= offset);

	return until ? until - 1 : 0;
}

/* Rows of the line table from the function's start to its end, with calls in place of the rows that they cover. Both
 * ascend, so this is a merge: at each address either the call that covers it, or the row up to the next call. */
static int add_rows(struct line_spans *spans, struct builder *builder, const struct dwarf_sequence *sequence)
{
	const struct dwarf_line *rows = builder->of->table->rows + sequence->first;
	uint32_t i = first_row(rows, sequence->n, builder->start - sequence->start), c = 0;
	int err = 0;

	for (; !err && i < sequence->n && sequence->start + rows[i].offset < builder->end; i++) {
		uint64_t at = sequence->start + rows[i].offset, end;

		end = i + 1 < sequence->n ? sequence->start + rows[i + 1].offset : sequence->end;
		at = at > builder->start ? at : builder->start;
		end = end < builder->end ? end : builder->end;
		while (!err && at < end) {
			while (c < builder->n && builder->calls[c].end <= at)
				c++;
			if (c < builder->n && builder->calls[c].start <= at) {
				const struct call *call = &builder->calls[c];

				err = add(spans, builder, at, call->file, call->line, call->column);
				at = call->end;
			} else {
				err = add(spans, builder, at, rows[i].file, rows[i].line, rows[i].column);
				at = c < builder->n && builder->calls[c].start < end ? builder->calls[c].start : end;
			}
		}
	}
	return err ? err : end_block(spans, builder, builder->end);
}

/* Three quarters, since what is added next may be a whole unit. Dropping everything is simple and rare, and the next
 * questions bring back what is still sampled. */
static void make_room(struct line_spans *spans)
{
	if (spans->n_blocks >= LINE_SPANS_BLOCKS_MAX / 4 * 3 || spans->bytes.len >= LINE_SPANS_BYTES_MAX / 4 * 3 ||
	    spans->n_files >= LINE_SPANS_FILES_MAX / 4 * 3 || spans->n_units == LINE_SPANS_UNITS_MAX)
		line_spans__free(spans);
}

/* Of equal starts the longer one first: block_of() searches from the last. */
static int by_start(const void *a, const void *b)
{
	const struct line_block *x = a, *y = b;

	return x->start != y->start ? (x->start < y->start ? -1 : 1) : (x->size < y->size) - (x->size > y->size);
}

/* Those from `first` on were appended: they are sorted, and merged with what is in order before them. */
static void sort(struct line_spans *spans, uint32_t first)
{
	struct line_block *blocks = spans->blocks, *added;
	uint32_t n = spans->n_blocks - first, to = spans->n_blocks;

	spans->changed = true;
	if (!n)
		return;
	qsort(blocks + first, n, sizeof(*blocks), by_start);
	if (!first || by_start(&blocks[first - 1], &blocks[first]) <= 0)
		return;
	added = malloc(n * sizeof(*added));
	if (!added) {
		qsort(blocks, spans->n_blocks, sizeof(*blocks), by_start);
		return;
	}
	memcpy(added, blocks + first, n * sizeof(*added));
	while (n) /* from the last on, so that nothing is overwritten before it was moved */
		if (first && by_start(&blocks[first - 1], &added[n - 1]) > 0)
			blocks[--to] = blocks[--first];
		else
			blocks[--to] = added[--n];
	free(added);
}

/* Appends the function's blocks. On error nothing is appended. */
static int add_function(struct line_spans *spans, struct builder *builder, const struct line_function *function)
{
	const struct dwarf_sequence *sequence = sequence_of(builder->of->table, function->start, function->end);
	const uint32_t n_blocks = spans->n_blocks;
	const size_t len = spans->bytes.len;
	int err;

	if (!sequence || function->end - function->start > UINT32_MAX)
		return -ENOENT;
	builder->start = function->start;
	builder->end = function->end;
	builder->n = builder->n_spans = 0;
	err = function->die ? find_calls(builder, function->die) : 0;
	if (!err) {
		if (builder->n)
			qsort(builder->calls, builder->n, sizeof(*builder->calls), order__u64);
		err = add_rows(spans, builder, sequence);
	}
	if (err) {
		spans->n_blocks = n_blocks;
		spans->bytes.len = len;
	}
	return err;
}

/* The builder is on the stack (some KB); it owns these two. */
static void end_builder(struct builder *builder)
{
	free(builder->calls);
	buf__free(&builder->text);
}

/* A function that cannot be kept gets an empty block (at: UINT32_MAX), so that it is not tried at each of its
 * addresses. */
void line_spans__keep(struct line_spans *spans, const struct line_unit *of, const struct line_function *function)
{
	struct builder builder = {.of = of};
	const struct line_block *known = block_of(spans, function->start);
	uint32_t first;
	int err;

	if (of->table->partial || (known && known->start == function->start && known->size > 1))
		return;
	make_room(spans);
	first = spans->n_blocks;
	err = add_function(spans, &builder, function);
	if (err && err != -ENOENT)
		add_block(spans, function->start, function->end, UINT32_MAX);
	sort(spans, first);
	end_builder(&builder);
}

bool line_spans__keep_unit(struct line_spans *spans, const struct line_unit *of, const struct line_function *functions, uint32_t n)
{
	struct builder builder = {.of = of};
	uint32_t first;

	if (of->table->partial || of->table->n_rows > LINE_SPANS_ROWS_MAX || n > LINE_SPANS_ROWS_MAX)
		return false;
	for (uint32_t i = 0; i < spans->n_units; i++)
		if (spans->units[i] == of->unit->offset)
			return true;
	make_room(spans);
	first = spans->n_blocks;
	spans->units[spans->n_units++] = of->unit->offset;
	for (uint32_t i = 0; i < n; i++) /* one that cannot be kept is asked about address by address */
		add_function(spans, &builder, &functions[i]);
	sort(spans, first);
	end_builder(&builder);
	return true;
}

void line_spans__keep_one(struct line_spans *spans, uint64_t vaddr, const struct source_line *line)
{
	struct line_span span = {.line = line->line, .column = line->column};
	uint32_t first;

	make_room(spans);
	first = spans->n_blocks;
	if (line->file && number_of(spans, line->file, strlen(line->file) + 1, &span.file))
		return;
	if (!put_block(spans, vaddr, vaddr + 1, &span, 1))
		sort(spans, first);
}

/* --- as bytes: head, units, blocks, their bytes, texts with their NULs --- */

/* Counts of what follows, in this order. They are checked against their limits before anything is read. */
struct pack_head {
	uint32_t version, n_units, n_blocks, n_bytes, n_files;
};
#define PACK_VERSION 2u

int line_spans__pack(const struct line_spans *spans, struct buf *to)
{
	struct pack_head head = {PACK_VERSION, spans->n_units, spans->n_blocks, (uint32_t)spans->bytes.len, spans->n_files};
	uint32_t i;
	int err = buf__append(to, &head, sizeof(head));

	err = err ?: buf__append(to, spans->units, spans->n_units * sizeof(spans->units[0]));
	if (!err && spans->n_blocks)
		err = buf__append(to, spans->blocks, spans->n_blocks * sizeof(*spans->blocks));
	err = err ?: buf__append(to, spans->bytes.data, spans->bytes.len);
	for (i = 0; !err && i < spans->n_files; i++)
		err = buf__append(to, spans->files[i], strlen(spans->files[i]) + 1);
	return err;
}

/* All texts are one allocation; each must end in a NUL, and nothing may be left. */
static int unpack_texts(struct line_spans *spans, const char *at, size_t len, uint32_t n)
{
	char *copy = len ? arena__take(&spans->strings, len) : NULL;

	if (len && !copy)
		return -ENOMEM;
	if (len)
		memcpy(copy, at, len);
	for (; n; n--) {
		size_t text = strnlen(copy ? copy : "", len);

		if (text == len)
			return -EBADMSG;
		spans->files[spans->n_files++] = copy;
		copy += text + 1;
		len -= text + 1;
	}
	return len ? -EBADMSG : 0;
}

static bool is_sorted(const struct line_spans *spans)
{
	uint32_t i;

	for (i = 1; i < spans->n_blocks; i++)
		if (spans->blocks[i - 1].start > spans->blocks[i].start)
			return false;
	return true;
}

static int unpack_blocks(struct line_spans *spans, const char *data, uint32_t n)
{
	if (!n)
		return 0;
	spans->blocks = malloc(n * sizeof(*spans->blocks));
	if (!spans->blocks)
		return -ENOMEM;
	memcpy(spans->blocks, data, n * sizeof(*spans->blocks));
	spans->n_blocks = spans->blocks_capacity = n;
	return is_sorted(spans) ? 0 : -EBADMSG;
}

static int unpack(struct line_spans *spans, const char *data, size_t len)
{
	struct pack_head head;
	size_t units, blocks;
	int err;

	if (len < sizeof(head))
		return -EBADMSG;
	memcpy(&head, data, sizeof(head));
	data += sizeof(head);
	len -= sizeof(head);
	if (head.version != PACK_VERSION || head.n_units > LINE_SPANS_UNITS_MAX || head.n_blocks > LINE_SPANS_BLOCKS_MAX ||
	    head.n_bytes > 2 * LINE_SPANS_BYTES_MAX || head.n_files > LINE_SPANS_FILES_MAX)
		return -EBADMSG;
	units = head.n_units * sizeof(spans->units[0]);
	blocks = head.n_blocks * sizeof(*spans->blocks);
	if (len < units + blocks + head.n_bytes)
		return -EBADMSG;
	memcpy(spans->units, data, units);
	spans->n_units = head.n_units;
	err = unpack_blocks(spans, data + units, head.n_blocks);
	err = err ?: buf__append(&spans->bytes, data + units + blocks, head.n_bytes);
	data += units + blocks + head.n_bytes;
	len -= units + blocks + head.n_bytes;
	return err ? err : unpack_texts(spans, data, len, head.n_files);
}

int line_spans__unpack(struct line_spans *spans, const void *data, size_t len)
{
	int err = unpack(spans, data, len);

	if (err)
		line_spans__free(spans);
	return err;
}
