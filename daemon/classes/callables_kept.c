/* SPDX-License-Identifier: MIT */
/* A cache of callables on disk, for later sessions: finding those of an interpreter takes 30 ms. The key is the file's
 * identity (base/kept.h); the bytes are checked on reading, as a file could be damaged.
 *
 * Example of the layout: head {7, n, n_candidates, n_names}, n rows of 32 bytes, n_candidates of 16, then
 * "list.append\0len\0...". Names are offsets into the last part. */
#include "classes/callables.h"

#include <errno.h>
#include <stdlib.h>

#define KIND "callables"
#define VERSION 10u /* raise it when the format changes, or what is found */
#define KEPT_MAX (32u << 20)

/* --- as bytes: head, rows, candidates, names with their NULs --- */

struct pack_head {
	uint32_t version, n, n_candidates, n_names; /* the last: bytes */
	uint32_t builtins, unused;
};

/* A row as stored, without padding: the bytes are written as they are in memory. */
struct pack_row {
	uint64_t start, end;
	uint32_t name, first, n; /* name: offset + 1; 0: none */
	uint8_t kind, forwards, exported, led; /* led: LED_... */
};

#define LED_SHARED 1u
#define LED_POINTED 2u
#define LED_DISPATCHES 4u
#define LED_DISPATCHED 8u

struct pack_candidate {
	uint64_t start;
	uint32_t name;
	uint8_t kind, deep, unused[2];
};

/* The packed names: the arena's bytes as they are, then names that are constants of this program. Names that were one
 * pointer stay one offset, as they are compared by pointer. */
struct names {
	const struct arena *arena;
	struct buf bytes;
	size_t constants; /* where in `bytes` these begin: a handful, each once */
};

/* Where a constant lies; bytes.len: not there yet. */
static size_t find_constant(const struct names *names, const char *name)
{
	size_t at = names->constants;

	while (at < names->bytes.len && strcmp(names->bytes.data + at, name))
		at += strlen(names->bytes.data + at) + 1;
	return at;
}

/* *ret: the name's offset in the stored text, plus 1; 0: no name. Linear in the arena's chunks, of which there are
 * few. */
static int add_name(struct names *names, const char *name, uint32_t *ret)
{
	size_t at = 0;

	*ret = 0;
	if (!name)
		return 0;
	for (const struct arena_chunk *chunk = names->arena->chunks; chunk; at += chunk->used, chunk = chunk->next)
		if (name >= chunk->data && name < chunk->data + chunk->used) {
			*ret = (uint32_t)(at + (size_t)(name - chunk->data)) + 1;
			return 0;
		}
	at = find_constant(names, name);
	*ret = (uint32_t)at + 1;
	return at < names->bytes.len ? 0 : buf__append(&names->bytes, name, strlen(name) + 1);
}

static int add_arena(struct names *names)
{
	int err = 0;

	for (const struct arena_chunk *chunk = names->arena->chunks; !err && chunk; chunk = chunk->next)
		err = buf__append(&names->bytes, chunk->data, chunk->used);
	names->constants = names->bytes.len;
	return err;
}

static int pack(const struct callables *callables, struct buf *to)
{
	struct names names = {.arena = &callables->names};
	struct pack_head head = {VERSION, callables->n, callables->n_candidates, 0, callables->builtins, 0};
	int err = buf__append(to, &head, sizeof(head));

	err = err ?: add_arena(&names);
	for (uint32_t i = 0; !err && i < callables->n; i++) {
		const struct callable *c = &callables->rows[i];
		struct pack_row row = {.start = c->start, .end = c->end, .first = c->first, .n = c->n,
				       .kind = c->kind, .forwards = c->forwards, .exported = c->exported,
				       .led = (uint8_t)(c->shared * LED_SHARED | c->pointed * LED_POINTED |
							c->dispatches * LED_DISPATCHES | c->dispatched * LED_DISPATCHED)};

		err = add_name(&names, c->name, &row.name) ?: buf__append(to, &row, sizeof(row));
	}
	for (uint32_t i = 0; !err && i < callables->n_candidates; i++) {
		const struct candidate *c = &callables->candidates[i];
		struct pack_candidate candidate = {.start = c->start, .kind = c->kind, .deep = c->deep};

		err = add_name(&names, c->name, &candidate.name) ?: buf__append(to, &candidate, sizeof(candidate));
	}
	head.n_names = (uint32_t)names.bytes.len;
	err = err ?: buf__append(to, names.bytes.data, names.bytes.len);
	if (!err)
		memcpy(to->data, &head, sizeof(head));
	buf__free(&names.bytes);
	return err;
}

