/* SPDX-License-Identifier: MIT */
/* --rules for commands that attach: files are read once, with the calling user's rights, because root is given up
 * later; checked here, so that errors are found before anything starts; and sent before the request `attach`. */
#pragma once

#include "cli/connection.h"

#define USER_RULES_ID 3 /* id of the requests `rules` */

struct rules;
struct rules_error;
/* Adds the rules of `path` to `rules`: -errno, with *ret_error filled in. */
int user_rules__parse(const char *path, struct rules *rules, struct rules_error *ret_error);

/* Before anything is opened: checks the files. CLI_*; an error was already printed. path NULL: no rules. */
int user_rules__judge(const char *path);
/* Sends the files to the engine. -errno. */
int user_rules__send(struct connection *connection, const char *path);
