/* SPDX-License-Identifier: MIT */
/* `cprofd push`: sends recordings, or sessions as they go on, to a store (push/push.h).
 *
 *     push FILE...    read, cut into requests, delivered meanwhile; then what is left
 *     push PID...     a session each, one loop for all: lines -> requests -> server
 *     push --all      the same, for every Python that is found every few seconds
 *
 * Under sudo root is given up before the first byte of an answer of the engine is read, and so before anything is sent. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/signalfd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/limits.h"
#include "cli/follow.h"
#include "cli/input.h"
#include "cli/live.h"
#include "cli/progress.h"
#include "cli/recorder.h"
#include "cli/user.h"
#include "push/push.h"

#define NS 1000000000ull
#define EVERY_MS 10000u
#define RETRY_MS 900000u
#define SPOOL_MB 256u
#define LOOK_NS (5 * NS) /* --all: for new Pythons */
#define BRIEF_NS (NS / 4) /* for one such look */
#define STOP_NS (10 * NS) /* how long `end` is waited for */
#define PYTHONS_MAX 256u
#define HEADERS_BYTES (64u << 10)

/* A process that is sent, until its end. */
struct stream {
	struct connection connection;
	struct live live;
	struct event_decoder *decoder;
	struct batches batches;
	pid_t pid;
	bool began, stopping;
};

struct push {
	const struct cli_options *options;
	const struct push_store *store;
	const char *url;
	struct sender *sender;
	struct batch_resource resource;
	char host[256];
	const char *headers[2 * CLI_HEADERS_MAX + 2]; /* of --header, --header-file, --tenant */
	struct buf header_text;
	char tenant[512];
	int signals;
	unsigned signalled;
	struct stream *streams[CLI_PIDS_MAX];
	uint32_t n;
	pid_t refused[PYTHONS_MAX]; /* --all: of those that are there, so that each is asked for once */
	uint32_t n_refused;
	bool crowded; /* --all: there are more of them than sessions; it was said */
	uint64_t begun, looked, stopped;
	uint64_t missed; /* events of sessions that ended, and of recordings */
	bool troubled, failed; /* failed: a session, or a recording */
};

/* --- where to --- */

/* Lines of a file, as headers. */
static int read_headers(struct push *push, struct cli_options *all)
{
	const char *path = all->header_file;
	const struct option_row *row = option_rows;
	_cleanup_close_ int fd = -1;
	char *line, *at = NULL;
	ssize_t got;

	if (!path)
		return CLI_DONE;
	while (strcmp(row->name, "header"))
		row++;
	if (!user__enter(user__calling()))
		fd = open(path, O_RDONLY | O_CLOEXEC);
	user__leave(user__calling());
	if (fd < 0 || buf__lengthen(&push->header_text, HEADERS_BYTES + 1) || (got = read(fd, push->header_text.data, HEADERS_BYTES)) < 0) {
		say__failure("", "%s cannot be read: %s", path, strerror(errno));
		return CLI_COULD_NOT;
	}
	push->header_text.data[got] = '\0';
	for (line = strtok_r(push->header_text.data, "\r\n", &at); line; line = strtok_r(NULL, "\r\n", &at)) {
		const char *wrong = *line == '#' ? NULL : row->set(all, line);

		/* The line itself may be a secret. */
		if (wrong) {
			say__failure("a header is a line 'NAME: VALUE'; # begins a comment", "%s: a line %s", path, wrong);
			return CLI_USAGE;
		}
	}
	return CLI_DONE;
}

static int make_sender(struct push *push)
{
	struct cli_options all = *push->options;
	int status = read_headers(push, &all), err;
	const struct push_target target = {
		.store = push->store,
		.url = push->url,
		.headers = push->headers,
		.ca_file = all.ca_file,
		.spool_bytes = (uint64_t)(all.spool_mb ?: SPOOL_MB) << 20,
	};
	uint32_t n = all.n_headers;

	if (status != CLI_DONE)
		return status;
	memcpy(push->headers, all.headers, sizeof(all.headers));
	if (all.tenant) {
		snprintf(push->tenant, sizeof(push->tenant), "X-Scope-OrgID: %s", all.tenant);
		push->headers[n++] = push->tenant;
	}
	err = sender__new(&target, &push->sender);
	if (err)
		say__failure("", "nothing can be sent: %s", strerror(-err));
	return err ? CLI_COULD_NOT : CLI_DONE;
}

