#include "broker/authorise.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "broker/peer.h"
#include "broker/privileges.h"

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
	};
	return 0;
}

int identity__of_user(uid_t uid, gid_t gid, const struct peer *process, struct identity *ret)
{
	struct passwd entry, *user = NULL;
	char text[4096];
	gid_t *groups;
	int n = 64;

	*ret = (struct identity){.uid = uid, .gid = gid};
	if (!uid) /* another one's are its user's, whoever started the broker */
		ret->capabilities = process->capabilities & IDENTITY_CAPABILITIES;
	/* A uid without a name has no supplementary groups; uid 0 needs none. */
	if (!uid || getpwuid_r(uid, &entry, text, sizeof(text), &user) || !user)
		return 0;
	groups = malloc((size_t)n * sizeof(*groups));
	if (!groups)
		return -ENOMEM;
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
	if (a->uid != b->uid || a->capabilities != b->capabilities)
		return false;
	if (identity__may_all(a))
		return true;
	/* The kernel keeps groups in order (groups_sort), those of one set always in the same. */
	return a->gid == b->gid && a->n_groups == b->n_groups &&
	       (!a->n_groups || !memcmp(a->groups, b->groups, a->n_groups * sizeof(*a->groups)));
}

static int open_of(pid_t pid, const char *name)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/%s", pid, name);
	return open(path, O_RDONLY | O_CLOEXEC) >= 0 ? 0 : errno;
}

/* The helper: its exit status is the errno. */
static int may_read(const struct identity *identity, pid_t pid, enum ptrace_rule rule)
{
	int err;

	err = privileges__become(identity->uid, identity->gid, identity->groups, identity->n_groups);
	if (err)
		return EACCES;
	err = open_of(pid, "auxv");
	if (err)
		return err == ENOENT || err == ESRCH ? ESRCH : EACCES;
	if (rule == PTRACE_RULE_READ)
		return 0;
	/* For `mem` the kernel asks PTRACE_MODE_ATTACH, and with it Yama, if that is in this kernel. */
	if (rule == PTRACE_RULE_ATTACH && !prctl(PR_SET_PTRACER, 0, 0, 0, 0) && !open_of(pid, "mem"))
		return 0;
	return EPERM;
}

int authorise__begin(const struct identity *identity, pid_t pid, enum ptrace_rule rule, struct authorisation *ret)
{
	pid_t helper;

	ret->helper = 0;
	if (identity__may_all(identity))
		return rule == PTRACE_RULE_NEVER ? -EPERM : 0;
	helper = fork();
	if (helper < 0)
		return -errno;
	if (!helper)
		_exit(may_read(identity, pid, rule));
	ret->helper = helper;
	return 0;
}

int authorise__finish(struct authorisation *authorisation)
{
	pid_t helper = authorisation->helper;
	struct pollfd ended = {.events = POLLIN};
	int status, n;

	authorisation->helper = 0;
	if (!helper)
		return 0;
	ended.fd = syscall(SYS_pidfd_open, helper, 0);
	n = ended.fd < 0 ? 0 : poll(&ended, 1, 2000);
	if (ended.fd >= 0)
		close(ended.fd);
	if (n <= 0)
		kill(helper, SIGKILL);
	while (waitpid(helper, &status, 0) < 0)
		if (errno != EINTR)
			return -ECHILD;
	if (n <= 0)
		return -ETIMEDOUT;
	/* Whatever else happened to the helper, it did not say yes. */
	return WIFEXITED(status) ? -WEXITSTATUS(status) : -EACCES;
}
