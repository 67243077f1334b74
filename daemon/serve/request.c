/* SPDX-License-Identifier: MIT */
/* Requests: JSON of a client -> struct request. In:
 *
 *    {"req":"attach","id":7,"pid":4242,"rate":999,"native":"full"}
 *
 * The table `keys` lists each key: type, limits, the requests that take it, and where its value goes. A new key is a
 * row. Whatever a client sends becomes a checked struct, or a refusal; nobody behind this file sees JSON.
 *
 * Unknown keys are skipped (a newer client may send them), duplicate keys are refused (readers disagree which one
 * counts). */
#include "serve/request.h"

#include <errno.h>
#include <jansson.h>
#include <stdarg.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/json_text.h"
#include "serve/match.h"
#include "serve/serve.h"

/* jansson parses recursively, up to 2,048 levels deep; a request has one. The depth is checked before parsing, so that
 * a hostile line cannot use up the stack. */
#define DEPTH_MAX 4

static const char *const kinds[] = {
#define NAME(id, name) [REQUEST_##id] = name,
	REQUEST_KINDS(NAME)
#undef NAME
};

static const char *const natives[] = {"full", "leaf", "off"};
static const char *const modes[] = {"cpu", "wall"};

const char *request_native__name(enum request_native native)
{
	return natives[native];
}

void refusal__set(struct refusal *refusal, const char *code, const char *hint, const char *format,
		  ...)
{
	va_list args;

	refusal->code = code;
	refusal->number = 0;
	snprintf(refusal->hint, sizeof(refusal->hint), "%s", hint);
	va_start(args, format);
	vsnprintf(refusal->error, sizeof(refusal->error), format, args);
	va_end(args);
}

/* --- keys of a request: one table --- */

enum type { BOOL, UINT, CHOICE, STRING };

/* One key of a request; `offset`: of its member in struct request. That is a bool, uint32_t, or uint64_t if max is
 * larger; for a STRING a char *, owned. */
struct key {
	const char *name;
	enum type type;
	size_t offset;
	unsigned kinds;                 /* bits of enum request_kind that take it */
	unsigned needed;                /* of these, that must have it */
	uint64_t min, max;              /* UINT; CHOICE: max is the number of choices; STRING: its longest, in bytes */
	const char *const *choices;
	const char *hint;
};

#define BIT(id) (1u << REQUEST_##id)
#define PID_HINT "a process id, as ps shows it"
#define AT(member) offsetof(struct request, member)

static const struct key keys[] = {
	{"session", UINT, AT(session), BIT(STOP) | BIT(SUBSCRIBE) | BIT(UNSUBSCRIBE) | BIT(SNAPSHOT) | BIT(ROTATE) | BIT(TRIGGER),
	 BIT(STOP) | BIT(SUBSCRIBE) | BIT(SNAPSHOT) | BIT(ROTATE), 1, UINT32_MAX, NULL,
	 "the answer to attach gives a session's number; the request sessions lists them"},
	{"fd", BOOL, AT(fd), BIT(SNAPSHOT) | BIT(STOP), 0, 0, 0, NULL, ""},
	{"pid", UINT, AT(pid), BIT(ATTACH) | BIT(DUMP) | BIT(TRIGGER), BIT(DUMP), 1, INT32_MAX, NULL, PID_HINT},
	{"host", BOOL, AT(host), BIT(ATTACH), 0, 0, 0, NULL, ""},
	{"match", STRING, AT(match), BIT(ATTACH), 0, 0, MATCH_TEXT_MAX, NULL, "patterns, as in docs/agent.md"},
	{"rate", UINT, AT(rate), BIT(ATTACH) | BIT(ROTATE), 0, 1, 20000, NULL, "samples a second: 1 to 20000"},
	{"duration_ms", UINT, AT(duration_ms), BIT(ATTACH), 0, 0, 1000ull * 86400 * 3660, NULL,
	 "milliseconds; 0: until stopped"},
	{"latency_ms", UINT, AT(latency_ms), BIT(ATTACH), 0, 100, 5000, NULL, "milliseconds: 100 to 5000"},
	{"mode", CHOICE, AT(wall), BIT(ATTACH), 0, 0, 2, modes, "\"cpu\" or \"wall\""},
	{"native", CHOICE, AT(native), BIT(ATTACH) | BIT(DUMP), 0, 0, 3, natives, "\"full\", \"leaf\" or \"off\""},
	{"subprocesses", BOOL, AT(subprocesses), BIT(ATTACH), 0, 0, 0, NULL, ""},
	{"idle", BOOL, AT(idle), BIT(ATTACH), 0, 0, 0, NULL, ""},
	{"kernel", BOOL, AT(kernel), BIT(ATTACH), 0, 0, 0, NULL, ""},
	{"gil", BOOL, AT(gil), BIT(ATTACH), 0, 0, 0, NULL, ""},
	{"native_lines", BOOL, AT(native_lines), BIT(ATTACH), 0, 0, 0, NULL, ""},
	{"stream", BOOL, AT(stream), BIT(ATTACH), 0, 0, 0, NULL, ""},
	{"spool", BOOL, AT(spool), BIT(ATTACH), 0, 0, 0, NULL, ""},
	{"keep", BOOL, AT(keep), BIT(ATTACH), 0, 0, 0, NULL, ""},
	{"trigger", BOOL, AT(trigger), BIT(ATTACH), 0, 0, 0, NULL, ""},
	{"starting", BOOL, AT(starting), BIT(ATTACH), 0, 0, 0, NULL, ""},
	{"file", STRING, AT(file), BIT(RULES), BIT(RULES), 0, 200, NULL, "what the rules are called in errors"},
	{"text", STRING, AT(text), BIT(RULES), BIT(RULES), 0, SERVE_REQUEST_MAX, NULL, "rules, as in a file of them"},
};

