/* --rules of a command that attaches: read and judged here, with the user's own rights, and sent before it. */
#ifndef CPROFD_CLI_USER_RULES_H
#define CPROFD_CLI_USER_RULES_H

#include "cli/connection.h"

#define USER_RULES_ID 3 /* of their requests */

/* Before anything is opened: CLI_*, what is wrong was said. path NULL: there are none. */
int user_rules__judge(const char *path);
/* -errno. */
int user_rules__send(struct connection *connection, const char *path);

#endif
