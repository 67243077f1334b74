/* SPDX-License-Identifier: MIT */
/* The table of options: name, argument, which commands take it, help text, setter. Parsing is in parse.c;
 * help, man page and completions are printed from the same rows.
 *
 * To add an option: a member of struct cli_options (cli.h), and a row. Flags, texts and closed lists only name
 * the member; a value that has to be checked or converted has a setter. That returns NULL, or what is wrong
 * with the value, as the end of a sentence that begins with the value: "--rate: '99x' is not a rate". */
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/amount.h"
#include "cli/cli.h"

/* --- setters --- */

/* One PID or several, separated by commas; duplicates are ignored. */
static const char *set_pid(struct cli_options *options, const char *value)
{
	const char *at = value;
	char *end;
	uint32_t i;
	long pid;

	do {
		errno = 0;
		pid = strtol(at, &end, 10);
		/* 1 << 22 is the kernel's own limit, PID_MAX_LIMIT (include/linux/threads.h). */
		if (errno || end == at || (*end && *end != ',') || pid < 1 || pid > 1 << 22)
			return "is not a process id";
		for (i = 0; i < options->n_pids && options->pids[i] != pid; i++)
			;
		if (i == CLI_PIDS_MAX)
			return "is one process too many: 16 at once";
		options->pids[i] = (pid_t)pid;
		options->n_pids += i == options->n_pids;
		at = end + 1;
	} while (*end);
	options->pid = options->pids[0];
	return NULL;
}

/* Seconds, with a fraction; -1: not a number of seconds. */
static double seconds(const char *value, const char **ret_end)
{
	double number;

	return amount__number(value, &number, ret_end) && number <= 1e9 ? number : -1;
}

/* Never 0, which would mean "until stopped". */
static const char *span_of_time(const char *value, uint64_t *ret_ms)
{
	uint64_t ns;

	if (!amount__ns(value, &ns) || ns < 1000000 || ns > 1000000000000000000)
		return "is not a number of seconds (at least 0.001), minutes (5m) or hours (1h)";
	*ret_ms = (ns + 500000) / 1000000;
	return NULL;
}

static const char *set_duration(struct cli_options *options, const char *value)
{
	if (strcmp(value, "unlimited")) /* py-spy's word */
		return span_of_time(value, &options->duration_ms);
	options->duration_ms = 0;
	return NULL;
}

static const char *set_every(struct cli_options *options, const char *value)
{
	return span_of_time(value, &options->every_ms);
}

static const char *set_retry(struct cli_options *options, const char *value)
{
	return span_of_time(value, &options->retry_ms);
}

/* Only what curl would send as it is: no second header, and no header that it would leave out. */
static const char *set_header(struct cli_options *options, const char *value)
{
	size_t name = strcspn(value, ": \t\r\n");

	if (!name || value[name] != ':' || strspn(value + name + 1, " ") == strlen(value + name + 1) || strpbrk(value, "\r\n"))
		return "is no header: NAME: VALUE";
	if (options->n_headers == CLI_HEADERS_MAX)
		return "is one header too many";
	options->headers[options->n_headers++] = value;
	return NULL;
}

static const char *set_rotate_size(struct cli_options *options, const char *value)
{
	return amount__bytes(value, &options->rotate_size) && options->rotate_size >= 1000 ? NULL : "is not a size (as 64M or 1G; at least 1k)";
}

static const char *set_rotate_age(struct cli_options *options, const char *value)
{
	return amount__ns(value, &options->rotate_age) && options->rotate_age >= 1000000000 ? NULL : "is not a time (as 30s, 10m or 1h; at least 1s)";
}

static const char *set_keep(struct cli_options *options, const char *value)
{
	return amount__bytes(value, &options->keep) && options->keep >= 4000 ? NULL : "is not a size (as 500M or 2G; at least 4k)";
}

static const char *set_trigger(struct cli_options *options, const char *value)
{
	if (options->n_conditions == CONDITIONS_MAX)
		return "is one condition too many: 16 at once";
	return condition__parse(value, &options->conditions[options->n_conditions++]);
}

static const char *set_last(struct cli_options *options, const char *value)
{
	return amount__ns(value, &options->last) && options->last >= 1000000000 ? NULL : "is not a time (as 30s or 5m; at least 1s)";
}

static const char *set_after(struct cli_options *options, const char *value)
{
	options->after_given = true;
	return amount__ns(value, &options->after) ? NULL : "is not a time (as 0s, 5s or 1m)";
}

static const char *set_cool_down(struct cli_options *options, const char *value)
{
	options->cool_down_given = true;
	return amount__ns(value, &options->cool_down) ? NULL : "is not a time (as 0s, 1m or 1h)";
}

static const char *set_memory(struct cli_options *options, const char *value)
{
	return amount__bytes(value, &options->memory) && options->memory >= 10000 ? NULL : "is not a size (as 64M or 1G; at least 10k)";
}

static const char *set_rate(struct cli_options *options, const char *value)
{
	double number;
	char *end;

	errno = 0;
	number = isdigit((unsigned char)*value) ? strtod(value, &end) : -1;
	if (number >= 0 && (*end == 'k' || *end == 'K')) {
		number *= 1000;
		end++;
	}
	/* `end` is set if number is at least 1. A fraction such as 1.0005k is refused, not rounded: the rate
	 * is a whole number of Hz. */
	if (number < 1 || errno || *end || number > BROKER_RATE_MAX || number != floor(number))
		return "is not a rate: samples a second, 1 to 20k (as 999, 10000 or 10k)";
	options->rate = (uint32_t)number;
	return NULL;
}

