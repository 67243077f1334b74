/* SPDX-License-Identifier: MIT */
/* The engine parses hostile bytes, so it is built as if an attacker could run code in it. Then this is all that code
 * could do: read the world-readable part of /proc, use the descriptors that the broker passed, and write in two
 * directories of its user.
 *
 *    Landlock   (if the kernel has it) files: /proc read-only, two directories. A process in a Landlock domain may not
 *               trace one outside, so memory, environment and descriptors of others in /proc are out of reach, too
 *    seccomp    system calls: the process is killed at one that an engine never makes
 *
 * Both hold for all threads that start later, and cannot be undone. A new library version may make a system call that
 * is not in the list: the engine dies with SIGSYS, and the audit log (dmesg) has its number. */
#include "serve/sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/bpf.h>
#include <linux/filter.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "arch/arch.h"
#include "base/cleanup.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* --- files --- */

/* Landlock's rights: linux/landlock.h, documented in Documentation/userspace-api/landlock.rst of the kernel. */
#define READ (LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR)
#define WRITE (READ | LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_MAKE_REG | LANDLOCK_ACCESS_FS_REMOVE_FILE)
/* All of the first version; later ones add what a sandboxed process has no folder for. */
#define ALL ((LANDLOCK_ACCESS_FS_MAKE_SYM << 1) - 1)
/* Since ABI 6, which Debian 12's header does not have. */
#define SCOPE_ABI 6
#define SCOPE_ABSTRACT_SOCKETS 1u
#define SCOPE_SIGNALS 2u

/* struct landlock_ruleset_attr as of ABI 6; a kernel that knows less accepts it if the bytes behind its own size are 0,
 * and is given a smaller size anyway. */
struct ruleset {
	uint64_t files, net, scoped;
};

static int allow(int ruleset, int directory, uint64_t access)
{
	struct landlock_path_beneath_attr rule = {.allowed_access = access, .parent_fd = directory};

	return syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule, 0) ? -errno : 0;
}

static int limit_files(const int *directories, size_t n)
{
	long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
	struct ruleset attributes = {.files = ALL};
	_cleanup_close_ int ruleset = -1, proc = -1;
	size_t size = sizeof(attributes.files);
	int err;

	if (abi < 1)
		return 0;
	if (abi >= SCOPE_ABI) {
		attributes.scoped = SCOPE_ABSTRACT_SOCKETS | SCOPE_SIGNALS;
		size = sizeof(attributes);
	}
	ruleset = (int)syscall(SYS_landlock_create_ruleset, &attributes, size, 0);
	proc = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (ruleset < 0 || proc < 0)
		return -errno;
	err = allow(ruleset, proc, READ);
	for (size_t i = 0; !err && i < n; i++)
		if (directories[i] >= 0)
			err = allow(ruleset, directories[i], WRITE);
	return err ? err : syscall(SYS_landlock_restrict_self, ruleset, 0) ? -errno : 0;
}

/* --- system calls --- */

/* Allowed with any arguments. */
static const int calls[] = {
	/* time and waiting */
	SYS_clock_gettime, SYS_clock_nanosleep, SYS_nanosleep, SYS_gettimeofday, SYS_epoll_wait, SYS_epoll_pwait, SYS_epoll_ctl,
	SYS_epoll_create1, SYS_poll, SYS_ppoll, SYS_eventfd2, SYS_timerfd_create, SYS_timerfd_settime, SYS_futex, SYS_restart_syscall,
	/* memory and threads */
	SYS_brk, SYS_munmap, SYS_mremap, SYS_madvise, SYS_mincore, SYS_set_robust_list, SYS_rseq, SYS_gettid, SYS_getpid, SYS_exit,
	SYS_exit_group, SYS_sched_yield, SYS_sched_getaffinity, SYS_rt_sigaction, SYS_rt_sigprocmask, SYS_rt_sigreturn, SYS_sigaltstack,
	SYS_getrandom, SYS_membarrier,
	/* files: which ones, Landlock says */
	SYS_open, SYS_openat, SYS_close, SYS_close_range, SYS_read, SYS_pread64, SYS_readv, SYS_preadv, SYS_write, SYS_pwrite64, SYS_writev, SYS_lseek,
	SYS_fstat, SYS_fstatfs, SYS_stat, SYS_lstat, SYS_newfstatat, SYS_statx, SYS_getdents64, SYS_fcntl, SYS_dup, SYS_ftruncate, SYS_unlink,
	SYS_unlinkat, SYS_rename, SYS_renameat, SYS_utimensat, SYS_fsync, SYS_fdatasync, SYS_fallocate, SYS_sendfile, SYS_fadvise64,
	SYS_memfd_create, SYS_access, SYS_faccessat, SYS_readlink, SYS_readlinkat, SYS_pipe2, SYS_mkdir, SYS_mkdirat,
	/* its clients and its broker; sendmsg() would give them descriptors, which are not always closed at once */
	SYS_sendto, SYS_recvfrom, SYS_recvmsg, SYS_shutdown, SYS_getsockopt,
	/* who it is */
	SYS_getuid, SYS_geteuid, SYS_getgid, SYS_getegid, SYS_uname, SYS_sysinfo, SYS_getrusage, SYS_getcpu,
};

/* What libraries try, and can do without. */
static const struct {
	int call, error;
} refused[] = {
	{SYS_clone3, ENOSYS}, {SYS_socket, EACCES}, {SYS_prlimit64, EPERM}, {SYS_getrlimit, EPERM},
	{SYS_statfs, EPERM}, {SYS_sched_setscheduler, EPERM},
};

