/* SPDX-License-Identifier: MIT */
/* Dispatchers: functions that end with a jump through a pointer, such as what makes a call of any object. They leave no
 * frame, so what they jumped to seems to be called by their caller:
 *
 *    [eval loop]: call x         x: ... jmp *vectorcall         str.split: ... jmp split_whitespace
 *    ->       split_whitespace, [eval loop]
 *
 * A body (bodies.c) that other code leads to proves its candidate where its caller calls a pointer, as functions of
 * tables are called. So it does where its caller calls a dispatcher, unless a dispatcher leads there by jumps that name
 * what they lead to (`dispatched`). */
#include "base/order.h"
#include "classes/search.h"

#include <stdlib.h>
#include <string.h>

#include "arch/arch.h"
#include "base/array.h"

#define DISPATCHER_BYTES 2048u
#define REACHED_MAX 24u /* functions to which one jumps; what jumps to more is none */

/* Does it end with such a jump? Bytes are tried as an instruction wherever they could be one: what is none is never
 * called in front of a body. */
static bool jumps_to_pointer(const struct data *data, const struct code_piece *piece)
{
	uint8_t code[DISPATCHER_BYTES];

	if (piece->size > sizeof(code) || !data__bytes(data, piece->start, code, (uint32_t)piece->size))
		return false;
	for (uint32_t i = 0; i + 2 <= piece->size; i++)
		if (machine__jumps_to_pointer(code + i))
			return true;
	return false;
}

/* Rows [0, n) are sorted. */
static struct callable *row_at(const struct callables *out, uint32_t n, uint64_t vaddr)
{
	return (struct callable *)range__find(out->rows, n, sizeof(*out->rows), vaddr, NULL);
}

/* What jumps lead to, as those of named functions are followed (candidates.c). Returns how many, with `from`; 0: too many. */
static uint32_t reached(const struct search *search, const struct code_frames *frames, uint64_t from, uint64_t ret[REACHED_MAX])
{
	uint64_t targets[JUMPS_FROM];
	uint32_t n = 1, at = 0, deep, end, i, k, found;

	ret[0] = from;
	for (deep = 0; deep < JUMPS_DEEP; deep++)
		for (end = n; at < end; at++) {
			found = jumps__from(search->data, frames, ret[at], false, targets);
			for (i = 0; i < found; i++) {
				for (k = 0; k < n && ret[k] != targets[i]; k++)
					;
				if (k == REACHED_MAX)
					return 0;
				if (k == n)
					ret[n++] = targets[i];
			}
		}
	return n;
}

/* Does this function dispatch? What it leads to without a pointer is marked. */
static bool dispatches(const struct search *search, const struct code_frames *frames, const struct code_piece *piece, uint32_t n_rows)
{
	uint64_t functions[REACHED_MAX];
	uint32_t n = jumps_to_pointer(search->data, piece) ? reached(search, frames, piece->start, functions) : 0;

	for (uint32_t i = 1; i < n; i++) {
		struct callable *row = row_at(search->out, n_rows, functions[i]);

		if (row && row->start == functions[i])
			row->dispatched = true;
	}
	return n > 0;
}

static int by_start(const void *left, const void *right)
{
	return ORDER(((const struct callable *)left)->start, ((const struct callable *)right)->start);
}

/* Rows of machinery that is known by name are marked; functions without a row get one. */
int search__dispatchers(struct search *search, const struct code_frames *frames)
{
	struct callables *out = search->out;
	uint32_t n_before = out->n;
	int err = 0;

	for (uint32_t i = 0; !err && i < frames->n; i++) {
		const struct code_piece *piece = &frames->pieces[i];
		struct callable *row = row_at(out, n_before, piece->start);

		if ((row && (row->kind != CALLABLE_MACHINERY || row->start != piece->start)) || !dispatches(search, frames, piece, n_before))
			continue;
		if (row)
			row->dispatches = true;
		else
			err = ARRAY_ADD(out->rows, out->n, out->capacity,
					(struct callable){.of = out, .start = piece->start, .end = piece->start + piece->size,
							  .kind = CALLABLE_DISPATCHER, .dispatches = true});
	}
	if (out->n > n_before)
		qsort(out->rows, out->n, sizeof(*out->rows), by_start);
	return err;
}
