/* SPDX-License-Identifier: MIT */
/* Preconditions of profiling, one row each: check_system.c and check_process.c find them, check.c prints
 * them. A row is added in any case, so that a reader sees what was tested; `cost` and `help` are printed only
 * if the row is not ok, and may therefore be set without a condition. */
#pragma once

#include <jansson.h>

#include "cli/cli.h"

enum check_state {
	CHECK_OK,
	/* profiling cannot work without it: the exit status is 1 */
	CHECK_MISSING,
	CHECK_WARN,    /* profiling works, with a limitation that `cost` names */
};

struct check_row {
	/* What the row is about: "kernel", "CAP_BPF". Scripts that read --json select rows by it. */
	char name[40];
	enum check_state state;
	/* The state that was found, truncated between characters to fit; may quote text of the target, such as
	 * the path of its program. */
	char found[256];
	char cost[160];  /* what is lost; "" */
	char help[200];  /* a command, or what to change; "" */
};

struct check_list {
	/* A machine and a process make at most some 25 rows; the array is never full in practice. */
	struct check_row rows[40];
	unsigned n;
	bool daemon;     /* a daemon answers: it has the privileges, this process needs none */
};

/* Adds a row and returns it, for check__help(). When the list is full, the last row is overwritten. */
struct check_row *check__add(struct check_list *list, const char *name, enum check_state state,
			     const char *found_format, ...) __attribute__((format(printf, 4, 5)));
/* Sets what is printed below a row that is not ok. Both are copied and may be "", not NULL. */
void check__help(struct check_row *row, const char *cost, const char *help);

/* Kernel, BTF, daemon and sysctls; if no daemon answers, also the privileges of this process, and whether the
 * sampler loads, which is what takes longest. Prints nothing. */
void check__system(struct check_list *list, const struct cli_options *options);
/* Adds the rows of one process, and stops at the first that makes the others pointless: no such process, or
 * its memory may not be read. */
void check__process(struct check_list *list, pid_t pid);