/* --- what is said --- */

static void show_progress(const struct push *push)
{
	struct push_counts counts = sender__counts(push->sender);
	uint64_t bytes, seconds = (clock__now() - push->begun) / NS;
	uint32_t waiting = sender__waiting(push->sender, &bytes);
	char sessions[32] = "";

	if (push->n)
		snprintf(sessions, sizeof(sessions), "%u process%s  ", push->n, push->n == 1 ? "" : "es");
	say__progress("%llu:%02llu  %s%s samples delivered  %u request%s waiting (%s)%s", (unsigned long long)seconds / 60,
		      (unsigned long long)seconds % 60, sessions, words__count(counts.samples), waiting, waiting == 1 ? "" : "s", words__bytes(bytes),
		      push->stopped ? "  stopping..." : "  (Ctrl-C ends)");
}

/* Once for each outage, and once at its end. */
static void tell_trouble(struct push *push)
{
	uint32_t attempts;
	uint64_t ms;
	const char *trouble = sender__trouble(push->sender, &attempts, &ms);

	if (trouble && attempts && !push->troubled)
		say("%s; requests wait on disk, and are tried again", trouble);
	else if (!trouble && push->troubled)
		say("requests are delivered again");
	push->troubled = trouble && attempts;
}

static int finish(const struct push *push, int status)
{
	struct push_counts counts = sender__counts(push->sender);
	uint64_t bytes, ms;
	uint32_t attempts, waiting = sender__waiting(push->sender, &bytes);
	const char *hint = "", *trouble = sender__trouble(push->sender, &attempts, &ms), *hopeless = sender__hopeless(push->sender, &hint);
	const char *remark = sender__remark(push->sender);

	if (counts.requests || (status == CLI_DONE && !hopeless && !waiting && !counts.refused))
		say__note("delivered %s samples in %s request%s (%s) to %s", words__count(counts.samples), words__count(counts.requests),
			  counts.requests == 1 ? "" : "s", words__bytes(counts.bytes), push->url);
	if (hopeless)
		say__failure(hint, "%s", hopeless);
	if (counts.refused && !hopeless)
		say__failure("", "%s of the requests %s refused, with %s samples: %s", words__count(counts.refused), counts.refused == 1 ? "was" : "were",
			     words__count(counts.refused_samples), sender__refusal(push->sender));
	if (counts.rejected)
		say("the server rejected %s profiles of requests that it accepted%s%s", words__count(counts.rejected), *remark ? ": " : "", remark);
	else if (*remark)
		say("the server says: %s", remark);
	if (counts.dropped)
		say__failure("--spool MB gives more", "%s requests with %s samples were dropped: the spool, or its disk, was full", words__count(counts.dropped),
			     words__count(counts.dropped_samples));
	if (push->missed)
		say("%s events of sessions did not reach this command in time, or its recording has a gap", words__count(push->missed));
	if (waiting && !hopeless)
		say__failure("--retry SECS waits longer", "%u request%s not delivered: %s", waiting, waiting == 1 ? " was" : "s were", trouble ?: "interrupted");
	if (push->options->follow && (waiting || hopeless || push->signalled))
		return FOLLOW_AGAIN;
	return counts.refused || counts.dropped || counts.rejected || waiting || hopeless || push->failed ? CLI_COULD_NOT : status;
}

/* --- the loop --- */

/* True: a signal came. The second one ends everything at once. */
static bool take_signals(struct push *push)
{
	struct signalfd_siginfo info;
	bool any = false;

	while (read(push->signals, &info, sizeof(info)) == sizeof(info)) {
		push->signalled++;
		any = true;
	}
	return any;
}

static bool hopeless(const struct push *push)
{
	const char *hint;

	return sender__hopeless(push->sender, &hint);
}

static void drain(struct push *push)
{
	uint64_t until = push->options->follow ? UINT64_MAX : clock__now() + (push->options->retry_ms ?: RETRY_MS) * 1000000ull, bytes;
	unsigned before = push->signalled;
	struct pollfd fd = {push->signals, POLLIN, 0};

	while (sender__waiting(push->sender, &bytes) && !hopeless(push) && clock__now() < until && push->signalled == before) {
		show_progress(push);
		if (sender__poll(push->sender, &fd, 1, 250))
			break;
		tell_trouble(push);
		take_signals(push);
	}
}

/* --- recordings --- */

