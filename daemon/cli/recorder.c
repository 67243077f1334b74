/* The flow of attach and record:
 *
 *   open the output (refused before anything is sampled)
 *   -> connect, ask to attach
 *   -> append every line to the recording, until `end`
 *   -> convert, unless the recording is what was asked for
 *   -> summary, and where the file is
 *
 * The recording stays when anything after it fails. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "cli/browser.h"
#include "cli/connection.h"
#include "cli/family.h"
#include "cli/live.h"
#include "cli/output.h"
#include "cli/recorder.h"
#include "cli/summary.h"
#include "cli/user_rules.h"
#include "cli/write.h"
#include "export/export.h"
#include "rules/rules.h"

#define FLUSH_MS 1000
/* How long `end` may take after a stop, and after the target is known to be gone. */
#define PATIENCE_MS 10000
#define NEVER UINT64_MAX
/* Less CPU time than this of the target's children is not worth a word. */
#define CHILDREN_TELL_NS 200000000u

struct recorder {
	const struct cli_options *options;
	struct launch *launch;
	const char *format;
	char stem[64]; /* of names: cprofd-PID-TIME */
	char default_path[128];
	bool write_file;	  /* false: --stream alone */
	bool recording_is_output; /* -f events */
	struct output output;
	struct recording_file file;
	struct connection connection;
	struct live live;
	int signals;
	uint64_t give_up;    /* ms of now_ms(), or NEVER */
	unsigned interrupts; /* Ctrl-C that the command got as well */
	bool stopping, stop_sent;
	pid_t pid;
	uint64_t family;     /* CPU time of its children before the recording, ns */
	bool family_known;
};

static uint64_t now_ms(void)
{
	return clock__now() / 1000000;
}

static int recording_fd(const struct recorder *recorder)
{
	return recorder->recording_is_output ? recorder->output.fd : recorder->file.fd;
}

/* --- before sampling --- */

static int plan_output(struct recorder *recorder, pid_t pid)
{
	const struct cli_options *options = recorder->options;
	char utc[32];
	time_t now = time(NULL);
	struct tm parts;
	int status;

	recorder->write_file = !options->stream || options->output;
	if (options->stream && options->output && !strcmp(options->output, "-")) {
		say("--stream and `-o -` would both write to stdout: choose one");
		return CLI_USAGE;
	}
	if (!recorder->write_file)
		return CLI_DONE;
	status = write__format(options->format, options->output, &recorder->format) ?: browser__judge(options, &recorder->format);
	if (status != CLI_DONE)
		return status;
	recorder->recording_is_output = !strcmp(recorder->format, "events");
	strftime(utc, sizeof(utc), "%Y%m%dT%H%M%SZ", gmtime_r(&now, &parts));
	snprintf(recorder->stem, sizeof(recorder->stem), "cprofd-%d-%s", pid, utc);
	snprintf(recorder->default_path, sizeof(recorder->default_path), "%s%s", recorder->stem,
		 write__extension(recorder->format));
	status = output__open(options->output ? options->output : recorder->default_path, true,
			      recorder->recording_is_output, &recorder->output);
	if (status == CLI_DONE && !recorder->recording_is_output)
		status = recording_file__open(&recorder->output, recorder->stem, &recorder->file);
	return status;
}

/* Signals are read, not taken: until the file is written, none of them ends us. */
static int open_signals(sigset_t *ret_before)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGHUP);
	sigaddset(&set, SIGCHLD);
	signal(SIGPIPE, SIG_IGN);
	sigprocmask(SIG_BLOCK, &set, ret_before);
	return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

/* --- while sampling --- */

static void ask_to_stop(struct recorder *recorder)
{
	char request[96];

	if (!recorder->stopping)
		recorder->give_up = now_ms() + PATIENCE_MS;
	recorder->stopping = true;
	if (!recorder->live.answered || recorder->stop_sent)
		return; /* the number of the session comes with the answer */
	recorder->stop_sent = true;
	snprintf(request, sizeof(request), "{\"req\":\"stop\",\"id\":2,\"session\":%u}",
		 recorder->live.session);
	connection__request(&recorder->connection, request);
}

static void reap(struct recorder *recorder)
{
	struct launch *launch = recorder->launch;

	if (!launch || launch->reaped || !launch__reap(launch, WNOHANG))
		return;
	/* `end` follows by itself; with children that outlive it, later. */
	if (!recorder->options->subprocesses)
		recorder->give_up = now_ms() + PATIENCE_MS;
}

/* Ctrl-C at a terminal reaches the command by itself: its end is ours. A signal
 * that a process sent to us is passed on. */
