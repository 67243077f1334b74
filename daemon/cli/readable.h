/* SPDX-License-Identifier: MIT */
/* Answers of the daemon, for people. */
#ifndef CPROFD_CLI_READABLE_H
#define CPROFD_CLI_READABLE_H

#include <jansson.h>

/* Each string in it becomes one that may be shown (base/safe_text.h). -ENOMEM. */
int json__readable(json_t *json);
/* To stdout with a newline; every byte is ASCII, so none means something to a terminal, and the data are exact. */
void json__print(const json_t *json, size_t flags);

#endif
