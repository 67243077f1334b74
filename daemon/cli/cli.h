/* SPDX-License-Identifier: MIT */
/* The command line: the outermost layer, and the only one that prints.
 *
 * A command goes through four steps: main() finds its row in the table of commands; parse.c fills in struct
 * cli_options; the row's run() checks that the options make sense together; then the work is done, by talking
 * to an engine (connection.h) or by reading a recording (input.h).
 *
 * Data goes to stdout, messages to stderr. A command returns its exit status: CLI_DONE, CLI_COULD_NOT,
 * CLI_USAGE. Every message about a failure names the cause and what to do. One thread; signals are read
 * through a signalfd. Where a function below says "CLI_*", it returns such a status, and has already printed
 * the reason if it is not CLI_DONE.
 *
 * options.c holds the table of options and commands.c that of commands; --help, the man page and the shell
 * completions are printed from these two (help.c). */
#pragma once

#include <stddef.h>

#include "base/style.h"
#include "broker/broker.h"
#include "diff/gate.h"
#include "export/export.h"
#include "report/report.h"
#include "trigger/trigger.h"

/* Exit statuses are part of the interface: scripts test them. CLI_USAGE: nothing was started or written. */
enum cli_exit { CLI_DONE = 0, CLI_COULD_NOT = 1, CLI_USAGE = 2, CLI_GREW = 3 /* diff --fail-on */ };

/* systemd's cprofd.socket listens here, and `cprofd serve` does without --socket. */
#define CLI_SOCKET "/run/cprofd/cprofd.sock"
#define CLI_SOCKET_VARIABLE "CPROFD_SOCKET"
#define CLI_SOCKET_NONE "none" /* no daemon */
#define CLI_BASELINES_VARIABLE "CPROFD_BASELINES"
#define CLI_SPEEDSCOPE "https://www.speedscope.app"

#define CLI_HEADERS_MAX 32u
#define CLI_MATCHES_MAX 32u /* of --match, and of --exclude: together what an engine takes (serve/match.h) */
#define CLI_PIDS_MAX 16u /* as many as the sessions that one user may have in a daemon, by default (broker/limit.h) */

/* All options of all commands, as parse.c found them. One struct for all: most options belong to several
 * commands, and the table says which command takes which (option_row.commands), so a command never sees one
 * that it does not know. Strings are borrowed from argv. Zero means "not given", unless parse.c sets a
 * default before it reads the options. */
