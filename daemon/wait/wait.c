/* SPDX-License-Identifier: MIT */
/* What a system call waits for, by its number and arguments. Two need more: read(2) and the like ask which kind of
 * file the descriptor is, futex(2) whose lock it is, by names in the stack or by the GIL's address. */
#include "wait/wait.h"

#include <sys/stat.h>
#include <sys/syscall.h>

#include "rules/rules.h"

const char *wait__name(enum wait_cause cause)
{
#define NAME(id, name) [WAIT_##id] = name,
	static const char *const names[] = {WAIT_CAUSES(NAME)};
#undef NAME
	return (unsigned)cause < WAIT_CAUSE_COUNT ? names[cause] : "";
}

const char *wait__frame(enum wait_cause cause)
{
#define FRAME(id, name) [WAIT_##id] = "(waiting: " name ")",
	static const char *const frames[] = {WAIT_CAUSES(FRAME)};
#undef FRAME
	if (cause == WAIT_READY || cause == WAIT_LOST)
		return cause == WAIT_READY ? "(ready)" : "(not authorised)";
	return (unsigned)cause < WAIT_CAUSE_COUNT ? frames[cause] : "";
}

/* What decides the cause of a system call: the call alone; the kind of its descriptor; its futex; whether its set of
 * descriptors (poll: by address, select: by count) is empty, which makes it a sleep. */
enum by { BY_CALL, BY_FD, BY_FUTEX, BY_SET, BY_COUNT };

/* clang-format off */
static const struct call {
	uint16_t number;
	uint8_t by;        /* enum by */
	uint8_t cause;     /* enum wait_cause, if the call alone decides */
} calls[] = {
	{SYS_futex, BY_FUTEX, 0}, {449 /* futex_waitv */, BY_CALL, WAIT_FUTEX}, {455 /* futex_wait */, BY_FUTEX, 0},
	{SYS_nanosleep, BY_CALL, WAIT_SLEEP}, {SYS_clock_nanosleep, BY_CALL, WAIT_SLEEP},
	{SYS_wait4, BY_CALL, WAIT_CHILD}, {SYS_waitid, BY_CALL, WAIT_CHILD}, {SYS_vfork, BY_CALL, WAIT_CHILD},
	{SYS_clone, BY_CALL, WAIT_CHILD}, {SYS_clone3, BY_CALL, WAIT_CHILD},
	{SYS_read, BY_FD, 0}, {SYS_write, BY_FD, 0}, {SYS_pread64, BY_FD, 0}, {SYS_pwrite64, BY_FD, 0}, {SYS_readv, BY_FD, 0},
	{SYS_writev, BY_FD, 0}, {SYS_preadv, BY_FD, 0}, {SYS_pwritev, BY_FD, 0}, {SYS_preadv2, BY_FD, 0}, {SYS_pwritev2, BY_FD, 0},
	{SYS_sendfile, BY_FD, 0}, {SYS_splice, BY_FD, 0}, {SYS_copy_file_range, BY_FD, 0}, {SYS_ioctl, BY_FD, 0},
	{SYS_fsync, BY_CALL, WAIT_FILE}, {SYS_fdatasync, BY_CALL, WAIT_FILE}, {SYS_sync, BY_CALL, WAIT_FILE}, {SYS_syncfs, BY_CALL, WAIT_FILE},
	{SYS_sync_file_range, BY_CALL, WAIT_FILE}, {SYS_msync, BY_CALL, WAIT_FILE}, {SYS_flock, BY_CALL, WAIT_FILE},
	{SYS_fcntl, BY_CALL, WAIT_FILE}, {SYS_open, BY_CALL, WAIT_FILE}, {SYS_openat, BY_CALL, WAIT_FILE}, {SYS_close, BY_CALL, WAIT_FILE},
	{SYS_stat, BY_CALL, WAIT_FILE}, {SYS_lstat, BY_CALL, WAIT_FILE}, {SYS_fstat, BY_CALL, WAIT_FILE}, {SYS_newfstatat, BY_CALL, WAIT_FILE},
	{SYS_statx, BY_CALL, WAIT_FILE}, {SYS_access, BY_CALL, WAIT_FILE}, {SYS_readlink, BY_CALL, WAIT_FILE}, {SYS_getdents64, BY_CALL, WAIT_FILE},
	{SYS_rename, BY_CALL, WAIT_FILE}, {SYS_unlink, BY_CALL, WAIT_FILE}, {SYS_unlinkat, BY_CALL, WAIT_FILE}, {SYS_mkdir, BY_CALL, WAIT_FILE},
	{SYS_rmdir, BY_CALL, WAIT_FILE}, {SYS_ftruncate, BY_CALL, WAIT_FILE}, {SYS_fallocate, BY_CALL, WAIT_FILE},
	{SYS_recvfrom, BY_CALL, WAIT_SOCKET}, {SYS_recvmsg, BY_CALL, WAIT_SOCKET}, {SYS_recvmmsg, BY_CALL, WAIT_SOCKET},
	{SYS_sendto, BY_CALL, WAIT_SOCKET}, {SYS_sendmsg, BY_CALL, WAIT_SOCKET}, {SYS_sendmmsg, BY_CALL, WAIT_SOCKET},
	{SYS_accept, BY_CALL, WAIT_SOCKET}, {SYS_accept4, BY_CALL, WAIT_SOCKET}, {SYS_connect, BY_CALL, WAIT_SOCKET},
	{SYS_shutdown, BY_CALL, WAIT_SOCKET},
	{SYS_select, BY_COUNT, WAIT_POLL}, {SYS_pselect6, BY_COUNT, WAIT_POLL}, {SYS_poll, BY_SET, WAIT_POLL}, {SYS_ppoll, BY_SET, WAIT_POLL},
	{SYS_epoll_wait, BY_CALL, WAIT_POLL}, {SYS_epoll_pwait, BY_CALL, WAIT_POLL}, {441 /* epoll_pwait2 */, BY_CALL, WAIT_POLL},
	{426 /* io_uring_enter */, BY_CALL, WAIT_FILE}, {SYS_io_getevents, BY_CALL, WAIT_FILE},
	{SYS_pause, BY_CALL, WAIT_SIGNAL}, {SYS_rt_sigsuspend, BY_CALL, WAIT_SIGNAL}, {SYS_rt_sigtimedwait, BY_CALL, WAIT_SIGNAL},
	{SYS_mmap, BY_CALL, WAIT_MEMORY}, {SYS_munmap, BY_CALL, WAIT_MEMORY}, {SYS_mprotect, BY_CALL, WAIT_MEMORY},
	{SYS_madvise, BY_CALL, WAIT_MEMORY}, {SYS_brk, BY_CALL, WAIT_MEMORY}, {SYS_mremap, BY_CALL, WAIT_MEMORY},
};

