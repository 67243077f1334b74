/* SPDX-License-Identifier: MIT */
/* `cprofd dump`: requests a dump from the engine and prints it, as text or JSON. The engine sends one line
 * per thread, then the answer, which has what concerns the whole process:
 *
 *     {"ev":"dump","id":1,"tid":4243,"name":"worker","state":"sleeping","frames":[{"kind":"python",...},...]}
 *     {"ev":"answer","id":1,"dump":{"pid":4242,"command":"python3 svd.py","python":"3.12.1"}}
 *
 * Everything is kept until the answer is there: it says whether there is anything to print. The text comes
 * from the target, hence json__readable() (readable.h) before anything goes to a terminal. */
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/json_text.h"
#include "cli/connection.h"
#include "cli/readable.h"

/* Of silence. A dump is a matter of a second, but symbols of large files are read for it. */
#define TIMEOUT_MS 20000

/* --- for people --- */

/* A string of the answer; "?" if it is missing, so that an engine of another version still gives a readable
 * dump. */
static const char *word(const json_t *object, const char *key)
{
	const char *text = json_string_value(json_object_get(object, key));

	return text ? text : "?";
}

static bool is_kind(const json_t *frame, const char *kind)
{
	return !strcmp(word(frame, "kind"), kind);
}

/* A function without a name is shown as "libc.so.6+0x1234": then the module need not be repeated. */
static bool names_module(const char *function, const char *module)
{
	size_t len = strlen(module);

	return !strncmp(function, module, len) && function[len] == '+';
}

/* Native frames are dimmed, so that the Python frames stand out. */
static void print_frame(const json_t *frame)
{
	json_int_t line = json_integer_value(json_object_get(frame, "line"));
	const bool cut = is_kind(frame, "cut");

	if (is_kind(frame, "python")) {
		printf("    %s", word(frame, "function"));
		style__begin(stdout, STYLE_DIM);
		printf(" (%s", word(frame, "file"));
		if (line > 0)
			printf(":%lld", (long long)line);
		putchar(')');
	} else {
		style__begin(stdout, cut ? STYLE_WARN : STYLE_DIM);
		if (cut)
			printf("    ... (cut: %s)", word(frame, "why"));
		else if (*word(frame, "module") && !names_module(word(frame, "function"), word(frame, "module")))
			printf("    %s (%s)", word(frame, "function"), word(frame, "module"));
		else
			printf("    %s", word(frame, "function"));
	}
	style__end(stdout);
	putchar('\n');
}

static void print_thread(const json_t *thread)
{
	json_t *frames = json_object_get(thread, "frames"), *frame;
	size_t i;

	putchar('\n');
	style__begin(stdout, STYLE_HEAD);
	printf("Thread %lld (%s): \"%s\"", (long long)json_integer_value(json_object_get(thread, "tid")),
	       word(thread, "state"), word(thread, "name"));
	style__end(stdout);
	putchar('\n');
	json_array_foreach(frames, i, frame) print_frame(frame);
	/* Its frames were read several times, and each time it had run meanwhile: what was read does not fit
	 * together. */
	if (!strcmp(word(thread, "seen"), "moving"))
		puts("    (it never paused, and its timer did not tick: no stack)");
	else if (!json_array_size(frames))
		puts(json_is_true(json_object_get(thread, "python")) ? "    (no Python frame)" : "    (not a Python thread)");
}

/*     Process 4242: python3 svd.py
 *     CPython 3.12.1
 *
 *     Thread 4242 (sleeping): "python3"
 *         select (libc.so.6)
 *         wait (threading.py:331) */
static void print_all(const json_t *all)
{
	json_t *threads = json_object_get(all, "threads"), *thread;
	size_t i;

	printf("Process %lld: %s\n", (long long)json_integer_value(json_object_get(all, "pid")), word(all, "command"));
	if (*word(all, "python"))
		printf("CPython %s\n", word(all, "python"));
	else
		puts("no supported Python: native frames only");
	json_array_foreach(threads, i, thread) print_thread(thread);
}

/* --- the exchange with the engine --- */

static int out_of_memory(void)
{
	say("out of memory");
	return CLI_COULD_NOT;
}

