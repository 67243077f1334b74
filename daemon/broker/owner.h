/* SPDX-License-Identifier: MIT */
/* Who pays for a process: one user, however many uids they may take on. */
#ifndef CPROFD_BROKER_OWNER_H
#define CPROFD_BROKER_OWNER_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* A line of /etc/subuid. */
struct owner_range {
	uid_t first;
	uint32_t n;
	uid_t owner; /* whose name is not known: the first uid of the range */
};

/* Of a process that lives, and has this uid here. In a user namespace it is whoever made the outermost one below our own, but root's are whose uid it is; a uid
 * of /etc/subuid is its owner's. Who cannot be looked at pays by its uid. */
uid_t owner__of(pid_t pid, uid_t uid);
uid_t owner__in(const struct owner_range *ranges, size_t n, uid_t uid);
/* Lines of `text`; uid_of tells a name's uid, 0: it has one. At most `max` of them; how many there are. */
size_t owner__parse(const char *text, size_t len, int (*uid_of)(const char *name, uid_t *ret), struct owner_range *ret, size_t max);

#endif
