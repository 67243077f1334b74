/* SPDX-License-Identifier: MIT */
/* Which function was at this address at this time? JIT compilers free code and reuse its addresses, so several objects
 * may have rows (spans.h) over one pc. Objects that certainly did not live at that time are left out; of the others the
 * newest wins. If another one could have been there, too, the answer is `doubtful`: the next poll may decide. */
#include <errno.h>
#include <stdlib.h>

#include "jit/internal.h"
#include "base/order.h"

/* Rows over one address; only a hostile target has more. */
#define ROWS_MAX 4096u

/* The best row so far. Objects that certainly were not there do not compete; of the others the newest wins, as its code
 * overwrote the rest. */
struct search {
	const struct jit *jit;
	uint64_t time;
	uint32_t seen;
	struct span row;
	const struct object *object; /* NULL: none */
	bool rival;             /* another object could have been there, too */
};

/* Could an object with this life have been there at `time`? */
static bool possible(const struct jit_life *life, uint64_t time)
{
	/* born_by == born_after: an exact time, from a jitdump. */
	if (time < life->born_by && time <= life->born_after)
		return false;
	return !life->died_by || time < life->died_by;
}

/* Two rows of one object: a function is better than bare text, the inner function better than the outer one; in a perf
 * map the later line is right. */
static bool better_row(const struct span *a, const struct span *b, enum jit_source source)
{
	bool a_named = a->name != SPAN_NO_NAME, b_named = b->name != SPAN_NO_NAME;

	if (a_named != b_named)
		return a_named;
	if (source != JIT_SOURCE_PERF_MAP && a->start != b->start)
		return a->start > b->start;
	return a->seq > b->seq;
}

/* Is it the same function, written to the file once more? */
static bool says_same(const struct search *s, const struct object *object, const struct span *row)
{
	return object->seen.source != JIT_SOURCE_GDB && row->start == s->row.start && row->size == s->row.size &&
	       row->name != SPAN_NO_NAME && s->row.name != SPAN_NO_NAME &&
	       !strcmp(object->names + row->name, s->object->names + s->row.name);
}

/* Called for each row over the pc. Fills in the best one so far; false ends the search, at ROWS_MAX. */
static bool consider(void *ctx, const struct span *row)
{
	struct search *s = ctx;
	const struct object *object = registry__get(s->jit, row->object);

	if (++s->seen > ROWS_MAX)
		return false;
	if (!object || !possible(&object->seen.life, s->time))
		return true;
	if (s->object && (s->object != object || object->seen.source == JIT_SOURCE_PERF_MAP) &&
		    !says_same(s, object, row))
		s->rival = true;
	if (s->object == object) {
		if (better_row(row, &s->row, object->seen.source))
			s->row = *row;
		return true;
	}
	if (!s->object || s->object->seen.id < object->seen.id) {
		s->object = object;
		s->row = *row;
	}
	return true;
}

/* A JIT may write the line of a perf map after the code first ran: if no line is old enough, the first one for the
 * address is taken. */
static bool consider_first(void *ctx, const struct span *row)
{
	struct search *s = ctx;
	const struct object *object = registry__get(s->jit, row->object);

	if (++s->seen > ROWS_MAX)
		return false;
	if (object && (!s->object || object->seen.id < s->object->seen.id ||
		       (object == s->object && row->seq < s->row.seq))) {
		s->object = object;
		s->row = *row;
	}
	return true;
}

/* The best row of one source. A pc at the very end of the address space is in no code, and pc + 1 would overflow. */
static bool search(const struct jit *jit, enum jit_source source, uint64_t pc, uint64_t time,
		   struct search *ret)
{
	const struct spans *spans = &jit->spans[source];

	*ret = (struct search){.jit = jit, .time = time};
	if (pc == UINT64_MAX)
		return false;
	spans__each(spans, pc, pc + 1, consider, ret);
	if (!ret->object && source == JIT_SOURCE_PERF_MAP) {
		ret->seen = 0;
		spans__each(spans, pc, pc + 1, consider_first, ret);
	}
	return ret->object != NULL;
}

