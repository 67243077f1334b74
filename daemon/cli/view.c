/* SPDX-License-Identifier: MIT */
/* `cprofd view FILE`: serves the report of a recording to the user's browser (web/web.h), until Ctrl-C.
 *
 *     cprofd view svd.cprof
 *       child: cprofd convert -f html      the only one that parses the recording
 *       -> root is given up                before a byte of HTTP is read
 *       -> http://127.0.0.1:PORT/TOKEN/    until a signal */
#include <fcntl.h>
#include <poll.h>
#include <sys/signalfd.h>
#include <sys/wait.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "cli/recorder.h"
#include "cli/user.h"
#include "html/html.h"
#include "web/web.h"

/* Sends the browser on to the address. An address among a program's arguments could be read by every user of the
 * machine; a file of the user's own cannot. */
struct doorway {
	char path[64]; /* "": none */
};

static void doorway__open(struct doorway *doorway, const char *address)
{
	char text[300];
	int len = snprintf(text, sizeof(text), "<!DOCTYPE html><meta charset=\"utf-8\"><meta name=\"referrer\" content=\"no-referrer\">"
			   "<meta http-equiv=\"refresh\" content=\"0;url=%s\"><title>cprofd</title>\n", address);
	_cleanup_close_ int fd = -1;

	snprintf(doorway->path, sizeof(doorway->path), "/tmp/cprofd-XXXXXX.html");
	fd = mkostemps(doorway->path, (int)strlen(".html"), O_CLOEXEC);
	if (fd < 0)
		*doorway->path = '\0';
	else if (write(fd, text, (size_t)len) == len)
		browser__try(doorway->path);
}

static void doorway__close(struct doorway *doorway)
{
	if (*doorway->path)
		unlink(doorway->path);
}

/* True: a signal that ends the view. */
static bool take_signals(struct web *web, int signals)
{
	struct signalfd_siginfo info;
	bool end = false;

	while (read(signals, &info, sizeof(info)) == sizeof(info)) {
		if (info.ssi_signo == SIGCHLD)
			web__child(web);
		else
			end = true;
	}
	return end;
}

static int serve(struct web *web, int signals)
{
	struct doorway doorway = {};
	int err = 0;

	say("%s", web__address(web));
	say__note("the page is there until Ctrl-C; whoever has this address can read it");
	doorway__open(&doorway, web__address(web));
	while (!err) {
		struct pollfd fds[] = {{signals, POLLIN, 0}, {web__fd(web), POLLIN, 0}};

		if (poll(fds, 2, web__timeout_ms(web)) < 0 && errno != EINTR)
			err = -errno;
		if (fds[0].revents && take_signals(web, signals))
			break;
		err = err ?: web__run(web);
	}
	doorway__close(&doorway);
	return err;
}

static int say_no_server(int err)
{
	if (err == -ENOTSUP)
		say__failure("sudo apt-get install libmicrohttpd12", "view needs the library libmicrohttpd, which is not installed");
	else
		say__failure("", "no page can be served: %s", strerror(-err));
	return CLI_COULD_NOT;
}

/* The page as a file, made by `cprofd convert`, which has the sentences for all that can be wrong with a recording. */
static int make_report(const struct cli_options *options, int *ret_fd)
{
	const char *arguments[12] = {"cprofd", "convert", "-q", "-f", "html", "-o", "-"};
	size_t n = 7;
	int status, err;
	pid_t pid;

	if (options->no_limits)
		arguments[n++] = "--no-limits";
	if (options->rules) {
		arguments[n++] = "--rules";
		arguments[n++] = options->rules;
	}
	arguments[n++] = "--";
	arguments[n++] = options->operands[0];
	err = save__convert(NULL, arguments, &pid, ret_fd);
	if (err) {
		say__failure("", "the report cannot be made: %s", strerror(-err));
		return CLI_COULD_NOT;
	}
	while (waitpid(pid, &status, 0) < 0)
		;
	if (WIFEXITED(status) && !WEXITSTATUS(status))
		return CLI_DONE;
	close(take_fd(ret_fd));
	return WIFEXITED(status) ? WEXITSTATUS(status) : CLI_COULD_NOT;
}

static int view_file(const struct cli_options *options)
{
	struct web_content content = {.report = -1};
	struct buf policy = {};
	struct web *web = NULL;
	int signals = -1, status, err;

	/* Nothing here needs root. */
	err = user__drop(user__calling());
	if (err) {
		say("root's rights cannot be given up, so nothing is read: %s", strerror(-err));
		return CLI_COULD_NOT;
	}
	err = web__load();
	if (err)
		return say_no_server(err);
	status = make_report(options, &content.report);
	if (status != CLI_DONE)
		return status;
	html__policy(&policy);
	buf__append(&policy, "", 1);
	content.policy = policy.data;
	signals = recorder__signals(true, NULL);
	err = policy.failed ? -ENOMEM : web__new(&content, &web);
	if (err)
		status = say_no_server(err);
	else if (serve(web, signals))
		status = CLI_COULD_NOT;
	web__free(web);
	buf__free(&policy);
	close(content.report);
	if (signals >= 0)
		close(signals);
	return status;
}

int view__run(const struct cli_options *options)
{
	if (options->n_operands != 1) {
		say__failure("as in `cprofd view svd.cprof`", options->n_operands ? "one recording at a time" : "which recording?");
		return CLI_USAGE;
	}
	return view_file(options);
}