struct cli_options {
	pid_t pid;               /* -p, the first; 0: none given */
	pid_t pids[CLI_PIDS_MAX];
	/* of -p; operands are not in it, options__pids() adds them */
	uint32_t n_pids;
	uint32_t rate;           /* Hz; never 0 after parsing */
	/* Wall time from the moment at which the session has begun, not from the start of the program. */
	uint64_t duration_ms;    /* 0: until stopped */
	const char *output;      /* NULL: a default name; "-": stdout */
	const char *format;      /* NULL: by the ending of the output's name, else speedscope */
	/* Rows and frames are lines, not functions (--lines). functions: asked for explicitly, by --functions */
	bool lines, functions;
	/* Which native frames the sampler walks: "off" none; "leaf" only the innermost, without unwinding;
	 * "full" all */
	const char *native;
	/* --native of report, convert and diff: which native frames of a recording are shown. Apart, so that attach
	 * --native=off keeps the frames of the kernel. */
	const char *shown;
	/* -s, --kernel, --mode=wall, --gil, --idle. They select what the sampler records, so they cannot be
	 * applied afterwards. */
	bool subprocesses, kernel, wall, gil, idle;
	bool exit_status;        /* record: exit with the command's status */
	/* Additional outermost frames in what is written: the thread's name; the compile, phase and pass
	 * (--units) */
	bool thread_names, unit_frames;
	const char *thread;      /* NULL: all */
	const char *process;     /* NULL: all */
	const char *class_name, *function, *module; /* only samples of these; NULL: all */
	const char *exclude[EXPORT_EXCLUDE_MAX]; /* frames that are not shown */
	uint32_t n_exclude;
	bool hide_imports;
	bool no_limits;          /* lift the limits on memory and time for a recording */
	uint32_t skip_first;     /* 0: keep every compile */
	uint64_t from_ns, to_ns; /* convert: window; to 0: the end */
	uint32_t report_tables;  /* 1 << enum report_by; 0: none was asked for */
	const char *callers, *callees; /* NULL: not given */
	enum report_sort sort;
	uint32_t top;            /* rows; 0: all */
	bool top_given, csv;
	/* Where tables end: at a cumulative share, or at rows below a share. */
	double until, min_share; /* 0 to 1 */
	bool native_frames;      /* report: also the interpreter's own */
	uint32_t depth;          /* report: of the tree; 0: all of it */
	bool tree;               /* report: its table, too */
	bool annotate;           /* report: listings of sources, too */
	bool phases;             /* report: the tree shows phases and passes */
	const char *per;         /* diff: "share", "compile"; NULL: not given */
	/* diff: confidence of its intervals, such as 0.999. 0: not given */
	double level;
	struct diff_limits fail_on;
	const char *directory;   /* baseline, --trigger; NULL: not given */
	bool force, any_machine; /* baseline */
	bool one_machine;        /* diff: of recordings of several machines it is refused */
	const char *continuous;  /* attach, record: the directory; NULL: one file */
	uint64_t rotate_size, rotate_age, keep; /* bytes, ns, bytes */
	double self_limit;       /* of a CPU; 0: none */
	/* agent: every Python of the machine, with --match that fits and no --exclude: "name=GLOB" ... */
	bool host;
	const char *matches[CLI_MATCHES_MAX], *unmatched[CLI_MATCHES_MAX];
	uint32_t n_matches, n_unmatched;
	/* attach, record: the flight recorder. ns, bytes */
	struct condition conditions[CONDITIONS_MAX];
	uint32_t n_conditions, count;          /* count 0: no limit */
	uint64_t last, after, cool_down, memory;
	bool after_given, cool_down_given, count_given;
	/* Events go to stdout as they come, and no file is written. */
	bool stream;
	/* push; every_ms, retry_ms, spool_mb 0: the default */
	const char *follow, *state; /* push: of a directory; where is noted what was delivered; NULL: not given */
	const char *otlp, *pyroscope, *header_file, *tenant, *ca_file, *service;
	const char *headers[CLI_HEADERS_MAX];
	uint32_t n_headers, spool_mb;
	uint64_t every_ms, retry_ms;
	bool all;
	bool open;               /* in a browser */
	bool after_dashes;       /* the operands came after `--`: a command */
	bool json, markdown, junit, openmetrics;
	bool dump;               /* the request is a dump, not a recording */
	bool verbose, quiet;
	enum style_when color;
	bool debug;              /* also messages of libbpf and of each component */
	bool interpreter_frames; /* keep frames of the interpreter in flame graphs and profiles */
	enum broker_allow allow; /* serve */
	struct broker_limits limits; /* serve */
	const char *socket;      /* NULL: not given */
	const char *hlo;         /* file; NULL: not given */
	const char *rules;       /* NULL: only the built-in ones */
	const char *generate;    /* help: "man", "bash", "zsh" */
	char **operands;         /* what is not an option, NULL-terminated */
	int n_operands;
};

/* --- commands.c --- */
/* A row of the table of commands. Text is plain ASCII, wrapped by help.c, and shared by --help and the man
 * page. */
