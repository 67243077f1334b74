/* SPDX-License-Identifier: MIT */
/* `cprofd record -- COMMAND`: forks the command, which waits on a pipe until its perf events are attached,
 * and only then calls exec. So the recording has its first instruction.
 *
 *     cprofd                          child
 *       fork  ----------------------->  waits: read(go)
 *       attaches to the child's pid
 *       (the engine answers)
 *       write(go) ------------------->  exec
 *       read(failed) <----------------  end of file: exec closed it; or the errno, if exec failed
 *
 * A child that gets the end of file from `go` exits: cprofd died, or could not attach. `top -- COMMAND` does
 * the same. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/cleanup.h"
#include "cli/continuous.h"
#include "cli/flight.h"
#include "cli/recorder.h"
#include "cli/user.h"

/* Gives the forked child the command's name (comm and /proc/PID/cmdline) before exec: the recording stores the
 * process's name at its first sample. The arguments of the command are the end of our own argument area; they are
 * moved to its start, after a copy was made for exec. */
static char **take_name(char **argv)
{
	/* argv[0] of cprofd: the begin of the area that the kernel shows as /proc/PID/cmdline. The command's
	 * words are the last of it, one after another. */
	char *area = program_invocation_name, *end, **copy;
	int n = 0, i;

	while (argv[n])
		n++;
	copy = calloc((size_t)n + 1, sizeof(*copy));
	for (i = 0; copy && i < n; i++) {
		copy[i] = strdup(argv[i]);
		if (!copy[i])
			return argv;
	}
	end = argv[n - 1] + strlen(argv[n - 1]);
	/* Without memory the child is named like its parent until exec, which is only untidy. */
	if (!copy || argv[0] <= area)
		return argv;
	i = (int)(end - argv[0]);
	memmove(area, argv[0], (size_t)i);
	memset(area + i, '\0', (size_t)(end - area - i));
	prctl(PR_SET_NAME, basename(copy[0]));
	return copy;
}

/* In the child. 127 and 126 are what shells return for a command that is not found or cannot be run; the
 * parent usually knows the reason from `failed`. */
static void __attribute__((noreturn)) wait_and_execute(int go, int failed, char **argv)
{
	char byte;
	int err;

	argv = take_name(argv);
	/* Drop root before waiting: the parent, which has dropped it by then, can still kill this child. */
	err = user__become(user__calling());
	/* End of file instead of a byte: the recording did not begin. */
	if (read(go, &byte, 1) != 1)
		_exit(127);
	/* Ignored signals stay ignored across exec. Blocked ones do, too, but this child was forked before
	 * recorder__signals() blocked any. */
	signal(SIGPIPE, SIG_DFL);
	if (!err) {
		execvp(argv[0], argv);
		err = -errno;
	}
	if (write(failed, &err, sizeof(err)) != sizeof(err))
		_exit(126);
	_exit(127);
}

/* In the child, for `top`: the terminal belongs to the view. */
static void be_silent(void)
{
	int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);

	if (nothing < 0)
		_exit(127);
	dup2(nothing, STDIN_FILENO);
	dup2(nothing, STDOUT_FILENO);
	dup2(nothing, STDERR_FILENO);
}

int launch__start(char **argv, bool silent, struct launch *ret)
{
	int go[2], failed[2], err;

	*ret = (struct launch){.go = -1, .failed = -1, .name = argv[0]};
	/* O_CLOEXEC is what makes `failed` end without a byte when exec succeeds, and it keeps both pipes
	 * from the command. */
	if (pipe2(go, O_CLOEXEC) < 0)
		return -errno;
	if (pipe2(failed, O_CLOEXEC) < 0) {
		err = -errno;
		close(go[0]);
		close(go[1]);
		return err;
	}
	user__calling(); /* read the user database before the fork; the result is cached for the child */
	fflush(NULL);
	ret->pid = fork();
	if (!ret->pid) {
		close(go[1]);
		close(failed[0]);
		if (silent)
			be_silent();
		wait_and_execute(go[0], failed[1], argv);
	}
	err = ret->pid < 0 ? -errno : 0;
	close(go[0]);
	close(failed[1]);
	ret->go = go[1];
	ret->failed = failed[0];
	if (err) {
		close(take_fd(&ret->go));
		close(take_fd(&ret->failed));
	}
	return err;
}

