/* SPDX-License-Identifier: MIT */
/* The flow of attach and record:
 *
 *   open the output (an error here costs no samples)
 *   -> connect, send the request `attach`
 *   -> append every line to the recording, until `end`
 *   -> convert, unless a recording (.cprof) was requested
 *   -> print the summary, and where the file is
 *
 * The recording is kept when a later step fails. */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "cli/continuous.h"
#include "cli/flight.h"
#include "cli/live.h"
#include "cli/recorder.h"
#include "cli/result.h"
#include "cli/summary.h"

/* How much a recording may lose if cprofd is killed. Each flush ends a block of the compression, so more
 * often would cost size. */
#define FLUSH_MS 1000
/* How long to wait for `end` after a stop, and after the target is known to have ended. */
#define TIMEOUT_MS 10000
#define NEVER UINT64_MAX
/* The hint to use -s appears only if the target's children used at least this much CPU time. */
#define CHILDREN_HINT_NS 200000000u

struct recorder {
	const struct cli_options *options;
	struct launch *launch;
	/* one of several processes (several.c): no output, no summary and no progress of its own; NULL: the
	 * only one */
	const struct recorder_part *part;
	struct result result;
	struct continuous continuous; /* with --continuous, in place of a result */
	struct flight flight;         /* with --trigger or --last, in place of it */
	struct connection connection;
	struct live live;
	/* signalfd of recorder__signals(); -1: none */
	int signals;
	uint64_t give_up;    /* when to stop waiting for `end`: ms of now_ms(), or NEVER */
	unsigned interrupts; /* Ctrl-C so far that the command received, too */
	/* the user, or a full disk, wants it to end; the request was sent */
	bool stopping, stop_sent;
	pid_t pid;
	uint64_t family;     /* CPU time of the target's children before the recording, ns */
	bool family_known;
};

#define RECORDER(options_, pid_)                                                                                       \
	{.options = options_, .pid = pid_, .result = RESULT_NONE, .continuous = CONTINUOUS_NONE, .flight = FLIGHT_NONE, .connection = CONNECTION_NONE, .signals = -1, .give_up = NEVER}

/* CLOCK_MONOTONIC: a change of the date does not end a recording. */
static uint64_t now_ms(void)
{
	return clock__now() / 1000000;
}

/* --- before sampling --- */

/* Signals are blocked and read from a descriptor: none of them kills us before the file is written, or the terminal
 * restored. */
int recorder__signals(const int *more, sigset_t *ret_before)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGHUP);
	while (*more)
		sigaddset(&set, *more++);
	/* A reader of stdout that ends (`| head`) is an error of a write, not our death: the file is written
	 * all the same. */
	signal(SIGPIPE, SIG_IGN);
	sigprocmask(SIG_BLOCK, &set, ret_before);
	return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

/* --- while sampling --- */

/* Asks the engine to end the session, once, and starts the deadline for `end`. Called again in each round of
 * the loop while stopping. */
static void ask_to_stop(struct recorder *recorder)
{
	if (!recorder->stopping)
		recorder->give_up = now_ms() + TIMEOUT_MS;
	recorder->stopping = true;
	if (!recorder->live.answered || recorder->stop_sent)
		return; /* the session's id comes with the answer; asked again then */
	recorder->stop_sent = true;
	live__stop(&recorder->live);
}

/* Its answer is no matter: `part` comes, or the connection ends. */
static void ask_to_rotate(struct recorder *recorder)
{
	const uint32_t rate = recorder->continuous.limit.rate;
	char request[128], of_rate[32] = "";

	recorder->live.part_asked = now_ms();
	if (recorder->stopping)
		return;
	if (recorder->continuous.limit.share > 0)
		snprintf(of_rate, sizeof(of_rate), ",\"rate\":%u", rate);
	snprintf(request, sizeof(request), "{\"req\":\"rotate\",\"id\":%d,\"session\":%u%s}", LIVE_ROTATE_ID, recorder->live.session, of_rate);
	connection__request(&recorder->connection, request);
}

