/* SPDX-License-Identifier: MIT */
/* Parses `--limit sessions=16/128`, and makes the sentences that a client reads when a limit is reached. The table of
 * limits itself is in limit.h; who has how much of what is counted in quota.c. */
#include "broker/limit.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NUMBER_MAX 1000000000ull

static const struct {
	const char *name;
	uint64_t user, all;
	const char *what, *hint;
} rows[] = {
#define LIMIT_ROW(id, name, user, all, what, hint) [LIMIT_##id] = {name, user, all, what, hint},
	BROKER_LIMITS(LIMIT_ROW)
};

/* The unit of a limit's numbers on the command line: MB or 1. */
static uint64_t unit(enum broker_limit limit)
{
	return limit == LIMIT_MAPS || limit == LIMIT_MEMORY ? LIMIT_MB : 1;
}

void limits__default(struct broker_limits *ret)
{
	for (int i = 0; i < LIMIT_COUNT; i++) {
		ret->user[i] = rows[i].user * unit(i);
		ret->all[i] = rows[i].all * unit(i);
	}
}

const char *limits__names(void)
{
#define LIMIT_NAME(id, name, user, all, what, hint) ", " name
	static const char names[] = BROKER_LIMITS(LIMIT_NAME);

	return names + 2;
}

/* LIMIT_COUNT: there is no such name. */
static int find(const char *name, size_t len)
{
	int i = 0;

	while (i < LIMIT_COUNT && (strlen(rows[i].name) != len || memcmp(rows[i].name, name, len)))
		i++;
	return i;
}

/* A number from 1 to NUMBER_MAX; 0 is no number here. */
static bool number(const char **text, uint64_t *ret)
{
	char *end;

	errno = 0;
	*ret = isdigit((unsigned char)**text) ? strtoull(*text, &end, 10) : 0;
	if (!*ret || errno || *ret > NUMBER_MAX)
		return false;
	*text = end;
	return true;
}

/* Examples: "sessions=16", "sessions=16/128", "memory=none". The checks are made in the order in which a user would
 * find the mistakes. */
const char *limits__set(struct broker_limits *limits, const char *text)
{
	static char wrong[400];
	const char *value = strchr(text, '=');
	int i = value ? find(text, (size_t)(value - text)) : LIMIT_COUNT;
	uint64_t user, all = 0;

	if (i == LIMIT_COUNT) {
		snprintf(wrong, sizeof(wrong), "is not NAME=VALUE; names are %s", limits__names());
		return wrong;
	}
	value++;
	if (!strcmp(value, "none")) {
		limits->user[i] = limits->all[i] = 0;
		return NULL;
	}
	if (!number(&value, &user) || (*value == '/' && (value++, !number(&value, &all))) || *value || (all && !rows[i].all)) {
		snprintf(wrong, sizeof(wrong), "is not %s=%s, of numbers from 1 to %llu, or %s=none", rows[i].name, rows[i].all ? "USER or USER/ALL" : "USER",
			 NUMBER_MAX, rows[i].name);
		return wrong;
	}
	if (i == LIMIT_MEMORY && user * LIMIT_MB < 2 * LIMIT_MEMORY_LEAST) {
		snprintf(wrong, sizeof(wrong), "is too little: the first engine of a user gets half of it, and needs %llu: memory=%llu",
			 LIMIT_MEMORY_LEAST / LIMIT_MB, 2 * LIMIT_MEMORY_LEAST / LIMIT_MB);
		return wrong;
	}
	/* Otherwise one user could have all. */
	if (all && all < 2 * user) {
		snprintf(wrong, sizeof(wrong), "is more than half of all's for one user: %s=%llu/%llu leaves something for others", rows[i].name,
			 (unsigned long long)user, 2ull * user);
		return wrong;
	}
	limits->user[i] = user * unit(i);
	if (all)
		limits->all[i] = all * unit(i);
	else if (limits->all[i] && limits->all[i] < 2 * limits->user[i])
		limits->all[i] = 2 * limits->user[i];
	return NULL;
}

/* "a user may have 16 sessions, and you have 16 now (limit sessions)". `used` is rounded up, or a limit that was reached
 * would read as not reached. */
void limit__sentence(const struct limit_reached *reached, char *ret, size_t size)
{
	uint64_t of = unit(reached->limit);

	snprintf(ret, size, "%s %llu %s, and %s %llu now (limit %s)", reached->all ? "all users together may have" : reached->engine ? "this engine may have" : "a user may have",
		 (unsigned long long)(reached->most / of), rows[reached->limit].what, reached->all ? "they have" : reached->engine ? "it has" : "you have",
		 (unsigned long long)((reached->used + of - 1) / of), rows[reached->limit].name);
}

void limit__hint(const struct limit_reached *reached, char *ret, size_t size)
{
	snprintf(ret, size, "%s; an administrator may allow more: cprofd serve --limit=%s=%s%s", reached->all ? "try again later" : rows[reached->limit].hint,
		 rows[reached->limit].name, reached->all ? "USER/ALL" : "N",
		 reached->limit == LIMIT_DESCRIPTORS ? ", within what the daemon itself may open (ulimit -n, LimitNOFILE=)" : "");
}
