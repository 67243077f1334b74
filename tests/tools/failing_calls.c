/* SPDX-License-Identifier: MIT */
/* Runs a command, and has one of the system calls of cprofd's processes in it fail, or one allocation. Not part of the product.
 *
 *    failing_calls OUT - COMMAND ARGS...      which calls are there? OUT: a line "KEY EXECUTABLE CALL COUNT" for each
 *    failing_calls OUT KEY COMMAND ARGS...    the first call that has this key fails. OUT: "failed EXECUTABLE CALL ERRNO"
 *
 * In both cases OUT has a line "died EXECUTABLE SIGNAL" for each of cprofd's processes that a signal of a crash ended.
 * The exit status is the command's, 128 + N if signal N ended it. With FAILING_CALLS_TRAP=1 in the environment the process
 * also gets SIGTRAP there: its core shows who made the call.
 *
 * A key stands for a call from one place, by one way: the executable, the call's number, where it was made, and the
 * depth of the stack. Addresses are not randomised here, so a key is the same in the next run.
 * Allocations are calls, too, where tests/targets/failing_allocation.c is loaded.
 * The call is replaced by getpid(), which every seccomp filter of ours lets pass, and its result by the error. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/bpf.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/personality.h>
#include <sys/epoll.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../targets/failing_allocation.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define STACK_MAX (8 << 20)
#define OPTIONS (PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK | PTRACE_O_TRACECLONE | PTRACE_O_TRACEEXEC | PTRACE_O_EXITKILL)

/* Calls that can fail, and how. What is missing here is left alone: close(), munmap(), futex() and the like do not
 * fail in a way that a program could do anything about, and without exit() there is no end. */
static const struct call {
	int number, error;
	const char *name;
} calls[] = {
#define X(name, error) {SYS_##name, error, #name},
	X(open, EMFILE) X(openat, EMFILE) X(read, EIO) X(pread64, EIO) X(readv, EIO) X(preadv, EIO) X(write, ENOSPC)
	X(pwrite64, ENOSPC) X(writev, ENOSPC) X(lseek, EINVAL) X(fstat, EIO) X(stat, EIO) X(lstat, EIO) X(newfstatat, EIO)
	X(statx, EIO) X(fstatfs, EIO) X(statfs, EIO) X(getdents64, EIO) X(fcntl, EMFILE) X(dup, EMFILE) X(dup2, EMFILE) X(dup3, EMFILE)
	X(ftruncate, ENOSPC) X(unlink, EACCES) X(unlinkat, EACCES) X(rename, EACCES) X(renameat, EACCES) X(renameat2, EACCES)
	X(link, EACCES) X(linkat, EACCES) X(utimensat, EPERM) X(fsync, EIO) X(fdatasync, EIO) X(fallocate, ENOSPC) X(sendfile, EIO)
	X(memfd_create, EMFILE) X(access, EACCES) X(faccessat, EACCES) X(readlink, EACCES) X(readlinkat, EACCES) X(pipe2, EMFILE)
	X(mkdir, EACCES) X(mkdirat, EACCES) X(chmod, EPERM) X(fchmod, EPERM) X(fchmodat, EPERM) X(chown, EPERM) X(fchown, EPERM)
	X(fchownat, EPERM) X(mmap, ENOMEM) X(mprotect, ENOMEM) X(mremap, ENOMEM) X(madvise, EINVAL) X(clone, EAGAIN) X(clone3, EAGAIN)
	X(fork, EAGAIN) X(vfork, EAGAIN) X(execve, ENOMEM) X(execveat, ENOMEM) X(wait4, EINTR) X(waitid, EINTR) X(socket, EMFILE)
	X(socketpair, EMFILE) X(bind, EADDRINUSE) X(listen, EADDRINUSE) X(accept4, EMFILE) X(connect, ECONNREFUSED) X(sendto, ENOBUFS)
	X(sendmsg, ENOBUFS) X(recvfrom, ECONNRESET) X(recvmsg, ENOMEM) X(shutdown, ENOTCONN) X(getsockopt, ENOBUFS)
	X(setsockopt, ENOBUFS) X(getpeername, ENOTCONN) X(epoll_create1, EMFILE) X(epoll_ctl, ENOSPC) X(epoll_wait, EINTR)
	X(epoll_pwait, EINTR) X(poll, EINTR) X(ppoll, EINTR) X(eventfd2, EMFILE) X(timerfd_create, EMFILE) X(timerfd_settime, EINVAL)
	X(signalfd4, EMFILE) X(pidfd_open, EMFILE) X(pidfd_send_signal, EPERM) X(pidfd_getfd, EMFILE) X(kill, EPERM) X(bpf, ENOMEM)
	X(perf_event_open, EMFILE) X(ioctl, EINVAL) X(prctl, EPERM) X(seccomp, EINVAL) X(landlock_create_ruleset, EMFILE)
	X(landlock_add_rule, EINVAL) X(landlock_restrict_self, EPERM) X(setresuid, EAGAIN) X(setresgid, EPERM) X(setgroups, EPERM)
	X(setuid, EAGAIN) X(setgid, EPERM) X(setsid, EPERM) X(setpgid, EPERM) X(capset, EPERM) X(capget, EPERM) X(setrlimit, EPERM)
	X(prlimit64, EPERM) X(getrlimit, EPERM) X(process_vm_readv, ESRCH) X(sched_setscheduler, EPERM) X(sched_setaffinity, EPERM)
	X(sched_getaffinity, EINVAL) X(setpriority, EPERM) X(getrandom, EINTR) X(uname, EFAULT) X(unshare, ENOSPC) X(setns, EPERM)
	X(chdir, EACCES) X(fchdir, EACCES) X(inotify_init1, EMFILE) X(inotify_add_watch, ENOSPC) X(kcmp, EPERM) X(getcwd, ENOENT)
#undef X
};

