/* SPDX-License-Identifier: MIT */
/* The search for callables (callables.h): runs its steps (search.h) in order, then makes one row for each function and
 * chooses its name. */
#include "classes/callables.h"

#include "base/cleanup.h"
#include "base/array.h"
#include "base/order.h"
#include "classes/classes.h"
#include "classes/search.h"

/* a slot function in so many other types, under other names, is a helper of the interpreter */
#define SHARED 2u

/* By address; then methods before slots and others, in the order of enum callable_kind; then in order of discovery. */
static int by_address(const void *left, const void *right)
{
	const struct found *a = left, *b = right;

	return ORDER(a->address, b->address) ?: ORDER(a->kind, b->kind) ?: ORDER(a->order, b->order);
}

/* The best of several names of a function: the shortest. NULL: it is shared. */
static const struct found *choose(const struct found *found, uint32_t n)
{
	const struct found *best = found;
	uint32_t i, others = 0;

	for (i = 1; i < n && found[i].kind == found->kind; i++) {
		if (strcmp(found[i].name, best->name))
			others++;
		if (strlen(found[i].name) < strlen(best->name))
			best = &found[i];
	}
	return found->kind != CALLABLE_METHOD && others >= SHARED ? NULL : best;
}

/* Of a method that two types share ("generator.send", "coroutine.send") the name without the type. */
static const char *name_of(const struct found *found, uint32_t n, const struct found *best)
{
	const char *last = callable__last_part(best->name);

	for (uint32_t i = 0; i < n; i++)
		if (found[i].kind == best->kind && strcmp(found[i].name, best->name) && !strcmp(callable__last_part(found[i].name), last))
			return last;
	return best->name;
}

static int add_row(struct search *search, const struct code_frames *frames, uint64_t start, const struct found *found, uint32_t n)
{
	const struct found *best = n ? choose(found, n) : NULL;
	const struct code_piece *piece = code_frames__find(frames, start);
	struct callables *out = search->out;
	int err = ARRAY_RESERVE(out->rows, out->n, out->capacity);

	if (err)
		return err;
	out->rows[out->n++] = (struct callable){
		.of = out,
		.start = start,
		.end = piece && piece->start == start ? piece->start + piece->size : start + 1,
		.name = best ? name_of(found, n, best) : NULL,
		.kind = best ? best->kind : CALLABLE_METHOD,
		.forwards = best ? class__forwards(best->name) : 0,
		.exported = !best && data__is_exported(search->data, start),
	};
	return 0;
}

/* A merge of two sorted lists, functions found and candidates: each address that is in either becomes one row. `i`
 * and `at` are the next of each. */
static int make_rows(struct search *search, const struct code_frames *frames)
{
	struct callables *out = search->out;
	uint32_t i = 0, at = 0, n, first;
	int err;

	if (!search->n)
		return 0;
	qsort(search->found, search->n, sizeof(*search->found), by_address);
	err = search__candidates(search, frames);
	while (!err && (i < search->n || at < out->n_candidates)) {
		uint64_t start = i < search->n ? search->found[i].address : UINT64_MAX;

		if (at < out->n_candidates && out->candidates[at].start < start)
			start = out->candidates[at].start;
		for (n = 0; i + n < search->n && search->found[i + n].address == start; n++)
			;
		for (first = at; at < out->n_candidates && out->candidates[at].start == start; at++)
			;
		err = add_row(search, frames, start, n ? &search->found[i] : NULL, n);
		if (err)
			break;
		out->rows[out->n - 1].first = first;
		out->rows[out->n - 1].n = at - first;
		/* A function that many types share is a helper: it gets no row, whatever jumps to it. */
		if (n && !out->rows[out->n - 1].name)
			out->n--;
		i += n;
	}
	return err;
}

/* The order of the steps matters: machinery and switchers need to know whether this is the interpreter (`builtins`),
 * instances need the types of members.c, bodies need the finished rows. -E2BIG of the first step is no failure:
 * 65,536 functions are named. */
int callables__find(const struct elf_bytes *elf, struct callables *ret)
{
	struct search search = {.out = ret};
	struct code_frames frames = {};
	struct data data;
	int err;

	*ret = (struct callables){};
	err = data__open(elf, "PyModule", &data);
	if (err)
		return err;
	search.data = &data;
	err = search__members(&search);
	if (!err || err == -E2BIG) {
		code_frames__open(elf, &frames); /* if it fails, ends of functions are unknown: rows of one byte */
		err = search__collector(&search, &frames);
		if (!err && ret->builtins)
			err = search__machinery(&search, &frames) ?: search__switchers(&search, &frames);
		err = err ?: search__instances(&search, &frames);
		err = err ?: make_rows(&search, &frames);
		err = err ?: search__bodies(&search, &frames);
		if (!err && ret->builtins) /* the eval loop calls nothing of another file by name */
			err = search__dispatchers(&search, &frames);
		code_frames__free(&frames);
	}
	free(search.found);
	free(search.tables);
	free(search.owned);
	data__free(&data);
	if (err)
		callables__free(ret);
	return err;
}

void callables__free(struct callables *callables)
{
	free(callables->rows);
	free(callables->candidates);
	arena__free(&callables->names);
	*callables = (struct callables){};
}

const char *callables__named(const struct callables *callables, const char *name)
{
	for (uint32_t i = 0; i < callables->n_candidates; i++)
		if (!callables->candidates[i].deep && !strcmp(callables->candidates[i].name, name))
			return callables->candidates[i].name;
	return NULL;
}

const char *callables__method(const struct callables *callables, const char *name)
{
	const char *found = NULL, *dot;

	for (uint32_t i = 0; i < callables->n_candidates; i++) {
		const struct candidate *candidate = &callables->candidates[i];

		dot = candidate->deep ? NULL : strrchr(candidate->name, '.');
		if (!dot || strcmp(dot + 1, name))
			continue;
		if (found && strcmp(candidate->name, found))
			return dot + 1;
		found = candidate->name;
	}
	return found;
}
