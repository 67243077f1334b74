/* SPDX-License-Identifier: MIT */
/* Two halves. In the broker a question is made, and its answer is taken. Between them a helper (helper.h) becomes the
 * client for good (privileges__become()) and opens files of the process that the kernel guards:
 *
 *    /proc/PID/auxv   needs PTRACE_MODE_READ, as perf_event_open(2) does
 *    /proc/PID/mem    needs PTRACE_MODE_ATTACH, which is where Yama's ptrace_scope has its word
 *
 * So user namespaces, hidepid, capabilities and security modules count as the running kernel has them: none of its
 * rules is copied here. Which of both questions is asked, policy.c decides. What is opened as the client is closed
 * again: the descriptors that an engine gets were opened before that, with the broker's rights. */
#include "broker/authorise.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "broker/peer.h"
#include "broker/privileges.h"

/* The size of the list of groups is not known before: the first SO_PEERGROUPS fails with ERANGE, and returns it. */
int identity__of_socket(int fd, const struct peer *process, struct identity *ret)
{
	struct ucred peer;
	socklen_t len = sizeof(peer);
	gid_t *groups = NULL;

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len))
		return -errno;
	if (len != sizeof(peer) || peer.uid == (uid_t)-1)
		return -ENOTCONN;
	len = 0;
	if (getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, NULL, &len) && errno != ERANGE)
		return -errno;
	if (len) {
		groups = malloc(len);
		if (!groups)
			return -ENOMEM;
		if (getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, groups, &len)) {
			free(groups);
			return -errno;
		}
	}
	*ret = (struct identity){
		.uid = peer.uid,
		.gid = peer.gid,
		.groups = groups,
		.n_groups = len / sizeof(gid_t),
		.capabilities = process->capabilities & IDENTITY_CAPABILITIES,
		.payer = process->payer,
	};
	return 0;
}

int identity__of_user(uid_t uid, gid_t gid, const struct peer *process, struct identity *ret)
{
	struct passwd entry, *user = NULL;
	char text[4096];
	gid_t *groups;
	int n = 64;

	*ret = (struct identity){.uid = uid, .gid = gid, .payer = uid};
	if (!uid) /* other users have no capabilities, whoever started the broker */
		ret->capabilities = process->capabilities & IDENTITY_CAPABILITIES;
	/* A uid without a name has no supplementary groups; uid 0 needs none. */
	if (!uid || getpwuid_r(uid, &entry, text, sizeof(text), &user) || !user)
		return 0;
	groups = malloc((size_t)n * sizeof(*groups));
	if (!groups)
		return -ENOMEM;
	/* -1: there was no room for all; n is what is needed. */
	if (getgrouplist(user->pw_name, gid, groups, &n) < 0) {
		free(groups);
		groups = malloc((size_t)n * sizeof(*groups));
		if (!groups)
			return -ENOMEM;
		if (getgrouplist(user->pw_name, gid, groups, &n) < 0)
			n = 0;
	}
	ret->groups = groups;
	ret->n_groups = (size_t)n;
	return 0;
}

bool identity__may_all(const struct identity *identity)
{
	return !identity->uid && identity->capabilities & 1ull << CAP_SYS_PTRACE;
}

bool identity__may_kernel(const struct identity *identity)
{
	return !identity->uid && identity->capabilities & 1ull << CAP_PERFMON;
}

void identity__free(struct identity *identity)
{
	free(identity->groups);
	identity->groups = NULL;
	identity->n_groups = 0;
}

bool identity__same(const struct identity *a, const struct identity *b)
{
	if (a->uid != b->uid || a->payer != b->payer || a->capabilities != b->capabilities)
		return false;
	if (identity__may_all(a))
		return true;
	/* The kernel sorts groups (groups_sort), so equal sets are equal arrays. */
	return a->gid == b->gid && a->n_groups == b->n_groups &&
	       (!a->n_groups || !memcmp(a->groups, b->groups, a->n_groups * sizeof(*a->groups)));
}

/* --- in the helper --- */

/* uid 0 without CAP_SYS_PTRACE (in a container) is checked like any other user. Whoever may read everything never comes
 * here. */
static int become(const struct identity *identity)
{
	return privileges__become(identity->uid, identity->gid, identity->groups, identity->n_groups) ? -EACCES : 0;
}

static int try_open(pid_t pid, const char *name)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/%s", pid, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	close(fd);
	return 0;
}

/* Runs with the client's identity. -ESRCH, -EACCES: not the owner; -EPERM: the owner, but the rule forbids it. */
static int may_read(pid_t pid, enum ptrace_rule rule)
{
	int err = try_open(pid, "auxv");

	if (err)
		return err == -ENOENT || err == -ESRCH ? -ESRCH : -EACCES;
	if (rule == PTRACE_RULE_READ)
		return 0;
	/* Opening `mem` asks the kernel for PTRACE_MODE_ATTACH, which includes Yama, if this kernel has it.
	 * PR_SET_PTRACER fails without Yama. */
	if (rule == PTRACE_RULE_ATTACH && !prctl(PR_SET_PTRACER, 0, 0, 0, 0) && !try_open(pid, "mem"))
		return 0;
	return -EPERM;
}

/* What a helper is asked; it gets a copy by fork. */
struct question {
	const struct identity *identity;
	enum ptrace_rule rule;
	pid_t pid;
	struct process_fds fds; /* for ask_again() */
	struct process_stat stat;
	const pid_t *pids;      /* for ask_each() */
	size_t n;
};

