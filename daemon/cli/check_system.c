/* SPDX-License-Identifier: MIT */
/* `cprofd check`: what this machine (kernel, BTF, sysctls, daemon) and the privileges of this process allow. The
 * sampler is really loaded: nothing else shows that the verifier accepts it on this kernel. */
#include <errno.h>
#include <linux/capability.h>
#include <linux/perf_event.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "arch/arch.h"
#include "broker/load.h"
#include "broker/namespace.h"
#include "broker/policy.h"
#include "broker/privileges.h"
#include "cli/check.h"
#include "cli/connection.h"

/* The oldest kernel that is tested (Debian 12). Older ones lack BPF features that the sampler uses, task
 * iterators of one process among them. */
#define KERNEL_MAJOR 6
#define KERNEL_MINOR 1
#define BTF "/sys/kernel/btf/vmlinux"

/* The capabilities that the broker uses, and what is lost without each. docs/privileges.md has the reasons.
 * `needed`: no session at all is possible without it. */
static const struct {
	const char *name;
	int number;
	bool needed;
	const char *cost;
} capabilities[] = {
	{"CAP_BPF", CAP_BPF, true, "without it the sampler cannot be loaded"},
	{"CAP_PERFMON", CAP_PERFMON, true,
	 "without it the sampler may not read memory, nor perf events be opened"},
	{"CAP_SYS_PTRACE", CAP_SYS_PTRACE, false,
	 "without it only processes of one's own can be profiled, and of these none that has a capability"},
	{"CAP_DAC_READ_SEARCH", CAP_DAC_READ_SEARCH, false,
	 "without it Pythons in folders of other users cannot be read"},
	{"CAP_CHECKPOINT_RESTORE", CAP_CHECKPOINT_RESTORE, false,
	 "without it no file that a process has mapped can be read: native stacks end at once, native code has no names"},
	{"CAP_SETUID", CAP_SETUID, true, "without it no engine begins: it cannot become its user, nor give up root's rights"},
	{"CAP_SETGID", CAP_SETGID, true, "without it no engine begins: it cannot become its user, nor give up root's rights"},
	{"CAP_SYSLOG", CAP_SYSLOG, false, "without it frames of the kernel (--kernel) have no names"},
	{"CAP_KILL", CAP_KILL, false,
	 "without it the daemon cannot end an engine that does not end by itself"},
};

/* What has all that may be missing of these. */
#define PRIVILEGES_HELP "sudo cprofd ..., or the daemon; in a container, allow these capabilities and perf_event_open"

static bool has_capability(unsigned long long mask, int number)
{
	return mask >> number & 1;
}

/* The effective set, a hexadecimal mask with one bit for each CAP_* number: "CapEff:      000001ffffffffff". */
static unsigned long long effective(void)
{
	unsigned long long mask = 0;
	char line[256];
	FILE *file = fopen("/proc/self/status", "re");

	if (!file)
		return 0;
	while (fgets(line, sizeof(line), file))
		if (!strncmp(line, "CapEff:", 7))
			mask = strtoull(line + 7, NULL, 16);
	fclose(file);
	return mask;
}

/* A number in /proc/sys; -100 if it does not exist (several of these have the legal value -1). */
static int sysctl(const char *path)
{
	return policy__number(path, -100);
}

/* Three things that no privilege can replace: a recent kernel, the machine that the unwinder knows, and the
 * kernel's type information. */
static void check_kernel(struct check_list *list)
{
	struct utsname name;
	int major = 0, minor = 0;
	struct check_row *row;
	bool good;

	uname(&name);
	sscanf(name.release, "%d.%d", &major, &minor);
	good = major > KERNEL_MAJOR || (major == KERNEL_MAJOR && minor >= KERNEL_MINOR);
	row = check__add(list, "kernel", good ? CHECK_OK : CHECK_MISSING,
			 "%s (6.1 or later is needed)", name.release);
	check__help(row, "", "boot a newer kernel (Debian 12 has 6.1)");
	good = !strcmp(name.machine, MACHINE_UNAME);
	row = check__add(list, "machine", good ? CHECK_OK : CHECK_MISSING, "%s", name.machine);
	check__help(row, "only x86-64 in this version", "");
	good = !access(BTF, R_OK);
	row = check__add(list, "BTF", good ? CHECK_OK : CHECK_MISSING, "%s", BTF);
	check__help(row, "without it the sampler does not know the kernel's structures",
		    "use a kernel with CONFIG_DEBUG_INFO_BTF=y; in a container, mount /sys");
}