static const struct call allocation = {SYS_getpid, ENOMEM, "malloc"};

/* What is left out, by a word of the file's path. What the loader cannot do it says itself, before there is a program, and it
 * ends a process that has no memory for variables of a thread.
 * libc's name service (getpwuid() and the like) does not survive without memory. libbpf takes a lack of memory for a kernel
 * that can do less, and has the verifier look at programs for half a minute that are then refused. */
static const char loader[] = "/ld-linux", libc[] = "/libc.so", libbpf[] = "/libbpf.so";

static const int crashes[] = {SIGSEGV, SIGBUS, SIGABRT, SIGSYS, SIGILL, SIGFPE, SIGTRAP};

struct task {
	pid_t pid;
	bool ours, failing; /* a program of cprofd; in the call that fails */
	int error;
	uint64_t stack; /* where the first thread's began */
	char name[24];
};

struct seen {
	uint64_t key;
	char name[24];
	const struct call *call;
	unsigned long count;
};

static struct task tasks[4096];
static struct seen seen[65536];
static size_t n_tasks, n_seen;
static FILE *out;
static uint64_t wanted;
static bool listing, failed, trap;

static const struct call *call_of(uint64_t number)
{
	for (size_t i = 0; i < COUNT(calls); i++)
		if ((uint64_t)calls[i].number == number)
			return &calls[i];
	return NULL;
}

static struct task *task_of(pid_t pid)
{
	for (size_t i = 0; i < n_tasks; i++)
		if (tasks[i].pid == pid)
			return &tasks[i];
	if (n_tasks == COUNT(tasks))
		exit(2);
	tasks[n_tasks] = (struct task){.pid = pid};
	return &tasks[n_tasks++];
}

static void forget(struct task *task)
{
	*task = tasks[--n_tasks];
}

/* Field 28 of /proc/PID/stat. */
static uint64_t first_stack(pid_t pid)
{
	char path[64], text[1024];
	uint64_t stack = 0;
	char *at;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	file = fopen(path, "re");
	if (!file)
		return 0;
	at = fgets(text, sizeof(text), file) ? strrchr(text, ')') : NULL;
	for (int field = 2; at && field < 28; field++)
		at = strchr(at + 1, ' ');
	if (at)
		stack = strtoull(at, NULL, 10);
	fclose(file);
	return stack;
}

