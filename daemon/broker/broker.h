/* SPDX-License-Identifier: MIT */
/* The broker: the small privileged part. It loads BPF, opens perf events, authorises, opens /proc/PID/mem, maps and
 * files, and passes on the descriptors. It parses nothing that a target or a client wrote: no ELF, no Python, no
 * requests. All that is the work of engines: an unprivileged process for each client identity (uid, gid, groups), at
 * the other end of a SOCK_SEQPACKET socketpair.
 *
 * The list of messages is closed. Each message is one datagram: exactly one struct broker_message, and the
 * descriptors that its kind lists. A message of another size or kind ends the peer that sent it. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "broker/limit.h"

enum broker_kind {
	/* broker -> engine */
	BROKER_CLIENT = 1,    /* a client connected. fds: its socket. `error`: why it may not request processes */
	BROKER_ATTACHED,      /* answer to ATTACH. fds: ring, images, samples, processes (maps), then those
			       * of PROCESS. With BROKER_DUMP: the iterator's link, images, slots, wanted, ... */
	BROKER_PROCESS,       /* answer to PROCESS. fds: pidfd, /proc/PID/mem, /proc/PID/maps */
	BROKER_FILE,          /* answer to FILE. fds: the file, read-only */
	BROKER_THREADS,       /* answer to RESUME: the events run; `threads` of them */
	BROKER_DETACHED,      /* answer to DETACH: no more records follow */
	BROKER_CHILD,         /* after ATTACHED, with BROKER_SUBPROCESSES: `pid` is a descendant that ran
			       * already and has events now. Open it with OPEN_PROCESS */
	BROKER_POOL,          /* answer to ADD_POOL. fds: its map, to be mapped; `number` */
	BROKER_DEBUG,         /* answer to OPEN_DEBUG. fds: the file, read-only */
	BROKER_KALLSYMS,      /* answer to OPEN_KALLSYMS. fds: /proc/kallsyms, at its beginning */
	BROKER_PERF_MAP,      /* answer to OPEN_PERF_MAP. fds: the file, read-only; `number`: the process's own
			       * pid, with an error, too */
	BROKER_CLOCKS,        /* answer to SET_CLOCKS */
	BROKER_RATE,          /* answer to SET_RATE */
	BROKER_WATCHED,       /* answer to WATCH */
	BROKER_ADOPTED,       /* answer to ADOPT */
	/* engine -> broker */
	BROKER_ATTACH = 32,   /* sample this process; root's engine: one that its clients named, or a descendant */
	BROKER_OPEN_PROCESS,  /* a descendant of a session's target, or the target after exec */
	BROKER_OPEN_FILE,     /* the file behind a mapping of a process of this session */
	BROKER_RESUME,        /* start the session's perf events (after filling the map of images) */
	BROKER_DETACH,        /* end a session: its perf events are closed */
	BROKER_ADD_POOL,      /* add a map of `pool_bytes` for the session's unwind tables */
	BROKER_OPEN_DEBUG,    /* `debug_path` below /usr/lib/debug, as a process of this session sees it and its
			       * client may read it */
	BROKER_OPEN_KALLSYMS, /* for a session with BROKER_KERNEL */
	BROKER_SET_CLOCKS,    /* `number` 1: turn on the clocks of CPUs, in addition to those of threads; 0: off */
	BROKER_SET_RATE,      /* sample `rate` times a second from now on, at most as often as ATTACH asked for */
	BROKER_OPEN_PERF_MAP, /* /tmp/perf-PID.map of a process of this session, in its own root, if it is its user's */
	BROKER_WATCH,         /* sample the thread `number` of `pid`, a target of this session, as it leaves its CPU, too */
	BROKER_ADOPT,         /* make `pid` a target of a session with BROKER_HOST; it was opened before */
};