static const char *set_format(struct cli_options *options, const char *value)
{
	/* Built from the table of exporters, as each release adds some. One thread; valid until the next
	 * call. */
	static char sentence[320];

	if (!exporter__find(value)) {
		snprintf(sentence, sizeof(sentence), "is not a format that this version writes; there are %s",
			 exporter__names());
		return sentence;
	}
	options->format = value;
	return NULL;
}

/* The last one of -F and --lines counts, as with most tools, so that an alias in a shell can be overridden. */
static const char *set_functions(struct cli_options *options, const char *value)
{
	options->lines = false;
	options->functions = true;
	return NULL;
}

/* A mode that this version lacks is refused, never silently ignored. */
static const char *set_mode(struct cli_options *options, const char *value)
{
	options->wall = !strcmp(value, "wall");
	return options->wall || !strcmp(value, "cpu") ? NULL : "is not one of cpu, wall";
}

static const char *set_exclude(struct cli_options *options, const char *value)
{
	if (!*value)
		return "is no pattern";
	if (options->n_exclude == EXPORT_EXCLUDE_MAX)
		return "is one pattern too many: * and ? stand for several names";
	options->exclude[options->n_exclude++] = value;
	return NULL;
}

/* NULL, or what is wrong with it. User names become numbers in agent.c. */
static const char *add_match(const char *value, const char *list[], uint32_t *n)
{
	static const char *const kinds[] = {"name=", "cgroup=", "user="};
	size_t i;

	for (i = 0; i < 3 && strncmp(value, kinds[i], strlen(kinds[i])); i++)
		;
	if (i == 3 || strchr(value, '\n'))
		return "is none of name=GLOB, cgroup=GLOB, user=NAME";
	if (!value[strlen(kinds[i])])
		return "has no pattern behind the =";
	if (*n == CLI_MATCHES_MAX)
		return "is one pattern too many: * and ? stand for several names";
	list[(*n)++] = value;
	return NULL;
}

static const char *set_match(struct cli_options *options, const char *value)
{
	return add_match(value, options->matches, &options->n_matches);
}

static const char *set_unmatched(struct cli_options *options, const char *value)
{
	return add_match(value, options->unmatched, &options->n_unmatched);
}

static const char *refuse_locals(struct cli_options *options, const char *value)
{
	return "values of variables are not read in this version: leave --locals out";
}

static const char *set_window(struct cli_options *options, const char *value)
{
	static const char bad[] =
		"is not a window: FROM,TO in seconds since the start (as 2.5,10 or 30,)";
	const char *end = NULL;
	double from, to;

	from = seconds(value, &end);
	if (from < 0 || *end != ',')
		return bad;
	options->from_ns = (uint64_t)(from * 1e9);
	/* "30," : to the end. */
	options->to_ns = 0;
	if (!end[1])
		return NULL;
	to = seconds(end + 1, &end);
	if (to < 0 || *end || to <= from)
		return bad;
	options->to_ns = (uint64_t)(to * 1e9);
	return NULL;
}

static bool name_is(const char *name, const char *text, size_t len)
{
	return strlen(name) == len && !memcmp(name, text, len);
}

static const char *set_by(struct cli_options *options, const char *value)
{
	options->report_tables = 0;
	for (;; value++) {
		size_t len = strcspn(value, ",");
		int by;

		/* REPORT_CALLERS and later are not for --by: they need a function, which --callers and --callees
		 * name. */
		for (by = 0; by < REPORT_CALLERS && !name_is(report_names[by], value, len); by++)
			;
		if (by == REPORT_CALLERS)
			return "is not one of class, process, thread, unit, source, source-line, phase, pass, trigger, tree, chain, repeat, failed, function, "
			       "line, package, module, file, callee (or several, with commas)";
		options->report_tables |= 1u << by;
		value += len;
		if (!*value)
			return NULL;
	}
}

static bool count(const char *value, uint32_t *ret)
{
	unsigned long number;
	char *end;

	errno = 0;
	number = isdigit((unsigned char)*value) ? strtoul(value, &end, 10) : 0;
	if (!isdigit((unsigned char)*value) || errno || *end || number > UINT32_MAX)
		return false;
	*ret = (uint32_t)number;
	return true;
}

static const char *set_count(struct cli_options *options, const char *value)
{
	options->count_given = true;
	return count(value, &options->count) ? NULL : "is not a number of recordings (0: no limit)";
}

static const char *set_skip_first(struct cli_options *options, const char *value)
{
	return count(value, &options->skip_first) ? NULL : "is not a number of compiles (0: none is left out)";
}

static const char *set_spool(struct cli_options *options, const char *value)
{
	return count(value, &options->spool_mb) && options->spool_mb ? NULL : "is not a number of MB";
}

static const char *set_top(struct cli_options *options, const char *value)
{
	options->top_given = count(value, &options->top);
	return options->top_given ? NULL : "is not a number of rows (0: all)";
}

