/* SPDX-License-Identifier: MIT */
/* Which processes of a host are recorded: patterns of a client. In:
 *
 *    "name=gunicorn*\ncgroup=ci-*.service\nuser=1000\n!name=pip"
 *
 * A process is let in that one of the patterns fits (or if there is none), unless one with `!` fits. Pure: text and facts in, an
 * answer out. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MATCH_TEXT_MAX 8192u
#define MATCH_MAX 64u

/* A user's number in decimal. False: it is none. */
bool match__uid(const char *text, uint32_t *ret);

struct match;
/* The text is copied. NULL: everything is let in. -EINVAL: *ret_why names what is wrong, at *ret_at; -ENOMEM. */
int match__new(const char *text, struct match **ret, const char **ret_why, const char **ret_at);
struct match *match__free(struct match *match); /* NULL */

/* What is known of a process. Strings are NUL-terminated; "": not known. */
struct match_facts {
	const char *comm;
	const char *arguments; /* /proc/PID/cmdline: n bytes, a NUL behind each argument */
	size_t n;
	const char *cgroups;   /* /proc/PID/cgroup: "0::/system.slice/foo.service\n" */
	bool uid_known;        /* else no user lets it in, and each one leaves it out */
	uint32_t uid;
};
bool match__lets_in(const struct match *match, const struct match_facts *facts);
