/* SPDX-License-Identifier: MIT */
/* Bodies: functions without a name in any table, to which a named function ends with a jump (a tail call). The named
 * function then has no frame, and the body's frame must stand for it. Example: math_sin jumps to math_1, so a stack
 * shows math_1 only.
 *
 * That is right only if no other code leads to the body. This file scans all code of the module for calls and jumps
 * to such bodies, and all data and code for pointers to them:
 *   shared   other code calls or jumps there, too: a helper. Example: _PyObject_VectorcallTstate, to which one method
 *            of Debian's 3.11 jumps. Its frame says nothing about who was called
 *   pointed  a pointer leads there, in data (a type's dealloc) or loaded by an instruction: anyone may call it. The
 *            same holds for a body to which an unnamed function jumps that a pointer leads to (one that is stored in
 *            objects, if instances.c did not find it)
 *
 * The body of a forwarding function (functools.partial), if no one else leads to it, gets that function's name.
 * Otherwise what it calls on the way, to build a tuple of arguments, would look as if Python code had called it.
 *
 * Invariant at the end: a row without a name and not `shared` is reached only from its candidates. A stack that
 * shows it proves that one of them was called. */
#include "classes/search.h"

#include <string.h>

#include "arch/arch.h"
#include "base/array.h"
#include "base/cleanup.h"
#include "base/order.h"
#include "classes/classes.h"

/* bits of a Bloom filter: does a row or outsider begin at such an address? Nearly all are rejected by it */
#define TARGETS (1u << 16)
#define LEADS_MAX 65536u
#define CHAIN_MAX 64u

/* A jump or call between two unnamed rows whose candidates have the same name. */
struct lead {
	struct callable *from, *to;
};

/* A function in no table and not exported, which jumps to a row. If a pointer leads to it, the row is `pointed`. */
struct outsider {
	uint64_t start;
	struct callable *to;
};

struct bodies {
	const struct search *search;
	const struct code_frames *frames;
	bool fixed;       /* the program is not moved: its code has addresses themselves */
	struct outsider *outsiders;
	uint32_t n_outsiders, outsiders_capacity;
	struct lead *leads;
	uint32_t n, capacity;
	uint8_t targets[TARGETS / 8];
};

/* The name that all candidates of the row agree on, or NULL. */
static const char *only_name(const struct callable *row)
{
	const char *name = row->n ? row->of->candidates[row->first].name : NULL;

	for (uint32_t i = 1; i < row->n; i++)
		if (strcmp(row->of->candidates[row->first + i].name, name))
			return NULL;
	return name;
}

/* Is this a row whose name is still to be decided? */
static bool is_open(const struct callable *row)
{
	return row && !row->name && !row->exported;
}

static struct callable *row_at(const struct bodies *bodies, uint64_t vaddr)
{
	return (struct callable *)callables__at(bodies->search->out, vaddr, NULL);
}

static void add_target(struct bodies *bodies, uint64_t vaddr)
{
	bodies->targets[vaddr % TARGETS / 8] |= (uint8_t)(1u << vaddr % 8);
}

static void collect(struct bodies *bodies)
{
	const struct callables *out = bodies->search->out;

	for (uint32_t i = 0; i < out->n; i++)
		if (is_open(&out->rows[i]))
			add_target(bodies, out->rows[i].start);
}

static bool is_target(const struct bodies *bodies, uint64_t vaddr)
{
	return bodies->targets[vaddr % TARGETS / 8] >> vaddr % 8 & 1;
}

/* Does `from` have a frame and a name of its own, so that a call from it to `to` needs no other name? */
static bool has_own_name(const struct callable *from, const struct callable *to)
{
	const char *name = only_name(to);

	if (!from || !from->name || from->kind >= CALLABLE_MACHINERY)
		return false;
	return !name || class__forwards(name) == FORWARDS_NOT || !strcmp(from->name, name);
}

static int add_outsider(struct bodies *bodies, uint64_t at, struct callable *to)
{
	const struct code_piece *piece = code_frames__find(bodies->frames, at);

	if (!piece || bodies->n_outsiders == LEADS_MAX || data__is_exported(bodies->search->data, piece->start))
		return 0;
	return ARRAY_ADD(bodies->outsiders, bodies->n_outsiders, bodies->outsiders_capacity,
			 (struct outsider){piece->start, to});
}

/* Code at `at` calls (jumps: jumps to) `vaddr`. If that is an open row, and the code is not one of its candidates,
 * the row becomes shared. If the code is itself an open row with the same single name, the decision is postponed:
 * `to` is shared if `from` turns out to be (spread()). */
static int leads(struct bodies *bodies, uint64_t at, uint64_t vaddr, bool jumps)
{
	struct callable *to = row_at(bodies, vaddr), *from = row_at(bodies, at);
	const char *name, *other;
	int err;

	if (!is_open(to) || to->start != vaddr || from == to || has_own_name(from, to))
		return 0;
	err = jumps && !from ? add_outsider(bodies, at, to) : 0;
	if (err || to->shared)
		return err;
	name = only_name(to);
	other = is_open(from) ? only_name(from) : NULL;
	if (!name || !other || strcmp(name, other) || bodies->n == LEADS_MAX) {
		to->shared = true;
		return 0;
	}
	return ARRAY_ADD(bodies->leads, bodies->n, bodies->capacity, (struct lead){from, to});
}

static void sort_outsiders(struct bodies *bodies)
{
	if (bodies->n_outsiders)
		qsort(bodies->outsiders, bodies->n_outsiders, sizeof(*bodies->outsiders), order__u64);
	for (uint32_t i = 0; i < bodies->n_outsiders; i++)
		add_target(bodies, bodies->outsiders[i].start);
}