static int push_file(struct push *push, const char *path)
{
	_cleanup_close_ int fd = input__open_recording(path);
	struct batches batches;
	bool cut = false;
	int err;

	if (fd < 0)
		return CLI_COULD_NOT;
	err = batches__begin(&batches, push->sender, push->store, (push->options->every_ms ?: EVERY_MS) * 1000000ull, &push->resource);
	batches.room = (uint64_t)(push->options->spool_mb ?: SPOOL_MB) << 20;
	batches.interrupt = push->signals;
	err = err ?: batches__read(&batches, fd, &cut);
	if (err && err != -ECANCELED && !input__print_limit(err, path))
		input__print_failure(err, path);
	if (!err && cut)
		say__note("%s ends in the middle; everything up to there is sent", path);
	push->missed += batches.missed;
	if (!err && !batches.samples)
		say("nothing is in %s: no sample was taken", path);
	batches__free(&batches);
	return err ? CLI_COULD_NOT : CLI_DONE;
}

static int push_files(struct push *push)
{
	int err = user__drop(user__calling()), status = CLI_DONE;

	if (err) {
		say("root's rights cannot be given up, so nothing is read: %s", strerror(-err));
		return CLI_COULD_NOT;
	}
	if (!push->options->no_limits)
		limits__begin();
	for (int i = 0; i < push->options->n_operands && status == CLI_DONE && !hopeless(push); i++)
		status = push_file(push, push->options->operands[i]);
	return status;
}

/* --- processes --- */

/* Lines that came for a stream. */
static int take_lines(void *of)
{
	struct stream *stream = of;
	const char *line;
	size_t len;
	int err = connection__receive(&stream->connection, 0);

	while (!err && !stream->live.ended && connection__line(&stream->connection, &line, &len)) {
		live__line(&stream->live, line, len);
		if (!line__is(line, len, "answer"))
			err = event_decoder__line(stream->decoder, line, len, &stream->batches.sink);
	}
	if (stream->connection.ended && !stream->live.ended)
		stream->live.ended = stream->live.cut = true;
	return err;
}

static void stream__free(struct stream *stream)
{
	if (!stream)
		return;
	connection__close(&stream->connection);
	event_decoder__free(stream->decoder);
	batches__free(&stream->batches);
	free(stream);
}

static int stream__open(struct push *push, pid_t pid, bool daemon_only)
{
	struct stream *stream = calloc(1, sizeof(*stream));
	int status;

	if (!stream)
		return CLI_COULD_NOT;
	stream->pid = pid;
	stream->connection = CONNECTION_NONE;
	stream->live.stream_fd = -1;
	stream->live.connection = &stream->connection;
	status = connection__open(push->options, pid, daemon_only, &stream->connection);
	if (status == CLI_DONE)
		push->streams[push->n++] = stream;
	else
		stream__free(stream);
	return status;
}

static int stream__attach(struct push *push, struct stream *stream)
{
	int err = batches__begin(&stream->batches, push->sender, push->store, (push->options->every_ms ?: EVERY_MS) * 1000000ull, &push->resource);

	err = err ?: event_decoder__new(&stream->decoder);
	err = err ?: live__attach(&stream->live, push->options, stream->pid, false, LIVE_FILE);
	if (err)
		say("the engine could not be asked: %s", strerror(-err));
	return err ? CLI_COULD_NOT : live__await_answer(&stream->live, take_lines, stream);
}

static void refuse(struct push *push, pid_t pid)
{
	if (push->n_refused < PYTHONS_MAX)
		push->refused[push->n_refused++] = pid;
}

static bool is_in(pid_t pid, const pid_t *pids, uint32_t n)
{
	while (n && pids[n - 1] != pid)
		n--;
	return n;
}

static bool is_sampled(const struct push *push, pid_t pid)
{
	for (uint32_t i = 0; i < push->n; i++)
		if (push->streams[i]->pid == pid)
			return true;
	return false;
}

static void stream__end(struct push *push, uint32_t i)
{
	struct stream *stream = push->streams[i];

	/* --all: the session ended, and the process did not. */
	if (!stream->live.cut && strcmp(stream->live.reason, "exited"))
		refuse(push, stream->pid);
	push->missed += stream->batches.missed;
	if (batches__flush(&stream->batches) || stream->live.cut) {
		say("%d: the session ended early", stream->pid);
		push->failed = true;
	} else if (!strcmp(stream->live.reason, "failed")) {
		say("%d: %s", stream->pid, stream->live.detail);
		push->failed = true;
	}
	stream__free(stream);
	push->streams[i] = push->streams[--push->n];
}