/* Why the broker refuses. X(id, sentence, hint for the user) */
#define BROKER_ERRORS(X) \
	X(OK, "done", "") \
	X(NO_PROCESS, "no such process", "check the PID: it may have ended already") \
	X(NOT_YOURS, "this process belongs to someone else, or may not be traced by you", \
	  "run it with sudo, or attach to a process of your own") \
	X(NO_BPF, "the kernel does not let this program load BPF", \
	  "run with sudo, or start the daemon (sudo systemctl start cprofd); in a container CAP_BPF and CAP_PERFMON are needed") \
	X(NO_BTF, "the kernel has no BTF (/sys/kernel/btf/vmlinux)", \
	  "use a kernel built with CONFIG_DEBUG_INFO_BTF (6.1 or later)") \
	X(NO_PERF, "perf events cannot be opened", "CAP_PERFMON is needed") \
	X(VERIFIER, "the kernel's verifier refused the sampler", \
	  "run `cprofd check --verbose` and report what it prints") \
	X(NO_MEMORY, "out of memory", "") \
	X(LIMIT, "there are more sessions or processes than an engine can hold", "end some of them") \
	X(NO_DESCRIPTORS, "the daemon, or the machine, has no file descriptors left", \
	  "end some sessions; an administrator may raise LimitNOFILE= of cprofd.service, or `ulimit -n`") \
	X(NO_TASKS, "the daemon may start no more processes", \
	  "end some sessions; an administrator may raise TasksMax= of cprofd.service, or the machine's kernel.pid_max") \
	X(KERNEL_STACKS, "stacks of the kernel are not for this user (kernel.perf_event_paranoid)", \
	  "run it with sudo, leave --kernel out, or: sudo sysctl kernel.perf_event_paranoid=1") \
	X(OTHER_NAMESPACE, "this client is in another PID namespace (a container) than the daemon: the same PID is another process there", \
	  "ask from where the daemon runs, with the PID that `ps` shows there") \
	X(NO_PROC, "the /proc that is mounted here is of another PID namespace", "mount -t proc proc /proc (unshare --mount-proc)") \
	X(CLIENT_ENDED, "the process that connected has ended, so what it may see can no longer be determined", \
	  "ask from the process that connects, while it lives") \
	X(PTRACE_SCOPE, "kernel.yama.ptrace_scope keeps you from looking into this process", \
	  "run it with sudo, or start the program with `cprofd record` (enough where the scope is 1); an administrator may allow it: " \
	  "sudo cprofd serve --allow=own, or sudo sysctl kernel.yama.ptrace_scope=0") \
	X(PERF_PARANOID, "kernel.perf_event_paranoid keeps users from sampling programs (3 or more)", \
	  "run it with sudo; an administrator may allow it: sudo cprofd serve --allow=own, or sudo sysctl kernel.perf_event_paranoid=2") \
	X(ONLY_ROOT, "this daemon serves root alone (--allow=root)", "run it with sudo") \
	X(NOT_NAMED, "root's client did not name this process when it connected", \
	  "the socket's own address has to name it, see \"Root\" in docs/protocol.md") \
	X(KERNEL_THREAD, "this is a kernel thread: it has no memory of its own", "`pgrep -af python` lists the Pythons that run") \
	X(NO_ANSWER, "this process cannot be opened: it waits inside the kernel, for an exec or a file system that does not answer", \
	  "try it again later") \
	X(HELPERS_HANG, "calls that were made for this user, to look into other processes, never came back from inside the kernel", \
	  "end those processes, or the file system that does not answer; \"Nobody waits\" in docs/privileges.md") \
	X(ENGINE_BUSY, "the engine did not take this client within 10 s: it has too much to do", \
	  "connect again; a session with --subprocesses on a target that makes processes by the thousand keeps it busy") \
	X(INTERNAL, "something failed inside cprofd", "run with -vv")
#define BROKER_ENUM(id, sentence, hint) BROKER_ERROR_##id,
enum broker_error { BROKER_ERRORS(BROKER_ENUM) BROKER_ERROR_COUNT };
#undef BROKER_ENUM

#define BROKER_PROCESS_FDS 3 /* pidfd, mem, maps */
#define BROKER_MAP_FDS 4     /* ring, images, samples, processes */
#define BROKER_ATTACHED_FDS (BROKER_MAP_FDS + BROKER_PROCESS_FDS)
#define BROKER_FDS_MAX 8
#define BROKER_DEBUG_PATH_MAX 256

/* Every message, in both directions. Members that a kind does not use are 0. It has no pointers and no
 * variable parts: nothing in it can make the receiver read beyond it. */
struct broker_message {
	uint32_t kind;         /* enum broker_kind */
	uint32_t token;        /* chosen by the sender, repeated in the answer */
	uint32_t session;      /* number of a session, which the answer to ATTACH assigns */
	int32_t pid;           /* CLIENT: the client's pid; else the process */
	uint32_t uid, gid;     /* CLIENT: SO_PEERCRED */
	uint32_t error;        /* enum broker_error */
	int32_t error_errno;   /* the errno behind it, or 0 */
	/* ATTACH, SET_RATE */
	uint32_t rate;         /* Hz, 1..20000 */
	uint32_t flags;        /* BROKER_* */
	uint64_t ring_bytes;   /* ATTACH: size of the ring buffer, a power of two of pages; 0: BROKER_RING_BYTES.
			        * ATTACHED: its actual size */
	/* OPEN_FILE: a mapping of `pid` */
	uint64_t start, end;   /* THREADS: start is when they began, CLOCK_MONOTONIC ns;
			        * DETACHED, of BROKER_WALL: when they ended */
	/* answers about a process */
	uint64_t process_start;/* boottime ns (from /proc/PID/stat, in clock ticks' precision) */
	uint64_t arg_start, start_data; /* members of its struct image_key (include/cprofd/record.h) */
	int32_t parent;        /* its parent's pid at that time */
	uint32_t threads;      /* threads that have a perf event */
	/* ADD_POOL, POOL */
	uint64_t pool_bytes;   /* whole pages */
	uint32_t number;       /* ATTACH: the pid of the client that asks; OPEN_PROCESS: 1: an exec took its timers away (EVENT_UNTIMED); SET_CLOCKS: on; WATCH: a tid; PERF_MAP: as its innermost PID namespace counts; 0: not known */
	uint32_t limit;        /* with LIMIT: which limit (broker_message__limit); 0: not one with a name */
	uint32_t slot, _pad;   /* WATCH: below BROKER_WATCHED_MAX; the thread that was there makes room */
	/* OPEN_DEBUG: relative, NUL-terminated */
	char debug_path[BROKER_DEBUG_PATH_MAX];
};

