/* SPDX-License-Identifier: MIT */
/* `cprofd status`: requests the daemon's status and prints the answer, as JSON or as a table. The table is
 * made without knowledge of the keys, so a daemon that is newer than this program is shown whole:
 *
 *     version                0.1.0
 *     sessions               2
 *     pss_bytes              18.9 MB
 *     losses                 12 page_fault
 *                            3 tick_missed */
#include <string.h>

#include "base/json_text.h"
#include "base/safe_text.h"
#include "cli/connection.h"
#include "cli/openmetrics.h"
#include "cli/readable.h"

/* Losses by cause, one line each; only the first line has the key. */
static void print_counts(const char *key, json_t *counts)
{
	const char *name;
	json_t *count;

	if (!json_object_size(counts))
		printf("%-22s none\n", key);
	json_object_foreach(counts, name, count) {
		printf("%-22s %s %s\n", key, words__count((uint64_t)json_integer_value(count)), safe_text__is(name) ? name : "?");
		key = "";
	}
}

/* Where incomplete native stacks ended (docs/protocol.md, `stops`). */
static void print_stops(const char *key, json_t *stops)
{
	size_t i;
	json_t *row;

	if (!json_array_size(stops))
		printf("%-22s none\n", key);
	json_array_foreach(stops, i, row) {
		const char *loss = json_string_value(json_object_get(row, "loss"));
		const char *function = json_string_value(json_object_get(row, "function"));

		printf("%-22s %s %s at %s\n", key, words__count((uint64_t)json_integer_value(json_object_get(row, "count"))), loss ? loss : "?",
		       function ? function : "?");
		key = "";
	}
}

/* One key of `status`. The unit is recognised by the key's name: *_bytes, *_ns*. */
static void print_value(const char *key, json_t *value)
{
	size_t len = strlen(key);

	if (json_is_string(value))
		printf("%-22s %s\n", key, json_string_value(value));
	else if (json_is_object(value))
		print_counts(key, value);
	else if (json_is_array(value))
		print_stops(key, value);
	else if (json_is_integer(value) && len > 6 && !strcmp(key + len - 6, "_bytes"))
		printf("%-22s %s\n", key, words__bytes((uint64_t)json_integer_value(value)));
	else if (json_is_integer(value) && strstr(key, "_ns"))
		printf("%-22s %s\n", key, words__duration((uint64_t)json_integer_value(value)));
	else if (json_is_integer(value))
		printf("%-22s %s\n", key, words__count((uint64_t)json_integer_value(value)));
	else
		printf("%-22s %s\n", key, json_is_true(value) ? "yes" : "no");
}

/* `sessions`: of the other answer; NULL: it was not asked for. */
static int print_answer(const struct cli_options *options, json_t *answer, json_t *sessions)
{
	json_t *status = json_object_get(answer, "status"), *value;
	const char *key;

	if (!json_is_object(status)) {
		const char *error = json_string_value(json_object_get(answer, "error"));

		say__failure(json_string_value(json_object_get(answer, "hint")),
			     "the daemon refused: %s", error ? error : "it does not say why");
		return CLI_COULD_NOT;
	}
	if (options->openmetrics) {
		openmetrics__print(status, sessions);
	} else if (options->json) {
		return json__print(status, JSON_COMPACT);
	} else if (json__readable(status)) { /* names in it come from targets */
		say("out of memory");
		return CLI_COULD_NOT;
	} else {
		json_object_foreach(status, key, value) print_value(key, value);
	}
	return CLI_DONE;
}

int status__run(const struct cli_options *options)
{
	struct connection connection;
	json_t *answer, *sessions = NULL;
	int status;

	if (options->n_operands) {
		say("unexpected argument '%s'", options->operands[0]);
		return CLI_USAGE;
	}
	status = connection__open(options, 0, true, &connection);
	if (status != CLI_DONE)
		return status;
	status = CLI_COULD_NOT;
	answer = connection__ask(&connection, "{\"req\":\"status\",\"id\":1}");
	if (answer && options->openmetrics)
		sessions = connection__ask(&connection, "{\"req\":\"sessions\",\"id\":2}");
	if (answer && (sessions || !options->openmetrics))
		status = print_answer(options, answer, json_object_get(sessions, "sessions"));
	json_decref(answer);
	json_decref(sessions);
	connection__close(&connection);
	return status;
}
