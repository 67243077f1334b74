#include "symbols/line_spans.h"

#include <dwarf.h>
#include <stdlib.h>
#include <string.h>

#include "base/slots.h"

#define DEPTH_MAX 300u
#define INLINED_MAX 8192u
#define NUMBERS 64u /* files of one function whose text is looked up once */

void line_spans__free(struct line_spans *spans)
{
	free(spans->spans);
	arena__free(&spans->strings);
	*spans = (struct line_spans){};
}

bool line_spans__find(const struct line_spans *spans, uint64_t vaddr, struct source_line *ret)
{
	uint32_t i, low, high;

	for (i = 0; i < spans->n_functions; i++)
		if (spans->functions[i].start <= vaddr && vaddr < spans->functions[i].end && spans->functions[i].n)
			break;
	if (i == spans->n_functions)
		return false;
	low = spans->functions[i].first;
	high = low + spans->functions[i].n;
	while (low + 1 < high) { /* the last that begins up to there */
		uint32_t middle = low + (high - low) / 2;

		if (spans->spans[middle].at <= vaddr - spans->functions[i].start)
			low = middle;
		else
			high = middle;
	}
	ret->line = spans->spans[low].line;
	ret->column = spans->spans[low].column;
	ret->file = spans->spans[low].file == UINT32_MAX ? NULL : spans->files[spans->spans[low].file];
	return true;
}

/* --- functions that were inlined in it, the outermost --- */

struct call {
	uint64_t start, end;
	uint64_t file; /* UINT64_MAX: not told */
	uint32_t line, column;
};

struct maker {
	const struct line_unit *of;
	uint64_t start, end;
	struct call call; /* whose ranges are read */
	struct call *calls;
	uint32_t n, capacity;
	uint64_t numbers[NUMBERS];
	uint32_t texts[NUMBERS], n_numbers;
	struct buf text;
};

static int add_call(void *context, uint64_t start, uint64_t end)
{
	struct maker *maker = context;
	int err;

	start = start > maker->start ? start : maker->start;
	end = end < maker->end ? end : maker->end;
	if (start >= end)
		return 0;
	if (maker->n >= INLINED_MAX)
		return -EFBIG;
	err = array__reserve((void **)&maker->calls, sizeof(maker->call), maker->n, &maker->capacity);
	if (err)
		return err;
	maker->call.start = start;
	maker->call.end = end;
	maker->calls[maker->n++] = maker->call;
	return 0;
}

static int is_any(void *context, uint64_t start, uint64_t end)
{
	return start < end;
}

/* < 0: -errno; 1: what is below this DIE counts. */
static int visit(struct maker *maker, const struct dwarf_die *die)
{
	const struct dwarf_unit *unit = maker->of->unit;
	int err;

	if (die->tag == DW_TAG_lexical_block || die->tag == DW_TAG_try_block || die->tag == DW_TAG_catch_block ||
	    die->tag == DW_TAG_with_stmt)
		err = dwarf_die__ranges(unit, die, is_any, NULL);
	else if (die->tag != DW_TAG_inlined_subroutine)
		return 0;
	else {
		maker->call = (struct call){
			.file = die->call_file.class == VALUE_CONSTANT ? die->call_file.number : UINT64_MAX,
			.line = die->call_line.class == VALUE_CONSTANT ? (uint32_t)die->call_line.number : 0,
			.column = die->call_column.class == VALUE_CONSTANT ? (uint32_t)die->call_column.number : 0,
		};
		err = dwarf_die__ranges(unit, die, add_call, maker);
	}
	return err == -EBADMSG ? 0 : err;
}