/* An answer repeats the token and session of its request. With an error it carries no descriptors. Messages to an
 * engine are sent in order. If an engine does not read its answers, its requests are not read either. */

#define BROKER_RING_BYTES (4u << 20)
#define BROKER_RING_BYTES_MAX (256u << 20)
#define BROKER_RATE_MAX 20000u
#define BROKER_WATCHED_MAX 64u  /* threads of a session whose switches are followed */
#define BROKER_SESSIONS_MAX 32u /* per engine, whatever its user's limits are */

/* Unwind tables of one session; a pool's memory is allocated when the pool is created. */
#define BROKER_POOLS_MAX 32u
#define BROKER_POOLS_BYTES (192ull << 20)

#define BROKER_SUBPROCESSES 1u /* follow children */
#define BROKER_KERNEL 2u       /* kernel stacks too */
/* How much of native stacks: two bits of the flags. */
#define BROKER_NATIVE_SHIFT 2
#define BROKER_NATIVE_MASK (3u << BROKER_NATIVE_SHIFT)
enum broker_native { BROKER_NATIVE_OFF, BROKER_NATIVE_LEAF, BROKER_NATIVE_FULL };
/* A dump instead of a sampler (include/cprofd/dump.h): not combined with other flags. */
#define BROKER_DUMP 16u
#define BROKER_WALL 32u        /* record where threads wait, too */
#define BROKER_GIL 64u         /* record which samples hold the GIL */
/* Of root's client that named process 1: no process is the session's target (`pid` 0), each exec of the machine is reported, and
 * what ADOPT names is sampled, by the clocks of CPUs alone. With BROKER_SUBPROCESSES, without BROKER_WALL. ATTACHED has no
 * descriptors of a process then. */
#define BROKER_HOST 128u

/* Sends one message with descriptors (borrowed); -errno. */
int broker__send(int channel, const struct broker_message *message, const int *fds, unsigned n);
/* Receives one. The caller closes the *ret_n descriptors. -EAGAIN; -EPIPE: the peer is gone; -EBADMSG: not a valid
 * message (its descriptors were closed). */
int broker__receive(int channel, struct broker_message *ret, int fds[BROKER_FDS_MAX], unsigned *ret_n);

/* For an answer with LIMIT: stores the limit that was reached in `limit`, `start` and `end`. */
void broker_message__set_limit(struct broker_message *message, const struct limit_reached *reached);
bool broker_message__limit(const struct broker_message *message, struct limit_reached *ret);

const char *broker_error__sentence(enum broker_error error);
const char *broker_error__hint(enum broker_error error);
const char *broker_error__name(enum broker_error error); /* "NO_PROCESS" ... */

/* Runs the broker until its last engine is gone (listen_fd < 0), or until a signal ends it. Returns the process's
 * exit status.
 *   listen_fd: a listening AF_UNIX socket (daemon), or -1
 *   client_fd: the socket of the only client (no daemon: it attaches by itself), or -1
 * Engines are separate programs (program.h): engine__execute() in daemon/serve/. */
enum broker_allow {
	BROKER_ALLOW_PTRACE,   /* what the kernel would let them debug and sample by themselves */
	BROKER_ALLOW_OWN,      /* their own processes, whatever ptrace_scope and perf_event_paranoid say */
	BROKER_ALLOW_ROOT,     /* nothing: only root is served */
};

/* How `cprofd serve`, or a client without a daemon, starts the broker. */
struct broker_options {
	int listen_fd;
	int client_fd;
	uid_t client_uid;      /* with client_fd: the user that the engine runs as */
	gid_t client_gid;
	bool verbose;
	enum broker_allow allow; /* for users; root may do everything, except with ptrace_scope 3 */
	const struct broker_limits *limits; /* of users; NULL: none */
	const char *hello;       /* with listen_fd: the first line that a refused client gets */
	uint32_t expect_flags; /* BROKER_* of the first ATTACH, if known: what to load in advance */
	/* For tests: runs in the unprivileged child; its result is the exit status. NULL: the engine's program
	 * (program.h). */
	int (*engine_main)(int channel);
};
int broker__run(const struct broker_options *options);

/* Descriptors that an engine starts with: its channel, and its directory for unwind tables (cache.h), if there is
 * one. */
#define BROKER_CHANNEL_FD 3
#define BROKER_CACHE_FD 4
