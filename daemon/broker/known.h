/* SPDX-License-Identifier: MIT */
/* A list of processes that pid reuse cannot confuse: each is held by a pidfd. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct known {
	struct known_item *items;
	size_t n;
};
#define KNOWN_MAX 64u

/* Adds a process, unless it has ended or is in the list. Processes that ended are removed; if the list is full, so
 * is the oldest. -errno. */
int known__add(struct known *known, pid_t pid);
/* Is it one of these, and lives? */
bool known__has(const struct known *known, pid_t pid);
/* Is it one of these, or below one that lives? As process__nearest: true is certain, false is not. `payer`: whose
 * request it is for. */
bool known__holds(const struct known *known, uid_t payer, pid_t pid);
/* Likewise, below this one of them. */
bool known__is_above(const struct known *known, uid_t payer, pid_t one, pid_t pid);
void known__free(struct known *known);
