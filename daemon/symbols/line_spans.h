/* Lines of functions that were asked about once: each whole, as spans of addresses. An address more in a function, which
 * is what samples bring most, costs no look into debug information then; packed, each look unpacks some 100 KB.
 *
 * Owner: who has the debug information; strings live until the next line_spans__keep(). Threads: one. Bounded:
 * LINE_SPANS_MAX of 16 bytes; when they are full all are forgotten. */
#ifndef CPROFD_SYMBOLS_LINE_SPANS_H
#define CPROFD_SYMBOLS_LINE_SPANS_H

#include "base/arena.h"
#include "base/buf.h"
#include "symbols/dwarf.h"

#define LINE_SPANS_MAX 65536u
#define LINE_SPANS_FUNCTIONS_MAX 2048u
#define LINE_SPANS_FILES_MAX 1024u

struct line_span {
	uint32_t at; /* from the function's start, up to the next span */
	uint32_t line, column;
	uint32_t file; /* in files[]; UINT32_MAX: not known */
};

struct line_spans {
	struct {
		uint64_t start, end;
		uint32_t first, n;
	} functions[LINE_SPANS_FUNCTIONS_MAX];
	uint32_t n_functions;
	struct line_span *spans;
	uint32_t n, capacity;
	const char *files[LINE_SPANS_FILES_MAX];
	uint32_t n_files;
	struct arena strings;
	bool changed; /* since line_spans__unpack() */
};

/* What the DIEs and rows of a function are read with. */
struct line_unit {
	const struct dwarf_unit *unit;
	const struct dwarf_abbrevs *abbrevs;
	const struct dwarf_lines *table;
};

void line_spans__free(struct line_spans *spans); /* what it holds */
/* False: it is in none of them. */
bool line_spans__find(const struct line_spans *spans, uint64_t vaddr, struct source_line *ret);
/* The code [start, end) of the function at `die` (0: of none); one that is too large, or whose rows are not of one sequence,
 * is not kept. */
void line_spans__keep(struct line_spans *spans, const struct line_unit *of, uint64_t start, uint64_t end, uint64_t die);

/* What is known of one address that is in no function which was kept; `file` may be NULL: nothing is known. */
void line_spans__keep_one(struct line_spans *spans, uint64_t vaddr, const struct source_line *line);

/* As bytes that line_spans__unpack() takes, appended. -ENOMEM. */
int line_spans__pack(const struct line_spans *spans, struct buf *to);
/* Into what is empty. -EBADMSG: they do not fit together; -ENOMEM. */
int line_spans__unpack(struct line_spans *spans, const void *data, size_t len);

#endif