/* How much of the stack is in use; of other threads: within its page. */
static uint64_t depth(const struct task *task, uint64_t stack)
{
	return task->stack - stack < STACK_MAX ? task->stack - stack : stack & 4095;
}

/* Of which program it is now. */
static void identify(struct task *task)
{
	char path[64], file[PATH_MAX];
	const char *name;
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%d/exe", task->pid);
	n = readlink(path, file, sizeof(file) - 1);
	if (n < 0)
		return;
	file[n] = 0;
	name = strrchr(file, '/') ? strrchr(file, '/') + 1 : file;
	snprintf(task->name, sizeof(task->name), "%.*s", (int)sizeof(task->name) - 1, name);
	task->ours = !strncmp(name, "cprofd", 6);
	task->stack = first_stack(task->pid);
}

/* Whether a place in code is in a file whose path has this word. */
static bool within(pid_t pid, uint64_t pc, const char *word)
{
	static struct known {
		uint64_t page;
		const char *word;
		bool is;
	} known[1024];
	static size_t n;
	char path[64], line[PATH_MAX + 128];
	bool is = false;
	FILE *maps;

	for (size_t i = 0; i < n; i++)
		if (known[i].page == pc >> 12 && known[i].word == word)
			return known[i].is;
	snprintf(path, sizeof(path), "/proc/%d/maps", pid);
	maps = fopen(path, "re");
	while (maps && fgets(line, sizeof(line), maps)) {
		unsigned long begin, end;

		if (sscanf(line, "%lx-%lx", &begin, &end) == 2 && pc >= begin && pc < end)
			is = strstr(line, word) != NULL;
	}
	if (maps)
		fclose(maps);
	if (n < COUNT(known))
		known[n++] = (struct known){pc >> 12, word, is};
	return is;
}

/* FNV-1a. */
static uint64_t key_of(const struct task *task, uint64_t number, uint64_t place, uint64_t stack)
{
	uint64_t words[3] = {number, place, depth(task, stack)};
	uint64_t key = 0xcbf29ce484222325;

	for (const char *c = task->name; *c; c++)
		key = (key ^ (unsigned char)*c) * 0x100000001b3;
	for (size_t i = 0; i < sizeof(words); i++)
		key = (key ^ ((unsigned char *)words)[i]) * 0x100000001b3;
	return key;
}

static void note(uint64_t key, const struct task *task, const struct call *call)
{
	for (size_t i = 0; i < n_seen; i++)
		if (seen[i].key == key) {
			seen[i].count++;
			return;
		}
	if (n_seen == COUNT(seen))
		return;
	seen[n_seen] = (struct seen){.key = key, .call = call, .count = 1};
	memcpy(seen[n_seen++].name, task->name, sizeof(task->name));
}

static void enter(struct task *task)
{
	struct user_regs_struct regs;
	const struct call *call;
	uint64_t key;

	if (ptrace(PTRACE_GETREGS, task->pid, NULL, &regs))
		return;
	if (regs.orig_rax == SYS_getpid && regs.rdi == FAILING_ALLOCATION) {
		if (within(task->pid, regs.rsi, loader) || within(task->pid, regs.rsi, libc) || within(task->pid, regs.rsi, libbpf))
			return;
		call = &allocation;
		key = key_of(task, SYS_getpid, regs.rsi, regs.rdx);
	} else {
		if (!(call = call_of(regs.orig_rax)) || within(task->pid, regs.rip, loader))
			return;
		if (call->number == SYS_bpf && regs.rdi == BPF_BTF_LOAD) /* one of libbpf's questions to the kernel */
			return;
		if (call->number == SYS_epoll_ctl && regs.rsi == EPOLL_CTL_DEL) /* what is registered can be taken out without memory */
			return;
		if (call->number == SYS_fcntl && regs.rsi != F_DUPFD && regs.rsi != F_DUPFD_CLOEXEC) /* flags never fail */
			return;
		key = key_of(task, regs.orig_rax, regs.rip, regs.rsp);
	}
	if (listing)
		note(key, task, call);
	if (listing || failed || key != wanted)
		return;
	failed = task->failing = true;
	if (trap)
		kill(task->pid, SIGTRAP);
	task->error = call->error;
	regs.orig_rax = SYS_getpid;
	ptrace(PTRACE_SETREGS, task->pid, NULL, &regs);
	fprintf(out, "failed %s %s %s\n", task->name, call->name, strerrorname_np(call->error));
	fflush(out);
}

