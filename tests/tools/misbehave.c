/* SPDX-License-Identifier: MIT */
/* The broker with an engine that misbehaves: one thing that an engine must not do.
 *
 *   misbehave [-u UID] [-b] [-o OTHER -c CHILD] VICTIM ATTEMPT     -b: without the sandbox; -l: names of all attempts
 *
 * VICTIM is a process of the engine's own user, so that nothing but the sandbox protects it. It is what the client names.
 * OTHER, and its CHILD, are not: for a user they are somebody else's. With -b the client names them, too. Prints "succeeded",
 * "refused: errno" or "killed: signal"; exit status 0. Run it as root. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/perf_event.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "broker/broker.h"
#include "broker/peer.h"
#include "serve/sandbox.h"

static pid_t victim, other, child, broker_pid;
static const char *wanted;
static bool bare;
static int channel_fd;

#define CALL(name, expression) static long try_##name(void) { return expression; }

static long open_of(const char *what, int flags)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/%s", victim, what);
	return open(path, flags);
}

/* Of a file that anybody may open: the kernel asks who reads. */
static long try_system_call(void)
{
	char text[64];

	return read((int)open_of("syscall", O_RDONLY), text, sizeof(text));
}

/* Asks the broker; its refusal as an errno. */
static long ask(struct broker_message message)
{
	int fds[BROKER_FDS_MAX], err;
	unsigned n = 0;

	message.token = 1;
	err = broker__send(channel_fd, &message, NULL, 0);
	if (!err) {
		do /* children of the session are told of in between */
			err = broker__receive(channel_fd, &message, fds, &n);
		while (!err && message.kind == BROKER_CHILD);
	}
	errno = err ? -err : message.error == BROKER_ERROR_NOT_NAMED ? EPERM : message.error_errno;
	return err || message.error ? -1 : 0;
}

/* ATTACH of the process that the client named; its maps and its session stay open. */
static struct broker_message attached;
static int maps[BROKER_FDS_MAX];

static void attach_victim(void)
{
	unsigned n = 0;

	attached = (struct broker_message){.kind = BROKER_ATTACH, .token = 1, .pid = victim, .rate = 99, .flags = BROKER_SUBPROCESSES};
	if (broker__send(channel_fd, &attached, NULL, 0) || broker__receive(channel_fd, &attached, maps, &n) || attached.error) {
		printf("no session: %s\n", strerror(attached.error_errno));
		_exit(5);
	}
}

static long ask_in_session(unsigned kind, pid_t pid)
{
	attach_victim();
	return ask((struct broker_message){.kind = kind, .session = attached.session, .pid = pid});
}

static long ask_to_watch(pid_t pid, pid_t tid)
{
	attach_victim();
	return ask((struct broker_message){.kind = BROKER_WATCH, .session = attached.session, .pid = pid, .number = (uint32_t)tid});
}

static long ask_for_file(unsigned kind)
{
	struct broker_message message = {.kind = kind, .pid = other, .debug_path = ".build-id"};
	char path[64], line[256] = "";
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/maps", other);
	file = fopen(path, "r");
	/* What it may not read it knows as well as anybody: a program without ASLR. */
	if (!file || !fgets(line, sizeof(line), file) || sscanf(line, "%lx-%lx", &message.start, &message.end) != 2)
		message.start = 0x400000, message.end = 0x401000;
	attach_victim();
	message.session = attached.session;
	return ask(message);
}

/* Where a program without ASLR lies: it is asked for as long as the victim may become one. */
static long try_became(void)
{
	struct broker_message message = {.kind = BROKER_OPEN_FILE, .pid = victim, .start = 0x400000, .end = 0x401000};
	long refused = -1;

	attach_victim();
	message.session = attached.session;
	for (int i = 0; refused && i < 60; i++) {
		refused = ask(message);
		usleep(10000);
	}
	return refused;
}

/* The maps that it may write to decide nothing. */
static long try_forged_target(void)
{
	union bpf_attr attr = {};
	char key[64] = {}, value[4096] = {};

	attach_victim();
	memcpy(key, &other, sizeof(other));
	for (unsigned i = 0; i < BROKER_MAP_FDS; i++) {
		attr.map_fd = (uint32_t)maps[i];
		attr.key = (uint64_t)(uintptr_t)key;
		attr.value = (uint64_t)(uintptr_t)value;
		syscall(SYS_bpf, BPF_MAP_UPDATE_ELEM, &attr, sizeof(attr));
	}
	return ask((struct broker_message){.kind = BROKER_OPEN_PROCESS, .session = attached.session, .pid = other});
}

static long ask_to_sample(pid_t pid, unsigned flags)
{
	return ask((struct broker_message){.kind = BROKER_ATTACH, .pid = pid, .rate = 99, .flags = flags});
}

static long bpf_call(int command)
{
	union bpf_attr attr = {.map_type = BPF_MAP_TYPE_ARRAY, .key_size = 4, .value_size = 4, .max_entries = 1};

	return syscall(SYS_bpf, command, &attr, sizeof(attr));
}

