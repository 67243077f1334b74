#include "cli/user_rules.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "rules/rules.h"
#include "serve/serve.h"

/* The line of a request: NULL when it is no text. */
static char *request_of(const char *file, const char *text, size_t len)
{
	const char *name = strrchr(file, '/');
	json_t *json = json_pack("{s:s, s:i, s:s, s:s%}", "req", "rules", "id", USER_RULES_ID, "file", name ? name + 1 : file,
				 "text", text, len);
	char *line = json ? json_dumps(json, JSON_COMPACT) : NULL;

	json_decref(json);
	return line;
}

static int judge(void *ctx, const char *file, const char *text, size_t len, struct rules_error *ret_error)
{
	_cleanup_free_ char *line = NULL;
	int err = rules__parse(ctx, file, text, len, ret_error);

	if (err)
		return err;
	line = request_of(file, text, len);
	if (line && strlen(line) <= SERVE_REQUEST_MAX)
		return 0;
	*ret_error = (struct rules_error){};
	snprintf(ret_error->file, sizeof(ret_error->file), "%s", file);
	snprintf(ret_error->sentence, sizeof(ret_error->sentence),
		 line ? "longer than the %u bytes that an engine takes: divide it" : "not UTF-8", SERVE_REQUEST_MAX);
	return -EBADMSG;
}

int user_rules__judge(const char *path)
{
	struct rules_error error = {};
	struct rules *rules;
	int err = path ? rules__new(&rules) : 0;

	if (err || !path)
		return err ? CLI_COULD_NOT : CLI_DONE;
	err = rules__each_text(path, judge, rules, &error);
	rules__free(rules);
	if (err)
		rules_error__say(&error);
	return err ? CLI_COULD_NOT : CLI_DONE;
}

static int send_text(void *ctx, const char *file, const char *text, size_t len, struct rules_error *ret_error)
{
	_cleanup_free_ char *line = request_of(file, text, len);

	return line ? connection__request(ctx, line) : -ENOMEM;
}

int user_rules__send(struct connection *connection, const char *path)
{
	struct rules_error error;

	return path ? rules__each_text(path, send_text, connection, &error) : 0;
}