/* Commands of bpf() on what the broker handed over. */
static const uint32_t commands[] = {
	BPF_MAP_LOOKUP_ELEM, BPF_MAP_UPDATE_ELEM, BPF_MAP_DELETE_ELEM, BPF_MAP_GET_NEXT_KEY, BPF_OBJ_GET_INFO_BY_FD,
	BPF_MAP_LOOKUP_AND_DELETE_ELEM, BPF_MAP_LOOKUP_BATCH, BPF_MAP_LOOKUP_AND_DELETE_BATCH, BPF_MAP_UPDATE_BATCH,
	BPF_MAP_DELETE_BATCH, BPF_ITER_CREATE,
};

/* Instructions of classic BPF; some 300 are used. The kernel's own limit is 4,096 (BPF_MAXINSNS). */
#define PROGRAM_MAX 512
struct program {
	struct sock_filter code[PROGRAM_MAX];
	unsigned short n;
};

/* `yes`, `no`: how many instructions to skip when a jump's condition holds, or does not. */
static void put(struct program *p, uint16_t code, uint8_t yes, uint8_t no, uint32_t k)
{
	p->code[p->n++] = (struct sock_filter){.code = code, .jt = yes, .jf = no, .k = k};
}

static void answer(struct program *p, uint32_t action)
{
	put(p, BPF_RET | BPF_K, 0, 0, action);
}

static void load(struct program *p, size_t offset)
{
	put(p, BPF_LD | BPF_W | BPF_ABS, 0, 0, (uint32_t)offset);
}

#define ARGUMENT(i) (offsetof(struct seccomp_data, args) + (i) * sizeof(uint64_t)) /* its lower half */

/* `action` when what is loaded is `value`. */
static void on(struct program *p, uint32_t value, uint32_t action)
{
	put(p, BPF_JMP | BPF_JEQ | BPF_K, 0, 1, value);
	answer(p, action);
}

/* A call that is allowed when `bits` of an argument are all there, or none of them. Five instructions: is it
 * another call? Then skip the next four. The accumulator holds the argument afterwards, so each path has to end in
 * a verdict. */
static void on_bits(struct program *p, int call, unsigned argument, uint32_t bits, bool there, uint32_t otherwise)
{
	put(p, BPF_JMP | BPF_JEQ | BPF_K, 0, 4, (uint32_t)call);
	load(p, ARGUMENT(argument));
	put(p, BPF_JMP | BPF_JSET | BPF_K, there ? 0 : 1, there ? 1 : 0, bits);
	answer(p, SECCOMP_RET_ALLOW);
	answer(p, otherwise);
}

/* A call that is allowed when an argument is one of `values`. Only the lower half of an argument is compared: the
 * kernel reads it as an int for these calls. */
static void on_values(struct program *p, int call, unsigned argument, const uint32_t *values, size_t n, uint32_t otherwise)
{
	put(p, BPF_JMP | BPF_JEQ | BPF_K, 0, (uint8_t)(2 * n + 2), (uint32_t)call);
	load(p, ARGUMENT(argument));
	for (size_t i = 0; i < n; i++)
		on(p, values[i], SECCOMP_RET_ALLOW);
	answer(p, otherwise);
}

static int limit_calls(void)
{
	const uint32_t names[] = {PR_SET_NAME, 0x53564d41 /* PR_SET_VMA */}, own[] = {(uint32_t)getpid()};
	const uint32_t queries[] = {_IOC(_IOC_READ | _IOC_WRITE, 'f', 17, 104)}; /* PROCMAP_QUERY (target/maps.h) */
	struct program p = {};
	struct sock_fprog filter = {.filter = p.code};

	/* Numbers of system calls differ between architectures: one that came by another entry (32-bit) is not what it
	 * seems. */
	load(&p, offsetof(struct seccomp_data, arch));
	put(&p, BPF_JMP | BPF_JEQ | BPF_K, 1, 0, MACHINE_AUDIT);
	answer(&p, SECCOMP_RET_KILL_PROCESS);
	load(&p, offsetof(struct seccomp_data, nr));
	for (size_t i = 0; i < COUNT(calls); i++)
		on(&p, (uint32_t)calls[i], SECCOMP_RET_ALLOW);
	for (size_t i = 0; i < COUNT(refused); i++)
		on(&p, (uint32_t)refused[i].call, SECCOMP_RET_ERRNO | (uint32_t)refused[i].error);
	/* No new code: memory that is executable now is all there will be. A library that asks for it (a JIT) gets an
	 * error. */
	on_bits(&p, SYS_mmap, 2, PROT_EXEC, false, SECCOMP_RET_ERRNO | EACCES);
	on_bits(&p, SYS_mprotect, 2, PROT_EXEC, false, SECCOMP_RET_ERRNO | EACCES);
	on_bits(&p, SYS_clone, 0, CLONE_THREAD, true, SECCOMP_RET_KILL_PROCESS);
	on_values(&p, SYS_prctl, 0, names, COUNT(names), SECCOMP_RET_KILL_PROCESS);
	on_values(&p, SYS_tgkill, 0, own, COUNT(own), SECCOMP_RET_KILL_PROCESS); /* abort() */
	on_values(&p, SYS_bpf, 0, commands, COUNT(commands), SECCOMP_RET_KILL_PROCESS);
	on_values(&p, SYS_ioctl, 1, queries, COUNT(queries), SECCOMP_RET_ERRNO | ENOTTY);
	answer(&p, SECCOMP_RET_KILL_PROCESS);
	filter.len = p.n;
	return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter, 0, 0) ? -errno : 0;
}

int sandbox__enter(const int *directories, size_t n)
{
	int err;

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		return -errno;
	err = limit_files(directories, n);
	return err ? err : limit_calls();
}