static void point_to(struct callable *to)
{
	to->shared = to->pointed = true;
}

/* A row that a pointer leads to is `pointed`; so are the rows to which outsiders at that address jump. Several
 * outsiders may begin at one address (one for each jump), hence the walk back to the first. */
static void points(struct bodies *bodies, uint64_t vaddr)
{
	const struct outsider *end, *at;
	struct callable *to;

	if (!is_target(bodies, vaddr))
		return;
	to = row_at(bodies, vaddr);
	if (is_open(to) && to->start == vaddr)
		point_to(to);
	at = bodies->n_outsiders ? bsearch(&(struct outsider){.start = vaddr}, bodies->outsiders, bodies->n_outsiders, sizeof(*at), order__u64)
				 : NULL;
	if (!at)
		return;
	end = bodies->outsiders + bodies->n_outsiders;
	while (at > bodies->outsiders && at[-1].start == vaddr)
		at--;
	for (; at < end && at->start == vaddr; at++)
		point_to(at->to);
}

/* Function pointers in initialised data, after relocation. */
static void scan_data(struct bodies *bodies, const struct data_segment *segment)
{
	const uint8_t *bytes = data__at(bodies->search->data, segment->start, segment->end - segment->start);
	uint64_t at, word;

	for (at = (segment->start + 7) & ~7ull; bytes && at + 8 <= segment->end; at += 8) {
		memcpy(&word, bytes + (at - segment->start), sizeof(word));
		points(bodies, word);
	}
}

/* --- code. Bytes are tried as instructions wherever they could be one: a false one meets a begin by chance only --- */

static int find_leads(void *ctx, uint64_t at, const uint8_t *code, uint32_t size)
{
	struct bodies *bodies = ctx;
	enum machine_transfer transfer;
	uint32_t i, j, may;
	uint64_t to;
	int err = 0;

	for (i = 0; !err && i + MACHINE_TRANSFER_BYTES <= size; i += MACHINE_SCAN)
		for (may = machine__transfers(code + i); !err && may; may &= may - 1) {
			j = i + (uint32_t)__builtin_ctz(may);
			if (j + MACHINE_TRANSFER_BYTES > size)
				break;
			transfer = machine__transfer(code + j, size - j, at + j, &to);
			if (transfer != MACHINE_NO_TRANSFER && is_target(bodies, to))
				err = leads(bodies, at + j, to, transfer != MACHINE_CALL);
		}
	return err;
}

/* In a program that is not moved, addresses themselves. */
static void find_addresses(struct bodies *bodies, const uint8_t *code, uint32_t size)
{
	uint32_t i, word;

	for (i = 0; i + MACHINE_TRANSFER_BYTES <= size; i++) {
		memcpy(&word, code + i, sizeof(word));
		if (is_target(bodies, word) && machine__is_immediate(code, i))
			points(bodies, word);
	}
}

/* Addresses that code makes, too. */
static int find_pointers(void *ctx, uint64_t at, const uint8_t *code, uint32_t size)
{
	struct bodies *bodies = ctx;
	uint32_t i, j, may;
	uint64_t to;

	for (i = 0; i + MACHINE_TRANSFER_BYTES <= size; i += MACHINE_SCAN)
		for (may = machine__addresses(code + i); may; may &= may - 1) {
			j = i + (uint32_t)__builtin_ctz(may);
			if (j + MACHINE_TRANSFER_BYTES <= size && machine__makes_address(code + j, at + j, &to))
				points(bodies, to);
		}
	if (bodies->fixed)
		find_addresses(bodies, code, size);
	return 0;
}

/* What shared code leads to is shared, too. Real chains of jumps are short; after CHAIN_MAX rounds (a hostile file)
 * everything counts as shared. */
static void spread(struct bodies *bodies)
{
	bool more = true;
	uint32_t i;

	for (unsigned round = 0; more; round++)
		for (more = false, i = 0; i < bodies->n; i++)
			if ((bodies->leads[i].from->shared || round == CHAIN_MAX) && !bodies->leads[i].to->shared)
				more = bodies->leads[i].to->shared = true;
}

/* Only of forwarding functions: the body of any other keeps its candidates, and the call site decides. */
static void name_bodies(struct callables *out)
{
	for (uint32_t i = 0; i < out->n; i++) {
		struct callable *row = &out->rows[i];
		const char *name = is_open(row) && !row->shared ? only_name(row) : NULL;

		if (!name || class__forwards(name) != FORWARDS_SHOWN)
			continue;
		row->name = name;
		row->forwards = FORWARDS_SHOWN;
	}
}

int search__bodies(struct search *search, const struct code_frames *frames)
{
	_cleanup_free_ struct bodies *bodies = calloc(1, sizeof(*bodies));
	const struct data *data = search->data;
	int err;

	if (!bodies)
		return -ENOMEM;
	bodies->search = search;
	bodies->frames = frames;
	bodies->fixed = true;
	for (uint32_t i = 0; i < data->n_segments; i++)
		bodies->fixed &= data->segments[i].start >= MACHINE_FIXED_FROM;
	collect(bodies);
	err = data__each_code(data, MACHINE_TRANSFER_BYTES, find_leads, bodies);
	sort_outsiders(bodies);
	err = err ?: data__each_code(data, MACHINE_TRANSFER_BYTES, find_pointers, bodies);
	for (uint32_t i = 0; !err && i < data->n_segments; i++)
		if (data->segments[i].writable && !data->segments[i].code)
			scan_data(bodies, &data->segments[i]);
	spread(bodies);
	if (!err)
		name_bodies(search->out);
	free(bodies->leads);
	free(bodies->outsiders);
	return err == -ENOMEM ? err : 0;
}