static const char *name_at(const struct pack_head *head, const char *names, uint32_t name)
{
	return name && name <= head->n_names ? names + name - 1 : NULL;
}

static int unpack_rows(struct callables *out, const struct pack_head *head, const char *data, const char *names)
{
	struct pack_row row;

	for (uint32_t i = 0; i < head->n; i++) {
		memcpy(&row, data + i * sizeof(row), sizeof(row));
		if (row.first > head->n_candidates || row.n > head->n_candidates - row.first || row.end <= row.start ||
		    row.kind >= CALLABLE_KINDS || (i && row.start <= out->rows[i - 1].start))
			return -EBADMSG;
		out->rows[i] = (struct callable){.of = out, .start = row.start, .end = row.end, .name = name_at(head, names, row.name),
						 .kind = row.kind, .forwards = row.forwards, .exported = row.exported,
						 .shared = row.led & LED_SHARED, .pointed = row.led & LED_POINTED, .dispatches = row.led & LED_DISPATCHES, .dispatched = row.led & LED_DISPATCHED,
						 .first = row.first, .n = row.n};
	}
	out->n = out->capacity = head->n;
	return 0;
}

static int unpack_candidates(struct callables *out, const struct pack_head *head, const char *data, const char *names)
{
	struct pack_candidate c;
	const char *name;

	for (uint32_t i = 0; i < head->n_candidates; i++) {
		memcpy(&c, data + i * sizeof(c), sizeof(c));
		name = name_at(head, names, c.name);
		if (!name)
			return -EBADMSG;
		out->candidates[i] = (struct candidate){.start = c.start, .name = name, .kind = c.kind, .deep = c.deep};
	}
	out->n_candidates = out->candidates_capacity = head->n_candidates;
	return 0;
}

/* Called by kept__unpack() with the stored bytes. Whatever they are, rows are sorted and refer to candidates and
 * names that exist: searches in them stay in bounds. The last byte of the names must be a NUL, so that each name
 * ends. On error the caller frees. */
static int unpack(void *to, const char *data, size_t len)
{
	struct callables *out = to;
	size_t rows, candidates;
	struct pack_head head;
	char *names;

	if (len < sizeof(head))
		return -EBADMSG;
	memcpy(&head, data, sizeof(head));
	data += sizeof(head);
	rows = (size_t)head.n * sizeof(struct pack_row);
	candidates = (size_t)head.n_candidates * sizeof(struct pack_candidate);
	if (head.version != VERSION || len - sizeof(head) != rows + candidates + head.n_names || !head.n || !head.n_names ||
	    data[rows + candidates + head.n_names - 1])
		return -EBADMSG;
	out->builtins = head.builtins;
	out->rows = malloc(head.n * sizeof(*out->rows));
	out->candidates = malloc((head.n_candidates + 1) * sizeof(*out->candidates));
	names = arena__take(&out->names, head.n_names);
	if (!out->rows || !out->candidates || !names)
		return -ENOMEM;
	memcpy(names, data + rows + candidates, head.n_names);
	return unpack_rows(out, &head, data, names) ?: unpack_candidates(out, &head, data + rows, names);
}

/* --- the cache --- */

static void keep(int folder, int fd, const struct kept_key *key, const struct callables *callables)
{
	_cleanup_(buf__free) struct buf data = {};
	struct kept_key now;

	/* Only if the file did not change while it was read. */
	if (!kept_key__of(fd, -1, &now) && !memcmp(&now, key, sizeof(now)) && !pack(callables, &data) &&
	    data.len <= KEPT_MAX - sizeof(*key))
		kept__put(folder, KIND, key, &data);
}

int callables__open(int fd, int folder, struct callables *ret)
{
	struct elf_bytes file;
	struct kept_key key;
	bool keeps = folder >= 0 && !kept_key__of(fd, -1, &key);
	int err;

	*ret = (struct callables){};
	if (keeps && !kept__unpack(folder, KIND, &key, KEPT_MAX, unpack, ret))
		return 0;
	callables__free(ret);
	err = elf_bytes__init_fd(&file, fd) ?: callables__find(&file, ret);
	if (!err && keeps && ret->n)
		keep(folder, fd, &key, ret);
	return err;
}
