/* SPDX-License-Identifier: MIT */
/* /proc/kallsyms, line by line: "ffffffff81000000 T _stext", and [module] behind a tab. No sizes are there: a
 * symbol ends where the next begins, of whatever kind that is. All addresses are 0 for who may not see them.
 *
 * The text comes in pieces that may end anywhere; a line that is cut waits in `partial`. Names are copied into one
 * buffer, which becomes the "file" of the table. The kernel writes this file, so it is trusted more than an ELF
 * file; bounds are here all the same, since tests and fuzzers feed text. */
#include "symbols/kallsyms.h"

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/array.h"

#define LINE_MAX_LEN 1024u /* KSYM_NAME_LEN is 512 */

struct line {
	uint64_t address;
	uint32_t name;
	uint32_t rank;
};

/* While the text is read. `lines` in its order; the kernel sorts nothing across modules. */
struct kallsyms {
	struct buf names;
	struct line *lines;
	uint32_t n, capacity;
	uint64_t fed;
	char partial[LINE_MAX_LEN];
	size_t partial_len;
	bool overlong; /* the line at hand is too long: it is left out */
	bool hidden;   /* an address of 0 was seen for a function */
};

int kallsyms__new(struct kallsyms **ret)
{
	*ret = calloc(1, sizeof(**ret));
	if (!*ret)
		return -ENOMEM;
	/* Offset 0 is no name, as in ELF. */
	return buf__append(&(*ret)->names, "", 1) ? (*ret = kallsyms__free(*ret), -ENOMEM) : 0;
}

struct kallsyms *kallsyms__free(struct kallsyms *kallsyms)
{
	if (kallsyms) {
		buf__free(&kallsyms->names);
		free(kallsyms->lines);
		free(kallsyms);
	}
	return NULL;
}

/* Functions are T and t, weak ones W and w; all else only ends what is before it. */
static uint32_t rank_of(char type)
{
	switch (type) {
	case 'T':
		return RANK_UNSIZED;
	case 't':
		return RANK_UNSIZED | RANK_LOCAL;
	case 'W':
	case 'w':
		return RANK_UNSIZED | RANK_WEAK;
	}
	return 0xf0u | RANK_BOUNDARY;
}

/* A line that is not "ADDRESS TYPE NAME" is skipped. Boundaries (data, markers) need no name. */
static int take_line(struct kallsyms *k, const char *text, size_t len)
{
	struct line line = {};
	size_t at;
	int err;

	for (at = 0; at < len && at < 17 && text[at] != ' '; at++) {
		char c = text[at];
		unsigned digit = c >= '0' && c <= '9'	? (unsigned)(c - '0')
				 : c >= 'a' && c <= 'f' ? (unsigned)(c - 'a' + 10)
							: 16;

		if (digit == 16)
			return 0;
		line.address = line.address << 4 | digit;
	}
	if (!at || at > 16 || len - at < 4 || text[at] != ' ' || text[at + 2] != ' ')
		return 0;
	line.rank = rank_of(text[at + 1]);
	if (!line.address) {
		k->hidden |= !(line.rank & RANK_BOUNDARY);
		return 0;
	}
	text += at + 3;
	len -= at + 3;
	if (memchr(text, 0, len))
		return 0;
	if (!(line.rank & RANK_BOUNDARY)) {
		line.name = (uint32_t)k->names.len;
		if (k->names.len > KALLSYMS_TEXT_MAX)
			return -EFBIG;
		err = buf__append(&k->names, text, len);
		err = err ?: buf__append(&k->names, "", 1);
		if (err)
			return err;
	}
	return ARRAY_ADD(k->lines, k->n, k->capacity, line);
}

int kallsyms__feed(struct kallsyms *k, const char *text, size_t len)
{
	int err = 0;

	k->fed += len;
	if (k->fed > KALLSYMS_TEXT_MAX)
		return -EFBIG;
	while (len && !err) {
		const char *end = memchr(text, '\n', len);
		size_t piece = end ? (size_t)(end - text) : len;

		if (end && !k->partial_len && !k->overlong) {
			if (piece <= sizeof(k->partial)) /* as when it comes in pieces */
				err = take_line(k, text, piece);
		} else {
			if (k->partial_len + piece > sizeof(k->partial)) {
				k->overlong = true;
			} else {
				memcpy(k->partial + k->partial_len, text, piece);
				k->partial_len += piece;
			}
			if (end) {
				if (!k->overlong)
					err = take_line(k, k->partial, k->partial_len);
				k->partial_len = 0;
				k->overlong = false;
			}
		}
		text += piece + !!end;
		len -= piece + !!end;
	}
	return err;
}

bool kallsyms__hidden(const struct kallsyms *k)
{
	return k->hidden && !k->n;
}

/* The range of code is one: from the first function to the last plus KALLSYMS_EXTEND. On x86-64 the kernel and its
 * modules lie within 2 GB, so that offsets of 32 bits reach all. `names` is handed over before the table is built
 * and moved to *ret_names at the end: table.bytes must be an address that stays. */
int kallsyms__finish(struct kallsyms *k, struct elf_bytes *ret_names, struct symbol_table *ret)
{
	struct symbol_table table = {.source = SYMBOL_FROM_KERNEL, .base = UINT64_MAX};
	struct range range;
	struct code_ranges ranges = {.items = &range, .n = 1};
	struct candidates candidates = {};
	struct elf_bytes names = ELF_BYTES_NONE;
	uint64_t last = 0;
	int err = 0;

	for (uint32_t i = 0; i < k->n; i++) {
		if (k->lines[i].rank & RANK_BOUNDARY)
			continue;
		if (k->lines[i].address < table.base)
			table.base = k->lines[i].address;
		if (k->lines[i].address > last)
			last = k->lines[i].address;
	}
	if (table.base == UINT64_MAX)
		return k->hidden ? -EACCES : -ENOENT;
	if (last - table.base > UINT32_MAX)
		last = table.base + UINT32_MAX;
	range.start = table.base;
	range.end = last > UINT64_MAX - KALLSYMS_EXTEND ? UINT64_MAX : last + KALLSYMS_EXTEND;
	for (uint32_t i = 0; i < k->n && !err; i++) {
		const struct line *line = &k->lines[i];

		if (line->address >= table.base && line->address - table.base <= UINT32_MAX)
			err = candidates__add(
				&candidates,
				(struct candidate){(uint32_t)(line->address - table.base),
						   line->name, 0, line->rank});
	}
	if (err) {
		free(candidates.items);
		return err;
	}
	free(k->lines);
	k->lines = NULL;
	k->n = k->capacity = 0;
	names.data = realloc(k->names.data, k->names.len); /* what was reserved is not needed */
	elf_bytes__init_memory(&names, names.data ? names.data : (uint8_t *)k->names.data,
			       k->names.len);
	k->names = (struct buf){};
	table.bytes = &names;
	table.strings_size = names.size;
	err = symbol_table__build(&table, &candidates, &ranges, 0, KALLSYMS_EXTEND);
	free(candidates.items);
	if (err) {
		symbol_table__free(&table);
		elf_bytes__free(&names);
		return err;
	}
	table.bytes = ret_names;
	*ret_names = names;
	*ret = table;
	return 0;
}