struct command {
	const char *name;
	const char *operands;    /* as --help shows them */
	const char *summary;     /* half a sentence */
	const char *text;        /* paragraphs for --help and the man page */
	const char *examples;    /* lines of "command\twhat it does" */
	unsigned bit;            /* in struct option_row.commands */
	bool stops_at_operand;   /* options end at the first operand (record) */
	int (*run)(const struct cli_options *options);
};
#define COMMAND_ATTACH 1u
#define COMMAND_RECORD 2u
#define COMMAND_SERVE 4u
#define COMMAND_CONVERT 8u
#define COMMAND_CHECK 16u
#define COMMAND_STATUS 32u
#define COMMAND_HELP 64u
#define COMMAND_DUMP 128u
#define COMMAND_REPORT 256u
#define COMMAND_DIFF 512u
#define COMMAND_RULES 4096u
#define COMMAND_TOP 8192u
#define COMMAND_VIEW 16384u
#define COMMAND_BASELINE 32768u
#define COMMAND_PUSH 65536u
#define COMMAND_AGENT 131072u
#define COMMAND_TRIGGER 262144u
/* The order is that of --help. */
extern const struct command commands[]; /* ended by a NULL name */
/* NULL: no such command. */
const struct command *command__find(const char *name);
/* Says that there is no such command, suggests the closest one, and lists them all. Returns CLI_USAGE. */
int command__unknown(const char *name);

/* Each runs one command, from the checked options to its exit status. */
int attach__run(const struct cli_options *options);
int record__run(const struct cli_options *options);
int serve__run(const struct cli_options *options);
int convert__run(const struct cli_options *options);
int check__run(const struct cli_options *options);
int trigger__run(const struct cli_options *options);
int status__run(const struct cli_options *options);
int dump__run(const struct cli_options *options);
int report__run(const struct cli_options *options);
int diff__run(const struct cli_options *options);
int baseline__run(const struct cli_options *options);
int rules__run(const struct cli_options *options);
int top__run(const struct cli_options *options);
int view__run(const struct cli_options *options);
int push__run(const struct cli_options *options);
int agent__run(const struct cli_options *options);
int help__run(const struct cli_options *options);

/* --- rules.c --- */
struct rules_error;
/* Prints FILE:LINE:COLUMN and what is wrong there. */
void rules_error__say(const struct rules_error *error);
/* The built-in rules and those of `path` (NULL: none). CLI_*; an error was already printed. */
int rules__all(const char *path, struct rules **ret);

/* --- options.c --- */
/* A row of the table of options. An option that several commands share has one row; `commands` says which. */
struct option_row {
	const char *name;
	char letter;             /* 0: none */
	const char *argument;    /* NULL: a flag. "[X]": may be left out */
	const char *values;      /* closed list "a|b", for completion; NULL: free. "@format": the exporters */
	unsigned commands;       /* COMMAND_* */
	const char *help;        /* an option with another meaning for another command has a row of its own;
				  * NULL: the letter alone, which works and is not documented */
	/* Parses the value into the options; NULL, or a sentence that says what is wrong with it. A flag's value is
	 * NULL. No setter: the kind says what is stored in `member`. */
	const char *(*set)(struct cli_options *options, const char *value);
	size_t member; /* offset in struct cli_options */
	enum { OPTION_SET, OPTION_FLAG, OPTION_TEXT, OPTION_WORD, OPTION_CHOICE } kind;
	const char *empty;       /* OPTION_TEXT: the sentence for an empty value */
	unsigned first;          /* OPTION_CHOICE: the enum's value of the first word */
};
extern const struct option_row option_rows[]; /* ended by a NULL name */
/* How many rows getopt's table in parse.c can take. */
#define OPTIONS_MAX 160

/* The one PID that a command works on: -p or the operand. CLI_DONE or CLI_USAGE. With required false and
 * nothing given, *ret is 0. */
int options__pid(const struct cli_options *options, bool required, pid_t *ret);
/* All PIDs of -p and the operands, without duplicates; at least one. CLI_DONE or CLI_USAGE. */
int options__pids(const struct cli_options *options, pid_t ret[CLI_PIDS_MAX], uint32_t *ret_n);

/* --- parse.c --- */
/* argv[0] is the command's name. CLI_DONE: go on; CLI_USAGE: the error was already printed. *ret_help: --help was
 * given. */
int options__parse(const struct command *command, int argc, char **argv, struct cli_options *ret,
		   bool *ret_help);

