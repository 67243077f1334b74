/* SPDX-License-Identifier: MIT */
/* Reads and checks the files of --rules while the process still has its rights, and later sends them before the
 * request `attach`. */
#include "cli/connection.h"

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/json_text.h"
#include "cli/user.h"
#include "rules/rules.h"
#include "serve/serve.h"

/* The texts of --rules, in the order in which they were read. Kept, because they are needed again after
 * user__drop(). */
static struct {
	const char *path;
	struct text {
		char *file, *text;
		size_t len;
	} *texts;
	size_t n;
} read_once;

/* A rules_text (rules/rules.h): called for each file of a path. */
static int keep(void *ctx, const char *file, const char *text, size_t len, struct rules_error *ret_error)
{
	struct text *texts = reallocarray(read_once.texts, read_once.n + 1, sizeof(*texts));
	struct text *kept;

	(void)ctx;
	(void)ret_error;
	if (!texts)
		return -ENOMEM;
	read_once.texts = texts;
	kept = &texts[read_once.n];
	*kept = (struct text){.file = strdup(file), .text = malloc(len + 1), .len = len};
	if (!kept->file || !kept->text)
		return -ENOMEM;
	memcpy(kept->text, text, len);
	read_once.n++;
	return 0;
}

static int read_texts(const char *path, struct rules_error *ret_error)
{
	const struct user *user = user__calling();
	int err;

	/* The summary parses the rules again, at the end, when the user's directory may not be readable any
	 * more, and the engine must have been given the same text. */
	if (read_once.path && !strcmp(read_once.path, path))
		return 0;
	*ret_error = (struct rules_error){};
	err = user__enter(user);
	if (!err) {
		err = rules__each_text(path, keep, NULL, ret_error);
		user__leave(user);
	}
	if (!err)
		read_once.path = path;
	else if (!*ret_error->sentence)
		snprintf(ret_error->sentence, sizeof(ret_error->sentence), "these rules cannot be read: %s", strerror(-err));
	return err;
}

static int each_text(const char *path, rules_text *each, void *ctx, struct rules_error *ret_error)
{
	int err = read_texts(path, ret_error);

	for (size_t i = 0; i < read_once.n && !err; i++)
		err = each(ctx, read_once.texts[i].file, read_once.texts[i].text, read_once.texts[i].len, ret_error);
	return err;
}

static int parse(void *ctx, const char *file, const char *text, size_t len, struct rules_error *ret_error)
{
	return rules__parse(ctx, file, text, len, ret_error);
}

int user_rules__parse(const char *path, struct rules *rules, struct rules_error *ret_error)
{
	return each_text(path, parse, rules, ret_error);
}

/* One request `rules` as a line of JSON; NULL if the text is not UTF-8. */
static char *request_of(const char *file, const char *text, size_t len)
{
	json_t *json = json_pack("{s:s, s:i, s:o, s:s%}", "req", "rules", "id", USER_RULES_ID, "file",
				 json__text(basename(file)), "text", text, len);
	char *line = json ? json_dumps(json, JSON_COMPACT) : NULL;

	json_decref(json);
	return line;
}

/* Checks a rule file as the engine will: its syntax, and that the request fits. */
static int judge(void *ctx, const char *file, const char *text, size_t len, struct rules_error *ret_error)
{
	_cleanup_free_ char *line = NULL;
	int err = rules__parse(ctx, file, text, len, ret_error);

	if (err)
		return err;
	line = request_of(file, text, len);
	/* An engine refuses a longer request. */
	if (line && strlen(line) <= SERVE_REQUEST_MAX)
		return 0;
	*ret_error = (struct rules_error){};
	snprintf(ret_error->file, sizeof(ret_error->file), "%s", file);
	snprintf(ret_error->sentence, sizeof(ret_error->sentence),
		 line ? "longer than the %u bytes that an engine accepts: split it" : "not UTF-8", SERVE_REQUEST_MAX);
	return -EBADMSG;
}

int user_rules__judge(const char *path)
{
	struct rules_error error = {};
	struct rules *rules;
	int err = path ? rules__new(&rules) : 0;

	if (err || !path)
		return err ? CLI_COULD_NOT : CLI_DONE;
	err = each_text(path, judge, rules, &error);
	rules__free(rules);
	if (err)
		rules_error__say(&error);
	return err ? CLI_COULD_NOT : CLI_DONE;
}

/* The answers arrive with the events; live.c tests them for errors. */
static int send_text(void *ctx, const char *file, const char *text, size_t len, struct rules_error *ret_error)
{
	_cleanup_free_ char *line = request_of(file, text, len);

	return line ? connection__request(ctx, line) : -ENOMEM;
}

int user_rules__send(struct connection *connection, const char *path)
{
	struct rules_error error;

	return path ? each_text(path, send_text, connection, &error) : 0;
}