static long try_perf(void)
{
	struct perf_event_attr attr = {.type = PERF_TYPE_SOFTWARE, .size = sizeof(attr), .config = PERF_COUNT_SW_TASK_CLOCK,
				       .exclude_kernel = 1};

	return syscall(SYS_perf_event_open, &attr, 0, -1, -1, 0);
}

static long try_process_vm(void)
{
	char byte;
	struct iovec own = {&byte, 1}, other = {&victim, 1};

	return process_vm_readv(victim, &own, 1, &other, 1, 0);
}

static long try_execute(void)
{
	char *const arguments[] = {"true", NULL};

	return execv("/bin/true", arguments);
}

static long try_fork(void)
{
	pid_t pid = fork();

	if (!pid)
		_exit(0);
	return pid;
}

static long try_x32(void)
{
	/* Numbers of another ABI must not pass by. */
	return syscall(0x40000000 | SYS_getpid);
}

static long try_code(void)
{
	return mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED ? -1 : 0;
}

static long try_listing(void)
{
	DIR *dir = opendir("/etc");

	return dir ? 0 : -1;
}

static long try_send_rights(void)
{
	struct broker_message message = {.kind = BROKER_ATTACH};
	int one = 1;

	if (broker__send(channel_fd, &message, &one, 1))
		return -1;
	/* The broker ends who does that. */
	while (recv(channel_fd, &message, sizeof(message), 0) > 0)
		;
	errno = EPIPE;
	return -1;
}

CALL(memory, open_of("mem", O_RDONLY))
CALL(memory_write, open_of("mem", O_RDWR))
CALL(environment, open_of("environ", O_RDONLY))
CALL(mappings, open_of("maps", O_RDONLY))
CALL(descriptors, open_of("fd/0", O_RDONLY))
CALL(root_folder, open_of("root/etc/passwd", O_RDONLY))
CALL(oom, open_of("oom_score_adj", O_WRONLY))
CALL(passwd, open("/etc/passwd", O_RDONLY))
CALL(binary, open("/bin/sh", O_RDONLY))
CALL(device, open("/dev/tty", O_RDWR))
CALL(run_folder, open("/run", O_TMPFILE | O_RDWR, 0600))
CALL(home, open("/root", O_RDONLY | O_DIRECTORY))
CALL(link, symlink("/etc/passwd", "/tmp/misbehave-link"))
CALL(hard_link, link("/proc/self/exe", "/tmp/misbehave-link"))
CALL(mode, chmod("/tmp", 0777))
CALL(kill_victim, kill(victim, 0))
CALL(kill_all, kill(-1, 0))
CALL(thread_kill, syscall(SYS_tgkill, victim, victim, 0))
CALL(queue_signal, syscall(SYS_rt_sigqueueinfo, victim, 0, NULL))
CALL(pidfd, syscall(SYS_pidfd_open, victim, 0))
CALL(trace, ptrace(PTRACE_SEIZE, victim, 0, 0))
CALL(trace_me, ptrace(PTRACE_TRACEME, 0, 0, 0))
CALL(limits, prlimit(victim, RLIMIT_NOFILE, NULL, &(struct rlimit){}))
CALL(priority, setpriority(PRIO_PROCESS, (id_t)victim, 19))
CALL(affinity, sched_setaffinity(victim, sizeof(cpu_set_t), &(cpu_set_t){{1}}))
CALL(unix_socket, socket(AF_UNIX, SOCK_STREAM, 0))
CALL(inet_socket, socket(AF_INET, SOCK_DGRAM, 0))
CALL(netlink, socket(AF_NETLINK, SOCK_RAW, 0))
CALL(pair, socketpair(AF_UNIX, SOCK_STREAM, 0, (int[2]){}))
CALL(namespaces, unshare(CLONE_NEWUSER))
CALL(mounts, mount("none", "/mnt", "tmpfs", 0, NULL))
CALL(chroots, chroot("/"))
CALL(setuid, setuid(0))
CALL(setgroups, (long)syscall(SYS_setgroups, 0, NULL))
CALL(keys, syscall(SYS_keyctl, 0, -3, 0))
CALL(add_key, syscall(SYS_add_key, "user", "cprofd", "x", 1, -2))
CALL(uring, syscall(SYS_io_uring_setup, 1, (char[120]){}))
CALL(userfault, syscall(SYS_userfaultfd, 1))
CALL(map_create, bpf_call(BPF_MAP_CREATE))
CALL(program_load, bpf_call(BPF_PROG_LOAD))
CALL(map_by_id, bpf_call(BPF_MAP_GET_FD_BY_ID))
CALL(dumpable, prctl(PR_SET_DUMPABLE, 1))
CALL(shared_memory, shmget(IPC_PRIVATE, 4096, IPC_CREAT | 0600))
CALL(compare, syscall(SYS_kcmp, getpid(), victim, 0, 0, 0))
CALL(pid_one, ask_to_sample(1, BROKER_DUMP))
CALL(pid_one_sample, ask_to_sample(1, BROKER_SUBPROCESSES))
CALL(other_dump, ask_to_sample(other, BROKER_DUMP))
CALL(other_sample, ask_to_sample(other, BROKER_WALL))
CALL(other_children, ask_to_sample(other, BROKER_SUBPROCESSES))
CALL(other_child, ask_to_sample(child, BROKER_DUMP))
CALL(the_broker, ask_to_sample(broker_pid, BROKER_DUMP))
CALL(pid_zero, ask_to_sample(0, BROKER_DUMP))
CALL(pid_negative, ask_to_sample(-other, BROKER_DUMP))
CALL(other_authorised, ask_in_session(BROKER_OPEN_PROCESS, other))
CALL(other_child_authorised, ask_in_session(BROKER_OPEN_PROCESS, child))
CALL(pid_one_authorised, ask_in_session(BROKER_OPEN_PROCESS, 1))
CALL(other_file, ask_for_file(BROKER_OPEN_FILE))
CALL(other_debug, ask_for_file(BROKER_OPEN_DEBUG))
CALL(other_perf_map, ask_in_session(BROKER_OPEN_PERF_MAP, other))
CALL(other_watch, ask_to_watch(other, other))
CALL(other_thread, ask_to_watch(victim, other))
CALL(host, ask_to_sample(0, BROKER_HOST | BROKER_SUBPROCESSES))
CALL(other_adopted, ask_in_session(BROKER_ADOPT, other))
CALL(no_session, ask((struct broker_message){.kind = BROKER_OPEN_PROCESS, .session = 1, .pid = 1}))
CALL(no_kallsyms, ask((struct broker_message){.kind = BROKER_OPEN_KALLSYMS, .session = 1}))
CALL(kind, ask((struct broker_message){.kind = 99}))

