/* SPDX-License-Identifier: MIT */
/* docs/protocol.md is correct: its examples, in order, are one valid stream, and each event decodes and encodes to
 * an equal JSON value. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "events_util.h"

static const char *const kinds[] = {
#define EVENT_NAME(id, name) name,
	EVENT_KINDS(EVENT_NAME)
#undef EVENT_NAME
};

static bool known_event(const char *name)
{
	size_t i;

	for (i = 0; name && i < EVENT_KIND_COUNT; i++)
		if (!strcmp(kinds[i], name))
			return true;
	return false;
}

static void replay(const char *line, struct event_decoder *decoder, json_t *seen)
{
	struct echo echo = ECHO_INIT;
	json_t *want = json_loads(line, JSON_REJECT_DUPLICATES, NULL), *got;
	const char *name = json_string_value(json_object_get(want, "ev"));

	if (!want)
		fail_msg("not JSON: %s", line);
	if (!name && !json_is_string(json_object_get(want, "req")))
		fail_msg("neither event nor request: %s", line);
	if (name && event_decoder__line(decoder, line, strlen(line), &echo.sink))
		fail_msg("refused: %s", line);
	if (known_event(name)) {
		got = json_loads(echo_text(&echo), 0, NULL);
		if (echo.events != 1 || !json_equal(want, got))
			fail_msg("%s\nbecame\n%s", line, echo.lines.data);
		json_decref(got);
		json_object_set_new(seen, name, json_true());
	}
	json_decref(want);
	buf__free(&echo.lines);
}

static void examples_replay(void **state)
{
	_cleanup_fclose_ FILE *file = fopen("docs/protocol.md", "re");
	struct event_decoder *decoder;
	json_t *seen = json_object();
	bool inside = false;
	char line[8192];
	size_t i;

	if (!file)
		fail_msg("docs/protocol.md: run from the top of the tree");
	assert_int_equal(event_decoder__new(&decoder), 0);
	while (fgets(line, sizeof(line), file)) {
		line[strcspn(line, "\n")] = 0;
		if (!strncmp(line, "```", 3))
			inside = !strcmp(line, "```ndjson");
		else if (inside)
			replay(line, decoder, seen);
	}
	for (i = 0; i < EVENT_KIND_COUNT; i++)
		if (!json_object_get(seen, kinds[i]))
			fail_msg("no example of %s", kinds[i]);
	json_decref(seen);
	event_decoder__free(decoder);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(examples_replay)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