static void on_signal(struct recorder *recorder, const struct signalfd_siginfo *info)
{
	struct launch *launch = recorder->launch;
	bool from_terminal = info->ssi_code == SI_KERNEL;

	if (info->ssi_signo == SIGCHLD) {
		reap(recorder);
		return;
	}
	if (recorder->stopping) {
		recorder->give_up = 0; /* the second one: do not wait for the end */
		return;
	}
	if (launch && !launch->reaped) {
		/* It may be somebody else by now. */
		bool passed_on = from_terminal || !kill(launch->pid, (int)info->ssi_signo);

		/* A command that survives Ctrl-C is recorded on; the next one ends that. */
		if (passed_on && (info->ssi_signo != SIGINT || recorder->interrupts++ == 0))
			return;
	}
	ask_to_stop(recorder);
}

static void show_progress(const struct recorder *recorder, uint64_t started)
{
	const struct live *live = &recorder->live;
	uint64_t seconds = (now_ms() - started) / 1000;

	/* The terminal is the command's: what it writes there would be overwritten. */
	if (recorder->launch)
		return;
	if (!live->answered) {
		say__progress("attaching...");
		return;
	}
	say__progress("%llu:%02llu  %s samples  %s samples/s  %s lost  %llu thread%s%s",
		      (unsigned long long)seconds / 60, (unsigned long long)seconds % 60,
		      words__count(live->samples), words__count(live->rate),
		      words__count(live->lost), (unsigned long long)live->threads,
		      live->threads == 1 ? "" : "s",
		      recorder->stopping ? "  stopping..." : "  (Ctrl-C ends)");
}

static void read_signals(struct recorder *recorder)
{
	struct signalfd_siginfo info;

	while (read(recorder->signals, &info, sizeof(info)) == sizeof(info))
		on_signal(recorder, &info);
}

/* Until `end`. CLI_DONE: there is something to convert. */
static int listen_to(struct recorder *recorder)
{
	struct live *live = &recorder->live;
	uint64_t started = now_ms(), flushed = started;
	bool going = !recorder->launch, answered = false;
	int err = 0;

	while (!live->ended && now_ms() < recorder->give_up) {
		struct pollfd fds[] = {{recorder->connection.fd, POLLIN, 0},
				       {recorder->signals, POLLIN, 0}};

		show_progress(recorder, started);
		if (poll(fds, 2, 250) < 0 && errno != EINTR)
			return CLI_COULD_NOT;
		read_signals(recorder);
		if (fds[0].revents)
			err = connection__receive(&recorder->connection, 0);
		if (err) {
			say("what the engine sends cannot be read: %s", strerror(-err));
			live->ended = live->cut = true;
		}
		live__lines(live);
		if (live->refused) {
			say__failure(live->hint, "%s", *live->error ? live->error : "refused");
			return CLI_COULD_NOT;
		}
		if (live->answered && !answered)
			started = now_ms();
		answered = live->answered;
		if (live->answered && !going) {
			going = true;
			err = launch__go(recorder->launch);
			if (err) {
				recorder->launch->exec_failed = true;
				say__failure("check the command's name and its permissions",
					     "%s cannot be run: %s", recorder->launch->name,
					     strerror(-err));
				return CLI_COULD_NOT;
			}
			started = now_ms();
		}
		if (live->writer && !live->write_error && now_ms() - flushed >= FLUSH_MS) {
			live->write_error = recording_writer__flush(live->writer);
			flushed = now_ms();
		}
		if (recorder->stopping || live->write_error || live->stream_error)
			ask_to_stop(recorder);
	}
	if (!live->ended)
		live->cut = true;
	if (live->writer && !live->write_error)
		live->write_error = recording_writer__flush(live->writer);
	if (!live->answered) {
		say__failure("run it again with -vv", "the engine ended before it answered");
		return CLI_COULD_NOT;
	}
	return CLI_DONE;
}

/* --- after sampling --- */

static void tell_end(const struct recorder *recorder)
{
	const struct live *live = &recorder->live;

	if (live->cut)
		say("the recording ends early: %s", recorder->give_up == 0
							    ? "it was not waited for its end"
							    : "the engine went away");
	else if (!strcmp(live->reason, "failed"))
		say("%s", live->detail);
	else if (recorder->launch && !strcmp(live->reason, "exited"))
		; /* how it ended is said at the end */
	else if (*live->detail)
		say__note("%s", live->detail);
	else if (!strcmp(live->reason, "exited"))
		say__note("the target ended");
	if (live->write_error)
		say("the recording could not be written further: %s; it is whole up to there",
		    strerror(-live->write_error));
	if (live->stream_error && live->stream_error != -EPIPE)
		say("stdout could not be written: %s", strerror(-live->stream_error));
}

/* What its children did is in no sample, unless that was asked for. */
static void tell_children(struct recorder *recorder, uint64_t recorded)
{
	struct launch *launch = recorder->launch;
	uint64_t cpu = 0;

	if (recorder->options->subprocesses || say__is_quiet())
		return;
	/* The end of the session may be told before its end is. */
	for (int i = 0; launch && !launch->reaped && !strcmp(recorder->live.reason, "exited") && i < 20; i++) {
		reap(recorder);
		if (!launch->reaped)
			usleep(5000);
	}
	if (launch && launch->reaped)
		cpu = launch->cpu > recorded ? launch->cpu - recorded : 0;
	else if (recorder->family_known && family__cpu(recorder->pid, &cpu))
		cpu -= recorder->family < cpu ? recorder->family : cpu;
	if (cpu >= CHILDREN_TELL_NS && cpu >= recorded / 4)
		say("its children used %s of CPU, not recorded: -s (--subprocesses)", words__duration(cpu));
}

