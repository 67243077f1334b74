/* SPDX-License-Identifier: MIT */
/* `cprofd top`: connects and attaches like `attach`, but feeds the events to a live view (daemon/top) until
 * q. Nothing is recorded: the events are decoded, added up, and forgotten.
 *
 *     live.c      the answer, the end of the session
 *     events/     event_decoder: a line -> struct event
 *     top/top.h   sums of the last turns; top/screen.h: keys and drawing */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/live.h"
#include "cli/recorder.h"
#include "top/screen.h"

#define TURN_MS 1000 /* how often the table is updated */

/* All of a view, on the stack of view(). `screen` begins zeroed, with the functions' or the lines' table. */
struct viewer {
	struct connection connection;
	struct live live;
	struct event_decoder *decoder;
	struct top *top;
	struct screen screen;
	int signals;
};

static int take_lines(void *of)
{
	struct viewer *viewer = of;
	const char *line;
	size_t len;
	int err = connection__receive(&viewer->connection, 0);

	while (!err && connection__line(&viewer->connection, &line, &len)) {
		live__line(&viewer->live, line, len);
		/* Answers are no events: live__line() has handled them. */
		if (!line__is(line, len, "answer"))
			err = event_decoder__line(viewer->decoder, line, len, top__sink(viewer->top));
	}
	return err;
}

/* The view's main loop: events, keys, signals; redraws each second and after each key. */
static int watch(struct viewer *viewer)
{
	uint64_t begin = clock__now(), turn = begin;
	struct screen *screen = &viewer->screen;
	struct signalfd_siginfo info;
	int err = 0;

	/* Begins the first interval; nothing is shown before the second call. */
	top__turn(viewer->top, begin);
	while (!err && !screen->quit) {
		/* The session has ended: its last table stays on the screen. */
		struct pollfd fds[] = {{viewer->connection.ended ? -1 : viewer->connection.fd, POLLIN, 0},
				       {STDIN_FILENO, POLLIN, 0},
				       {viewer->signals, POLLIN, 0}};
		uint64_t now;
		bool draw;

		/* The timeout is for the clock: TURN_MS below. Events and keys wake it at once, and so does a
		 * resized window: its signal, which ncurses handles, gives EINTR. */
		if (poll(fds, 3, 100) < 0 && errno != EINTR)
			return -errno;
		if (fds[0].revents)
			err = take_lines(viewer);
		draw = screen__keys(screen);
		/* POLLHUP: the terminal is gone. Then the view must end, or it would spin. */
		screen->quit |= read(viewer->signals, &info, sizeof(info)) == sizeof(info) || fds[1].revents & POLLHUP;
		if (screen->reset)
			top__reset(viewer->top);
		screen->reset = false;
		now = clock__now();
		if (now - turn >= TURN_MS * 1000000ull) {
			turn = now;
			if (!viewer->live.ended)
				screen->seconds = (now - begin) / 1000000000u;
			if (!screen->paused && !viewer->live.ended)
				top__turn(viewer->top, now);
			draw = true;
		}
		if (!err && draw)
			err = screen__draw(screen, viewer->top);
	}
	return err;
}

static int let_go(struct launch *launch)
{
	int err = launch->name ? launch__go(launch) : 0;

	if (!err)
		return CLI_DONE;
	launch->exec_failed = true;
	launch__print_failure(launch, err);
	return CLI_COULD_NOT;
}

/* The command was started for the view, so it ends with it. */
static void end(struct launch *launch)
{
	if (launch->go >= 0)
		close(launch->go);
	close(launch->failed);
	if (launch__reap(launch, WNOHANG))
		return;
	/* Not reaped yet, so the pid is still its own. A command that ignores SIGTERM is waited for. */
	kill(launch->pid, SIGTERM);
	launch__reap(launch, 0);
}

static int view(const struct cli_options *options, pid_t pid, struct launch *launch)
{
	struct viewer viewer = {.connection = CONNECTION_NONE,
				.live.stream_fd = -1,
				.screen.view = options->lines ? TOP_LINE : TOP_FUNCTION,
				.signals = -1};
	int status, err;

	viewer.live.connection = &viewer.connection;
	/* No SIGCHLD: the session's `end` says that the command ended. */
	viewer.signals = recorder__signals((const int[]){0}, NULL);
	status = connection__open(options, pid, false, &viewer.connection);
	if (status != CLI_DONE)
		goto out;
	err = top__new(options->thread, &viewer.top) ?: event_decoder__new(&viewer.decoder);
	if (!err)
		/* Names come from the target and go to a terminal. */
		event_decoder__readable(viewer.decoder);
	err = err ?: live__attach(&viewer.live, options, pid, launch->name != NULL, LIVE_SCREEN);
	/* Before the screen is opened: an error is printed on the normal terminal. */
	status = err ? CLI_COULD_NOT : live__await_answer(&viewer.live, take_lines, &viewer) ?: let_go(launch);
	if (status == CLI_DONE) {
		err = screen__open();
		err = err ?: watch(&viewer);
		screen__close();
	}
	if (err == -ENOENT)
		say__failure("set TERM to one that `infocmp` knows", "this terminal is not known");
	else if (err)
		say("the live view ended: %s", strerror(-err));
	if (err)
		status = CLI_COULD_NOT;
out:
	top__free(viewer.top);
	event_decoder__free(viewer.decoder);
	connection__close(&viewer.connection);
	if (viewer.signals >= 0)
		close(viewer.signals);
	return status;
}

int top__run(const struct cli_options *options)
{
	const bool starts = options->after_dashes && options->n_operands;
	struct launch launch = {.go = -1, .failed = -1};
	pid_t pid = 0;
	int status, err;

	if (starts && options->pid) {
		say__failure("as in `cprofd top -- python3 compile.py`; a running process: `cprofd top PID`", "a command and a PID: choose one");
		return CLI_USAGE;
	}
	status = starts ? CLI_DONE : options__pid(options, true, &pid);
	if (status == CLI_DONE)
		status = user_rules__judge(options->rules);
	if (status != CLI_DONE)
		return status;
	/* Before anything is started or attached. */
	if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO)) {
		say__failure("`cprofd attach` writes files, and `cprofd report` tables", "top needs a terminal, and stdout is not one");
		return CLI_USAGE;
	}
	if (!starts)
		return view(options, pid, &launch);
	err = launch__start(options->operands, true, &launch);
	if (err) {
		say("the command could not be started: %s", strerror(-err));
		return CLI_COULD_NOT;
	}
	status = view(options, launch.pid, &launch);
	end(&launch);
	return status;
}
