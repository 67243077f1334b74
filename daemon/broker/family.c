/* SPDX-License-Identifier: MIT */
/* Reads the parents of processes in a helper, which costs about a millisecond for each question. The answers come one
 * by one, as each has to fit a message: {pid = 4243}, {pid = 4244}, {pid = 0}. */
#include "broker/family.h"

#include "base/array.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "broker/helper.h"
#include "broker/process.h"

#define SCAN_MS 10000u /* it goes through all processes of the machine, and waits for a CPU */

struct question {
	pid_t pid;
	const pid_t *ancestors;
	size_t n;
};

/* --- in the helper --- */

static void send_nearest(void *context, int socket)
{
	const struct question *question = context;
	const struct broker_message answer = {.pid = process__nearest(question->pid, question->ancestors, question->n)};

	broker__send(socket, &answer, NULL, 0);
}

/* One after the other; the last is 0. */
static void send_descendants(void *context, int socket)
{
	const struct question *question = context;
	_cleanup_free_ pid_t *pids = NULL;
	struct broker_message answer = {};
	size_t n = 0, i;

	answer.error_errno = -process__descendants(question->pid, &pids, &n);
	for (i = 0; i <= n; i++) {
		answer.pid = i < n ? pids[i] : 0;
		if (broker__send(socket, &answer, NULL, 0))
			return;
	}
}

/* --- in the broker --- */

/* One answer. A helper that died has told nothing: -ESRCH. */
static int take(struct helper *helper, pid_t *ret)
{
	struct broker_message answer;
	int none[BROKER_FDS_MAX];
	unsigned unexpected;
	int err = helper__take(helper, &answer, none, &unexpected);

	if (err)
		return err == -EPIPE ? -ESRCH : err;
	*ret = answer.pid;
	return -answer.error_errno;
}

/* 0 also on any error: "not known to be below" refuses, which is the safe answer. */
pid_t family__nearest(uid_t payer, pid_t pid, const pid_t *ancestors, size_t n)
{
	struct question question = {.pid = pid, .ancestors = ancestors, .n = n};
	struct helper helper;
	pid_t found = 0;

	if (helper__begin(&helper, payer, send_nearest, &question, NULL, 0))
		return 0;
	take(&helper, &found);
	helper__end(&helper);
	return found;
}

int family__descendants(uid_t payer, pid_t pid, pid_t **ret, size_t *ret_n)
{
	struct question question = {.pid = pid};
	uint32_t n = 0, capacity = 0;
	struct helper helper;
	pid_t *pids = NULL, next;
	int err = helper__begin(&helper, payer, send_descendants, &question, NULL, 0);

	if (err)
		return err;
	/* Longer than other helpers have: a machine may have 30,000 processes. */
	helper.until = clock__now() + SCAN_MS * 1000000ull;
	while (!(err = take(&helper, &next)) && next) {
		err = ARRAY_RESERVE(pids, n, capacity);
		if (err)
			break;
		pids[n++] = next;
	}
	helper__end(&helper);
	if (err) {
		free(pids);
		return err;
	}
	*ret = pids;
	*ret_n = n;
	return 0;
}
