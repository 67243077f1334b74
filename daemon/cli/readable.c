/* SPDX-License-Identifier: MIT */
/* Makes text from the daemon safe to print: a target's thread or function name may contain terminal escape
 * sequences. */
#include "cli/readable.h"

#include <errno.h>

#include "base/cleanup.h"
#include "base/safe_text.h"
#include "cli/cli.h"

static int string_readable(json_t *json)
{
	const size_t len = json_string_length(json);
	const char *text = json_string_value(json);
	_cleanup_(buf__free) struct buf safe = {};

	/* The usual case: all of it is printable as it is. */
	if (safe_text__span(text, len) == len)
		return 0;
	return safe_text__append(&safe, text, len) || json_string_setn(json, safe.data, safe.len) ? -ENOMEM : 0;
}

/* Recursive, but no deeper than jansson parses (JSON_PARSER_MAX_DEPTH). */
int json__readable(json_t *json)
{
	const char *key;
	json_t *value;
	size_t i;
	int err = json_is_string(json) ? string_readable(json) : 0;

	json_object_foreach(json, key, value) err = err ?: json__readable(value);
	json_array_foreach(json, i, value) err = err ?: json__readable(value);
	return err;
}

int json__print(const json_t *json, size_t flags)
{
	/* JSON_ENSURE_ASCII turns ESC into \u001b and every other control and non-ASCII character into such
	 * an escape. */
	if (json_dumpf(json, stdout, flags | JSON_ENSURE_ASCII) && !ferror(stdout)) {
		say("out of memory");
		return CLI_COULD_NOT;
	}
	putchar('\n');
	return CLI_DONE; /* what stdout did not take, main() tells */
}
