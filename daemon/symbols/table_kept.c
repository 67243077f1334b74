/* SPDX-License-Identifier: MIT */
/* The index of a large file's symbols, from session to session: to make it of libLLVM's takes 20 ms, and to read it 2.
 *
 * Files are written by kept__put() into a folder that this user's engine alone may write to; they are checked all
 * the same, as a truncated write or a change of format must not make the search run out of bounds. The key is the
 * ELF file's identity (base/kept.h); `symbols` and `base` in the head make sure that the table is of the same
 * section. */
#include "symbols/table.h"

#include <errno.h>
#include <string.h>

#include "elf/elf.h"

#define KIND "symbols"
#define VERSION 2u
#define KEPT_MAX (64u << 20)

/* --- as bytes: head, starts, names, extras, sizes: in this order all are aligned --- */

/* Fixed layout, in the byte order of this machine: the folder is not shared between machines. Change VERSION with
 * it. */
struct pack_head {
	uint32_t version, n, n_extras, extend;
	struct elf_symbols symbols; /* where they are in the file */
	uint64_t base;
};

static struct pack_head head_of(const struct symbol_table *table, const struct elf_symbols *symbols, uint32_t extend)
{
	return (struct pack_head){VERSION, table->n, table->n_extras, extend, *symbols, table->base};
}

static int pack(const struct symbol_table *t, const struct pack_head *head, struct buf *to)
{
	int err = buf__append(to, head, sizeof(*head));

	err = err ?: buf__append(to, t->starts, t->n * sizeof(*t->starts));
	err = err ?: buf__append(to, t->names, t->n * sizeof(*t->names));
	err = err ?: buf__append(to, t->extras, t->n_extras * sizeof(*t->extras));
	return err ?: buf__append(to, t->sizes, t->n * sizeof(*t->sizes));
}

/* What symbol_table__find() relies on: starts ascend, names are inside of the strings, and each row that needs an
 * extra has one, in order. */
static bool fits(const struct symbol_table *t)
{
	uint32_t i, extra = 0;

	for (i = 0; i < t->n; i++) {
		if ((i && t->starts[i - 1] >= t->starts[i]) || t->names[i] >= t->strings_size)
			return false;
		if ((t->sizes[i] & TABLE_SIZE) == TABLE_EXTRA && (extra == t->n_extras || t->extras[extra++].row != i))
			return false;
	}
	return extra == t->n_extras;
}

/* The length must be exactly what the head says: the columns stay where they were read. */
static int unpack(struct symbol_table *t, const struct pack_head *wanted, char *data, size_t len)
{
	struct pack_head head;

	if (len < sizeof(head))
		return -EBADMSG;
	memcpy(&head, data, sizeof(head));
	if (head.version != VERSION || head.extend != wanted->extend || head.base != wanted->base ||
	    memcmp(&head.symbols, &wanted->symbols, sizeof(head.symbols)) || !head.n || head.n > TABLE_CANDIDATES_MAX ||
	    head.n_extras > head.n ||
	    len - sizeof(head) != head.n * (sizeof(*t->starts) + sizeof(*t->names) + sizeof(*t->sizes)) + head.n_extras * sizeof(*t->extras))
		return -EBADMSG;
	t->starts = (uint32_t *)(data + sizeof(head));
	t->names = t->starts + head.n;
	t->extras = (struct table_extra *)(t->names + head.n);
	t->sizes = (uint16_t *)(t->extras + head.n_extras);
	t->n = head.n;
	t->n_extras = t->capacity_extras = head.n_extras;
	if (!fits(t))
		return -EBADMSG;
	symbol_table__index(t);
	return 0;
}

/* --- */

int symbol_table__find_kept(struct symbol_table *table, int folder, const struct kept_key *key, const struct elf_symbols *symbols,
			    uint32_t extend)
{
	const struct pack_head wanted = head_of(table, symbols, extend);
	struct kept_data kept;
	int err = kept__find(folder, KIND, key, KEPT_MAX, &kept);

	if (err)
		return err;
	table->kept = kept.bytes;
	err = unpack(table, &wanted, (char *)kept.data, kept.len);
	if (err)
		symbol_table__free(table);
	return err;
}

void symbol_table__keep(const struct symbol_table *table, int folder, const struct kept_key *key, const struct elf_symbols *symbols,
			uint32_t extend)
{
	const struct pack_head head = head_of(table, symbols, extend);
	struct kept_key now;
	_cleanup_(buf__free) struct buf data = {};

	/* The same file, after all of it was read. */
	if (kept_key__of(table->bytes->fd, -1, &now) || memcmp(&now, key, sizeof(now)))
		return;
	if (!pack(table, &head, &data) && data.len <= KEPT_MAX - sizeof(*key))
		kept__put(folder, KIND, key, &data);
}