/* "99%", "99" -> 0.99. */
static bool share(const char *value, double *ret)
{
	const char *end = NULL;
	double number = seconds(value, &end);

	if (number < 0 || number > 100 || end == value || (*end && strcmp(end, "%")))
		return false;
	*ret = number / 100;
	return true;
}

static const char *set_until(struct cli_options *options, const char *value)
{
	return share(value, &options->until) && options->until > 0 ? NULL : "is not a share of the time (as 99%)";
}

static const char *set_min_share(struct cli_options *options, const char *value)
{
	return share(value, &options->min_share) ? NULL : "is not a share of the time (as 0.5%)";
}

static const char *set_self_limit(struct cli_options *options, const char *value)
{
	return strchr(value, '%') && share(value, &options->self_limit) && options->self_limit > 0 ? NULL : "is not a share of a CPU (as 1% or 0.5%)";
}

static const char *set_depth(struct cli_options *options, const char *value)
{
	return count(value, &options->depth) ? NULL : "is not a number of levels (0: all)";
}

static const char *set_level(struct cli_options *options, const char *value)
{
	return share(value, &options->level) && options->level >= 0.5 && options->level < 1
		       ? NULL
		       : "is not from 50% to below 100% (as 99.9%)";
}

static const char *set_fail_on(struct cli_options *options, const char *value)
{
	return diff_limits__parse(value, &options->fail_on);
}

static const char *set_min_growth(struct cli_options *options, const char *value)
{
	return share(value, &options->fail_on.least) ? NULL : "is not a share of the time (as 0.5%)";
}

static const char *set_verbose(struct cli_options *options, const char *value)
{
	options->verbose = options->debug = true;
	return NULL;
}

/* -v: the long summary. -vv: debugging output, too. */
static const char *set_long(struct cli_options *options, const char *value)
{
	options->debug |= options->verbose;
	options->verbose = true;
	return NULL;
}

/* Options of other profilers for what cprofd always does: accepted, without effect. */
static const char *accept(struct cli_options *options, const char *value)
{
	return NULL;
}

static const char *set_limit(struct cli_options *options, const char *value)
{
	return limits__set(&options->limits, value);
}

static const char *set_man(struct cli_options *options, const char *value)
{
	options->generate = "man";
	return NULL;
}

/* Sets of commands that share options: those that record a session, have one, write a file, read a recording,
 * print tables. */
#define SAMPLING (COMMAND_ATTACH | COMMAND_RECORD)
#define ATTACHING (SAMPLING | COMMAND_TOP | COMMAND_VIEW | COMMAND_PUSH)
#define WRITING (SAMPLING | COMMAND_CONVERT)
#define COMPARING (COMMAND_DIFF | COMMAND_BASELINE)
#define READING (COMMAND_CONVERT | COMMAND_REPORT | COMPARING)
#define TABLES (COMMAND_REPORT | COMPARING)
#define EVERYONE (ATTACHING | COMMAND_AGENT | READING | COMMAND_SERVE | COMMAND_CHECK | COMMAND_STATUS | COMMAND_DUMP | COMMAND_TRIGGER)

/* The last columns of a row without a setter. FLAG: a bool that becomes true. TEXT: a string, and the sentence
 * for "". WORD, CHOICE: one of `values`, as a string, or as an enum whose values have their order. */
#define FLAG(of) .kind = OPTION_FLAG, .member = offsetof(struct cli_options, of)
#define TEXT(of, sentence) .kind = OPTION_TEXT, .member = offsetof(struct cli_options, of), .empty = sentence
#define WORD(of) .kind = OPTION_WORD, .member = offsetof(struct cli_options, of)
#define CHOICE(of, value) .kind = OPTION_CHOICE, .member = offsetof(struct cli_options, of), .first = value

/* clang-format off */
/* Columns: name, letter, argument, values, commands, help, setter or member. Where two rows have one name, their
 * commands do not overlap; row_of() in parse.c and others rely on that. The order is that of --help. */