/* Compilers' own locks: the Python function that waits for one. */
static const struct {
	const char *file, *function;
} compiler_locks[] = {
	{"*/numba/core/compiler_lock.py", "_CompilerLock.*"},
};
/* clang-format on */

/* `mode`: st_mode of the file that the descriptor is open on, as part_wait has it. */
static enum wait_cause by_fd(uint32_t mode)
{
	switch (mode & S_IFMT) {
	case S_IFSOCK:
		return WAIT_SOCKET;
	case S_IFIFO:
		return WAIT_PIPE;
	case 0: /* eventfd, timerfd and the like */
		return WAIT_OTHER;
	default:
		return WAIT_FILE;
	}
}

static bool any(const char *const *patterns, const char *name)
{
	for (; *patterns; patterns++)
		if (pattern__matches(*patterns, name))
			return true;
	return false;
}

/* Is one of these functions among the native frames inside of the innermost Python frame? */
static bool calls_any(const struct wait_input *in, const char *const *patterns)
{
	for (uint32_t i = 0; i < in->n && !in->frames[i].python; i++)
		if (any(patterns, in->frames[i].name))
			return true;
	return false;
}

/* Any Python frame of the stack: the lock's own method is often innermost, but the compiler may have called it
 * through a decorator. */
static bool of_compiler(const struct wait_input *in)
{
	for (uint32_t i = 0; i < in->n; i++)
		for (uint32_t k = 0; k < sizeof(compiler_locks) / sizeof(compiler_locks[0]); k++)
			if (in->frames[i].python && pattern__matches(compiler_locks[k].file, in->frames[i].file) &&
			    pattern__matches(compiler_locks[k].function, in->frames[i].name))
				return true;
	return false;
}

static enum wait_cause by_futex(const struct wait_input *in)
{
	static const char *const gil[] = {"take_gil*", "PyEval_RestoreThread*", "PyEval_AcquireThread*", "_PyThreadState_Attach*", NULL};
	static const char *const lock[] = {
		"*lock.acquire*", "*Lock.acquire*", "*lock.__enter__*", "*Lock.__enter__*", "PyThread_acquire_lock*", "*acquire_timed*",
		"_PyMutex_Lock*", "PyMutex_Lock*", "_PySemaphore_Wait*", "*pthread_mutex_*lock*", "*pthread_rwlock_*lock*", "*lll_lock_wait*",
		"sem_wait*", "sem_timedwait*", "sem_clockwait*", "*new_sem_wait*", NULL};
	uint64_t at = in->wait->args[0];

	if (in->wait->flags & WAIT_FOR_GIL || (in->runtime && at >= in->runtime && at < in->runtime_end))
		return WAIT_GIL;
	if (of_compiler(in))
		return WAIT_COMPILER_LOCK;
	/* A lock function takes the GIL again after its own wait, so take_gil() may be inside of a lock function: test
	 * for the GIL first. */
	if (calls_any(in, gil))
		return WAIT_GIL;
	return calls_any(in, lock) ? WAIT_LOCK : WAIT_FUTEX;
}

enum wait_cause wait__cause(const struct wait_input *in)
{
	const struct part_wait *wait = in->wait;

	if (wait->key == WAIT_KEY_BEFORE && !(wait->flags & WAIT_SEEN))
		return WAIT_BEFORE;
	if (wait->key == WAIT_KEY_ASLEEP)
		return WAIT_ASLEEP;
	if (wait->key == WAIT_KEY_LOST)
		return WAIT_LOST;
	if (!wait->state)
		return WAIT_READY;
	if (wait->state & (4 | 8)) /* TASK_STOPPED, TASK_TRACED */
		return WAIT_STOPPED;
	if (wait->syscall < 0)
		return WAIT_MEMORY;
	for (uint32_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		if (calls[i].number != wait->syscall)
			continue;
		switch ((enum by)calls[i].by) {
		case BY_FD:
			return by_fd(wait->fd_mode);
		case BY_FUTEX:
			return by_futex(in);
		case BY_COUNT:
			return (int32_t)wait->args[0] > 0 ? calls[i].cause : WAIT_SLEEP;
		case BY_SET:
			return wait->args[1] ? calls[i].cause : WAIT_SLEEP;
		case BY_CALL:
			return (enum wait_cause)calls[i].cause;
		}
	}
	return WAIT_OTHER;
}
