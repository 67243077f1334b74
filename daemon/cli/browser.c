/* SPDX-License-Identifier: MIT */
/* Opens a finished file in the browser of the calling user. Under sudo that is the user who called sudo, not root:
 * xdg-open runs as that user, in that user's session. */
#include "cli/cli.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/user.h"

#define OPENER "xdg-open"

int browser__judge(const struct cli_options *options, const char **format)
{
	if (!options->open)
		return CLI_DONE;
	if (!options->format && !options->output)
		*format = "html";
	if (options->output && !strcmp(options->output, "-")) {
		say__failure("leave `-o -` out", "--open opens a file, and `-o -` writes none");
		return CLI_USAGE;
	}
	if (strcmp(*format, "html") && strcmp(*format, "svg")) {
		say__failure("-f html or -f svg; files for speedscope are opened at " CLI_SPEEDSCOPE, "--open: a browser shows no %s by itself", *format);
		return CLI_USAGE;
	}
	return CLI_DONE;
}

/* Has the user a graphical session, or chosen a browser? */
static bool is_there(void)
{
	static const char *const names[] = {"DISPLAY", "WAYLAND_DISPLAY", "BROWSER"};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (getenv(names[i]) && *getenv(names[i]))
			return true;
	return false;
}

/* Is xdg-open in PATH? Asked before the fork below, because nobody waits for the grandchild to learn that it failed. */
static bool has_opener(void)
{
	const char *path = getenv("PATH");
	char name[PATH_MAX];

	for (path = path ? path : "/usr/bin:/bin"; *path; path += strcspn(path, ":"), path += *path == ':') {
		snprintf(name, sizeof(name), "%.*s/" OPENER, (int)strcspn(path, ":"), path);
		if (!access(name, X_OK))
			return true;
	}
	return false;
}

/* Runs in the first child. 127 is the shell's status for a command that was not found; browser__open() only
 * tests it for 0. */
static void __attribute__((noreturn)) execute(const char *path)
{
	int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);

	/* The environment (DISPLAY ...) is that of the user's session. */
	if (user__become(user__calling()) || nothing < 0 || !is_there() || !has_opener())
		_exit(127);
	/* A browser prints for as long as it runs; nothing of that may end up on the terminal, or in a pipe
	 * that carries our data. */
	dup2(nothing, STDIN_FILENO);
	dup2(nothing, STDOUT_FILENO);
	dup2(nothing, STDERR_FILENO);
	setsid();
	/* Fork again: the parent reaps this child at once, and init reaps xdg-open, which may run as long as the
	 * browser. */
	switch (fork()) {
	case 0:
		execlp(OPENER, OPENER, path, NULL);
		_exit(127);
	case -1:
		_exit(127);
	default:
		_exit(0);
	}
}

bool browser__try(const char *path)
{
	int status = -1;
	pid_t pid;

	user__calling(); /* read the user database before the fork; the result is cached for the child */
	/* Else the child would have a copy of what stdio still buffers, and it would be written twice. */
	fflush(NULL);
	pid = fork();
	if (!pid)
		execute(path);
	while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return pid > 0 && !status;
}

void browser__open(const char *path)
{
	char whole[PATH_MAX];

	/* A file:// address needs the absolute path. Where it cannot be found, the relative one is still a
	 * good hint. */
	if (!realpath(path, whole))
		snprintf(whole, sizeof(whole), "%s", path);
	if (!browser__try(whole))
		say__note("no browser can be opened here; in one, the address is file://%s", whole);
}
