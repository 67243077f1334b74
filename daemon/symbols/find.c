/* SPDX-License-Identifier: MIT */
/* An address -> the symbol that it lies in, and the name that people read: a binary search in each table of the file,
 * then one read of the name. Called for each address that is not cached (codemap/find.c). Searching reads no byte of
 * the file; only the name does. */
#include "symbols/file.h"
#include "symbols/vtable.h"

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/search.h"
#include "symbols/demangle.h"
#include "symbols/numba.h"
#include "symbols/symbols.h"

#define STRINGS_MAX (4u << 20) /* bytes of names that are read at once; of libpython3.13 0.2 MB */

/* --- in one table --- */

/* The entry of this row. There is one: symbol_table__build() made it, and table_kept.c checks it of a table that was
 * stored. */
static const struct table_extra *extra(const struct symbol_table *table, uint32_t row)
{
	return &table->extras[SEARCH(i, table->n_extras, table->extras[i].row < row)];
}

/* How many of the sorted `starts` are not above `at`? */
static uint32_t count_up_to(const uint32_t *starts, uint32_t n, uint32_t at)
{
	return SEARCH(i, n, starts[i] <= at);
}

/* The same, of all of a table. */
static uint32_t rows_up_to(const struct symbol_table *table, uint32_t at)
{
	uint32_t steps, begin, left;

	if (!table->index)
		return count_up_to(table->starts, table->n, at);
	steps = count_up_to(table->index, symbol_table__steps(table), at);
	if (!steps)
		return 0;
	begin = (steps - 1) * TABLE_STEP;
	left = table->n - begin;
	return begin + count_up_to(table->starts + begin, left < TABLE_STEP ? left : TABLE_STEP, at);
}

/* Besides the row, [from, to) around vaddr in which the answer would be the same: profile/cache.h keeps one entry
 * for all of it. Of an address in no symbol that is the gap between its neighbours. */
bool symbol_table__find(const struct symbol_table *table, uint64_t vaddr, struct table_row *ret)
{
	uint64_t end = table->base + UINT32_MAX + 1; /* as far as a table goes */
	uint32_t low, at, row;
	uint32_t size;

	*ret = (struct table_row){};
	if (vaddr < table->base || vaddr - table->base > UINT32_MAX) {
		ret->from = vaddr < table->base ? 0 : end;
		ret->to = vaddr < table->base ? table->base : UINT64_MAX;
		return false;
	}
	at = (uint32_t)(vaddr - table->base);
	low = rows_up_to(table, at);
	ret->from = table->base;
	ret->to = low < table->n ? table->base + table->starts[low] : end;
	if (!low)
		return false;
	row = low - 1;
	size = table->sizes[row] & TABLE_SIZE;
	ret->start = ret->from = table->base + table->starts[row];
	ret->size = size;
	ret->name = table->names[row];
	ret->extended = table->sizes[row] & TABLE_EXTENDED;
	if (size == TABLE_EXTRA) {
		const struct table_extra *more = extra(table, row);

		size = more->size;
		ret->start = table->base + more->symbol;
		ret->size = (uint64_t)table->starts[row] + size - more->symbol;
	}
	if (at - table->starts[row] < size) {
		ret->to = size <= UINT32_MAX - table->starts[row] ? ret->from + size : end;
		return true;
	}
	ret->from += size;
	return false;
}

bool symbol_table__begins(const struct symbol_table *table, uint64_t vaddr)
{
	struct table_row row;

	return symbol_table__find(table, vaddr, &row) && row.start == vaddr && !row.extended;
}

/* Reads 256 bytes first, which hold nearly all names; then steps of 4 KB, since mangled names of C++ reach 100 KB. */
int symbol_table__name(const struct symbol_table *table, uint32_t name, struct buf *ret)
{
	size_t begin = ret->len, step = 256, got;
	uint64_t at = name;

	while (at < table->strings_size && ret->len - begin < SYMBOL_NAME_MAX) {
		size_t want = table->strings_size - at < step ? table->strings_size - at : step;
		const char *end;
		int err = buf__reserve(ret, want);

		err = err ?: elf_bytes__read_some(table->bytes, table->strings + at,
						  ret->data + ret->len, want, &got);
		if (err)
			return err;
		end = memchr(ret->data + ret->len, 0, got);
		if (end) {
			ret->len = (size_t)(end - ret->data);
			return 0;
		}
		if (!got)
			return -EIO;
		ret->len += got;
		at += got;
		step = 4096;
	}
	return 0;
}