static int find_calls(struct maker *maker, uint64_t at)
{
	const struct dwarf_unit *unit = maker->of->unit;
	unsigned depth = 0, passed = 0; /* passed: the depth in what does not count */
	struct dwarf_die die;
	int err;

	while (at < unit->end) {
		err = dwarf_die__read(unit, maker->of->abbrevs, at, &die);
		if (err)
			return err;
		at = die.next;
		if (!die.tag) {
			passed = passed && depth <= passed ? 0 : passed;
			if (!depth || !--depth)
				break;
			continue;
		}
		err = depth && !passed ? visit(maker, &die) : !depth;
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

static int compare(const void *a, const void *b)
{
	const struct call *x = a, *y = b;

	return x->start < y->start ? -1 : x->start > y->start;
}

/* --- spans --- */

/* The number in files[] of this text, its NUL counted in `len`. */
static int number_of(struct line_spans *spans, const char *text, size_t len, uint32_t *ret)
{
	uint32_t i;
	char *copy;

	for (i = 0; i < spans->n_files; i++)
		if (!strcmp(spans->files[i], text)) {
			*ret = i;
			return 0;
		}
	if (spans->n_files == LINE_SPANS_FILES_MAX || !(copy = arena__take(&spans->strings, len)))
		return -EFBIG;
	*ret = spans->n_files;
	spans->files[spans->n_files++] = memcpy(copy, text, len);
	return 0;
}

/* A file's number in files[]. */
static int file_of(struct line_spans *spans, struct maker *maker, uint64_t number, uint32_t *ret)
{
	uint32_t i;
	int err;

	for (i = 0; i < maker->n_numbers; i++)
		if (maker->numbers[i] == number) {
			*ret = maker->texts[i];
			return 0;
		}
	*ret = UINT32_MAX;
	buf__clear(&maker->text);
	err = number == UINT64_MAX ? -ENOENT
				   : dwarf_lines__file(maker->of->table, maker->of->unit, number, &maker->text);
	if (err == -ENOMEM || (!err && buf__append(&maker->text, "", 1)))
		return -ENOMEM;
	if (!err && number_of(spans, maker->text.data, maker->text.len, ret))
		return -EFBIG;
	if (maker->n_numbers < NUMBERS) {
		maker->numbers[maker->n_numbers] = number;
		maker->texts[maker->n_numbers++] = *ret;
	}
	return 0;
}

static int add(struct line_spans *spans, struct maker *maker, uint64_t at, uint64_t file, uint32_t line, uint32_t column)
{
	struct line_span span = {.at = (uint32_t)(at - maker->start), .line = line, .column = column};
	int err = spans->n < LINE_SPANS_MAX ? file_of(spans, maker, file, &span.file) : -EFBIG;

	if (!err)
		err = array__reserve((void **)&spans->spans, sizeof(span), spans->n, &spans->capacity);
	if (!err)
		spans->spans[spans->n++] = span;
	return err;
}

/* The sequence that has all of it; NULL: none. */
static const struct dwarf_sequence *sequence_of(const struct dwarf_lines *table, uint64_t start, uint64_t end)
{
	uint32_t i;

	for (i = 0; i < table->n_sequences; i++)
		if (table->sequences[i].start <= start && start < table->sequences[i].end)
			return end <= table->sequences[i].end ? &table->sequences[i] : NULL;
	return NULL;
}

/* Rows, and calls in their place. */
static int add_rows(struct line_spans *spans, struct maker *maker, const struct dwarf_sequence *sequence)
{
	const struct dwarf_line *rows = maker->of->table->rows + sequence->first;
	uint32_t i, c = 0;
	int err = 0;

	for (i = 0; !err && i < sequence->n; i++) {
		uint64_t at = sequence->start + rows[i].offset, end;

		end = i + 1 < sequence->n ? sequence->start + rows[i + 1].offset : sequence->end;
		at = at > maker->start ? at : maker->start;
		end = end < maker->end ? end : maker->end;
		while (!err && at < end) {
			while (c < maker->n && maker->calls[c].end <= at)
				c++;
			if (c < maker->n && maker->calls[c].start <= at) {
				const struct call *call = &maker->calls[c];

				err = add(spans, maker, at, call->file, call->line, call->column);
				at = call->end;
			} else {
				err = add(spans, maker, at, rows[i].file, rows[i].line, rows[i].column);
				at = c < maker->n && maker->calls[c].start < end ? maker->calls[c].start : end;
			}
		}
	}
	return err;
}

static void make_room(struct line_spans *spans)
{
	if (spans->n_functions == LINE_SPANS_FUNCTIONS_MAX || spans->n >= LINE_SPANS_MAX / 4 * 3 ||
	    spans->n_files >= LINE_SPANS_FILES_MAX / 4 * 3)
		line_spans__free(spans);
}

/* The spans from `first` on are those of this code. */
static void add_code(struct line_spans *spans, uint64_t start, uint64_t end, uint32_t first)
{
	spans->functions[spans->n_functions].start = start;
	spans->functions[spans->n_functions].end = end;
	spans->functions[spans->n_functions].first = first;
	spans->functions[spans->n_functions++].n = spans->n - first;
	spans->changed = true;
}

void line_spans__keep(struct line_spans *spans, const struct line_unit *of, uint64_t start, uint64_t end, uint64_t die)
{
	const struct dwarf_sequence *sequence = of->table->partial ? NULL : sequence_of(of->table, start, end);
	struct maker maker = {.of = of, .start = start, .end = end};
	uint32_t first, i;
	int err;

	if (!sequence || end - start > UINT32_MAX)
		return;
	for (i = 0; i < spans->n_functions; i++)
		if (spans->functions[i].start == start && spans->functions[i].end == end)
			return;
	make_room(spans);
	first = spans->n;
	err = die ? find_calls(&maker, die) : 0;
	if (!err) {
		if (maker.n)
			qsort(maker.calls, maker.n, sizeof(*maker.calls), compare);
		err = add_rows(spans, &maker, sequence);
	}
	if (err) /* nothing is tried again */
		spans->n = first;
	add_code(spans, start, end, first);
	free(maker.calls);
	buf__free(&maker.text);
}

void line_spans__keep_one(struct line_spans *spans, uint64_t vaddr, const struct source_line *line)
{
	struct line_span span = {.line = line->line, .column = line->column, .file = UINT32_MAX};

	make_room(spans);
	if (line->file && number_of(spans, line->file, strlen(line->file) + 1, &span.file))
		return;
	if (array__reserve((void **)&spans->spans, sizeof(span), spans->n, &spans->capacity))
		return;
	spans->spans[spans->n++] = span;
	add_code(spans, vaddr, vaddr + 1, spans->n - 1);
}

/* --- as bytes: head, functions, spans, texts with their NULs --- */

struct pack_head {
	uint32_t version, n_functions, n, n_files;
};
#define PACK_VERSION 1u

int line_spans__pack(const struct line_spans *spans, struct buf *to)
{
	struct pack_head head = {PACK_VERSION, spans->n_functions, spans->n, spans->n_files};
	uint32_t i;
	int err = buf__append(to, &head, sizeof(head));

	if (!err)
		err = buf__append(to, spans->functions, spans->n_functions * sizeof(spans->functions[0]));
	if (!err && spans->n)
		err = buf__append(to, spans->spans, spans->n * sizeof(*spans->spans));
	for (i = 0; !err && i < spans->n_files; i++)
		err = buf__append(to, spans->files[i], strlen(spans->files[i]) + 1);
	return err;
}

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

static bool fits(const struct line_spans *spans)
{
	uint32_t i;

	for (i = 0; i < spans->n_functions; i++)
		if (spans->functions[i].first > spans->n || spans->functions[i].n > spans->n - spans->functions[i].first)
			return false;
	for (i = 0; i < spans->n; i++)
		if (spans->spans[i].file != UINT32_MAX && spans->spans[i].file >= spans->n_files)
			return false;
	return true;
}

static int unpack(struct line_spans *spans, const char *data, size_t len)
{
	struct pack_head head;
	size_t functions, rows;
	int err;

	if (len < sizeof(head))
		return -EBADMSG;
	memcpy(&head, data, sizeof(head));
	if (head.version != PACK_VERSION || head.n_functions > LINE_SPANS_FUNCTIONS_MAX || head.n > LINE_SPANS_MAX ||
	    head.n_files > LINE_SPANS_FILES_MAX)
		return -EBADMSG;
	functions = head.n_functions * sizeof(spans->functions[0]);
	rows = head.n * sizeof(*spans->spans);
	if (len - sizeof(head) < functions + rows)
		return -EBADMSG;
	spans->spans = malloc(rows + 1);
	if (!spans->spans)
		return -ENOMEM;
	memcpy(spans->functions, data + sizeof(head), functions);
	memcpy(spans->spans, data + sizeof(head) + functions, rows);
	spans->n_functions = head.n_functions;
	spans->n = spans->capacity = head.n;
	err = unpack_texts(spans, data + sizeof(head) + functions + rows, len - sizeof(head) - functions - rows, head.n_files);
	return err ? err : fits(spans) ? 0 : -EBADMSG;
}

int line_spans__unpack(struct line_spans *spans, const void *data, size_t len)
{
	int err = unpack(spans, data, len);

	if (err)
		line_spans__free(spans);
	return err;
}