static void stop_all(struct push *push)
{
	push->stopped = push->stopped ?: clock__now();
	for (uint32_t i = 0; i < push->n; i++) {
		struct stream *stream = push->streams[i];

		if (!stream->stopping)
			live__stop(&stream->live);
		stream->stopping = true;
	}
}

/* --all: Pythons that were not there before. Who is refused is asked for once; another process may get its number. */
static void look_for_more(struct push *push)
{
	pid_t pids[PYTHONS_MAX];
	uint32_t n = find__pythons(pids, PYTHONS_MAX), kept = 0, waiting = 0;

	push->looked = clock__now();
	for (uint32_t i = 0; i < push->n_refused; i++)
		if (is_in(push->refused[i], pids, n))
			push->refused[kept++] = push->refused[i];
	push->n_refused = kept;
	for (uint32_t i = 0; i < n; i++) {
		if (is_sampled(push, pids[i]) || is_in(pids[i], push->refused, push->n_refused))
			continue;
		if (push->n == CLI_PIDS_MAX) {
			waiting++;
			continue;
		}
		/* Sessions that go on are not kept waiting for long. */
		if (clock__now() - push->looked > BRIEF_NS) {
			push->looked = 0;
			return;
		}
		/* The daemon is gone: who runs this as a service starts it again. */
		if (stream__open(push, pids[i], true) != CLI_DONE) {
			push->failed = true;
			stop_all(push);
			return;
		}
		if (stream__attach(push, push->streams[push->n - 1]) != CLI_DONE) {
			stream__free(push->streams[--push->n]);
			refuse(push, pids[i]);
		}
	}
	if (waiting && !push->crowded)
		say("%u Pythons are sampled, and no more at a time: %u wait until one of these ends", CLI_PIDS_MAX, waiting);
	push->crowded = waiting;
}

static int run_streams(struct push *push)
{
	struct pollfd fds[CLI_PIDS_MAX + 1];
	int err = 0;

	while (!err && (push->n || (push->options->all && !push->stopped))) {
		uint32_t n = push->n;
		bool over = false; /* -d of the first one is that of all */

		if (push->options->all && !push->stopped && clock__now() - push->looked >= LOOK_NS)
			look_for_more(push);
		for (uint32_t i = 0; i < n; i++)
			fds[i] = (struct pollfd){push->streams[i]->connection.fd, POLLIN, 0};
		fds[n] = (struct pollfd){push->signals, POLLIN, 0};
		show_progress(push);
		err = sender__poll(push->sender, fds, n + 1, 250);
		tell_trouble(push);
		if (take_signals(push) || hopeless(push))
			stop_all(push);
		for (uint32_t i = n; i-- && !err;) {
			struct stream *stream = push->streams[i];

			if (fds[i].revents && take_lines(stream))
				stream->live.ended = stream->live.cut = true;
			over |= push->options->all && !strcmp(stream->live.reason, "duration");
			if (stream->live.ended)
				stream__end(push, i);
		}
		if (over)
			stop_all(push);
		if (push->stopped && (push->signalled > 1 || clock__now() - push->stopped > STOP_NS))
			break;
	}
	return err;
}

static int push_processes(struct push *push)
{
	const struct cli_options *options = push->options;
	pid_t pids[CLI_PIDS_MAX];
	uint32_t n = 0;
	int status = user_rules__judge(options->rules), err;

	if (status == CLI_DONE && options->all && !user__calling()->uid) {
		say__failure("run it as that user: sudo -u NAME cprofd push --all", "--all is every Python of one user, and not for root");
		status = CLI_USAGE;
	}
	/* Of sudo's user, as that user. */
	if (status == CLI_DONE && options->all && user__drop(user__calling())) {
		say("root's rights cannot be given up");
		status = CLI_COULD_NOT;
	}
	if (status == CLI_DONE && !options->all)
		status = options__pids(options, pids, &n);
	for (uint32_t i = 0; i < n && status == CLI_DONE; i++)
		status = stream__open(push, pids[i], n > 1);
	/* All are connected before the first answer is read: then root is given up, which names what it asks for. */
	for (uint32_t i = 0; i < n && status == CLI_DONE; i++)
		status = stream__attach(push, push->streams[i]);
	while (status != CLI_DONE && push->n)
		stream__free(push->streams[--push->n]);
	if (status == CLI_DONE && options->all) {
		struct connection connection;

		/* Whether there is a daemon at all. */
		status = connection__open(options, 0, true, &connection);
		if (status == CLI_DONE)
			connection__close(&connection);
	}
	err = status == CLI_DONE ? run_streams(push) : 0;
	if (err)
		say("what came cannot be kept: %s", strerror(-err));
	while (push->n)
		stream__end(push, push->n - 1);
	return err ? CLI_COULD_NOT : status;
}