/* Printed only in a PID namespace, or without a usable /proc: there the visible pids may surprise. */
static void check_namespace(struct check_list *list)
{
	uint32_t own = namespace__own();
	bool proc = namespace__has_proc();
	struct check_row *row;

	if (!own && proc)
		return;
	row = check__add(list, "PID namespace", proc ? CHECK_OK : CHECK_MISSING, "pid:[%u]: %s", own,
			 proc ? "processes outside of it are not seen" : broker_error__sentence(BROKER_ERROR_NO_PROC));
	check__help(row, "", broker_error__hint(BROKER_ERROR_NO_PROC));
}

/* Connects and closes at once: whether something accepts connections is all that is asked. With systemd's
 * socket activation this starts the daemon. */
static void check_daemon(struct check_list *list, const struct cli_options *options)
{
	bool by_name;
	const char *path = connection__socket_path(options, &by_name);
	int fd, err = connection__connect_path(path, &fd);
	struct check_row *row;

	list->daemon = !err;
	if (!err) {
		close(fd);
		check__add(list, "daemon", CHECK_OK, "answers at %s: you need nothing more",
			   path);
		return;
	}
	row = check__add(list, "daemon", by_name ? CHECK_MISSING : CHECK_WARN, "none at %s (%s)",
			 path, strerror(-err));
	check__help(row, "without one, attach and record need root",
		    "sudo systemctl enable --now cprofd.socket");
}

static void check_capabilities(struct check_list *list)
{
	unsigned long long mask = effective();

	for (size_t i = 0; i < sizeof(capabilities) / sizeof(capabilities[0]); i++) {
		bool has = has_capability(mask, capabilities[i].number);
		enum check_state missing = capabilities[i].needed ? CHECK_MISSING : CHECK_WARN;
		struct check_row *row;

		row = check__add(list, capabilities[i].name, has ? CHECK_OK : missing, "%s",
				 has ? "held" : "not held");
		/* The cost is printed only for what is not held, see check.h. */
		check__help(row, capabilities[i].cost, PRIVILEGES_HELP);
	}
}

/* As which user a daemon runs the engines of root. A system user of its own is safer than `nobody`, whom
 * other programs use as well: the kernel lets processes of one user send signals to each other. */
static void check_user(struct check_list *list)
{
	bool own = privileges__engine_of_root() != PRIVILEGES_NOBODY;
	struct check_row *row;

	if (geteuid())
		return;
	row = check__add(list, "user of root's engines", own ? CHECK_OK : CHECK_WARN, "%s", own ? PRIVILEGES_USER : "nobody");
	check__help(row, "other processes of nobody can stop or end an engine of root's", "sudo make install; sudo systemd-sysusers");
}

/* Loads and attaches the real sampler, so that the kernel's verifier goes through it. Nothing smaller would
 * do: a probe program could pass where the sampler is refused. */
static void check_bpf(struct check_list *list, bool verbose)
{
	const struct load_options how = {.verbose = verbose};
	enum broker_error error = BROKER_ERROR_OK;
	struct sampler *sampler = NULL;
	int disabled = sysctl("/proc/sys/kernel/unprivileged_bpf_disabled");
	struct check_row *row;
	int err = sampler__load(&how, &sampler, &error);

	err = err ?: sampler__start(sampler);
	if (!err)
		row = check__add(list, "BPF", CHECK_OK, "the sampler loads");
	else
		row = check__add(list, "BPF", CHECK_MISSING, "%s (%s)",
				 broker_error__sentence(error), strerror(-err));
	check__help(row, "", error == BROKER_ERROR_NO_BPF ? PRIVILEGES_HELP : broker_error__hint(error));
	sampler__free(sampler);
	/* Information only: cprofd needs CAP_BPF in any case. */
	if (disabled != -100)
		check__add(list, "unprivileged_bpf_disabled", CHECK_OK, "%d (%s)", disabled,
			   disabled ? "CAP_BPF is asked for"
				    : "cprofd does not use unprivileged BPF");
}

