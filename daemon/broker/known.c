/* SPDX-License-Identifier: MIT */
/* A few dozen processes at most, so it is an array that is searched from the front. A pidfd that polls readable has
 * ended. */
#include "broker/known.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "broker/family.h"

struct known_item {
	pid_t pid;
	int pidfd;
};

/* A pidfd polls readable once its process has ended. */
static bool lives(const struct known_item *process)
{
	struct pollfd ended = {.fd = process->pidfd, .events = POLLIN};

	return poll(&ended, 1, 0) == 0;
}

static void remove_at(struct known *known, size_t i)
{
	close(known->items[i].pidfd);
	known->n--;
	memmove(known->items + i, known->items + i + 1, (known->n - i) * sizeof(*known->items));
}

/* The pid alone says nothing; with a pidfd that has not ended, it is still the process that was added. */
bool known__has(const struct known *known, pid_t pid)
{
	for (size_t i = 0; i < known->n; i++)
		if (known->items[i].pid == pid && lives(&known->items[i]))
			return true;
	return false;
}

/* -ESRCH and the like are no error: a process that has ended needs no entry. */
int known__add(struct known *known, pid_t pid)
{
	struct known_item added = {.pid = pid}, *items;

	for (size_t i = known->n; i-- > 0;)
		if (!lives(&known->items[i]))
			remove_at(known, i);
	if (pid <= 0 || known__has(known, pid))
		return 0;
	added.pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	if (added.pidfd < 0)
		return errno == EMFILE || errno == ENFILE || errno == ENOMEM ? -errno : 0;
	if (known->n == KNOWN_MAX)
		remove_at(known, 0);
	items = reallocarray(known->items, known->n + 1, sizeof(*items));
	if (!items) {
		close(added.pidfd);
		return -ENOMEM;
	}
	known->items = items;
	known->items[known->n++] = added;
	return 0;
}

/* Is one of these above it? It lives still, so it was the one of its pid all the time. */
static bool is_below(const struct known *known, uid_t payer, pid_t pid, const pid_t *of, size_t n)
{
	const pid_t found = family__nearest(payer, pid, of, n);

	return found && known__has(known, found);
}

bool known__holds(const struct known *known, uid_t payer, pid_t pid)
{
	pid_t pids[KNOWN_MAX];

	if (known__has(known, pid))
		return true;
	for (size_t i = 0; i < known->n; i++)
		pids[i] = known->items[i].pid;
	return known->n && is_below(known, payer, pid, pids, known->n);
}

bool known__is_above(const struct known *known, uid_t payer, pid_t one, pid_t pid)
{
	return known__has(known, one) && is_below(known, payer, pid, &one, 1);
}

void known__free(struct known *known)
{
	while (known->n)
		close(known->items[--known->n].pidfd);
	free(known->items);
	known->items = NULL;
}
