/* SPDX-License-Identifier: MIT */
/* --rules: read once, in the calling user's name, as a command that attaches gives its rights up afterwards. What attaches
 * judges them here, and sends them before its request. */
#ifndef CPROFD_CLI_USER_RULES_H
#define CPROFD_CLI_USER_RULES_H

#include "cli/connection.h"

#define USER_RULES_ID 3 /* of their requests */

struct rules;
struct rules_error;
/* Adds those of `path` to `rules`: -errno with *ret_error filled. */
int user_rules__parse(const char *path, struct rules *rules, struct rules_error *ret_error);

/* Before anything is opened: CLI_*, what is wrong was said. path NULL: there are none. */
int user_rules__judge(const char *path);
/* -errno. */
int user_rules__send(struct connection *connection, const char *path);

#endif