/* Authorises first, then checks that the pid is still the same process and image: the order closes the race with
 * exec and pid reuse. */
static int ask(const struct question *question, const struct process_fds *fds, const struct process_stat *stat)
{
	bool all = identity__may_all(question->identity);
	int err = all ? 0 : become(question->identity);

	if (!err && !all)
		err = may_read(question->pid, question->rule);
	return err ? err : process__unchanged(question->pid, fds, stat);
}

/* For authorise__begin(). The answer's descriptors are those that the broker keeps: opened here, as opening `mem` may
 * block. */
static void open_and_ask(void *context, int socket)
{
	const struct question *question = context;
	struct broker_message answer = {};
	struct process_fds fds = PROCESS_FDS_NONE;
	struct process_stat stat = {};
	int err = process__open(question->pid, &fds, &stat);

	err = err ?: ask(question, &fds, &stat);
	answer.error_errno = -err;
	answer.parent = stat.parent;
	answer.process_start = stat.start_ticks;
	answer.arg_start = stat.arg_start;
	answer.start_data = stat.start_data;
	broker__send(socket, &answer, (int[]){fds.pidfd, fds.mem, fds.maps}, err ? 0 : BROKER_PROCESS_FDS);
}

/* For authorise__again(): the descriptors are open already, and were inherited. */
static void ask_again(void *context, int socket)
{
	const struct question *question = context;
	struct broker_message answer = {.error_errno = -ask(question, &question->fds, &question->stat)};

	broker__send(socket, &answer, NULL, 0);
}

/* For authorise__many(): one answer for each process, as any of them may block. What comes before a block counts. */
static void ask_each(void *context, int socket)
{
	const struct question *question = context;
	struct broker_message answer = {};
	int err = become(question->identity);

	for (size_t i = 0; i < question->n; i++) {
		answer.number = (uint32_t)i;
		answer.error_errno = -(err ? err : may_read(question->pids[i], question->rule));
		if (broker__send(socket, &answer, NULL, 0))
			return;
	}
}

/* --- in the broker --- */

/* ptrace_scope 3: not even root may. */
static bool never(const struct identity *identity, enum ptrace_rule rule)
{
	return rule == PTRACE_RULE_NEVER && identity__may_all(identity);
}

int authorise__begin(const struct identity *identity, pid_t pid, enum ptrace_rule rule, struct helper *ret)
{
	struct question question = {.identity = identity, .rule = rule, .pid = pid};

	*ret = HELPER_NONE;
	if (never(identity, rule))
		return -EPERM;
	return helper__begin(ret, identity->payer, open_and_ask, &question, NULL, 0);
}

/* The helper's only answer; ends the helper. With an error no descriptor is left open. */
static int take_one(struct helper *helper, struct broker_message *answer, int fds[BROKER_FDS_MAX], unsigned expected)
{
	unsigned n = 0;
	int err = helper__take(helper, answer, fds, &n);

	if (err == -EPIPE) /* the helper died: that is not a yes */
		err = -EACCES;
	if (!err && (answer->error_errno || n != expected))
		err = answer->error_errno ? -answer->error_errno : -EACCES;
	while (err && n)
		close(fds[--n]);
	helper__end(helper);
	return err;
}

int authorise__finish(struct helper *helper, struct process_fds *ret, struct process_stat *ret_stat)
{
	struct broker_message answer = {};
	int fds[BROKER_FDS_MAX];
	int err = take_one(helper, &answer, fds, BROKER_PROCESS_FDS);

	if (err)
		return err;
	*ret = (struct process_fds){fds[0], fds[1], fds[2]};
	*ret_stat = (struct process_stat){
		.parent = answer.parent,
		.start_ticks = answer.process_start,
		.start_data = answer.start_data,
		.arg_start = answer.arg_start,
	};
	return 0;
}

int authorise__again(const struct identity *identity, pid_t pid, enum ptrace_rule rule, const struct process_fds *fds,
		     const struct process_stat *stat)
{
	struct question question = {.identity = identity, .rule = rule, .pid = pid, .fds = *fds, .stat = *stat};
	struct broker_message answer = {};
	int none[BROKER_FDS_MAX];
	struct helper helper;
	int err;

	if (never(identity, rule))
		return -EPERM;
	/* struct process_fds is three descriptors, which the helper inherits. */
	_Static_assert(sizeof(question.fds) == 3 * sizeof(int), "kept as an array");
	err = helper__begin(&helper, identity->payer, ask_again, &question, &question.fds.pidfd, 3);
	return err ? err : take_one(&helper, &answer, none, 0);
}

int authorise__many(const struct identity *identity, enum ptrace_rule rule, const pid_t *pids, size_t n, int *ret)
{
	struct question question = {.identity = identity, .rule = rule, .pids = pids, .n = n};
	struct broker_message answer;
	int none[BROKER_FDS_MAX];
	unsigned unexpected;
	bool all = identity__may_all(identity);
	struct helper helper;
	int err;

	for (size_t i = 0; i < n; i++)
		ret[i] = !all ? -ETIMEDOUT : never(identity, rule) ? -EPERM : 0;
	if (all || !n)
		return 0;
	err = helper__begin(&helper, identity->payer, ask_each, &question, NULL, 0);
	if (err)
		return err;
	for (size_t i = 0; i < n; i++) {
		err = helper__take(&helper, &answer, none, &unexpected);
		if (err || answer.number >= n)
			break;
		ret[answer.number] = -answer.error_errno;
	}
	helper__end(&helper);
	return 0;
}
