/* SPDX-License-Identifier: MIT */
/* `cprofd agent DIR`: a session of the host (daemon/serve/host.c), recorded as --continuous records one of a process. */
#include <errno.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/continuous.h"
#include "cli/recorder.h"
#include "serve/match.h"

/* The engine knows no names of users: "user=alice" -> "user=1000". CLI_USAGE: there is no such user, which was said. */
static int number_users(const char *list[], uint32_t n, char **ret_numbers)
{
	for (uint32_t i = 0; i < n; i++) {
		const char *name = list[i] + strlen("user=");
		const struct passwd *entry;
		uint32_t uid;

		if (strncmp(list[i], "user=", strlen("user=")) || match__uid(name, &uid))
			continue;
		entry = getpwnam(name);
		if (!entry) {
			say__failure("`getent passwd` lists them; a number will do, too", "there is no user '%s'", name);
			return CLI_USAGE;
		}
		if (asprintf(&ret_numbers[i], "user=%u", entry->pw_uid) < 0) {
			ret_numbers[i] = NULL;
			say("out of memory");
			return CLI_COULD_NOT;
		}
		list[i] = ret_numbers[i];
	}
	return CLI_DONE;
}

static int judge(const struct cli_options *options)
{
	if (options->n_operands != 1)
		say__failure("as in `sudo cprofd agent /var/lib/cprofd`", options->n_operands ? "one directory alone" : "which directory do the recordings go into?");
	else if (options->keep < 2 * options->rotate_size)
		say__failure("--keep has to be at least twice --rotate-size", "--keep has room for less than two files");
	else
		return CLI_DONE;
	return CLI_USAGE;
}

int agent__run(const struct cli_options *given)
{
	struct cli_options options = *given;
	char *numbers[2 * CLI_MATCHES_MAX] = {};
	int status = judge(given);

	status = status ?: number_users(options.matches, options.n_matches, numbers);
	status = status ?: number_users(options.unmatched, options.n_unmatched, numbers + CLI_MATCHES_MAX);
	if (status == CLI_DONE && geteuid()) {
		say__failure("run it with sudo, or as a service: sudo systemctl start cprofd-agent", "agent records the Pythons of all users, which needs root");
		status = CLI_COULD_NOT;
	}
	options.continuous = options.operands ? options.operands[0] : NULL;
	options.subprocesses = true;
	/* Its own: an engine that sees the whole machine serves nobody else. */
	options.socket = CLI_SOCKET_NONE;
	if (status == CLI_DONE)
		status = recorder__run(&options, 0, NULL);
	for (size_t i = 0; i < 2 * CLI_MATCHES_MAX; i++)
		free(numbers[i]);
	return status;
}