static int print(const struct cli_options *options, json_t *all)
{
	if (options->json)
		return json__print(all, JSON_COMPACT);
	if (json__readable(all))
		return out_of_memory();
	print_all(all);
	return CLI_DONE;
}

/* CLI_* after the answer; -1: more lines follow. */
static int take_line(const struct cli_options *options, const char *line, size_t len, json_t **threads)
{
	json_t *json = line__read(line, len, JSON_ALLOW_NUL), *all;
	const char *hint;
	char why[256];
	bool forbidden;
	int status;

	if (!json)
		return CLI_COULD_NOT;
	if (!strcmp(word(json, "ev"), "dump")) {
		/* Keys of the protocol; the printed JSON is an object for each process, with the threads as
		 * an array. */
		json_object_del(json, "ev");
		json_object_del(json, "id");
		json__append(threads, json);
		return -1;
	}
	if (strcmp(word(json, "ev"), "answer")) {
		json_decref(json);
		return -1;
	}
	all = json_object_get(json, "dump");
	if (!json_is_object(all)) {
		hint = json_string_value(json_object_get(json, "hint"));
		forbidden = forbidden__answered(options->pid, word(json, "code"), (int)json_integer_value(json_object_get(json, "errno")), why,
						sizeof(why), &hint);
		if (forbidden)
			say__failure(hint, "%s", why);
		else
			say__failure(hint, "%d: %s", options->pid, word(json, "error"));
		json_decref(json);
		return CLI_COULD_NOT;
	}
	status = json_object_set(all, "threads", *threads) ? out_of_memory() : print(options, all);
	json_decref(json);
	return status;
}

/* One request, then lines until the answer. TIMEOUT_MS applies to silence: each byte that arrives starts it
 * again. */
static int converse(const struct cli_options *options, struct connection *connection, json_t **threads)
{
	char request[96];
	const char *line;
	int err, status;
	size_t len;

	snprintf(request, sizeof(request), "{\"req\":\"dump\",\"id\":1,\"pid\":%d,\"native\":\"%s\"}", options->pid,
		 options->native);
	err = connection__request(connection, request);
	while (!err && !connection->ended) {
		err = connection__await(connection, TIMEOUT_MS);
		while (!err && connection__line(connection, &line, &len)) {
			status = take_line(options, line, len, threads);
			if (status >= 0)
				return status;
		}
	}
	say("the engine did not answer: %s", err ? strerror(-err) : "it closed the connection");
	return CLI_COULD_NOT;
}

static int dump(const struct cli_options *options, pid_t pid)
{
	struct cli_options own = *options;
	struct connection connection;
	json_t *threads;
	int status;

	own.pid = pid;
	/* The broker prepares the BPF program of dumps instead of the sampler (connection.c, expected()). */
	own.dump = true;
	status = connection__open(&own, pid, false, &connection);
	if (status != CLI_DONE)
		return status;
	threads = json_array();
	status = converse(&own, &connection, &threads);
	json_decref(threads);
	connection__close(&connection);
	return status;
}

/* Dumps in a child: reading an answer gives up root (connection.c), and the next request needs it. */
static int dump_apart(const struct cli_options *options, pid_t pid)
{
	pid_t child;
	int status;

	fflush(NULL);
	child = fork();
	if (!child) {
		status = dump(options, pid);
		fflush(NULL);
		_exit(status);
	}
	if (child < 0 || waitpid(child, &status, 0) < 0)
		return CLI_COULD_NOT;
	return WIFEXITED(status) ? WEXITSTATUS(status) : CLI_COULD_NOT;
}

int dump__run(const struct cli_options *options)
{
	pid_t pids[CLI_PIDS_MAX];
	uint32_t n, i;
	int status = options__pids(options, pids, &n), one;

	if (status != CLI_DONE || n == 1)
		return status == CLI_DONE ? dump(options, pids[0]) : status;
	/* The first status that is not CLI_DONE is the command's; the other processes are dumped
	 * nevertheless. */
	for (i = 0; i < n; i++) {
		if (i && !options->json)
			putchar('\n');
		one = dump_apart(options, pids[i]);
		status = status == CLI_DONE ? one : status;
	}
	return status;
}