/* --- in all tables of a file --- */

/* Are all names of the table in ret->strings? */
static bool hold(const struct symbol_table *table, struct symbol *ret)
{
	if (ret->strings_of == table)
		return true;
	ret->strings_of = NULL;
	buf__clear(&ret->strings);
	if (!ret->many || table->strings_size > STRINGS_MAX || buf__reserve(&ret->strings, table->strings_size) ||
	    elf_bytes__read_some(table->bytes, table->strings, ret->strings.data, table->strings_size, &ret->strings.len))
		return false;
	ret->strings_of = table;
	return true;
}

/* As symbol_table__name(). */
static int table_name(const struct symbol_table *table, uint32_t name, struct symbol *ret)
{
	size_t left;

	if (!hold(table, ret) || name >= ret->strings.len)
		return symbol_table__name(table, name, &ret->name);
	left = ret->strings.len - name;
	return buf__append(&ret->name, ret->strings.data + name,
			   strnlen(ret->strings.data + name, left < SYMBOL_NAME_MAX ? left : SYMBOL_NAME_MAX));
}

/* The tables in the order in which they are asked. */
static const struct symbol_table *table_of(const struct symbol_file *file,
					   enum symbol_source source)
{
	if (source == SYMBOL_FROM_DEBUG_FILE)
		file = file->debug;
	else if (source == SYMBOL_FROM_DEBUGDATA)
		file = file->debugdata;
	return file && file->tables[source].n ? &file->tables[source] : NULL;
}

/* The name in the form that symbols.h promises. .symtab has versions in it, stubs get "@plt", and a line of kallsyms
 * is "init\t[ext4]", whose brackets are cut off. The staleness of the file is checked last: a name that was read
 * while the file changed is not handed out. */
static int read_name(const struct symbol_table *table, uint32_t name, struct symbol *ret)
{
	const char *tab, *at;
	int err;

	err = table->source == SYMBOL_FROM_VTABLE ? virtual_name__append(table, name, &ret->name) : table_name(table, name, ret);
	/* A symbol's version is a part of its name in .symtab: "popen@@GLIBC_2.2.5". */
	if (!err && ret->name.len > 1 && (at = memchr(ret->name.data + 1, '@', ret->name.len - 1)))
		ret->name.len = (size_t)(at - ret->name.data);
	if (!err && table->source == SYMBOL_FROM_PLT)
		err = buf__puts(&ret->name, "@plt");
	if (!err && table->source == SYMBOL_FROM_KERNEL &&
	    (tab = memchr(ret->name.data, '\t', ret->name.len))) {
		size_t len = (size_t)(tab - ret->name.data);

		if (ret->name.len - len > 3 && tab[1] == '[')
			err = buf__append(&ret->module, tab + 2, ret->name.len - len - 3);
		ret->name.len = len;
	}
	err = err ?: buf__append(&ret->name, "", 1);
	err = err ?: buf__append(&ret->module, "", 1);
	if (!err && elf_bytes__stale(table->bytes))
		err = -ESTALE;
	if (err) {
		buf__clear(&ret->name);
		buf__clear(&ret->module);
		return err;
	}
	ret->name.len--;
	ret->module.len--;
	return 0;
}

/* The table that answers for vaddr, and its row. NULL: nothing has it. *ret's from and to are those of all tables
 * together: the intersection, as a better table may have another symbol right beside this one. A row whose size was
 * derived is kept as the best so far while later tables are searched for one with a real size; the first of those
 * ends the search. */
static const struct symbol_table *find_row(const struct symbol_file *file, uint64_t vaddr, struct table_row *ret)
{
	const struct symbol_table *table, *best = NULL;
	uint64_t from = 0, to = UINT64_MAX;
	struct table_row row;
	bool found;

	for (unsigned source = 0; source < SYMBOL_SOURCE_COUNT; source++) {
		table = table_of(file, source);
		/* A size that was given is better than one that was derived, and a name than none. */
		if (!table || (best && source == SYMBOL_FROM_FRAMES))
			continue;
		found = symbol_table__find(table, vaddr, &row);
		from = row.from > from ? row.from : from;
		to = row.to < to ? row.to : to;
		if (!found || (best && row.extended))
			continue;
		*ret = row;
		best = table;
		if (!row.extended)
			break;
	}
	ret->from = from;
	ret->to = to;
	return best;
}