/* The sysctls that decide which processes an ordinary user may profile through a daemon. */
static void check_policy(struct check_list *list)
{
	int scope = policy__ptrace_scope(), paranoid = policy__perf_paranoid();
	struct check_row *row;

	/* Root may trace whatever it likes, up to scope 3, which is for nobody
	 * (Documentation/admin-guide/LSM/Yama.rst). */
	if (!geteuid() && scope < 3)
		return;
	row = check__add(list, "ptrace_scope", scope ? CHECK_WARN : CHECK_OK, "%d (%s)", scope,
			 !scope	      ? "not in the way" :
			 scope == 1 ? "a user gets what `cprofd record` starts" :
			 scope == 2 ? "for root" :
				      "for nobody");
	check__help(row, "unless the daemon was started with --allow=own", broker_error__hint(BROKER_ERROR_PTRACE_SCOPE));
	if (!geteuid() || paranoid < POLICY_NO_PERF)
		return;
	row = check__add(list, "perf_event_paranoid", CHECK_WARN, "%d (users may not sample)", paranoid);
	check__help(row, "unless the daemon was started with --allow=own", broker_error__hint(BROKER_ERROR_PERF_PARANOID));
}

static void check_perf(struct check_list *list)
{
	/* The event that a session opens for each thread (broker/): a timer that runs while the thread does. */
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE,
		.size = sizeof(attr),
		.config = PERF_COUNT_SW_CPU_CLOCK,
		.freq = 1,
		.sample_freq = 999,
		.disabled = 1,
	};
	/* One event on this process, disabled: enough to see whether the system call is allowed. Containers
	 * often forbid it by seccomp. */
	int fd = (int)syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
	int rate = sysctl("/proc/sys/kernel/perf_event_max_sample_rate");
	int paranoid = sysctl("/proc/sys/kernel/perf_event_paranoid");
	struct check_row *row;

	row = check__add(list, "perf events", fd >= 0 ? CHECK_OK : CHECK_MISSING, "cpu-clock: %s",
			 fd >= 0 ? "opens" : strerror(errno));
	check__help(row, "", PRIVILEGES_HELP);
	if (fd >= 0)
		close(fd);
	if (paranoid != -100)
		check__add(list, "perf_event_paranoid", CHECK_OK, "%d (%s)", paranoid,
			   /* Level 2 refuses kernel profiling to processes without CAP_PERFMON. Debian's
			    * kernels have a level 3, which refuses all of it (docs/privileges.md). */
			   paranoid > 1 ? "CAP_PERFMON is asked for" : "not in the way");
	if (rate == -100)
		return;
	row = check__add(list, "perf_event_max_sample_rate", rate >= 999 ? CHECK_OK : CHECK_WARN,
			 "%d Hz at most", rate);
	check__help(row, "the default rate of 999 Hz is refused",
		    "sudo sysctl kernel.perf_event_max_sample_rate=100000");
}

/* --kernel names frames of the kernel by /proc/kallsyms. With kptr_restrict 1 it shows addresses only to
 * CAP_SYSLOG, with 2 to nobody. Hidden addresses are all zero, so the first line is enough to know. */
static void check_kernel_names(struct check_list *list)
{
	int restrict_ = sysctl("/proc/sys/kernel/kptr_restrict");
	FILE *file = fopen("/proc/kallsyms", "re");
	unsigned long long address = 0;
	struct check_row *row;

	if (file) {
		if (fscanf(file, "%llx", &address) != 1)
			address = 0;
		fclose(file);
	}
	row = check__add(list, "kernel names", address ? CHECK_OK : CHECK_WARN, "/proc/kallsyms %s (kptr_restrict %d)",
			 !file ? "cannot be read" : address ? "shows addresses" : "hides addresses", restrict_);
	check__help(row, "with --kernel all of the kernel is one frame, [kernel]",
		    restrict_ == 2 ? "sudo sysctl kernel.kptr_restrict=1" : PRIVILEGES_HELP);
}

void check__system(struct check_list *list, const struct cli_options *options)
{
	check_kernel(list);
	check_namespace(list);
	check_daemon(list, options);
	check_policy(list);
	/* What follows are the privileges of this process. With a daemon they do not matter. */
	if (list->daemon)
		return;
	check_capabilities(list);
	check_user(list);
	check_bpf(list, options->verbose);
	check_perf(list);
	check_kernel_names(list);
}