const struct option_row option_rows[] = {
	{"pid", 'p', "PID", NULL, COMMAND_TOP | COMMAND_VIEW | COMMAND_CHECK, "the process, as an option (py-spy's spelling)", .set = set_pid},
	{"pid", 'p', "PID[,PID...]", NULL, SAMPLING | COMMAND_DUMP | COMMAND_PUSH, "the process, or several, as an option (py-spy's spelling)", .set = set_pid},
	{"otlp", 0, "URL", NULL, COMMAND_PUSH, "where to: an OTLP receiver, as http://localhost:4318; /v1development/profiles is appended", TEXT(otlp, "is no URL")},
	{"pyroscope", 0, "URL", NULL, COMMAND_PUSH, "where to: Pyroscope, or Alloy's pyroscope.receive_http, as http://localhost:4040; /push.v1.PusherService/Push is appended", TEXT(pyroscope, "is no URL")},
	{"all", 0, NULL, NULL, COMMAND_PUSH, "every Python of yours, also those that start later; at most 16 at once, by a daemon", FLAG(all)},
	{"follow", 0, "DIR", "@file", COMMAND_PUSH, "each recording of a directory as it is completed (--continuous, the agent), those that are there first, until Ctrl-C; what was delivered is not sent again", TEXT(follow, "is no directory")},
	{"state", 0, "FILE", "@file", COMMAND_PUSH, "with --follow: where the names of those that were delivered are kept; default: a file of DIR", TEXT(state, "is no file name")},
	{"every", 0, "SECS", NULL, COMMAND_PUSH, "a request has the samples of so long; default 10", .set = set_every},
	{"header", 0, "NAME: VALUE", NULL, COMMAND_PUSH, "a header of each request; as often as needed. Others see it among the arguments: not for secrets", .set = set_header},
	{"header-file", 0, "FILE", "@file", COMMAND_PUSH, "headers, a line each, as 'Authorization: Bearer TOKEN'", TEXT(header_file, "is no file name")},
	{"tenant", 0, "NAME", NULL, COMMAND_PUSH, "the header X-Scope-OrgID, by which stores keep tenants apart", TEXT(tenant, "is no name")},
	{"ca-file", 0, "FILE", "@file", COMMAND_PUSH, "certificates (PEM) that are trusted in place of the system's", TEXT(ca_file, "is no file name")},
	{"service", 0, "NAME", NULL, COMMAND_PUSH, "service.name of all that is sent; default: the script's or program's name", TEXT(service, "is no name")},
	{"spool", 0, "MB", NULL, COMMAND_PUSH, "room on disk ($TMPDIR) for what cannot be delivered yet; then the oldest is dropped. Default 256", .set = set_spool},
	{"retry", 0, "SECS", NULL, COMMAND_PUSH, "how long to go on trying at the end, also as 5m or 1h; default 15m", .set = set_retry},
	{"duration", 'd', "SECS", NULL, COMMAND_PUSH, "how long to sample, also as 5m or 1h; default: until Ctrl-C or the targets' end", .set = set_duration},
	{"match", 'm', "KIND=GLOB", NULL, COMMAND_AGENT, "only Pythons that this fits: name=GLOB (the program, its script or module, or another word of its command line), cgroup=GLOB (a control group, or a part of its path: a service, a container), user=NAME. As often as needed; one has to fit", .set = set_match},
	{"exclude", 'x', "KIND=GLOB", NULL, COMMAND_AGENT, "no Pythons that this fits, whatever --match says", .set = set_unmatched},
	{"duration", 'd', "SECS", NULL, COMMAND_AGENT, "how long to record, also as 5m or 1h; default: until Ctrl-C or SIGTERM", .set = set_duration},
	{"rate", 'r', "HZ", NULL, COMMAND_AGENT, "samples a second of CPU time; default 49", .set = set_rate},
	{"duration", 'd', "SECS", NULL, SAMPLING, "how long to record, also as 5m or 1h; default: until Ctrl-C or the target's end", .set = set_duration},
	{"duration", 'd', "SECS", NULL, COMMAND_TOP, "stop sampling after so long: the table stays on the screen until q", .set = set_duration},
	{"duration", 'd', "SECS", NULL, COMMAND_VIEW, "stop sampling after so long: the page stays until Ctrl-C", .set = set_duration},
	{"rate", 'r', "HZ", NULL, ATTACHING, "samples a second of CPU time, up to 20k; default 999", .set = set_rate},
	{"output", 'o', "FILE", "@file", SAMPLING, "where to write; - is stdout. Default: cprofd-PID-TIME with the format's ending, in this directory", TEXT(output, "is no file name")},
	{"output", 'o', "FILE", "@file", COMMAND_CONVERT, "where to write; - is stdout. Default: the recording's name with the format's ending, in this directory", TEXT(output, "is no file name")},
	{"format", 'f', "FORMAT", "@format", WRITING, "what to write; default: what the end of FILE says (.html, .svg, .pb.gz, .folded, .cprof ...), else speedscope", .set = set_format},
	{"output", 'o', "FILE", "@file", COMPARING, "a flame graph of both sides, too, in which what surely differs has a colour: .html (with the tables below it) or .svg for a browser; .speedscope.json: the stacks of before, after, more, less", TEXT(output, "is no file name")},
	{"functions", 'F', NULL, NULL, WRITING, "a frame is a function (default; of this and --lines the last one counts)", .set = set_functions},
	{"functions", 'F', NULL, NULL, COMMAND_REPORT, "the table of functions alone: --by=function", .set = set_functions},
	{"functions", 'F', NULL, NULL, COMMAND_TOP, "begin with functions (default)", .set = set_functions},
	{"lines", 'l', NULL, NULL, WRITING, "a frame is a line of a function, and so is a row of the summary", FLAG(lines)},
	{"lines", 'l', NULL, NULL, COMMAND_REPORT, "the table of lines alone: --by=line; with --callers and --callees: their rows are lines", FLAG(lines)},
	{"lines", 'l', NULL, NULL, COMMAND_TOP, "begin with lines", FLAG(lines)},
	{"native", 'n', "[KIND]", "off|leaf|full", ATTACHING | COMMAND_AGENT, "native frames (C, C++, LLVM, JIT code) among the Python frames: full (default); leaf: the innermost alone; off: none, and no classes of time", WORD(native)},
	{"native", 'n', "[KIND]", "off|leaf|full", COMMAND_DUMP, "native frames (C, C++, LLVM, JIT code) among the Python frames: full (default); leaf: the innermost alone; off: none", WORD(native)},
	{"locals", 'l', NULL, NULL, COMMAND_DUMP, "py-spy's option for values of variables: this version cannot, and refuses it", .set = refuse_locals},
	{"mode", 0, "MODE", "cpu|wall", SAMPLING | COMMAND_VIEW | COMMAND_PUSH, "which time is recorded. cpu (default): what threads ran, and how long they waited; wall: also where they waited, and for what, to the ns", .set = set_mode},
	{"subprocesses", 's', NULL, NULL, ATTACHING, "its children too, and theirs: of make, of a shell, of a pool of processes", FLAG(subprocesses)},
	{"exit-status", 0, NULL, NULL, COMMAND_RECORD, "end with the command's status (128 and the signal's number where one ended it), once the file is written", FLAG(exit_status)},
	{"threads", 't', NULL, NULL, WRITING, "in collapsed stacks and flame graphs (svg, html), the thread's name as the outermost frame", FLAG(thread_names)},
	{"interpreter-frames", 0, NULL, NULL, WRITING, "CPython's own native frames (_PyEval_EvalFrameDefault, _PyObject_MakeTpCall ...) between the Python frames, too; default: their time is that of the Python frame that they serve. Recordings keep them", FLAG(interpreter_frames)},
	{"nonblocking", 0, NULL, NULL, ATTACHING | COMMAND_DUMP, "accepted for compatibility with py-spy: the process is never stopped", .set = accept},
	{"full-filenames", 0, NULL, NULL, WRITING, "accepted for compatibility with py-spy: file names are never shortened", .set = accept},
	{"nolineno", 0, NULL, NULL, WRITING, "py-spy's spelling of --functions", .set = set_functions},
	{"units", 0, NULL, NULL, COMMAND_CONVERT, "in collapsed stacks, flame graphs (svg, html) and pprof, what was compiled, and phases and passes of it, as the outermost frames", FLAG(unit_frames)},
	{"thread", 0, "TID|NAME", NULL, SAMPLING, "only this thread goes into the file (a .cprof keeps all)", TEXT(thread, "is no thread: give its id or its name")},
	{"thread", 0, "TID|NAME", NULL, COMMAND_CONVERT | TABLES | COMMAND_TOP, "only this thread, by its number or its name", TEXT(thread, "is no thread: give its id or its name")},
	{"process", 0, "PID|PATTERN", NULL, COMMAND_CONVERT | COMMAND_REPORT, "only this process, by its number or a word of its command line, or several in a row, with or without its directory (train.py, gunicorn*, 'train.py --lr 3')", TEXT(process, "is no process: give its id or a word of its command line")},
	{"class", 0, "CLASS", NULL, READING, "only samples of this class of time, as `report --by=class` shows them", TEXT(class_name, "is no class of time")},
	{"function", 0, "PATTERN", NULL, READING, "only samples whose stack has this function: its name, the last parts of it (run_pass, NativeLowering.run_pass), or a pattern with * and ?", TEXT(function, "is no function")},
	{"module", 0, "PATTERN", NULL, READING, "only samples whose stack has code of this module or package (numba, numba.core.typing, libLLVM*)", TEXT(module, "is no module")},
	{"exclude", 0, "PATTERN", NULL, SAMPLING | READING, "frames of this function, module or file are not shown, and their time is that of their callers: no time is left out. A name, its last parts (its first ones of a module), or a pattern with * and ?; as often as needed (a .cprof keeps all)", .set = set_exclude},
	{"hide-imports", 0, NULL, NULL, SAMPLING | READING, "frames of importlib are not shown: what a module runs while it is imported is below the line that imports it (a .cprof keeps all)", FLAG(hide_imports)},
	{"native", 0, "[KIND]", "off|full", READING, "off: Python frames alone. What native code took is the time of the Python line that called it; no time is left out. full (default): all frames", WORD(shown)},
	{"skip-first", 0, "N", NULL, READING, "without the first N compiles of each unit (function and signature, in one process) and all that is in them, so that of a compile that is repeated the warm-up does not count; time outside of compiles stays. Of several recordings each by itself; a recording without compiles is refused", .set = set_skip_first},
	{"no-limits", 0, NULL, NULL, READING | COMMAND_VIEW | COMMAND_PUSH, "read a recording that was refused for the memory that it needs or the text that it expands to: it guards against files that are made to be costly, and may refuse one that another program compressed again", FLAG(no_limits)},
	{"hlo", 0, "FILE", "@file", COMMAND_CONVERT | COMMAND_REPORT, "functions that XLA made are shown as JAX's operations and their lines: FILE is what `compiled.as_text()` gave of the functions that ran, one after another", TEXT(hlo, "is no file name")},
	{"gil", 'g', NULL, NULL, SAMPLING, "stacks only of threads that hold the GIL; the time of others is there as (without the GIL)", FLAG(gil)},
	{"idle", 'i', NULL, NULL, SAMPLING | COMMAND_PUSH, "where threads wait, and for what: in place of (idle)", FLAG(idle)},
	{"idle", 'i', NULL, NULL, COMMAND_CONVERT, "where threads waited, and for what, in place of (idle): of recordings made with -i or --mode=wall", FLAG(idle)},
	{"kernel", 0, NULL, NULL, ATTACHING | COMMAND_AGENT, "frames of the kernel, too, in samples that were taken there", FLAG(kernel)},
	{"stream", 0, NULL, NULL, SAMPLING, "events to stdout as they come, one JSON object a line; no file unless -o is given", FLAG(stream)},
	{"continuous", 0, "DIR", "@file", SAMPLING, "into a directory, file after file, each a recording by itself, until the target ends; the oldest files go. 99 samples a second unless -r says otherwise", TEXT(continuous, "is no directory")},
	{"rotate-size", 0, "SIZE", NULL, SAMPLING, "with --continuous: the next file begins when this one has so much; default 64M", .set = set_rotate_size},
	{"rotate-age", 0, "TIME", NULL, SAMPLING, "with --continuous: ... or when it is so old; default 10m. SIGUSR2 begins one at once", .set = set_rotate_age},
	{"rotate-size", 0, "SIZE", NULL, COMMAND_AGENT, "the next file begins when this one has so much; default 64M", .set = set_rotate_size},
	{"rotate-age", 0, "TIME", NULL, COMMAND_AGENT, "... or when it is so old; default 10m. SIGUSR2 begins one at once", .set = set_rotate_age},
	{"keep", 0, "SIZE", NULL, COMMAND_AGENT, "so much in all files of DIR; then the oldest go. Default 1G", .set = set_keep},
	{"keep", 0, "SIZE", NULL, SAMPLING, "with --continuous: so much in all files of DIR, of whichever process; default 1G", .set = set_keep},
	{"self-limit", 0, "PERCENT", NULL, COMMAND_AGENT, "a lower rate when its own CPU time passes this share of one CPU (as 1%); the next file begins there, and has that rate. It rises again when there is little to do for five minutes", .set = set_self_limit},
	{"self-limit", 0, "PERCENT", NULL, SAMPLING, "with --continuous: a lower rate when its own CPU time passes this share of one CPU (as 1%); the next file begins there, and has that rate. It rises again when there is little to do for five minutes", .set = set_self_limit},
	{"trigger", 0, "CONDITION", NULL, SAMPLING, "a recording only when something happens, of the time before it, too: 'unit>2s' (a compile takes longer than 2 s), 'unit=NAME>2s', 'phase=native_lowering>500ms', 'pass=NAME>100ms' (any without =NAME; * and ? as in --function), 'cpu>90% for 10s' (of one CPU, all threads together, in each second). As often as needed. SIGUSR2 and `cprofd trigger` write one at once", .set = set_trigger},
	{"last", 0, "TIME", NULL, SAMPLING, "with --trigger: so much before it; default 30s, or a condition's time and 10 s. Alone: SIGUSR2 and `cprofd trigger` write", .set = set_last},
	{"after", 0, "TIME", NULL, SAMPLING, "with --trigger: so much behind it; default: to the end of what fired, at most as long as --last", .set = set_after},
	{"cool-down", 0, "TIME", NULL, SAMPLING, "with --trigger: from the end of a recording nothing fires for so long; default 1m", .set = set_cool_down},
	{"count", 0, "N", NULL, SAMPLING, "with --trigger: it ends after so many recordings; default 10; 0: no limit", .set = set_count},
	{"memory", 0, "SIZE", NULL, SAMPLING, "with --trigger: so much is kept at most, compressed; default 64M", .set = set_memory},
	{"dir", 0, "DIR", "@file", SAMPLING, "with --trigger: where recordings go; default: this directory", TEXT(directory, "is no path")},
	{"open", 0, NULL, NULL, WRITING, "then open the file in a browser (xdg-open), as the user who called sudo; the format is html unless -f or -o asks for svg", FLAG(open)},
	{"window", 0, "FROM,TO", NULL, READING, "only this part, in seconds since the start; TO may be left out", .set = set_window},
	{"by", 'b', "WHAT", "class|process|thread|unit|source|source-line|phase|pass|trigger|tree|chain|repeat|failed|function|line|package|module|file|callee", COMMAND_REPORT, "which tables, with commas: class (of time), process, thread, unit (a compile: function and signature), source (the functions that were compiled, each with all its signatures), source-line (the lines of these at which the compiler was, and in which phases), phase, pass (of an optimiser), trigger (the lines that caused compiles), tree (compiles in compiles), chain (each outermost compile, in the order of time), repeat (what had been compiled before, why, and what a cache would have saved), failed (compiles that ended before the last stage that their rules name, as by an exception, and in which phase), function, line, package, module, file, callee (native code that Python code called, and from which lines); without it class,process (of several),thread,unit,phase,pass,repeat,function,line. Lines of Python alone: --by=line --native=off", .set = set_by},
	{"by", 'b', "WHAT", "class|unit|phase|pass|function|line|package|module|file", COMPARING, "what is compared, with commas: class (of time), unit (a compile: function and signature), phase, pass (of an optimiser), function, line, package, module, file; default: class,unit,phase,pass,function", .set = set_by},
	{"callers", 0, "PATTERN", NULL, COMMAND_REPORT, "who called this function: of its outermost frame in each stack, so that recursion counts once. Lines, with --lines", TEXT(callers, "is no function")},
	{"callees", 0, "PATTERN", NULL, COMMAND_REPORT, "what this function called: of its innermost frame in each stack. Lines, with --lines", TEXT(callees, "is no function")},
	{"sort", 0, "TIME", "exclusive|inclusive|start", COMMAND_REPORT, "by which time rows are in order; default: exclusive, but inclusive for --callers, --callees and the tree. start: compiles, phases and passes by when the first of them began (other tables by their default). Chains are in the order of their start, else by their length", CHOICE(sort, REPORT_SORT_EXCLUSIVE)},
	{"sort", 0, "TIME", "exclusive|inclusive", COMPARING, "which time is compared; default exclusive", CHOICE(sort, REPORT_SORT_EXCLUSIVE)},
	{"top", 0, "N", NULL, COMMAND_REPORT, "so many rows of each table, 0: all; default: 20, or all with --json, --csv, --until or --min-share", .set = set_top},
	{"top", 0, "N", NULL, COMPARING, "so many rows of each table, whether they differ or not; default: those that surely differ (--json: all)", .set = set_top},
	{"top", 'n', "N", NULL, TABLES, NULL, .set = set_top}, /* its letter once, but -n is --native elsewhere */
	{"until", 0, "PERCENT", NULL, COMMAND_REPORT, "rows until their exclusive times add up to this (as 99%)", .set = set_until},
	{"min-share", 0, "PERCENT", NULL, COMMAND_REPORT, "no rows below this share of the time (as 0.5%)", .set = set_min_share},
	{"native-frames", 0, NULL, NULL, COMMAND_REPORT, "the interpreter's own native frames as functions of their own; default: their time is that of the Python frame that they run", FLAG(native_frames)},
	{"tree", 0, NULL, NULL, COMMAND_REPORT, "the same as --by=tree: compiles below the lines that caused them, in them the compiles that they needed; --top is of each branch", FLAG(tree)},
	{"depth", 0, "N", NULL, COMMAND_REPORT, "so many levels of the tree, the lines included; default: all", .set = set_depth},
	{"phases", 0, NULL, NULL, COMMAND_REPORT, "the tree has the phases and passes of compiles, too", FLAG(phases)},
	{"annotate", 0, NULL, NULL, COMMAND_REPORT, "the table source-line, and the sources of its functions, each line with what the compiler took for it", FLAG(annotate)},
	{"annotate", 0, NULL, NULL, COMMAND_CONVERT, "html: the sources of the functions that were compiled, each line with what the compiler took for it. The page then holds these lines of your sources", FLAG(annotate)},
	{"per", 0, "WHAT", "share|compile", COMPARING, "times as shares of all (default), or for each outermost compile", WORD(per)},
	{"level", 0, "PERCENT", NULL, COMPARING, "how sure a change must be to count as one; default 99.9%", .set = set_level},
	{"fail-on", 0, "LIMITS", NULL, COMPARING, "exit status 3 if something surely grew by more, as in 'total>3%,unit>5%': total (CPU time), elapsed, compiles, compiling (their time), class, unit, phase, pass, function ...", .set = set_fail_on},
	{"min-growth", 0, "PERCENT", NULL, COMPARING, "--fail-on counts rows only that grew by this part of all time; default 0.2%", .set = set_min_growth},
	{"markdown", 0, NULL, NULL, COMPARING, "for a comment of a merge request, to stdout", FLAG(markdown)},
	{"junit", 0, NULL, NULL, COMPARING, "the limits of --fail-on as a test report (XML), to stdout", FLAG(junit)},
	{"dir", 0, "DIR", "@file", COMMAND_BASELINE, "where baselines are; default: $" CLI_BASELINES_VARIABLE ", or .cprofd/baselines in this directory", TEXT(directory, "is no path")},
	{"force", 0, NULL, NULL, COMMAND_BASELINE, "save: replace a baseline of this name", FLAG(force)},
	{"any-machine", 0, NULL, NULL, COMMAND_BASELINE, "compare: also with recordings of another machine; the output says so", FLAG(any_machine)},
	{"csv", 0, NULL, NULL, COMMAND_REPORT, "for spreadsheets, to stdout", FLAG(csv)},
	{"json", 'j', NULL, NULL, COMMAND_DUMP, "for programs, to stdout", FLAG(json)},
	{"json", 0, NULL, NULL, COMMAND_PUSH, "with --otlp: requests are JSON, to look at; an answer that tells of rejected profiles is not read then", FLAG(json)},
	{"json", 0, NULL, NULL, COMMAND_CHECK | COMMAND_STATUS | TABLES, "for programs, to stdout", FLAG(json)},
	{"openmetrics", 0, NULL, NULL, COMMAND_STATUS, "for Prometheus, to stdout: also for the textfile collector of its node exporter", FLAG(openmetrics)},
	{"allow", 0, "WHAT", "ptrace|own|root", COMMAND_SERVE, "what users may profile: ptrace (default): what the kernel lets them debug and sample, by kernel.yama.ptrace_scope and perf_event_paranoid, too; own: all processes of their own; root: nothing", CHOICE(allow, BROKER_ALLOW_PTRACE)},
	{"limit", 0, "NAME=VALUE", "engines= sessions= samples= descriptors= maps= memory=", COMMAND_SERVE, "what users may hold, root apart: engines=4/64 (4 of one user, 64 of all), sessions=16/128, samples=24000/192000 (a second, the sum of rates), descriptors=32768/262144, maps=1024/2048 (MB), memory=2048 (MB of one user's engines) by default; none: no limit. As often as needed", .set = set_limit},
	{"socket", 0, "PATH", "@file", COMMAND_SERVE | COMMAND_CHECK | COMMAND_STATUS | COMMAND_TRIGGER, "the daemon's socket; default: $" CLI_SOCKET_VARIABLE ", or " CLI_SOCKET, TEXT(socket, "is no path")},
	{"socket", 0, "PATH", "@file", ATTACHING | COMMAND_DUMP, "the daemon's socket; default: $" CLI_SOCKET_VARIABLE ", or " CLI_SOCKET ". none: no daemon is asked, and the command has an engine of its own", TEXT(socket, "is no path")},
	{"rules", 0, "FILE", "@file", ATTACHING | COMMAND_RULES | COMMAND_AGENT, "rules of more compilers: a file, or a directory of *.rules", TEXT(rules, "is no file name")},
	{"rules", 0, "FILE", "@file", COMMAND_REPORT, "rules whose `stage` lines say what a cache could hold, for --by=repeat: a file, or a directory of *.rules. What a compile is, was decided when it was recorded", TEXT(rules, "is no file name")},
	{"rules", 0, "FILE", "@file", COMMAND_CONVERT, "with -f html: rules whose `stage` lines say what a cache could hold, for its table of repeats. What a compile is, was decided when it was recorded: with other formats it is refused", TEXT(rules, "is no file name")},
	{"man", 0, NULL, NULL, COMMAND_HELP, "the man page, to stdout", .set = set_man},
	{"completion", 0, "SHELL", "bash|zsh|fish", COMMAND_HELP, "the completion for this shell, to stdout", WORD(generate)},
	{"color", 0, "WHEN", "auto|always|never", EVERYONE & ~(COMMAND_SERVE | COMMAND_STATUS | COMMAND_CHECK | COMMAND_TOP | COMMAND_TRIGGER), "colours: on terminals (auto, default; $NO_COLOR turns them off), always or never", CHOICE(color, STYLE_AUTO)},
	{"quiet", 'q', NULL, NULL, EVERYONE, "no progress, no summary, no notes on stderr: failures alone", FLAG(quiet)},
	{"verbose", 'v', NULL, NULL, COMMAND_REPORT, "names in full, also where a terminal breaks the lines; say what is found and why it is decided so", .set = set_verbose},
	{"verbose", 'v', NULL, NULL, EVERYONE & ~SAMPLING & ~COMMAND_REPORT, "say what is found and why it is decided so", .set = set_verbose},
	{"verbose", 'v', NULL, NULL, SAMPLING, "the long summary: phases, passes, where stacks are cut. Twice (-vv): also what is found, and why it is decided so", .set = set_long},
	{},
};
/* clang-format on */

