/* SPDX-License-Identifier: MIT */
/* attach to several processes. A child of ours records each one, as if it were the only one, into a recording
 * of its own beside the output. When all have ended, the recordings are joined into one (export/join.h). If
 * one process cannot be attached to, all recordings stop and no output is written, so that nobody takes a
 * part for the whole.
 *
 *     cprofd attach 4242 4243 -o svd.cprof
 *       worker of 4242 -> cprofd-4242-TIME.cprof  \
 *       worker of 4243 -> cprofd-4243-TIME.cprof  -> joined: svd.cprof -> summary
 *
 * Children, because each needs root until its own answer arrives (connection.c), and gives it up for good
 * then. The parent keeps root only as long as it reads nothing that a target wrote. */

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/recorder.h"
#include "cli/result.h"
#include "cli/summary.h"
#include "cli/user.h"
#include "cli/connection.h"
#include "export/join.h"

struct part {
	pid_t pid;    /* the target */
	pid_t worker; /* our child that records it; 0: ended */
	int status;   /* CLI_*, once the worker ended */
	struct recording_file file;
};

struct several {
	const struct cli_options *options;
	struct part parts[CLI_PIDS_MAX];
	uint32_t n, running;
	/* one per part, in memory shared with the workers. Read without locks: only numbers for a progress
	 * line, and `began`, which is read after its worker has ended */
	struct recorder_counts *counts;
	int signals, leash;             /* leash: a pipe whose write end only we hold; closing it stops all workers */
	unsigned signalled;
	struct result result;
};

static int open_files(struct several *several)
{
	char stem[64];
	int status = CLI_DONE;

	for (uint32_t i = 0; i < several->n && status == CLI_DONE; i++) {
		result__stem(several->parts[i].pid, stem, sizeof(stem));
		status = recording_file__open(&several->result.output, stem, &several->parts[i].file);
	}
	return status;
}

/* Forks the workers. If one fork fails, the caller stops those that run, by the leash. */
static int start(struct several *several)
{
	int ends[2];

	if (pipe2(ends, O_CLOEXEC) < 0)
		return -errno;
	several->leash = ends[1];
	/* Each worker would print what is still buffered. */
	fflush(NULL);
	for (uint32_t i = 0; i < several->n; i++) {
		struct part *part = &several->parts[i];
		const struct recorder_part recorded = {part->file.fd, ends[0], &several->counts[i]};

		part->worker = fork();
		if (part->worker < 0) {
			part->worker = 0;
			close(ends[0]);
			return -errno;
		}
		if (!part->worker) {
			/* The worker must not hold the write end itself: then its own leash would never
			 * close. */
			close(ends[1]);
			close(several->signals);
			_exit(recorder__part(several->options, part->pid, &recorded));
		}
		several->running++;
	}
	close(ends[0]);
	return 0;
}

static void stop(struct several *several)
{
	if (several->leash >= 0)
		close(several->leash);
	several->leash = -1;
}

/* NULL: a child that is none of the workers. */
static struct part *part_of(struct several *several, pid_t worker)
{
	for (uint32_t i = 0; i < several->n; i++)
		if (several->parts[i].worker == worker)
			return &several->parts[i];
	return NULL;
}

static void reap(struct several *several)
{
	pid_t worker;
	int status;

	while ((worker = waitpid(-1, &status, WNOHANG)) > 0) {
		struct part *part = part_of(several, worker);

		if (!part)
			continue;
		part->worker = 0;
		part->status = WIFEXITED(status) ? WEXITSTATUS(status) : CLI_COULD_NOT;
		several->running--;
		/* It never attached: the output would lack one of the processes. */
		if (!several->counts[part - several->parts].began)
			stop(several);
	}
}

/* The first signal stops the recordings through the leash. From the second one on it is passed to the workers, which
 * then do not wait for `end`. Ctrl-C at a terminal reaches the workers by itself. */
static void on_signals(struct several *several)
{
	struct signalfd_siginfo info;

	while (read(several->signals, &info, sizeof(info)) == sizeof(info)) {
		if (info.ssi_signo == SIGCHLD)
			continue;
		stop(several);
		for (uint32_t i = 0; several->signalled && info.ssi_code != SI_KERNEL && i < several->n; i++)
			if (several->parts[i].worker)
				kill(several->parts[i].worker, (int)info.ssi_signo);
		several->signalled++;
	}
	reap(several);
}

