/* SPDX-License-Identifier: MIT */
/* One line of JSON for each request, through jansson: an answer is short and rare, so it needs none of the
 * hand-made writing that events get (events/encode.c). */
#include "serve/answer.h"

#include <errno.h>

#include "base/json_text.h"

/* jansson's callback: it only knows 0 and -1. */
static int append(const char *data, size_t len, void *out)
{
	return buf__append(out, data, len) ? -1 : 0;
}

/* Takes `line`. Half a line would be joined with the next one, so on an error all of it is taken back. */
static int put(struct buf *out, json_t *line)
{
	size_t before = out->len;
	int err = json_dump_callback(line, append, out, JSON_COMPACT) ? -ENOMEM : 0;

	err = err ?: buf__puts(out, "\n");
	if (err)
		out->len = before;
	json_decref(line);
	return err;
}

/* The keys that each answer begins with. A client waits for its id, so an answer is whole or, in put(), an error. */
static json_t *begin(bool has_id, uint64_t id, bool ok)
{
	json_t *line = json_object();

	json__set(&line, "ev", json_string("answer"));
	if (has_id)
		json__set(&line, "id", json_integer((json_int_t)id));
	json__set(&line, "ok", json_boolean(ok));
	return line;
}

int answer__ok(struct buf *out, bool has_id, uint64_t id, json_t *json)
{
	json_t *line = begin(has_id, id, true);

	json__update(&line, json);
	return put(out, line);
}

int answer__refused(struct buf *out, bool has_id, uint64_t id, const struct refusal *refusal)
{
	json_t *line = begin(has_id, id, false);

	/* A quoted name may be cut within a character. */
	json__set(&line, "error", json__text(refusal->error));
	json__set(&line, "hint", json_string(refusal->hint));
	json__set(&line, "code", json_string(refusal->code));
	if (refusal->number)
		json__set(&line, "errno", json_integer(refusal->number));
	return put(out, line);
}
