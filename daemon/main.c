/* SPDX-License-Identifier: MIT */
/* cprofd: finds the command, parses its options, runs it. `cprofd attach 4242 -d 10` -> command__find("attach") ->
 * options__parse() -> command->run(). Commands and options are tables (cli/cli.h), from which help, manual page and
 * completion are made, too. */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "broker/program.h"
#include "cli/cli.h"
#include "serve/serve.h"

/* What was printed has to arrive: a disk may be full. A reader that has ended (`| head`) has read enough. */
static int flush_stdout(int status)
{
	struct pollfd reader = {STDOUT_FILENO, POLLOUT, 0};
	int failed;

	errno = 0;
	failed = fflush(stdout) || ferror(stdout);
	if (!failed || status != CLI_DONE || (poll(&reader, 1, 0) == 1 && reader.revents & POLLERR))
		return status;
	say__failure("", "stdout could not be written%s%s", errno ? ": " : "", errno ? strerror(errno) : "");
	return CLI_COULD_NOT;
}

/* Exit statuses: CLI_DONE (0), CLI_USAGE (2) for a wrong command line, and what the command returns. */
int main(int argc, char **argv)
{
	const struct command *command;
	struct cli_options options;
	bool help;
	int status;

	if (argc && !strcmp(argv[0], PROGRAM_ENGINE)) /* where the engine's own program is not there (broker/program.h) */
		engine__execute(argc, argv);
	if (argc < 2) {
		help__overview(stderr);
		return CLI_USAGE;
	}
	if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h")) {
		help__overview(stdout);
		return CLI_DONE;
	}
	if (!strcmp(argv[1], "--version") || !strcmp(argv[1], "-V")) {
		puts("cprofd " CPROFD_VERSION);
		return CLI_DONE;
	}
	command = command__find(argv[1]);
	if (!command)
		return command__unknown(argv[1]);
	status = options__parse(command, argc - 1, argv + 1, &options, &help);
	if (status != CLI_DONE)
		return status;
	if (help) {
		help__command(stdout, command);
		return flush_stdout(CLI_DONE);
	}
	/* Colours and quietness are settings of the whole process: they are set before the command prints anything. */
	style__allow(options.color);
	if (options.quiet)
		say__quietly();
	return flush_stdout(command->run(&options));
}
