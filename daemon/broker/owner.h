/* SPDX-License-Identifier: MIT */
/* Which user pays for a process, whatever uids that user's processes take on. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* A line of /etc/subuid. */
struct owner_range {
	uid_t first;
	uint32_t n;
	uid_t owner; /* if the name is unknown: the first uid of the range */
};

/* The payer of a living process with this uid. In a user namespace: whoever created the outermost one below ours,
 * except that namespaces which root created count by uid. A uid in a range of /etc/subuid counts for the range's
 * owner. If nothing can be read, the payer is the uid itself. */
uid_t owner__of(pid_t pid, uid_t uid);
uid_t owner__in(const struct owner_range *ranges, size_t n, uid_t uid);
/* Parses lines of /etc/subuid; uid_of finds the uid of a name and returns 0 if there is one. Returns the number of
 * ranges, at most `max`. */
size_t owner__parse(const char *text, size_t len, int (*uid_of)(const char *name, uid_t *ret), struct owner_range *ret, size_t max);
