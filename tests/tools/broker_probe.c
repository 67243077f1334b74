/* SPDX-License-Identifier: MIT */
/* The broker with an engine that only asks: what does an unprivileged process get?
 *
 *   broker_probe [-u UID] [-s] [-f] [-n] [-a] PID     default uid: 0, whose engine is `nobody`
 *
 * One line for each thing tried, "name: ok" or "name: what failed"; exit status 1
 * when one failed. With -f also the files behind the mappings; with -a the client did not name PID. Run it as root.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "broker/broker.h"
#include "broker/peer.h"
#include "cprofd/record.h"
#include "cprofd/unwind.h"
#include "target/process.h"

static pid_t target;
static bool files;
static uint32_t flags;
static int failures;
static double started;

static double now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static void tell(const char *name, bool good, const char *what)
{
	printf("%s: %s\n", name, good ? "ok" : what);
	failures += !good;
}

static long bpf(int command, union bpf_attr *attr)
{
	return syscall(SYS_bpf, command, attr, sizeof(*attr));
}

static bool map_call(int command, int fd, const void *key, const void *value)
{
	union bpf_attr attr = {};

	attr.map_fd = (uint32_t)fd;
	attr.key = (uint64_t)(uintptr_t)key;
	attr.value = (uint64_t)(uintptr_t)value;
	return !bpf(command, &attr);
}

static int ask(int channel, struct broker_message *message, int fds[BROKER_FDS_MAX], unsigned *n)
{
	int err = broker__send(channel, message, NULL, 0);

	if (!err)
		err = broker__receive(channel, message, fds, n);
	return err;
}

static void probe_privileges(void)
{
	union bpf_attr attr = {.map_type = BPF_MAP_TYPE_ARRAY};
	char line[128];
	bool none = false;
	FILE *status = fopen("/proc/thread-self/status", "r");

	while (status && fgets(line, sizeof(line), status))
		if (!strncmp(line, "CapEff:", 7))
			none = strtoull(line + 7, NULL, 16) == 0;
	if (status)
		fclose(status);
	/* Not dumpable: /proc/self belongs to root, but status can be read by all. */
	tell("no capability", none, "has some");
	tell("no_new_privs", prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1, "not set");
	tell("not dumpable", prctl(PR_GET_DUMPABLE, 0, 0, 0, 0) == 0, "dumpable");
	tell("not root", getuid() && geteuid() && setuid(0), "can be root");
	attr.key_size = attr.value_size = 4;
	attr.max_entries = 1;
	tell("cannot create maps", bpf(BPF_MAP_CREATE, &attr) < 0, "can");
}

static void probe_maps(const int fds[BROKER_MAP_FDS], const struct broker_message *attached)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE), len = page + 2 * attached->ring_bytes;
	struct image_key key = {.arg_start = attached->arg_start, .start_data = attached->start_data};
	struct native_key whose = {.image = key, .tgid = (uint64_t)target};
	struct unwind_process process = {};
	struct image image = {};
	void *p;

	p = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_SHARED, fds[0], 0);
	tell("ring: consumer page, writable", p != MAP_FAILED, strerror(errno));
	p = mmap(NULL, len, PROT_READ, MAP_SHARED, fds[0], (off_t)page);
	tell("ring: data, readable", p != MAP_FAILED, strerror(errno));
	p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, fds[0], (off_t)page);
	tell("ring: data, not writable", p == MAP_FAILED, "writable");
	tell("images: update", map_call(BPF_MAP_UPDATE_ELEM, fds[1], &key, &image), strerror(errno));
	tell("images: lookup", map_call(BPF_MAP_LOOKUP_ELEM, fds[1], &key, &image), strerror(errno));
	tell("images: delete", map_call(BPF_MAP_DELETE_ELEM, fds[1], &key, NULL), strerror(errno));
	p = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_SHARED, fds[2], 0);
	tell("samples, writable", p != MAP_FAILED, strerror(errno));
	tell("processes: update", map_call(BPF_MAP_UPDATE_ELEM, fds[3], &whose, &process), strerror(errno));
	tell("processes: delete", map_call(BPF_MAP_DELETE_ELEM, fds[3], &whose, NULL), strerror(errno));
}

