/* The body of a function that calls what it was given (functools.partial): its entry jumps to it, and nothing else leads there. Else what
 * the body calls on its way, to make a tuple of its arguments, would pass for what Python code called. What other code
 * jumps to or calls, too, is a helper (what calls any vectorcall function), and tells nothing. */
#include "classes/search.h"

#include "classes/jumps.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "classes/classes.h"

#define BODIES_MAX 64u
#define CODE_AT_ONCE (64u << 10)
#define INSTRUCTION_BYTES 6u /* 0f 8x and a distance */

struct bodies {
	const struct search *search;
	struct callable *rows[BODIES_MAX]; /* by address; NULL: it is none */
	uint64_t starts[BODIES_MAX];
	const char *names[BODIES_MAX];
	uint32_t n;
};

/* The name that all its candidates have. */
static const char *only_name(const struct callable *row)
{
	const char *name = row->n ? row->of->candidates[row->first].name : NULL;
	uint32_t i;

	for (i = 1; i < row->n; i++)
		if (strcmp(row->of->candidates[row->first + i].name, name))
			return NULL;
	return name;
}

static void collect(struct bodies *bodies)
{
	struct callables *out = bodies->search->out;
	const char *name;
	uint32_t i;

	for (i = 0; i < out->n && bodies->n < BODIES_MAX; i++) {
		if (out->rows[i].name || out->rows[i].exported)
			continue;
		name = only_name(&out->rows[i]);
		if (!name || class__forwards(name) != FORWARDS_SHOWN)
			continue;
		bodies->starts[bodies->n] = out->rows[i].start;
		bodies->names[bodies->n] = name;
		bodies->rows[bodies->n++] = &out->rows[i];
	}
}

/* Is the code at `vaddr` of what has this name, or of one of its bodies? */
static bool is_own(const struct bodies *bodies, uint64_t vaddr, const char *name)
{
	const struct callable *row = callables__at(bodies->search->out, vaddr);
	uint32_t i;

	if (!row)
		return false;
	for (i = 0; i < bodies->n; i++)
		if (bodies->starts[i] == row->start)
			return !strcmp(bodies->names[i], name);
	return row->name && !strcmp(row->name, name);
}

static void leads(struct bodies *bodies, uint64_t from, uint64_t to)
{
	uint32_t i;

	for (i = 0; i < bodies->n; i++)
		if (bodies->rows[i] && bodies->starts[i] == to && !is_own(bodies, from, bodies->names[i]))
			bodies->rows[i] = NULL;
}

/* All jumps and calls in the file's code. Bytes are tried as instructions wherever they could be one: a false one meets
 * a begin by chance only. */
static int scan(struct bodies *bodies, const struct data_segment *segment, uint8_t *code)
{
	uint64_t low = bodies->starts[0], high = bodies->starts[bodies->n - 1], at, to, left;
	uint32_t size, i;

	for (at = segment->start; at < segment->end; at += CODE_AT_ONCE) {
		left = segment->end - at;
		size = left < CODE_AT_ONCE + INSTRUCTION_BYTES ? (uint32_t)left : CODE_AT_ONCE + INSTRUCTION_BYTES;
		if (!data__bytes(bodies->search->data, at, code, size))
			return -EBADMSG;
		for (i = 0; i + INSTRUCTION_BYTES <= size; i++) {
			if (code[i] >> 1 != 0xe8 >> 1 && !(i && code[i - 1] == 0x0f && code[i] >> 4 == 8))
				continue;
			to = jumps__target(code + i, at + i);
			if (to >= low && to <= high)
				leads(bodies, at + i, to);
		}
	}
	return 0;
}

int search__bodies(struct search *search)
{
	_cleanup_free_ uint8_t *code = malloc(CODE_AT_ONCE + INSTRUCTION_BYTES);
	struct bodies bodies = {.search = search};
	const struct data *data = search->data;
	uint32_t i;
	int err = 0;

	if (!code)
		return -ENOMEM;
	collect(&bodies);
	for (i = 0; !err && bodies.n && i < data->n_segments; i++)
		if (data->segments[i].code)
			err = scan(&bodies, &data->segments[i], code);
	for (i = 0; !err && i < bodies.n; i++)
		if (bodies.rows[i]) {
			bodies.rows[i]->name = bodies.names[i];
			bodies.rows[i]->forwards = FORWARDS_SHOWN;
		}
	return err == -ENOMEM ? err : 0;
}