static void keep_recording(struct recorder *recorder, const char *why, int err)
{
	if (recorder->file.fd < 0)
		return;
	if (why)
		say__failure("", "%s: %s", why, strerror(-err));
	say__more("the recording is kept: %s", recorder->file.path);
	say__more("`cprofd convert %s -o FILE` makes a profile of it", recorder->file.path);
	recording_file__close(&recorder->file);
}

static int finish_file(struct recorder *recorder)
{
	const struct cli_options *options = recorder->options;
	struct export_report report = {};
	struct rules *rules = NULL;
	int err = 0;

	if (recorder->recording_is_output)
		err = output__commit(&recorder->output);
	else if (write__rules(recorder->format, options, &rules) != CLI_DONE)
		err = -EINVAL;
	else
		err = write__export(recorder->format, options, rules, NULL, recorder->file.fd, &recorder->output,
				    &report);
	rules__free(rules);
	if (err) {
		if (err == -ENOENT && report.missing.option)
			write__missing(&report.missing, options, "what was recorded", recorder->file.path);
		else if (err == -ENODATA)
			write__nothing(options, "what was recorded", &report);
		keep_recording(recorder, report.missing.option || err == -ENODATA ? NULL : "the file could not be written", err);
		return CLI_COULD_NOT;
	}
	write__tell(recorder->format, &recorder->output, &report);
	if (options->open)
		browser__open(recorder->output.path);
	recording_file__remove(&recorder->file);
	return CLI_DONE;
}

static int finish(struct recorder *recorder)
{
	struct live *live = &recorder->live;
	int status = CLI_DONE, err;
	uint64_t recorded;

	if (live->write_error == -ENOSPC && recorder->write_file && lseek(recording_fd(recorder), 0, SEEK_END) == 0) {
		say__failure("make room, or choose another place with -o FILE (recordings grow while they are made)",
			     "nothing was recorded: the disk of %s is full", recorder->output.path);
		return CLI_COULD_NOT;
	}
	tell_end(recorder);
	if (recorder->write_file && lseek(recording_fd(recorder), 0, SEEK_CUR) >= 0) {
		err = summary__print(recording_fd(recorder), recorder->options->lines, recorder->options->wall,
				     recorder->options->rules, recorder->options->verbose, &recorded);
		if (err)
			say("the summary could not be made: %s", strerror(-err));
		else
			tell_children(recorder, recorded);
	}
	if (recorder->write_file)
		status = finish_file(recorder);
	if (live->write_error || live->cut ||
	    (live->stream_error && live->stream_error != -EPIPE) || !strcmp(live->reason, "failed"))
		status = CLI_COULD_NOT;
	return status;
}

int recorder__run(const struct cli_options *options, pid_t pid, struct launch *launch)
{
	struct recorder recorder = {
		.options = options,
		.launch = launch,
		.pid = pid,
		.output = OUTPUT_NONE,
		.file = RECORDING_FILE_NONE,
		.connection = CONNECTION_NONE,
		.signals = -1,
		.give_up = NEVER,
	};
	sigset_t before;
	int status, err;

	status = user_rules__judge(options->rules) ?: plan_output(&recorder, pid);
	if (status != CLI_DONE)
		goto out;
	recorder.signals = open_signals(&before);
	recorder.family_known = !options->subprocesses && family__cpu(pid, &recorder.family);
	recorder.live.connection = &recorder.connection;
	recorder.live.stream_fd = options->stream ? STDOUT_FILENO : -1;
	status = connection__open(options, pid, false, &recorder.connection);
	if (status != CLI_DONE)
		goto out;
	err = recorder.write_file
		      ? recording_writer__new(recording_fd(&recorder),
					      !recorder.recording_is_output ||
						      write__compressed(&recorder.output),
					      &recorder.live.writer)
		      : 0;
	if (!err)
		err = live__attach(&recorder.live, options, pid, launch != NULL, options->stream ? LIVE_SEEN_MS : LIVE_KEPT_MS);
	if (err) {
		say("the engine could not be asked: %s", strerror(-err));
		status = CLI_COULD_NOT;
		goto out;
	}
	status = listen_to(&recorder);
	connection__close(&recorder.connection);
	if (status == CLI_DONE)
		status = finish(&recorder);
out:
	recording_writer__free(recorder.live.writer);
	connection__close(&recorder.connection);
	output__close(&recorder.output);
	recording_file__remove(&recorder.file); /* a kept one is closed already */
	if (recorder.signals >= 0) {
		read_signals(&recorder);
		close(recorder.signals);
		sigprocmask(SIG_SETMASK, &before, NULL);
	}
	return status;
}