_Static_assert(sizeof(option_rows) / sizeof(option_rows[0]) + 2 <= OPTIONS_MAX, "OPTIONS_MAX");

/* An operand: a PID, PIDs separated by commas, or a process's name. */
static int add_operand(struct cli_options *all, const char *operand)
{
	const char *sentence;
	char number[16];
	pid_t pid;
	int status;

	/* Also what only resembles a PID, such as "-5" or "4242,": set_pid() has the better sentence than a
	 * search for a process of that name. */
	if (strspn(operand, "-0123456789,") == strlen(operand)) {
		sentence = set_pid(all, operand);
	} else {
		status = find__process(operand, &pid);
		if (status != CLI_DONE)
			return status;
		snprintf(number, sizeof(number), "%d", pid);
		sentence = set_pid(all, number);
	}
	if (sentence)
		say__failure("find it with `pgrep -af python`", "'%s' %s", operand, sentence);
	return sentence ? CLI_USAGE : CLI_DONE;
}

/* -p and operands may be mixed; all end up in all->pids. `all` is the caller's copy: the parsed options stay
 * as they were given. */
static int add_all(struct cli_options *all)
{
	int i, status = CLI_DONE;

	for (i = 0; i < all->n_operands && status == CLI_DONE; i++)
		status = add_operand(all, all->operands[i]);
	return status;
}