#define ATTEMPTS(X) \
	X(memory) X(memory_write) X(environment) X(mappings) X(descriptors) X(root_folder) X(system_call) X(oom) X(passwd) \
	X(binary) X(device) X(run_folder) X(home) X(link) X(hard_link) X(mode) X(listing) X(kill_victim) X(kill_all) \
	X(thread_kill) X(queue_signal) X(pidfd) X(trace) X(trace_me) X(process_vm) X(limits) X(priority) X(affinity) \
	X(unix_socket) X(inet_socket) X(netlink) X(pair) X(execute) X(fork) X(code) X(x32) X(namespaces) X(mounts) X(chroots) \
	X(setuid) X(setgroups) X(keys) X(add_key) X(uring) X(userfault) X(map_create) X(program_load) X(map_by_id) X(perf) \
	X(dumpable) X(shared_memory) X(compare) X(pid_one) X(pid_one_sample) X(other_dump) X(other_sample) \
	X(other_children) X(other_child) X(the_broker) X(pid_zero) X(pid_negative) X(other_authorised) X(other_child_authorised) \
	X(pid_one_authorised) X(other_file) X(other_debug) X(other_perf_map) X(other_watch) X(other_thread) X(forged_target) X(host) X(other_adopted) X(became) \
	X(no_session) X(no_kallsyms) X(kind) X(send_rights)

static const struct {
	const char *name;
	long (*run)(void);
} attempts[] = {
#define ROW(name) {#name, try_##name},
	ATTEMPTS(ROW)
#undef ROW
};

static int engine(int channel)
{
	struct broker_message client;
	int fds[BROKER_FDS_MAX];
	unsigned n;

	channel_fd = channel;
	/* A broker whose client was not taken has an error of its own. */
	if (broker__receive(channel, &client, fds, &n) || client.kind != BROKER_CLIENT)
		return 2;
	if (!bare && sandbox__enter(NULL, 0))
		return 2;
	for (size_t i = 0; i < sizeof(attempts) / sizeof(attempts[0]); i++) {
		if (strcmp(attempts[i].name, wanted))
			continue;
		if (attempts[i].run() < 0) {
			printf("refused: %s\n", strerror(errno));
			return 3;
		}
		printf("succeeded\n");
		return 4;
	}
	return 2;
}

int main(int argc, char **argv)
{
	struct broker_options options = {.listen_fd = -1, .engine_main = engine, .expect_flags = BROKER_DUMP};
	int pair[2], option, status;

	while ((option = getopt(argc, argv, "u:o:c:bl")) != -1) {
		if (option == 'u')
			options.client_uid = options.client_gid = (uid_t)atoi(optarg);
		else if (option == 'o')
			other = atoi(optarg);
		else if (option == 'c')
			child = atoi(optarg);
		else if (option == 'b')
			bare = true;
		else if (option == 'l')
			for (size_t i = 0; i < sizeof(attempts) / sizeof(attempts[0]); i++)
				puts(attempts[i].name);
		else
			return 2;
	}
	if (argc - optind != 2 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair))
		return argc - optind ? 2 : 0;
	victim = atoi(argv[optind]);
	wanted = argv[optind + 1];
	broker_pid = getpid();
	if (peer__name(pair[0], (pid_t[]){victim, other, child}, bare && other ? 3 : 1))
		return 2;
	options.client_fd = pair[1];
	setvbuf(stdout, NULL, _IOLBF, 0);
	status = broker__run(&options);
	if (status == 128 + SIGSYS)
		puts("killed: seccomp");
	else if (status != 3 && status != 4)
		printf("ended: %d\n", status);
	return 0;
}