/* A name is certain between the first and the last poll that saw the object. If the JIT never dropped an object, and no
 * other object competes, it is certain before and after, too. */
static bool is_doubtful(const struct search *s)
{
	const struct object *object = s->object;
	const struct jit_life *life = &object->seen.life;
	bool drops = object->list && object->list->drops; /* at any time: an earlier drop may have been missed */

	if (s->time < life->born_by)
		return s->rival || drops;
	if (life->died_by)
		return s->time > life->died_after;
	return drops && s->time > object->list->sound && s->time > life->born_by;
}

static void fill(const struct search *s, struct jit_found *ret)
{
	ret->name = s->row.name == SPAN_NO_NAME ? NULL : s->object->names + s->row.name;
	ret->start = s->row.start;
	ret->size = s->row.size;
	ret->source = s->object->seen.source;
	ret->kind = is_trampoline(ret->source, ret->name) ? JIT_KIND_PY_TRAMPOLINE : JIT_KIND_CODE;
	ret->object = s->object->seen.id;
	ret->serial = ret->source == JIT_SOURCE_PERF_MAP ? s->row.seq : 0;
	ret->origin = s->object->seen.origin;
	ret->doubtful = is_doubtful(s);
}

int jit__find(const struct jit *jit, uint64_t pc, uint64_t time_ns, struct jit_found *ret)
{
	struct search s;
	bool found = false;

	*ret = (struct jit_found){};
	for (unsigned source = 0; source < JIT_SOURCE_COUNT; source++) {
		struct jit_found here;

		if (!search(jit, source, pc, time_ns, &s))
			continue;
		fill(&s, &here);
		if (!found || here.name)
			*ret = here;
		found = true;
		if (here.name)
			return 0;
	}
	return found ? 0 : -ENOENT;
}

/* --- all functions that jitdump and perf map name in a range --- */

/* Collects rows for jit__functions(); rows beyond `max` are not collected. */
struct gathering {
	struct jit_function *to;
	uint64_t lo;
	uint32_t n, max;
};

static bool gather(void *ctx, const struct span *row)
{
	struct gathering *g = ctx;

	if (row->name == SPAN_NO_NAME || row->start < g->lo)
		return true;
	if (g->n < g->max)
		g->to[g->n++] = (struct jit_function){row->start, row->size, row->object, row->seq, JIT_KIND_CODE};
	return g->n < g->max;
}

/* Is this function what is at its address now? Also sets its kind. */
static bool is_current(const struct jit *jit, struct jit_function *function)
{
	struct jit_found found;
	int err = jit__find(jit, function->start, UINT64_MAX, &found);

	function->kind = found.kind;
	return !err && found.source != JIT_SOURCE_GDB &&
	       found.object == function->object && found.start == function->start &&
	       found.size == function->size &&
	       (found.source != JIT_SOURCE_PERF_MAP || found.serial == function->serial);
}

/* Not what a pc is, but what all code there is: modules/jit_tables.c makes unwind tables of it. */
uint32_t jit__functions(const struct jit *jit, uint64_t lo, uint64_t hi, struct jit_function *ret, uint32_t max)
{
	struct gathering g = {.to = ret, .lo = lo, .max = max};
	uint32_t i, n = 0;

	spans__each(&jit->spans[JIT_SOURCE_JITDUMP], lo, hi, gather, &g);
	spans__each(&jit->spans[JIT_SOURCE_PERF_MAP], lo, hi, gather, &g);
	qsort(ret, g.n, sizeof(*ret), order__u64);
	for (i = 0; i < g.n; i++) {
		if (!is_current(jit, &ret[i]))
			continue;
		/* A function that begins inside another one overwrote the rest of it. */
		if (n && ret[i].start - ret[n - 1].start < ret[n - 1].size)
			n--;
		ret[n++] = ret[i];
	}
	return n;
}