/* SIGCHLD: the command has ended, or our own broker has; then there is nothing to reap here. */
static void reap(struct recorder *recorder)
{
	struct launch *launch = recorder->launch;

	if (!launch || launch->reaped || !launch__reap(launch, WNOHANG))
		return;
	/* `end` follows by itself. With -s it may come much later: children outlive the command. */
	if (!recorder->options->subprocesses)
		recorder->give_up = now_ms() + TIMEOUT_MS;
}

/* SIGINT from the terminal (SI_KERNEL) goes to the whole foreground group, so the command has it already. A signal
 * that a process sent to us alone is passed on to the command; when that ends, so does the recording. */
static void on_signal(struct recorder *recorder, const struct signalfd_siginfo *info)
{
	struct launch *launch = recorder->launch;
	bool from_terminal = info->ssi_code == SI_KERNEL;

	if (info->ssi_signo == SIGCHLD) {
		reap(recorder);
		return;
	}
	if (info->ssi_signo == SIGUSR2) { /* as `perf record --switch-output` takes it */
		recorder->continuous.wanted = recorder->flight.wanted = true;
		return;
	}
	if (recorder->stopping) {
		recorder->give_up = 0; /* the second signal: do not wait for `end` */
		return;
	}
	if (launch && !launch->reaped) {
		/* Not reaped yet, so the pid cannot belong to another process. */
		bool passed_on = from_terminal || !kill(launch->pid, (int)info->ssi_signo);

		/* If the command survives the first Ctrl-C, recording goes on; the second one stops it. */
		if (passed_on && (info->ssi_signo != SIGINT || recorder->interrupts++ == 0))
			return;
	}
	ask_to_stop(recorder);
}

