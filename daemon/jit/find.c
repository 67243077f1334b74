/* Which function was at an address at a time. */
#include <errno.h>
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
	bool rival;             /* an older one can have been there, too */
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

static bool consider(void *ctx, const struct span *row)
{
	struct search *s = ctx;
	const struct object *object = book__get(s->jit, row->object);

	if (++s->seen > ROWS_MAX)
		return false;
	if (!object || !possible(&object->seen.life, s->time))
		return true;
	if (s->object == object) {
		if (better_row(row, &s->row, object->seen.source))
			s->row = *row;
		return true;
	}
	if (s->object)
		s->rival = true;
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
	const struct object *object = book__get(s->jit, row->object);

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

/* CPython's Python/perf_trampoline.c writes "py::%s:%s". */
static bool is_trampoline(enum jit_source source, const char *name)
{
	return name && source != JIT_SOURCE_GDB && !strncmp(name, "py::", 4);
}

/* A name is certain from the first look that saw the object to the last one; where a
 * JIT never drops anything, and for lack of a rival, also before and after. */
static bool is_doubtful(const struct search *s)
{
	const struct object *object = s->object;
	const struct jit_life *life = &object->seen.life;

	if (s->time < life->born_by)
		return s->rival || object->unseen_before;
	if (life->died_by)
		return s->time > life->died_after;
	return object->list && object->list->drops && s->time > object->list->sound &&
	       s->time > life->born_by;
}

static void fill(const struct search *s, struct jit_found *ret)
{
	ret->name = s->row.name == SPAN_NO_NAME ? NULL : s->object->names + s->row.name;
	ret->start = s->row.start;
	ret->size = s->row.size;
	ret->source = s->object->seen.source;
	ret->kind = is_trampoline(ret->source, ret->name) ? JIT_KIND_PY_TRAMPOLINE : JIT_KIND_CODE;
	ret->object = s->object->seen.id;
	ret->maker = s->object->seen.maker;
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