static int refuse(struct refusal *refusal, const char *code, const char *key, const char *what,
		  const char *hint)
{
	refusal__set(refusal, code, hint, "\"%s\" %s", key, what);
	return -EBADMSG;
}

static int choice(const struct key *key, const char *string)
{
	for (int i = 0; i < (int)key->max; i++)
		if (strcmp(string, key->choices[i]) == 0)
			return i;
	return -1;
}

/* `value` -> *request. -EBADMSG, with a refusal that names the key. */
static int take(const struct key *key, const json_t *value, struct request *request,
		struct refusal *refusal)
{
	void *at = (char *)request + key->offset;
	long long number;
	int which;

	switch (key->type) {
	case BOOL:
		if (!json_is_boolean(value))
			return refuse(refusal, "BAD_VALUE", key->name, "is not true or false", key->hint);
		*(bool *)at = json_is_true(value);
		return 0;
	case UINT:
		number = json_is_integer(value) ? json_integer_value(value) : -1;
		if (number < (long long)key->min || number > (long long)key->max) {
			refusal__set(refusal, "BAD_VALUE", key->hint, "\"%s\" is not an integer from %llu to %llu",
				     key->name, (unsigned long long)key->min, (unsigned long long)key->max);
			return -EBADMSG;
		}
		if (key->max > UINT32_MAX)
			*(uint64_t *)at = (uint64_t)number;
		else
			*(uint32_t *)at = (uint32_t)number;
		return 0;
	case CHOICE:
		which = json_is_string(value) ? choice(key, json_string_value(value)) : -1;
		if (which < 0)
			return refuse(refusal, "BAD_VALUE", key->name, "is none of its values", key->hint);
		if (key->choices == modes)
			request->wall = which;
		else
			request->native = (enum request_native)which;
		return 0;
	case STRING:
		/* json_loadb() takes no \u0000: a string ends where it ends */
		if (!json_is_string(value) || json_string_length(value) > key->max)
			return refuse(refusal, "BAD_VALUE", key->name, "is not a string, or too long", key->hint);
		*(char **)at = strdup(json_string_value(value));
		return *(char **)at ? 0 : refuse(refusal, "NO_MEMORY", key->name, "could not be kept", "");
	}
	return -EBADMSG;
}

/* Frees its strings; may be called twice. */
void request__clear(struct request *request)
{
	free(request->file);
	free(request->text);
	free(request->match);
	request->file = request->text = request->match = NULL;
}

/* Depth of nesting, strings left out. Only a bound: jansson judges the syntax. */
static bool too_deep(const char *line, size_t len)
{
	int depth = 0;
	bool string = false;

	for (size_t i = 0; i < len; i++) {
		char c = line[i];

		if (string) {
			if (c == '\\')
				i++;
			else if (c == '"')
				string = false;
		} else if (c == '"') {
			string = true;
		} else if (c == '{' || c == '[') {
			if (++depth > DEPTH_MAX)
				return true;
		} else if (c == '}' || c == ']') {
			depth--;
		}
	}
	return false;
}