/* --- help.c --- */
/* `cprofd --help`: all commands, a line each. */
void help__overview(FILE *out);
/* `cprofd COMMAND --help`: examples, text, options, formats. */
void help__command(FILE *out, const struct command *command);

/* --- say.c: messages on stderr; each call prints one line, whatever text it quotes (base/safe_text.h) --- */
void say(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* A line that continues the message before it. */
void say__more(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Information, not a failure: suppressed by --quiet. */
void say__note(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* What was written, and how to use it. */
void say__done(const char *hint, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* A failure and what to do about it (hint: NULL or "": no advice). */
void say__failure(const char *hint, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* A line that the next say() or say__progress() overwrites; only on a terminal. */
void say__progress(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Before text that is written to stderr directly. */
void say__clear_progress(void);
bool say__shows_progress(void);
/* From now on only failures are printed. */
void say__quietly(void);
bool say__is_quiet(void);
/* Columns of a terminal: $COLUMNS, or its size. 0: fd is no terminal, or its size is not known. */
int say__columns(int fd);
/* Width of messages: the terminal's, at most SAY_WIDTH_MAX columns; SAY_WIDTH if stderr is no terminal. */
#define SAY_WIDTH 80
#define SAY_WIDTH_MAX 160
int say__width(void);

/* 1234567 -> "1,234,567"; 123456789 ns -> "123 ms"; bytes -> "1.2 MB". One of a
 * few static buffers: valid for the next seven calls. */
const char *words__count(uint64_t n);
const char *words__duration(uint64_t ns);
const char *words__bytes(uint64_t bytes);

/* --- find.c --- */
/* Finds a process by name, for operands such as `cprofd attach compile.py`. Reads /proc. */
/* The only process with this name (/proc/PID/comm); else the only one with it as a word or file name in its command
 * line; else the only one with it anywhere there. Never this process or an ancestor. CLI_DONE, or CLI_USAGE when
 * none or several match, after printing so. */
int find__process(const char *name, pid_t *ret);

/* This user's Pythons, by the names of their executables. Returns how many, at most `max`. */
uint32_t find__pythons(pid_t *ret, uint32_t max);

/* --- several.c --- */
/* attach to several processes: one recording of all. Prints its own errors; CLI_*. */
/* `n` is 2 to CLI_PIDS_MAX. Blocks until all have ended or a signal arrives. */
int several__run(const struct cli_options *options, const pid_t *pids, uint32_t n);

/* --- browser.c --- */
/* --open: shows a file that was just written in the calling user's browser. */
/* Before anything is done: can a browser show this format? With --open and neither -f nor -o, *format becomes
 * "html". CLI_DONE or CLI_USAGE. */
int browser__judge(const struct cli_options *options, const char **format);
/* Runs xdg-open as the calling user and does not wait for it. Without xdg-open or a display, prints the file://
 * address. */
void browser__open(const char *path);
/* The same, and says nothing. False: there is no browser. */
bool browser__try(const char *path);

/* --- family.c --- */
/* CPU time of a process's children, for the hint to use -s: without it they are not recorded. */
/* CPU time in ns of all descendants of this process, also of those that it waited for. False: not known (the process
 * is gone, or there are too many threads). */
bool family__cpu(pid_t pid, uint64_t *ret);

/* --- forbidden.c --- */
/* Processes whose memory the kernel does not let the caller read: which of its rules that is. */
/* True if this process is root and may not open /proc/PID/mem or maps. Then `ret` says which file and why, and the
 * hint, a static string, names the possible causes. */
bool forbidden__to_root(pid_t pid, char *ret, size_t size, const char **ret_hint);

/* True if this process is a user's and /proc shows it that process: then `ret` says what is in the way. */
bool forbidden__to_user(pid_t pid, char *ret, size_t size, const char **ret_hint);

/* The one that applies, for an engine's answer (its code, NULL: none; its errno). */
bool forbidden__answered(pid_t pid, const char *code, int number, char *ret, size_t size, const char **ret_hint);