static void show_progress(const struct recorder *recorder, uint64_t started)
{
	const struct live *live = &recorder->live;
	uint64_t seconds = (now_ms() - started) / 1000;

	/* The command uses the terminal: a progress line would overwrite its output. */
	if (recorder->launch || recorder->part)
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

static void say_refused(const struct recorder *recorder)
{
	const struct live *live = &recorder->live;
	const char *error = *live->error ? live->error : "refused";
	char pid[16];

	snprintf(pid, sizeof(pid), "%d", recorder->pid);
	if (recorder->part && !strstr(error, pid)) /* with several processes, say which one */
		say__failure(live->hint, "%d: %s", recorder->pid, error);
	else
		say__failure(live->hint, "%s", error);
}

/* Publishes the numbers of this part for the progress line of several.c. */
static void count(const struct recorder *recorder)
{
	const struct live *live = &recorder->live;

	if (recorder->part)
		*recorder->part->counts = (struct recorder_counts){live->answered && !live->refused, live->samples, live->rate, live->lost, live->threads};
}

/* The main loop, until `end`. Returns CLI_DONE if there is a recording to convert. */
static int listen_to(struct recorder *recorder)
{
	struct live *live = &recorder->live;
	uint64_t started = now_ms(), flushed = started;
	bool going = !recorder->launch, answered = false;
	/* ms: the pace of the progress line when nothing arrives. Where there is none, only give_up is a matter of time. */
	const int pace = say__shows_progress() ? 250 : 1000;
	int err = 0;

	while (!live->ended && now_ms() < recorder->give_up) {
		struct pollfd fds[] = {{recorder->connection.fd, POLLIN, 0},
				       {recorder->signals, POLLIN, 0},
				       {recorder->part ? recorder->part->leash : -1, POLLIN, 0}};

		show_progress(recorder, started);
		if (poll(fds, 3, pace) < 0 && errno != EINTR)
			return CLI_COULD_NOT;
		read_signals(recorder);
		/* several.c has closed its end, or died: the other processes' recordings end now, so does
		 * this one. */
		if (fds[2].revents)
			ask_to_stop(recorder);
		if (fds[0].revents)
			err = connection__receive(&recorder->connection, 0);
		if (err) {
			say("what the engine sends cannot be read: %s", strerror(-err));
			live->ended = live->cut = true;
		}
		live__lines(live);
		count(recorder);
		if (live->refused) {
			say_refused(recorder);
			return CLI_COULD_NOT;
		}
		/* Time is counted from the answer: it may take a second to load the sampler and attach. */
		if (live->answered && !answered)
			started = now_ms();
		answered = live->answered;
		if (live->answered && !going) {
			going = true;
			/* Only now: the perf events are attached to the child, so nothing that it runs is
			 * missed. */
			err = launch__go(recorder->launch);
			if (err) {
				recorder->launch->exec_failed = true;
				launch__print_failure(recorder->launch, err);
				return CLI_COULD_NOT;
			}
			started = now_ms();
		}
		/* By time, not by size: a quiet target's last second must not stay in a buffer for minutes. */
		if (recorder->options->continuous) {
			if (continuous__tick(&recorder->continuous, now_ms()))
				ask_to_rotate(recorder);
		} else if (flight__wanted(recorder->options)) {
			if (flight__tick(&recorder->flight, now_ms()))
				ask_to_rotate(recorder);
			if (flight__is_done(&recorder->flight))
				ask_to_stop(recorder);
		} else if (live->writer && !live->write_error && now_ms() - flushed >= FLUSH_MS) {
			live->write_error = recording_writer__flush(live->writer);
			flushed = now_ms();
		}
		/* Repeated until it was sent: ask_to_stop() could not before the answer came. Without a place
		 * to write, sampling on would only cost. */
		if (recorder->stopping || live->write_error || live->stream_error)
			ask_to_stop(recorder);
	}
	if (!live->ended)
		live->cut = true;
	if (live->writer && !live->write_error)
		live->write_error = recording_writer__flush(live->writer);
	if (!live->answered) {
		if (recorder->stopping)
			say__failure("", "interrupted before sampling began: nothing was recorded");
		else
			say__failure("run it again with -vv", "the engine ended before it answered");
		return CLI_COULD_NOT;
	}
	return CLI_DONE;
}

/* --- after sampling --- */

static void print_end(const struct recorder *recorder)
{
	const struct live *live = &recorder->live;

	if (live->cut)
		say("the recording ends early: %s", recorder->give_up == 0
							    ? "cprofd did not wait for its end"
							    : "the engine ended");
	else if (!strcmp(live->reason, "failed"))
		say("%s", live->detail);
	else if (recorder->launch && !strcmp(live->reason, "exited"))
		; /* print_status() in record.c says how the command ended */
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

/* Hints at -s if the target's children used much CPU: without it, no sample has their work. */
static void print_children(struct recorder *recorder, uint64_t recorded)
{
	struct launch *launch = recorder->launch;
	uint64_t cpu = 0;

	if (recorder->options->subprocesses || say__is_quiet())
		return;
	/* The session's end may arrive before the process is a zombie that can be reaped: wait up to 100 ms. */
	for (int i = 0; launch && !launch->reaped && !strcmp(recorder->live.reason, "exited") && i < 20; i++) {
		reap(recorder);
		if (!launch->reaped)
			usleep(5000);
	}
	if (launch && launch->reaped)
		cpu = launch->cpu > recorded ? launch->cpu - recorded : 0;
	else if (recorder->family_known && family__cpu(recorder->pid, &cpu))
		cpu -= recorder->family < cpu ? recorder->family : cpu;
	if (cpu >= CHILDREN_HINT_NS && cpu >= recorded / 4)
		say("its children used %s of CPU, not recorded: -s (--subprocesses)", words__duration(cpu));
}

static int finish(struct recorder *recorder)
{
	struct live *live = &recorder->live;
	int status = CLI_DONE;
	uint64_t recorded;

	/* An empty recording on a full disk: nothing was lost that could be explained by a summary. */
	if (live->write_error == -ENOSPC && recorder->result.write_file && lseek(result__recording(&recorder->result), 0, SEEK_END) == 0) {
		say__failure("make room, or choose another place with -o FILE (recordings grow while they are made)",
			     "nothing was recorded: the disk of %s is full", recorder->result.output.path);
		return CLI_COULD_NOT;
	}
	print_end(recorder);
	if (recorder->options->continuous)
		status = continuous__finish(&recorder->continuous);
	else if (flight__wanted(recorder->options))
		status = flight__finish(&recorder->flight);
	/* A pipe or terminal (`-o /dev/stdout`) cannot be read again, so it gets no summary. */
	if (recorder->result.write_file && lseek(result__recording(&recorder->result), 0, SEEK_CUR) >= 0 &&
	    !summary__print(result__recording(&recorder->result), recorder->options, &recorded))
		print_children(recorder, recorded);
	if (recorder->result.write_file)
		status = result__finish(&recorder->result);
	if (live->write_error || live->cut ||
	    (live->stream_error && live->stream_error != -EPIPE) || !strcmp(live->reason, "failed"))
		status = CLI_COULD_NOT;
	return status;
}

/* Runs the session, from the request to its last line. `fd`: the recording; -1: none is written. */
static int sample(struct recorder *recorder, int fd, bool compressed)
{
	const struct cli_options *options = recorder->options;
	int status, err;

	/* Measured before and after, as the children that ended before the recording count in the kernel's
	 * totals. */
	recorder->family_known = !options->subprocesses && family__cpu(recorder->pid, &recorder->family);
	recorder->live.connection = &recorder->connection;
	recorder->live.stream_fd = options->stream ? STDOUT_FILENO : -1;
	/* Who names process 1 may ask for all (docs/protocol.md, "Root"). */
	status = connection__open(options, options->host ? 1 : recorder->pid, false, &recorder->connection);
	if (status != CLI_DONE)
		return status;
	err = fd >= 0 ? recording_writer__new(fd, compressed, &recorder->live.writer) : 0;
	err = err ?: live__attach(&recorder->live, options, recorder->pid, recorder->launch != NULL,
				  options->stream ? LIVE_STREAM : LIVE_FILE);
	if (err) {
		say("the engine could not be asked: %s", strerror(-err));
		return CLI_COULD_NOT;
	}
	status = listen_to(recorder);
	connection__close(&recorder->connection);
	return status;
}

int recorder__run(const struct cli_options *options, pid_t pid, struct launch *launch)
{
	struct recorder recorder = RECORDER(options, pid);
	sigset_t before;
	int status;

	recorder.launch = launch;
	/* First: a signal that asks for a file may come as soon as there is a process. */
	recorder.signals = recorder__signals((const int[]){SIGCHLD, options->continuous || flight__wanted(options) ? SIGUSR2 : 0, 0}, &before);
	/* All that can fail for reasons of the user's own making comes first: a wrong rule or an unwritable
	 * directory must not cost a session. */
	status = user_rules__judge(options->rules);
	if (status == CLI_DONE)
		status = options->continuous	   ? continuous__open(&recorder.continuous, options, pid, &recorder.live)
			 : flight__wanted(options) ? flight__open(&recorder.flight, options, pid, &recorder.live)
						   : result__open(&recorder.result, options, pid);
	if (status != CLI_DONE)
		goto out;
	status = sample(&recorder, recorder.result.write_file ? result__recording(&recorder.result) : -1,
			result__compressed(&recorder.result));
	if (status == CLI_DONE)
		status = finish(&recorder);
out:
	recording_writer__free(recorder.live.writer);
	buf__free(&recorder.live.hello);
	connection__close(&recorder.connection);
	continuous__close(&recorder.continuous);
	flight__close(&recorder.flight);
	result__close(&recorder.result);
	if (recorder.signals >= 0) {
		read_signals(&recorder);
		close(recorder.signals);
		sigprocmask(SIG_SETMASK, &before, NULL);
	}
	return status;
}

int recorder__part(const struct cli_options *options, pid_t pid, const struct recorder_part *part)
{
	struct recorder recorder = RECORDER(options, pid);
	struct live *live = &recorder.live;
	sigset_t before;
	int status;

	recorder.part = part;
	recorder.signals = recorder__signals((const int[]){SIGCHLD, 0}, &before);
	status = sample(&recorder, part->fd, true);
	connection__close(&recorder.connection);
	if (status == CLI_DONE && live->write_error)
		say("%d: the recording could not be written further: %s; it is whole up to there", pid, strerror(-live->write_error));
	else if (status == CLI_DONE && live->cut)
		say("%d: the recording ends early: the engine ended, or cprofd did not wait for it", pid);
	if (live->write_error || live->cut || !strcmp(live->reason, "failed"))
		status = CLI_COULD_NOT;
	recording_writer__free(live->writer);
	return status;
}