/* What is told of children comes before the answer. */
static int ask_pool(int channel, struct broker_message *m, int fds[BROKER_FDS_MAX], unsigned *n)
{
	int err = ask(channel, m, fds, n);

	while (!err && m->kind == BROKER_CHILD) {
		printf("child %d\n", m->pid);
		err = broker__receive(channel, m, fds, n);
	}
	return err;
}

/* Pools of unwind tables: for sessions with native stacks, and bounded. */
static void probe_pools(int channel, const struct broker_message *attached)
{
	const struct broker_message request = {.kind = BROKER_ADD_POOL, .session = attached->session};
	bool native = flags & BROKER_NATIVE_MASK;
	struct broker_message m = request;
	int fds[BROKER_FDS_MAX];
	unsigned n, i;
	void *p;

	m.pool_bytes = 1 << 20;
	if (!native) {
		tell("ADD_POOL without native stacks is refused", !ask_pool(channel, &m, fds, &n) && m.error && !n, "served");
		return;
	}
	for (i = 0; i < 2; i++) {
		m = request;
		m.pool_bytes = 1 << 20;
		if (ask_pool(channel, &m, fds, &n) || m.error || n != 1) {
			tell("ADD_POOL", false, broker_error__sentence(m.error));
			return;
		}
		tell("ADD_POOL", m.kind == BROKER_POOL && m.number == i && m.pool_bytes == 1 << 20, "of another form");
		p = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_SHARED, fds[0], 0);
		tell("pool, writable", p != MAP_FAILED, strerror(errno));
		close(fds[0]);
	}
	m = request;
	m.pool_bytes = BROKER_POOLS_BYTES;
	tell("ADD_POOL of too much is refused", !ask_pool(channel, &m, fds, &n) && m.error && !n, "served");
	m = request;
	m.pool_bytes = 100;
	tell("ADD_POOL of a part of a page is refused", !ask_pool(channel, &m, fds, &n) && m.error && !n, "served");
}

static void probe_files(int channel, const struct broker_message *attached, const struct maps *maps)
{
	unsigned n, asked = 0, got = 0;
	int fds[BROKER_FDS_MAX];
	double begin = now_ms();
	size_t i;

	for (i = 0; i < maps->n; i++) {
		struct broker_message m = {
			.kind = BROKER_OPEN_FILE,
			.session = attached->session,
			.pid = target,
			.start = maps->items[i].start,
			.end = maps->items[i].end,
		};

		if (!maps->items[i].inode || maps->items[i].offset)
			continue;
		asked++;
		if (ask(channel, &m, fds, &n))
			break;
		if (m.error)
			printf("  %.*s: %s (%s)\n", (int)maps->items[i].path_len, maps->items[i].path,
			       broker_error__sentence(m.error), strerror(m.error_errno));
		else
			got++;
		while (n)
			close(fds[--n]);
	}
	printf("files: %u of %u in %.1f ms\n", got, asked, now_ms() - begin);
}

