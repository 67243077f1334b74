/* SPDX-License-Identifier: MIT */
/* Which processes are ancestors or descendants of which? A helper (helper.h) reads that from /proc, since process.h
 * forbids the broker to do it itself. */
#pragma once

#include <stddef.h>
#include <sys/types.h>

/* process__nearest(). `payer`: whose request it is for. */
pid_t family__nearest(uid_t payer, pid_t pid, const pid_t *ancestors, size_t n);
/* process__descendants(). */
int family__descendants(uid_t payer, pid_t pid, pid_t **ret, size_t *ret_n);