static void cleanup_json(json_t **json)
{
	json_decref(*json);
}

/* `id` is read first: a refusal of anything else repeats it. 2^53: JavaScript's numbers are exact up to there. */
static int find_kind(const json_t *root, struct request *request, struct refusal *refusal)
{
	const char *name = json_string_value(json_object_get(root, "req"));
	const json_t *id = json_object_get(root, "id");

	if (id) {
		long long number = json_is_integer(id) ? json_integer_value(id) : -1;

		if (number < 0 || number > 1ll << 53)
			return refuse(refusal, "BAD_VALUE", "id", "is not an integer from 0 to 2^53", "");
		request->id = (uint64_t)number;
		request->has_id = true;
	}
	if (!name)
		return refuse(refusal, "NO_REQ", "req", "is missing or not a string",
			      "a request looks like {\"req\":\"status\",\"id\":1}");
	for (unsigned i = 0; i < REQUEST_KIND_COUNT; i++)
		if (strcmp(name, kinds[i]) == 0) {
			request->kind = (enum request_kind)i;
			return 0;
		}
	refusal__set(refusal, "UNKNOWN_REQ", "known are attach, stop, subscribe, unsubscribe, snapshot, rotate, trigger, sessions, status, dump, rules",
		     "there is no request \"%.40s\"", name);
	return -EBADMSG;
}

/* Either a process, or those of the host; of `trigger` a session, or those of a process. */
static int judge_target(struct request *request, struct refusal *refusal)
{
	if (request->kind == REQUEST_TRIGGER && !request->session == !request->pid)
		return refuse(refusal, request->pid ? "BAD_VALUE" : "MISSING", "pid", request->pid ? "and \"session\" are one too many" : "is missing, or \"session\"",
			      "the process that is recorded, or the session's number");
	if (request->kind != REQUEST_ATTACH)
		return 0;
	if (!request->host)
		return request->pid ? 0 : refuse(refusal, "MISSING", "pid", "is missing", PID_HINT);
	if (request->pid)
		return refuse(refusal, "BAD_VALUE", "pid", "is of one process, \"host\" of all", "leave one of them out");
	if (request->wall || request->idle)
		return refuse(refusal, "BAD_VALUE", "host", "is of CPU time", "leave \"mode\" and \"idle\" out");
	request->subprocesses = true;
	return 0;
}

int request__parse(const char *line, size_t len, struct request *ret, struct refusal *ret_refusal)
{
	_cleanup_(cleanup_json) json_t *root = NULL;
	json_error_t error;
	int err;

	/* The defaults of docs/protocol.md. */
	*ret = (struct request){.latency_ms = REQUEST_LATENCY_MS, .native = REQUEST_NATIVE_OFF, .native_lines = true, .stream = true};
	*ret_refusal = (struct refusal){};
	if (len > SERVE_REQUEST_MAX) {
		refusal__set(ret_refusal, "TOO_LONG", "", "a request has at most %u bytes", SERVE_REQUEST_MAX);
		return -EBADMSG;
	}
	if (too_deep(line, len)) {
		refusal__set(ret_refusal, "BAD_JSON", "one flat JSON object a line", "the request is nested too deeply");
		return -EBADMSG;
	}
	root = json__load(line, len, JSON_REJECT_DUPLICATES, &error);
	if (!json_is_object(root)) {
		refusal__set(ret_refusal, "BAD_JSON", "one flat JSON object a line", "this is not a JSON object%s%s",
			     root ? "" : ": ", root ? "" : error.text);
		return -EBADMSG;
	}
	err = find_kind(root, ret, ret_refusal);
	for (size_t i = 0; !err && i < sizeof(keys) / sizeof(keys[0]); i++) {
		const struct key *key = &keys[i];
		const json_t *value;

		if (!(key->kinds & 1u << ret->kind))
			continue; /* keys that a request does not take are skipped like unknown ones */
		value = json_object_get(root, key->name);
		if (value)
			err = take(key, value, ret, ret_refusal);
		else if (key->needed & 1u << ret->kind)
			err = refuse(ret_refusal, "MISSING", key->name, "is missing", key->hint);
	}
	if (!ret->rate && ret->kind != REQUEST_ROTATE)
		ret->rate = REQUEST_RATE;
	err = err ?: judge_target(ret, ret_refusal);
	if (!err && !ret->stream)
		ret->spool = true;
	return err;
}
