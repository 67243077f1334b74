/* SPDX-License-Identifier: MIT */
#include "serve/match.h"

#include <errno.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

enum kind { NAME, CGROUP, USER, KINDS };
static const char *const kinds[KINDS] = {[NAME] = "name=", [CGROUP] = "cgroup=", [USER] = "user="};

struct pattern {
	enum kind kind;
	bool excludes;
	const char *glob;
	uint32_t uid; /* USER */
};

struct match {
	char *text;
	struct pattern patterns[MATCH_MAX];
	unsigned n;
	bool chooses; /* one of them does not exclude */
};

bool match__uid(const char *text, uint32_t *ret)
{
	const unsigned long uid = strtoul(text, NULL, 10); /* ULONG_MAX if it does not fit */

	*ret = (uint32_t)uid;
	return strspn(text, "0123456789") == strlen(text) && uid < UINT32_MAX; /* (uid_t)-1 is none */
}

/* NULL: it is good. */
static const char *parse(const char *line, struct pattern *ret)
{
	ret->excludes = *line == '!';
	line += ret->excludes;
	for (ret->kind = 0; ret->kind < KINDS && strncmp(line, kinds[ret->kind], strlen(kinds[ret->kind])); ret->kind++)
		;
	if (ret->kind == KINDS)
		return "is none of name=, cgroup=, user=";
	ret->glob = line + strlen(kinds[ret->kind]);
	if (!*ret->glob)
		return "has no pattern";
	return ret->kind == USER && !match__uid(ret->glob, &ret->uid) ? "is no number of a user" : NULL;
}

int match__new(const char *text, struct match **ret, const char **ret_why, const char **ret_at)
{
	struct match *match = text ? calloc(1, sizeof(*match)) : NULL;
	char *line, *rest;

	*ret = NULL;
	*ret_why = *ret_at = "";
	if (!text)
		return 0;
	if (match)
		match->text = strdup(text);
	if (!match || !match->text) {
		match__free(match);
		return -ENOMEM;
	}
	for (rest = match->text; (line = strsep(&rest, "\n"));) {
		struct pattern *pattern = &match->patterns[match->n];

		if (!*line)
			continue;
		*ret_why = match->n == MATCH_MAX ? "is one pattern too many" : parse(line, pattern);
		if (*ret_why) {
			*ret_at = text + (line - match->text);
			match__free(match);
			return -EINVAL;
		}
		match->n++;
		match->chooses |= !pattern->excludes;
	}
	*ret = match;
	return 0;
}

struct match *match__free(struct match *match)
{
	if (match)
		free(match->text);
	free(match);
	return NULL;
}

static const char *base(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* "python3 -m gunicorn", "/srv/app/worker.py": the program, its script or its module. */
static bool fits_name(const char *glob, const struct match_facts *facts)
{
	if (!fnmatch(glob, facts->comm, 0))
		return true;
	for (size_t at = 0; at < facts->n; at += strlen(facts->arguments + at) + 1)
		if (!fnmatch(glob, base(facts->arguments + at), 0) || !fnmatch(glob, facts->arguments + at, 0))
			return true;
	return false;
}

/* A path, or a part of one: whoever is in it, or below. */
static bool fits_path(const char *glob, const char *path)
{
	if (!fnmatch(glob, path, FNM_LEADING_DIR))
		return true;
	for (const char *at = path; *glob != '/' && (at = strchr(at, '/'));)
		if (!fnmatch(glob, ++at, FNM_LEADING_DIR))
			return true;
	return false;
}

/* "4:memory:/a\n0::/b\n": the path is behind the second colon, and ends at the line. */
static bool fits_cgroup(const char *glob, const char *cgroups)
{
	char path[4096];

	for (const char *line = cgroups; *line; line += strcspn(line, "\n") + (line[strcspn(line, "\n")] == '\n')) {
		const char *at = strchr(line, ':');
		size_t len;

		at = at ? strchr(at + 1, ':') : NULL;
		if (!at)
			return false;
		len = strcspn(++at, "\n");
		if (len >= sizeof(path))
			continue;
		memcpy(path, at, len);
		path[len] = '\0';
		if (fits_path(glob, path))
			return true;
	}
	return false;
}

static bool fits(const struct pattern *pattern, const struct match_facts *facts)
{
	switch (pattern->kind) {
	case NAME:
		return fits_name(pattern->glob, facts);
	case CGROUP:
		return fits_cgroup(pattern->glob, facts->cgroups);
	default:
		return facts->uid_known ? facts->uid == pattern->uid : pattern->excludes;
	}
}

bool match__lets_in(const struct match *match, const struct match_facts *facts)
{
	bool in = !match || !match->chooses;

	for (unsigned i = 0; match && i < match->n; i++) {
		if (!fits(&match->patterns[i], facts))
			continue;
		if (match->patterns[i].excludes)
			return false;
		in = true;
	}
	return in;
}