int symbol_file__start(const struct symbol_file *file, uint64_t vaddr, uint64_t *ret_start)
{
	struct table_row row;
	const struct symbol_table *table = find_row(file, vaddr, &row);

	if (!table || table->source == SYMBOL_FROM_FRAMES)
		return -ENOENT;
	*ret_start = row.start;
	return 0;
}

bool symbol_file__range(const struct symbol_file *file, uint64_t vaddr, uint64_t *ret_from, uint64_t *ret_to)
{
	struct table_row row;
	bool found = find_row(file, vaddr, &row);

	*ret_from = row.from;
	*ret_to = row.to;
	return found;
}

int symbol_file__find(const struct symbol_file *file, uint64_t vaddr, struct symbol *ret)
{
	struct table_row found = {};
	const struct symbol_table *best = find_row(file, vaddr, &found);

	buf__clear(&ret->name);
	buf__clear(&ret->module);
	ret->size = 0;
	if (!best)
		return -ENOENT;
	ret->start = found.start;
	ret->size = found.size;
	ret->offset = vaddr - found.start;
	ret->extended = found.extended;
	ret->source = best->source;
	return best->source == SYMBOL_FROM_FRAMES ? -ENOENT : read_name(best, found.name, ret);
}

/* --- as people read it --- */

/* Whose mangling is it? In the order of the attempts:
 *
 *    _ZN8__main__3fooB2v1B38c8t...E5ArrayId...E   Numba     __main__.foo(array(float64, 1d, C))
 *    _ZN4llvm8PassInfo3runEv.cold                 C++       llvm::PassInfo::run() [clone .cold]
 *    _RNvCs1234_4core3fmt                         Rust      core::fmt
 *    PyEval_EvalFrameDefault                      as it is
 *
 * Numba comes first, since its names are valid C++ manglings, too. Called once for each function of a session (the
 * result is kept: codemap/known_names.h), on the thread of the caller. */
static int show_numba(const char *name, size_t len, bool jit, struct buf *ret)
{
	_cleanup_(numba_name__free) struct numba_name decoded = {};
	int err = numba__decode(name, len, jit, &decoded);

	if (err)
		return err;
	if (decoded.function.len + decoded.signature.len > SYMBOL_DISPLAY_MAX)
		return -ENOENT;
	err = buf__append(ret, decoded.function.data, decoded.function.len);
	err = err ?: buf__puts(ret, "(");
	err = err ?: buf__append(ret, decoded.signature.data, decoded.signature.len);
	err = err ?: buf__puts(ret, ")");
	if (!err && decoded.kind != NUMBA_FUNCTION)
		err = buf__printf(ret, " [%s]", numba_kind__words(decoded.kind));
	return err;
}

/* c++filt's form: each clone's suffix, with its numbers. */
static int show_clones(const char *suffix, size_t len, struct buf *ret)
{
	size_t begin = 0, at;
	int err = 0;

	for (at = 1; at <= len && !err; at++) {
		if (at < len && (suffix[at] != '.' ||
				 (at + 1 < len && suffix[at + 1] >= '0' && suffix[at + 1] <= '9')))
			continue;
		err = buf__printf(ret, " [clone %.*s]", (int)(at - begin), suffix + begin);
		begin = at;
	}
	return err;
}

/* Takes the name apart from its end: "@plt", then suffixes of clones, then the mangled stem. On error nothing stays
 * appended. */
int symbol__display(const char *name, size_t len, bool jit, struct buf *ret)
{
	_cleanup_free_ char *text = NULL;
	size_t stem, plt = 0, begin = ret->len;
	int err;

	if (len > 4 && !memcmp(name + len - 4, "@plt", 4))
		plt = 4;
	len -= plt;
	stem = demangle__stem(name, len);
	err = show_numba(name, stem, jit, ret);
	if (err == -ENOENT) {
		text = strndup(name, stem);
		if (!text)
			return -ENOMEM;
		err = demangle__append(text, SYMBOL_DISPLAY_MAX, ret)
			      ? 0
			      : buf__append(ret, name, stem);
	}
	err = err ?: show_clones(name + stem, len - stem, ret);
	if (!err && plt)
		err = buf__puts(ret, "@plt");
	if (err)
		ret->len = begin;
	return err;
}
