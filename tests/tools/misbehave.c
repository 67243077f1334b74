/* The broker with an engine that misbehaves: one thing that an engine must not do.
 *
 *   misbehave [-u UID] [-b] VICTIM ATTEMPT     -b: without the sandbox; -l: names of all attempts
 *
 * VICTIM is a process of the engine's own user, so that nothing but the sandbox protects it. Prints "succeeded",
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
#include "serve/sandbox.h"

static pid_t victim;
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
	if (!err)
		err = broker__receive(channel_fd, &message, fds, &n);
	errno = err ? -err : EPERM;
	return err || message.error ? -1 : 0;
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
CALL(pid_one, ask((struct broker_message){.kind = BROKER_ATTACH, .pid = 1, .rate = 1, .flags = BROKER_DUMP | BROKER_WALL}))
CALL(no_session, ask((struct broker_message){.kind = BROKER_OPEN_PROCESS, .session = 1, .pid = 1}))
CALL(no_kallsyms, ask((struct broker_message){.kind = BROKER_OPEN_KALLSYMS, .session = 1}))
CALL(kind, ask((struct broker_message){.kind = 99}))

#define ATTEMPTS(X) \
	X(memory) X(memory_write) X(environment) X(mappings) X(descriptors) X(root_folder) X(system_call) X(oom) X(passwd) \
	X(binary) X(device) X(run_folder) X(home) X(link) X(hard_link) X(mode) X(listing) X(kill_victim) X(kill_all) \
	X(thread_kill) X(queue_signal) X(pidfd) X(trace) X(trace_me) X(process_vm) X(limits) X(priority) X(affinity) \
	X(unix_socket) X(inet_socket) X(netlink) X(pair) X(execute) X(fork) X(code) X(x32) X(namespaces) X(mounts) X(chroots) \
	X(setuid) X(setgroups) X(keys) X(add_key) X(uring) X(userfault) X(map_create) X(program_load) X(map_by_id) X(perf) \
	X(dumpable) X(shared_memory) X(compare) X(pid_one) X(no_session) X(no_kallsyms) X(kind) X(send_rights)

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

	while ((option = getopt(argc, argv, "u:bl")) != -1) {
		if (option == 'u')
			options.client_uid = options.client_gid = (uid_t)atoi(optarg);
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
	options.client_fd = pair[1];
	setvbuf(stdout, NULL, _IOLBF, 0);
	status = broker__run(&options);
	if (status == 128 + SIGSYS)
		puts("killed: seccomp");
	else if (status != 3 && status != 4)
		printf("ended: %d\n", status);
	return 0;
}
