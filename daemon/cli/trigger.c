/* SPDX-License-Identifier: MIT */
/* `cprofd trigger PID...`: asks the daemon that the flight recorder of a process (flight.h) writes its recording now. The
 * engine hands the request on to the client that records: which writes the file is that one, with its own rights.
 *
 * An engine serves one user, so who asks can reach their own sessions alone. Root may ask for others', and becomes the
 * process's owner for that: nothing in the daemon has to tell users apart. */
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/json_text.h"
#include "cli/connection.h"
#include "cli/readable.h"
#include "cli/user.h"

#define NOT_HERE (CLI_GREW + 1) /* the status of a child: this user has no such session */

static bool is_code(const json_t *answer, const char *code)
{
	const char *text = json_string_value(json_object_get(answer, "code"));

	return text && !strcmp(text, code);
}

/* CLI_*. A daemon of before 1.16 does not know the request, and says so. */
static int say_answer(pid_t pid, json_t *answer)
{
	const char *error;

	if (json_is_true(json_object_get(answer, "ok"))) {
		say__note("%d: its flight recorder writes a recording now", pid);
		return CLI_DONE;
	}
	if (is_code(answer, "NO_SESSION"))
		say__failure("`kill -USR2` reaches one that has an engine of its own, without a daemon", "%d: no session of yours in this daemon records it", pid);
	else if (is_code(answer, "NO_TRIGGER"))
		say__failure("it takes one that was begun with --trigger or --last", "%d: it is recorded, but not by a flight recorder", pid);
	else {
		error = json_string_value(json_object_get(answer, "error"));
		say__failure(json_string_value(json_object_get(answer, "hint")), "%d: the daemon refused: %s", pid, error ? error : "it does not say why");
	}
	return CLI_COULD_NOT;
}

/* `others`: somebody else may have such a session, so that there is none here is no failure yet. */
static int ask(const struct cli_options *options, pid_t pid, bool others)
{
	struct connection connection;
	char request[96];
	json_t *answer;
	int status = connection__open(options, 0, true, &connection);

	if (status != CLI_DONE)
		return status;
	snprintf(request, sizeof(request), "{\"req\":\"trigger\",\"id\":1,\"pid\":%d}", pid);
	answer = connection__ask(&connection, request);
	if (others && (is_code(answer, "NO_SESSION") || is_code(answer, "NO_TRIGGER")))
		status = NOT_HERE;
	else
		status = answer ? say_answer(pid, answer) : CLI_COULD_NOT;
	json_decref(answer);
	connection__close(&connection);
	return status;
}

/* In a child: an answer is read without root (connection.h), and who becomes a user stays that. */
static int ask_apart(const struct cli_options *options, pid_t pid, bool as_owner, bool others)
{
	pid_t child;
	int status, err;

	fflush(NULL);
	child = fork();
	if (!child) {
		err = as_owner ? user__drop_to(pid) : 0;
		if (err)
			say("%d: nobody can be asked as its owner: %s", pid, strerror(-err));
		status = err ? CLI_COULD_NOT : ask(options, pid, others);
		fflush(NULL);
		_exit(status);
	}
	if (child < 0 || waitpid(child, &status, 0) < 0)
		return CLI_COULD_NOT;
	return WIFEXITED(status) ? WEXITSTATUS(status) : CLI_COULD_NOT;
}

/* Is there an owner beside us to ask as? Only root may. */
static bool has_other_owner(pid_t pid)
{
	struct stat status;
	char path[32];

	snprintf(path, sizeof(path), "/proc/%d", pid);
	return !geteuid() && !stat(path, &status) && status.st_uid;
}

int trigger__run(const struct cli_options *options)
{
	pid_t pids[CLI_PIDS_MAX];
	uint32_t n;
	int status = options__pids(options, pids, &n);

	if (status != CLI_DONE)
		return status;
	for (uint32_t i = 0; i < n; i++) {
		int one = ask_apart(options, pids[i], false, has_other_owner(pids[i]));

		if (one == NOT_HERE)
			one = ask_apart(options, pids[i], true, false);
		status = status == CLI_DONE ? one : status;
	}
	return status;
}