bool launch__reap(struct launch *launch, int options)
{
	struct rusage usage;
	pid_t pid;

	do
		pid = wait4(launch->pid, &launch->status, options, &usage);
	while (pid < 0 && errno == EINTR);
	if (pid != launch->pid)
		return false;
	launch->reaped = true;
	/* ru_utime and ru_stime of wait4() have the children that the command waited for, too: it is the time
	 * of the whole tree. */
	launch->cpu = (uint64_t)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000000u +
		      (uint64_t)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1000u;
	return true;
}

/* After the recording: waits until the command ends. */
static void wait_for(struct launch *launch, bool ran)
{
	if (launch__reap(launch, WNOHANG))
		return;
	if (ran)
		say__note("the recording is done; waiting for %s (%d) to end", launch->name, launch->pid);
	launch__reap(launch, 0);
}

static void print_status(const struct launch *launch)
{
	if (WIFSIGNALED(launch->status))
		say__note("%s was ended by signal %d (%s)", launch->name, WTERMSIG(launch->status),
		    strsignal(WTERMSIG(launch->status)));
	else
		say__note("%s ended with status %d", launch->name, WEXITSTATUS(launch->status));
}

int launch__go(struct launch *launch)
{
	int err = 0;

	/* The child is gone, by a signal for instance. SIGPIPE is ignored (recorder__signals). */
	if (write(launch->go, "g", 1) != 1)
		return -EPIPE;
	close(take_fd(&launch->go));
	if (read(launch->failed, &err, sizeof(err)) != sizeof(err))
		return 0;
	return err;
}

/* What helps: most of these who cannot be run are Python scripts that were given as a command. */
void launch__print_failure(const struct launch *launch, int err)
{
	const char *name = launch->name, *end = strrchr(name, '.');
	const bool script = end && !strcmp(end, ".py"), path = strchr(name, '/');
	struct stat file;
	char hint[512] = "check the command's name and its permissions";

	if (!stat(name, &file) && S_ISDIR(file.st_mode))
		snprintf(hint, sizeof(hint), "it is a directory");
	else if (!access(name, F_OK) && script)
		snprintf(hint, sizeof(hint), "a Python script is no command: cprofd record -- python3 %.200s", name);
	else if (!access(name, F_OK) && err == -ENOENT && !path)
		snprintf(hint, sizeof(hint), "it is in no folder of $PATH; the one in this folder is ./%.200s", name);
	else if (!access(name, F_OK) && err == -ENOENT)
		snprintf(hint, sizeof(hint), "the file is there: the interpreter that its first line names, or its loader, is not");
	else if (!access(name, F_OK) && err == -EACCES)
		snprintf(hint, sizeof(hint), "it may not be executed: chmod +x, or name its interpreter before it");
	say__failure(hint, "%s cannot be run: %s", name, strerror(-err));
}

int record__run(const struct cli_options *options)
{
	struct launch launch;
	int status, err;
	bool ran;

	if (options->pid && !options->n_operands) /* py-spy's record -p */
		return attach__run(options);
	if (options->pid || !options->n_operands) {
		say__failure("as in `cprofd record -- python3 compile.py`; a running process: "
			     "`cprofd attach PID`",
			     options->pid ? "a command and a PID: choose one" : "which command?");
		return CLI_USAGE;
	}
	status = continuous__judge(options) ?: flight__judge(options);
	if (status != CLI_DONE)
		return status;
	err = launch__start(options->operands, false, &launch);
	if (err) {
		say("the command could not be started: %s", strerror(-err));
		return CLI_COULD_NOT;
	}
	status = recorder__run(options, launch.pid, &launch);
	/* launch__go() closes it, so this says that the command was let go. */
	ran = launch.go < 0;
	/* The recording did not begin: end of file, and the child exits without having run anything. */
	if (launch.go >= 0)
		close(launch.go);
	close(launch.failed);
	if (!launch.reaped)
		wait_for(&launch, ran);
	if (ran && !launch.exec_failed)
		print_status(&launch);
	/* Without --exit-status, the status says whether there is a recording, so that scripts can rely on
	 * it. 128 + signal is the shell's convention. */
	if (status == CLI_DONE && options->exit_status && ran && !launch.exec_failed)
		status = WIFSIGNALED(launch.status) ? 128 + WTERMSIG(launch.status) : WEXITSTATUS(launch.status);
	return status;
}