static void show_progress(const struct several *several, uint64_t started)
{
	struct recorder_counts sum = {};
	uint64_t seconds = (clock__now() - started) / 1000000000;
	uint32_t i, began = 0;

	for (i = 0; i < several->n; i++) {
		const struct recorder_counts *counts = &several->counts[i];

		began += counts->began;
		sum.samples += counts->samples;
		sum.rate += several->parts[i].worker ? counts->rate : 0;
		sum.lost += counts->lost;
	}
	if (began < several->n)
		say__progress("attaching...");
	else
		say__progress("%llu:%02llu  %u of %u processes  %s samples  %s samples/s  %s lost%s", (unsigned long long)seconds / 60,
			      (unsigned long long)seconds % 60, several->running, several->n, words__count(sum.samples), words__count(sum.rate),
			      words__count(sum.lost), several->leash < 0 ? "  stopping..." : "  (Ctrl-C ends)");
}

static int wait_for_all(struct several *several)
{
	struct pollfd signals = {several->signals, POLLIN, 0};
	uint64_t started = clock__now();

	/* A quarter of a second is the pace of the progress line; signals, SIGCHLD included, wake it at once. */
	while (several->running) {
		show_progress(several, started);
		if (poll(&signals, 1, 250) < 0 && errno != EINTR)
			return CLI_COULD_NOT;
		on_signals(several);
	}
	for (uint32_t i = 0; i < several->n; i++)
		if (!several->counts[i].began)
			return CLI_COULD_NOT;
	return CLI_DONE;
}

/* After the workers: join, summarise, convert. From here on as in recorder.c. */
static int finish(struct several *several)
{
	const struct cli_options *options = several->options;
	int in[CLI_PIDS_MAX], status = CLI_DONE, err;
	uint64_t recorded;
	bool cut;

	/* What is read from here on contains data that targets wrote: not as root. */
	err = user__drop(user__calling());
	if (err) {
		say("root's rights cannot be given up, so nothing is read: %s", strerror(-err));
		return CLI_COULD_NOT;
	}
	for (uint32_t i = 0; i < several->n; i++) {
		in[i] = several->parts[i].file.fd;
		/* A recording that ended early is joined as far as it goes, and the exit status says so. */
		status = status == CLI_DONE ? several->parts[i].status : status;
	}
	err = recordings__join(in, several->n, NULL, 0, result__recording(&several->result), result__compressed(&several->result), &cut);
	if (err) {
		say__failure("make room, or choose another place with -o FILE", "the recordings could not be joined: %s", strerror(-err));
		for (uint32_t i = 0; i < several->n; i++) {
			say__more("the recording of %d is kept: %s", several->parts[i].pid, several->parts[i].file.path);
			/* Kept: several__run() removes only what is still open. */
			recording_file__close(&several->parts[i].file);
		}
		return CLI_COULD_NOT;
	}
	summary__print(result__recording(&several->result), options, &recorded);
	return result__finish(&several->result) ?: status;
}

static int run(struct several *several)
{
	const size_t size = several->n * sizeof(*several->counts);
	int status, err;

	several->counts = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (several->counts == MAP_FAILED) {
		say("out of memory");
		return CLI_COULD_NOT;
	}
	err = start(several);
	if (err) {
		say("the recorders could not be started: %s", strerror(-err));
		stop(several);
	}
	status = wait_for_all(several);
	stop(several);
	if (status == CLI_DONE && !err)
		status = finish(several);
	munmap(several->counts, size);
	return err ? CLI_COULD_NOT : status;
}

int several__run(const struct cli_options *options, const pid_t *pids, uint32_t n)
{
	struct several several = {.options = options, .n = n, .signals = -1, .leash = -1, .result = RESULT_NONE};
	sigset_t before;
	int status;

	for (uint32_t i = 0; i < n; i++)
		several.parts[i] = (struct part){.pid = pids[i], .file = RECORDING_FILE_NONE};
	if (options->stream) {
		say("--stream is of one process: attach to each with a cprofd of its own");
		return CLI_USAGE;
	}
	status = user_rules__judge(options->rules) ?: result__open(&several.result, options, pids[0]) ?: open_files(&several);
	if (status == CLI_DONE) {
		several.signals = recorder__signals((const int[]){SIGCHLD, 0}, &before);
		status = run(&several);
		close(several.signals);
		sigprocmask(SIG_SETMASK, &before, NULL);
	}
	for (uint32_t i = 0; i < n; i++)
		recording_file__remove(&several.parts[i].file);
	result__close(&several.result);
	return status;
}