static int engine(int channel)
{
	struct broker_message m, attached;
	struct target_process process;
	int fds[BROKER_FDS_MAX], err;
	char byte;
	unsigned n;

	err = broker__receive(channel, &m, fds, &n);
	tell("CLIENT", !err && m.kind == BROKER_CLIENT && n == 1, "missing");
	probe_privileges();
	m = (struct broker_message){
		.kind = BROKER_ATTACH, .token = 7, .pid = target, .rate = 999, .flags = flags};
	err = ask(channel, &m, fds, &n);
	if (err || m.error) {
		printf("ATTACH: %s (%s)\n", broker_error__sentence(m.error),
		       strerror(err ? -err : m.error_errno));
		return 1;
	}
	attached = m;
	printf("attached after %.1f ms: %u threads, ring %llu bytes\n", now_ms() - started, m.threads,
	       (unsigned long long)m.ring_bytes);
	tell("ATTACHED", m.kind == BROKER_ATTACHED && m.token == 7 && n == BROKER_ATTACHED_FDS, "of another form");
	probe_maps(fds, &attached);
	tell("mem: read", pread(fds[BROKER_MAP_FDS + 1], &byte, 1, (off_t)attached.arg_start) == 1, strerror(errno));
	tell("mem: not writable", pwrite(fds[BROKER_MAP_FDS + 1], &byte, 1, (off_t)attached.arg_start) < 0, "writable");
	err = target_process__init(&process, target, fds[BROKER_MAP_FDS + 1], fds[BROKER_MAP_FDS + 2],
				   (struct image_key){attached.arg_start, attached.start_data});
	tell("maps: read", !err && process.maps.n && !process.maps.bad, "cannot");
	probe_pools(channel, &attached);
	if (files)
		probe_files(channel, &attached, &process.maps);
	m = (struct broker_message){
		.kind = BROKER_OPEN_PROCESS, .session = attached.session, .pid = target};
	err = ask(channel, &m, fds, &n);
	while (!err && m.kind == BROKER_CHILD) {
		printf("child %d\n", m.pid);
		err = broker__receive(channel, &m, fds, &n);
	}
	tell("OPEN_PROCESS: the target", !err && !m.error && n == 3, broker_error__sentence(m.error));
	m = (struct broker_message){.kind = BROKER_OPEN_PROCESS, .session = attached.session, .pid = 1};
	err = ask(channel, &m, fds, &n);
	tell("OPEN_PROCESS: a stranger is refused", !err && m.error && !n, "served");
	m = (struct broker_message){.kind = BROKER_RESUME, .session = attached.session};
	err = ask(channel, &m, fds, &n);
	tell("RESUME", !err && m.kind == BROKER_THREADS && m.threads, broker_error__sentence(m.error));
	m = (struct broker_message){.kind = BROKER_DETACH, .session = attached.session};
	err = ask(channel, &m, fds, &n);
	tell("DETACH", !err && m.kind == BROKER_DETACHED && !m.error, broker_error__sentence(m.error));
	m = (struct broker_message){.kind = BROKER_RESUME, .session = attached.session};
	err = ask(channel, &m, fds, &n);
	tell("RESUME of an ended session is refused", !err && m.error, "served");
	target_process__free(&process);
	return failures ? 1 : 0;
}

int main(int argc, char **argv)
{
	/* The machine's ptrace_scope and perf_event_paranoid: tests/live/privileges.py. */
	struct broker_options options = {.listen_fd = -1, .engine_main = engine, .allow = BROKER_ALLOW_OWN};
	bool unnamed = false;
	int pair[2], option;

	while ((option = getopt(argc, argv, "u:sfna")) != -1) {
		if (option == 'u')
			options.client_uid = options.client_gid = (uid_t)atoi(optarg);
		else if (option == 's')
			flags |= BROKER_SUBPROCESSES;
		else if (option == 'n')
			flags |= BROKER_NATIVE_FULL << BROKER_NATIVE_SHIFT;
		else if (option == 'f')
			files = true;
		else if (option == 'a') /* as an engine that asks for a stranger */
			unnamed = true;
		else
			return 2;
	}
	if (argc - optind != 1 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair))
		return 2;
	target = atoi(argv[optind]);
	if (!unnamed && peer__name(pair[0], &target, 1))
		return 2;
	options.client_fd = pair[1];
	options.expect_flags = flags;
	setvbuf(stdout, NULL, _IOLBF, 0);
	started = now_ms();
	return broker__run(&options);
}
