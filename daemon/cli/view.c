/* SPDX-License-Identifier: MIT */
/* `cprofd view FILE|PID`: serves a page to the user's browser (web/web.h), until Ctrl-C: the report of a recording, or a
 * running process, alive.
 *
 *     cprofd view svd.cprof                  cprofd view 4242
 *       root is given up                       connects and asks, as attach does
 *       child: cprofd convert -f html          the answer comes: root is given up
 *       http://127.0.0.1:PORT/TOKEN/           http://127.0.0.1:PORT/TOKEN/
 *                                              lines -> feed -> pages
 *
 * So the process that serves HTTP has the user's rights alone, and parses no recording. */
#include <fcntl.h>
#include <poll.h>
#include <sys/signalfd.h>
#include <sys/wait.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/nameless.h"
#include "cli/live.h"
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

/* The session that pages show; its feed is NULL without one. */
struct show {
	struct connection connection;
	struct live live;
	struct feed *feed;
	uint64_t flushed;
};
#define FLUSH_NS 1000000000u

/* Lines into the feed; it is made when root has been given up, which connection__receive() does. */
static int take_lines(void *of)
{
	struct show *show = of;
	const char *line;
	size_t len;
	int err = connection__receive(&show->connection, 0), fd;

	if (!err && !show->feed)
		err = temporary__open(&fd) ?: feed__new(fd, &show->feed);
	while (!err && connection__line(&show->connection, &line, &len)) {
		live__line(&show->live, line, len);
		/* Answers are no events. */
		if (!line__is(line, len, "answer"))
			err = feed__lines(show->feed, line, len);
	}
	return err;
}

static void end_show(struct show *show)
{
	const struct live *live = &show->live;

	feed__end(show->feed);
	connection__close(&show->connection);
	if (live->cut)
		say("the session ended early: the engine ended");
	else
		say__note("%s; the page is there until Ctrl-C", *live->detail ? live->detail : strcmp(live->reason, "exited") ? "the session has ended" : "the target ended");
}

/* What has come for the pages. -errno: no more comes. */
static int feed_pages(struct show *show, struct web *web, bool ready)
{
	int err = ready ? take_lines(show) : 0;

	if (!err && clock__now() - show->flushed > FLUSH_NS) {
		show->flushed = clock__now();
		err = feed__flush(show->feed);
	}
	/* Without an `end`. */
	if (show->connection.ended && !show->live.ended)
		show->live.ended = show->live.cut = true;
	if (err)
		say("the session ends: what came cannot be kept: %s", strerror(-err));
	if (err || show->live.ended)
		end_show(show);
	web__wake(web);
	return 0;
}

static int serve(struct web *web, int signals, struct show *show)
{
	struct doorway doorway = {};
	int err = 0;

	say("%s", web__address(web));
	say__note("the page is there until Ctrl-C; whoever has this address can read it");
	doorway__open(&doorway, web__address(web));
	while (!err) {
		struct pollfd fds[] = {{signals, POLLIN, 0}, {web__fd(web), POLLIN, 0}, {show->connection.fd, POLLIN, 0}};

		if (poll(fds, 3, web__timeout_ms(web)) < 0 && errno != EINTR)
			err = -errno;
		if (fds[0].revents && take_signals(web, signals))
			break;
		if (show->connection.fd >= 0)
			err = err ?: feed_pages(show, web, fds[2].revents);
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
	struct show none = {.connection = CONNECTION_NONE};
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
	signals = recorder__signals((const int[]){SIGCHLD, 0}, NULL);
	err = policy.failed ? -ENOMEM : web__new(&content, &web);
	if (err)
		status = say_no_server(err);
	else if (serve(web, signals, &none))
		status = CLI_COULD_NOT;
	web__free(web);
	buf__free(&policy);
	close(content.report);
	if (signals >= 0)
		close(signals);
	return status;
}

static int view_process(const struct cli_options *options, pid_t pid)
{
	struct show show = {.connection = CONNECTION_NONE, .live.stream_fd = -1};
	struct web_content content = {.report = -1};
	struct web *web = NULL;
	int signals, status, err;

	status = user_rules__judge(options->rules);
	if (status != CLI_DONE)
		return status;
	show.live.connection = &show.connection;
	signals = recorder__signals((const int[]){SIGCHLD, 0}, NULL);
	status = connection__open(options, pid, false, &show.connection);
	if (status != CLI_DONE)
		goto out;
	/* After the fork of the broker, which has no use for it; before anything is attached. */
	err = web__load();
	if (err) {
		status = say_no_server(err);
		goto out;
	}
	err = live__attach(&show.live, options, pid, false, LIVE_PAGE);
	status = err ? CLI_COULD_NOT : live__await_answer(&show.live, take_lines, &show);
	if (status != CLI_DONE)
		goto out;
	content.feed = show.feed;
	err = web__new(&content, &web);
	if (err)
		status = say_no_server(err);
	else if (serve(web, signals, &show))
		status = CLI_COULD_NOT;
out:
	web__free(web);
	feed__free(show.feed);
	connection__close(&show.connection);
	if (signals >= 0)
		close(signals);
	return status;
}

/* A number is a PID, as everywhere; a file of such a name is ./4242. */
static bool is_file(const char *operand)
{
	return strspn(operand, "0123456789") != strlen(operand) && (!strcmp(operand, "-") || strchr(operand, '/') || !access(operand, F_OK) || strstr(operand, ".cprof"));
}

static bool samples(const struct cli_options *options)
{
	return options->rate != 999 || strcmp(options->native, "full") || options->duration_ms || options->subprocesses || options->kernel || options->wall ||
	       options->socket;
}

int view__run(const struct cli_options *options)
{
	pid_t pid;
	int status;

	if (!options->pid && options->n_operands == 1 && is_file(options->operands[0])) {
		if (samples(options)) {
			say__failure("a recording is what it is; `cprofd view FILE` takes --rules and --no-limits", "options of sampling are for a process, and %s is a file",
				     options->operands[0]);
			return CLI_USAGE;
		}
		return view_file(options);
	}
	if (!options->pid && !options->n_operands) {
		say__failure("as in `cprofd view svd.cprof`, or `cprofd view 4242`", "which recording, or which process?");
		return CLI_USAGE;
	}
	if (options->no_limits) {
		say__failure("leave it out", "--no-limits is for recordings");
		return CLI_USAGE;
	}
	status = options__pid(options, true, &pid);
	return status == CLI_DONE ? view_process(options, pid) : status;
}
