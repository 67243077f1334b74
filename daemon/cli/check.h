/* SPDX-License-Identifier: MIT */
/* Preconditions of profiling, one row each: check_system.c and check_process.c find them, check.c prints them. */
#ifndef CPROFD_CLI_CHECK_H
#define CPROFD_CLI_CHECK_H

#include <jansson.h>
#include <stdbool.h>
#include <sys/types.h>

#include "cli/cli.h"

enum check_state {
	CHECK_OK,
	CHECK_MISSING, /* profiling cannot work without it */
	CHECK_WARN,    /* profiling works, with a limitation that `cost` names */
};

struct check_row {
	char name[40];
	enum check_state state;
	char found[256];
	char cost[160];  /* what is lost; "" */
	char help[200];  /* a command, or what to change; "" */
};

struct check_list {
	struct check_row rows[40];
	unsigned n;
	bool daemon;     /* a daemon answers: it has the privileges, this process needs none */
};

/* Adds a row and returns it, for check__help(). When the list is full, the last row is overwritten. */
struct check_row *check__add(struct check_list *list, const char *name, enum check_state state,
			     const char *found_format, ...) __attribute__((format(printf, 4, 5)));
void check__help(struct check_row *row, const char *cost, const char *help);

void check__system(struct check_list *list, const struct cli_options *options);
void check__process(struct check_list *list, pid_t pid);

#endif