static void leave(struct task *task)
{
	struct user_regs_struct regs;

	if (!task->failing || ptrace(PTRACE_GETREGS, task->pid, NULL, &regs))
		return;
	task->failing = false;
	regs.rax = (uint64_t)-task->error;
	ptrace(PTRACE_SETREGS, task->pid, NULL, &regs);
}

static bool crash(int signal)
{
	for (size_t i = 0; i < COUNT(crashes); i++)
		if (crashes[i] == signal)
			return true;
	return false;
}

/* Whether the task goes on; *deliver: with which signal. */
static void stopped(struct task *task, int status, int *deliver, bool *listen)
{
	int signal = WSTOPSIG(status), event = status >> 16;

	if (signal == (SIGTRAP | 0x80)) {
		struct __ptrace_syscall_info info;

		if (ptrace(PTRACE_GET_SYSCALL_INFO, task->pid, (void *)sizeof(info), &info) <= 0)
			return;
		if (info.op == PTRACE_SYSCALL_INFO_ENTRY)
			enter(task);
		else
			leave(task);
	} else if (event == PTRACE_EVENT_EXEC) {
		identify(task);
	} else if (event == PTRACE_EVENT_STOP) {
		*listen = signal != SIGTRAP;
	} else if (!event) {
		*deliver = signal;
	}
}

static int run(pid_t first)
{
	int result = 0, status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, __WALL)) > 0 || errno == EINTR) {
		struct task *task;
		bool listen = false;
		int deliver = 0;

		if (pid < 0)
			continue;
		task = task_of(pid);
		if (WIFEXITED(status) || WIFSIGNALED(status)) {
			if (WIFSIGNALED(status) && task->ours && crash(WTERMSIG(status))) {
				fprintf(out, "died %s %s\n", task->name, sigabbrev_np(WTERMSIG(status)));
				fflush(out);
			}
			if (pid == first)
				result = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
			forget(task);
			continue;
		}
		if (!task->name[0])
			identify(task);
		stopped(task, status, &deliver, &listen);
		if (listen)
			ptrace(PTRACE_LISTEN, pid, NULL, NULL);
		else
			ptrace(task->ours && (!failed || task->failing) ? PTRACE_SYSCALL : PTRACE_CONT, pid, NULL, (void *)(long)deliver);
	}
	return result;
}

int main(int argc, char **argv)
{
	pid_t child;
	int status;

	if (argc < 4 || !(out = fopen(argv[1], "we")))
		return 2;
	listing = !strcmp(argv[2], "-");
	trap = getenv("FAILING_CALLS_TRAP") && !strcmp(getenv("FAILING_CALLS_TRAP"), "1");
	wanted = listing ? 0 : strtoull(argv[2], NULL, 16);
	child = fork();
	if (!child) {
		personality(ADDR_NO_RANDOMIZE);
		raise(SIGSTOP);
		execvp(argv[3], argv + 3);
		_exit(127);
	}
	waitpid(child, &status, WUNTRACED);
	if (ptrace(PTRACE_SEIZE, child, NULL, (void *)(long)OPTIONS)) {
		perror("ptrace");
		kill(child, SIGKILL);
		return 2;
	}
	kill(child, SIGCONT);
	status = run(child);
	for (size_t i = 0; i < n_seen; i++)
		fprintf(out, "%016lx %s %s %lu\n", seen[i].key, seen[i].name, seen[i].call->name, seen[i].count);
	fclose(out);
	return status;
}
