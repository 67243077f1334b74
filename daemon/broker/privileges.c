/* SPDX-License-Identifier: MIT */
/* The order in which rights are dropped is given by the kernel: groups and bounding set while it still has the
 * capabilities for that, then gid, then uid, then what is left of capabilities. Afterwards it is asked whether it
 * worked, as a half-dropped process is worse than none. */
#include "broker/privileges.h"

#include <errno.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/perf_event.h>
#include <pwd.h>
#include <stdbool.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

uid_t privileges__engine_of_root(void)
{
	static uid_t uid;
	struct passwd entry, *user = NULL;
	char text[4096];

	if (!uid)
		uid = !getpwnam_r(PRIVILEGES_USER, &entry, text, sizeof(text), &user) && user && user->pw_uid ? user->pw_uid : PRIVILEGES_NOBODY;
	return uid;
}

#define CAPABILITIES_MAX 64

/* Reduces permitted and effective sets to `keep`, and empties the inheritable one. Two words of 32 bits: version 3 of
 * the interface. */
static int set_capabilities(uint64_t keep)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[2];

	if (syscall(SYS_capget, &header, data))
		return -errno;
	for (int i = 0; i < 2; i++) {
		data[i].permitted &= (uint32_t)(keep >> 32 * i);
		data[i].effective &= data[i].permitted;
		data[i].inheritable = 0;
	}
	return syscall(SYS_capset, &header, data) ? -errno : 0;
}

/* Limits what an exec could gain. Without CAP_SETPCAP the bounding set cannot be reduced; no_new_privs makes it
 * harmless. */
static int bound(uint64_t keep)
{
	for (int cap = 0; cap < CAPABILITIES_MAX; cap++)
		if (!(keep >> cap & 1) && prctl(PR_CAPBSET_DROP, cap, 0, 0, 0))
			break;
	prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ? -errno : 0;
}

int privileges__become(uid_t uid, gid_t gid, const gid_t *groups, size_t n_groups)
{
	uid_t ruid, euid, suid;
	gid_t rgid, egid, sgid;
	int err = bound(0);

	if (err)
		return err;
	/* A process without CAP_SETGID may keep its groups if it stays who it is. */
	if (setgroups(n_groups, groups) && geteuid() != uid)
		return -errno;
	if (setresgid(gid, gid, gid) || setresuid(uid, uid, uid))
		return -errno;
	err = set_capabilities(0);
	if (err)
		return err;
	/* After the change of uid, which resets it. */
	if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0))
		return -errno;
	if (getresuid(&ruid, &euid, &suid) || getresgid(&rgid, &egid, &sgid))
		return -errno;
	if (ruid != uid || euid != uid || suid != uid || rgid != gid || egid != gid || sgid != gid)
		return -EPERM;
	return 0;
}

int privileges__keep(uint64_t capabilities)
{
	return bound(capabilities) ?: set_capabilities(capabilities);
}

/* With perf_event_paranoid 3, Debian's kernels refuse perf_event_open() to everyone without CAP_SYS_ADMIN, even with
 * CAP_PERFMON. Is this such a kernel? It is tried out, because the value 3 means something else, or nothing, on
 * other kernels. */
static bool perf_needs_admin(void)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE, .size = sizeof(attr), .config = PERF_COUNT_SW_CPU_CLOCK, .disabled = 1};
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[2];
	const uint32_t admin = 1u << CAP_SYS_ADMIN;
	bool refused;
	int fd;

	if (syscall(SYS_capget, &header, data) || !(data[0].effective & admin))
		return false;
	data[0].effective &= ~admin;
	if (syscall(SYS_capset, &header, data))
		return false;
	fd = syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
	refused = fd < 0 && errno == EACCES;
	if (fd >= 0)
		close(fd);
	data[0].effective |= admin;
	return !syscall(SYS_capset, &header, data) && refused;
}

int privileges__keep_broker(void)
{
#define BIT(name) | 1ull << CAP_##name
	return privileges__keep(0 PRIVILEGES_BROKER(BIT) | (perf_needs_admin() ? 1ull << CAP_SYS_ADMIN : 0));
#undef BIT
}
