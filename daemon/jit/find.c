/* SPDX-License-Identifier: MIT */
/* Which function was at an address at a time. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "jit/internal.h"

/* More rows over one address are only made to burn time. */
#define ROWS_MAX 4096u

/* The best row so far. Objects that surely were not there do not compete; among the
 * others the newest wins, as its code overwrote the rest. */
struct search {
	const struct jit *jit;
	uint64_t time;
	uint32_t seen;
	struct span row;
	const struct object *object; /* NULL: none */
	bool rival;             /* another one can have been there, too */
};

static bool possible(const struct jit_life *life, uint64_t time)
{
	/* Both ends are exact where a jitdump says so. */
	if (time < life->born_by && time <= life->born_after)
		return false;
	return !life->died_by || time < life->died_by;
}

/* Of the rows of one object: functions before bare text, the innermost function;
 * of a perf map the line that came later. */
static bool better_row(const struct span *a, const struct span *b, enum jit_source source)
{
	bool a_named = a->name != SPAN_NO_NAME, b_named = b->name != SPAN_NO_NAME;

	if (a_named != b_named)
		return a_named;
	if (source != JIT_SOURCE_PERF_MAP && a->start != b->start)
		return a->start > b->start;
	return a->seq > b->seq;
}

/* A line that was written once more. */
static bool says_same(const struct search *s, const struct object *object, const struct span *row)
{
	return object->seen.source != JIT_SOURCE_GDB && row->start == s->row.start && row->size == s->row.size &&
	       row->name != SPAN_NO_NAME && s->row.name != SPAN_NO_NAME &&
	       !strcmp(object->names + row->name, s->object->names + s->row.name);
}

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

/* A JIT may write a line of its perf map after the code ran first: where no line is
 * of that time, the first one for the address is. */
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

/* A name is certain from the first look that saw the object to the last one; where a
 * JIT never drops anything, and for lack of a rival, also before and after. */
static bool is_doubtful(const struct search *s)
{
	const struct object *object = s->object;
	const struct jit_life *life = &object->seen.life;
	bool drops = object->list && object->list->drops; /* whenever that was seen: one may have been missed before */

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
	unsigned source;
	bool found = false;

	*ret = (struct jit_found){};
	for (source = 0; source < JIT_SOURCE_COUNT; source++) {
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

/* --- functions of files --- */

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

static int by_start(const void *a, const void *b)
{
	const struct jit_function *x = a, *y = b;

	return x->start < y->start ? -1 : x->start > y->start;
}

/* Is it what is there now? */
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

uint32_t jit__functions(const struct jit *jit, uint64_t lo, uint64_t hi, struct jit_function *ret, uint32_t max)
{
	struct gathering g = {.to = ret, .lo = lo, .max = max};
	uint32_t i, n = 0;

	spans__each(&jit->spans[JIT_SOURCE_JITDUMP], lo, hi, gather, &g);
	spans__each(&jit->spans[JIT_SOURCE_PERF_MAP], lo, hi, gather, &g);
	qsort(ret, g.n, sizeof(*ret), by_start);
	for (i = 0; i < g.n; i++) {
		if (!is_current(jit, &ret[i]))
			continue;
		/* What begins within another one took the rest of its place, too. */
		if (n && ret[i].start - ret[n - 1].start < ret[n - 1].size)
			n--;
		ret[n++] = ret[i];
	}
	return n;
}