/* --- */

/* As for `view`: a number is a PID, also if there is a file of that name. */
static bool is_file(const char *operand)
{
	return strspn(operand, "0123456789,") != strlen(operand) &&
	       (!strcmp(operand, "-") || strchr(operand, '/') || !access(operand, F_OK) || strstr(operand, ".cprof"));
}

/* CLI_USAGE: the sentence was printed. */
static int judge(const struct cli_options *options, const char *url, bool *ret_files)
{
	int files = 0;

	for (int i = 0; i < options->n_operands; i++)
		files += is_file(options->operands[i]);
	*ret_files = files;
	if (!url)
		say__failure("as in `cprofd push --otlp http://localhost:4318 svd.cprof`", "where to? give the address of an OTLP receiver, or of Pyroscope");
	else if (options->otlp && options->pyroscope)
		say__failure("push twice, to one of them each", "either --otlp or --pyroscope");
	else if (options->json && !options->otlp)
		say__failure("leave it out", "--json: only OTLP has a form in JSON");
	else if (strncmp(url, "http://", 7) && strncmp(url, "https://", 8))
		say__failure(options->otlp ? "as in --otlp http://localhost:4318" : "as in --pyroscope http://localhost:4040", "%s: '%s' is no URL of http or https",
			     options->otlp ? "--otlp" : "--pyroscope", url);
	else if (files && (files < options->n_operands || options->n_pids || options->all))
		say__failure("push them one after the other", "either recordings or processes");
	else if (options->all && (options->n_operands || options->n_pids))
		say__failure("leave one of them out", "--all is every Python, and '%s' is one", options->n_operands ? options->operands[0] : "-p");
	else if (options->follow && (options->n_operands || options->n_pids || options->all))
		say__failure("leave one of them out", "--follow is of the recordings of a directory");
	else if (options->state && !options->follow)
		say__failure("add --follow DIR", "--state is of a directory that is followed");
	else if (!options->follow && !options->all && !options->n_operands && !options->n_pids)
		say__failure("as in `cprofd push --otlp URL svd.cprof`, or `cprofd push --otlp URL 4242`", "which recordings, or which processes?");
	else
		return CLI_DONE;
	return CLI_USAGE;
}

static const char *url_of(const struct cli_options *options)
{
	return options->otlp ?: options->pyroscope;
}

/* options->operands: recordings; or else processes. */
static int run(const struct cli_options *options, bool files)
{
	struct push push = {.options = options, .signals = -1, .begun = clock__now(), .url = url_of(options),
			    .store = !options->otlp ? &push_pyroscope : options->json ? &push_otlp_json : &push_otlp};
	int status;

	push.resource.service = options->service;
	/* The daemon's socket is this machine's; a recording may be another's. */
	if ((!files || options->follow) && !gethostname(push.host, sizeof(push.host) - 1))
		push.resource.host = push.host;
	status = make_sender(&push);
	if (status == CLI_DONE) {
		push.signals = recorder__signals((const int[]){0}, NULL);
		status = files ? push_files(&push) : push_processes(&push);
		drain(&push);
		status = finish(&push, status);
	}
	sender__free(push.sender);
	buf__free(&push.header_text);
	if (push.signals >= 0)
		close(push.signals);
	return status;
}

static int run_followed(const struct cli_options *options)
{
	return run(options, true);
}

int push__run(const struct cli_options *options)
{
	bool files;
	int status = judge(options, url_of(options), &files);

	if (status != CLI_DONE)
		return status;
	if (push__load()) {
		say__failure("sudo apt-get install libcurl4", "push needs the library libcurl, which is not installed");
		return CLI_COULD_NOT;
	}
	return options->follow ? follow__run(options, url_of(options), run_followed) : run(options, files);
}
