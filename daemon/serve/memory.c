/* SPDX-License-Identifier: MIT */
/* Memory of an engine, and what happens when there is no more.
 *
 * The broker sets RLIMIT_DATA (its limit `memory`), so malloc() returns NULL at some point, in any function. That ends
 * the session that needed it, with a sentence that names the limit, and other sessions go on. To build that sentence
 * and the last events of a session takes memory, too: RESERVE_BYTES are kept back for it, spent when a session fails,
 * and set aside again after the session was freed. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "serve/engine.h"

/* Enough for the last lines of a session that had no more. */
#define RESERVE_BYTES (256u << 10)

void memory__begin(struct engine *engine)
{
	struct rlimit most;

	if (!getrlimit(RLIMIT_DATA, &most) && most.rlim_cur != RLIM_INFINITY)
		engine->memory_most = most.rlim_cur;
	memory__reserve(engine);
}

void memory__reserve(struct engine *engine)
{
	if (engine->memory_most && !engine->reserve)
		engine->reserve = malloc(RESERVE_BYTES);
}

void memory__spend_reserve(struct engine *engine)
{
	free(engine->reserve);
	engine->reserve = NULL;
}

bool memory__limit(const struct engine *engine, struct limit_reached *ret)
{
	if (!engine->memory_most)
		return false;
	*ret = (struct limit_reached){.limit = LIMIT_MEMORY, .engine = true, .most = engine->memory_most, .used = proc__own_data()};
	return true;
}

/* A new session is refused at three quarters: it would push those that run over the limit. */
bool memory__is_short(const struct engine *engine, struct limit_reached *ret)
{
	return memory__limit(engine, ret) && ret->used > ret->most / 4 * 3;
}

void refusal__set_limit(struct refusal *refusal, const struct limit_reached *reached)
{
	char sentence[sizeof(refusal->error)], hint[sizeof(refusal->hint)];

	limit__sentence(reached, sentence, sizeof(sentence));
	limit__hint(reached, hint, sizeof(hint));
	refusal__set(refusal, "LIMIT", hint, "%s", sentence);
}

void refusal__set_internal(struct refusal *refusal, const struct engine *engine, const char *what, int err)
{
	struct limit_reached reached;

	if (err == -ENOMEM && memory__limit(engine, &reached))
		refusal__set_limit(refusal, &reached);
	else
		refusal__set(refusal, "INTERNAL", "run with -vv", "%s: %s", what, strerror(-err));
}