/* Prints that a process must be named; CLI_USAGE. */
static int say_missing(void)
{
	say__failure("find it with `pgrep -af python`", "which process? give its PID, or its name");
	return CLI_USAGE;
}

int options__pid(const struct cli_options *options, bool required, pid_t *ret)
{
	struct cli_options all = *options;
	int status;

	/* Before names are resolved, which could print that a name is ambiguous: the number of operands alone
	 * is wrong. */
	if (options->n_operands > (options->pid ? 0 : 1)) {
		say("one process at a time: unexpected argument '%s'", options->operands[options->pid ? 0 : 1]);
		return CLI_USAGE;
	}
	status = add_all(&all);
	if (status == CLI_DONE && all.n_pids > 1) {
		say("one process at a time: %d is one too many", all.pids[1]);
		return CLI_USAGE;
	}
	*ret = all.pid;
	return status == CLI_DONE && required && !*ret ? say_missing() : status;
}

int options__pids(const struct cli_options *options, pid_t ret[CLI_PIDS_MAX], uint32_t *ret_n)
{
	struct cli_options all = *options;
	int status = add_all(&all);

	memcpy(ret, all.pids, sizeof(all.pids));
	*ret_n = all.n_pids;
	return status == CLI_DONE && !all.n_pids ? say_missing() : status;
}
