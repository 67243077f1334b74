/* SPDX-License-Identifier: MIT */
/* The command line: the outermost layer, and the only one that speaks.
 *
 * Data goes to stdout, words to stderr. A command returns its exit status:
 * CLI_DONE, CLI_COULD_NOT, CLI_USAGE. Every sentence about a failure names the
 * cause and the way out. One thread; signals are read through a signalfd.
 *
 * options.c holds the table of options and commands.c that of commands; --help,
 * the man page and the shell completions are printed from these two (help.c).
 */
#ifndef CPROFD_CLI_H
#define CPROFD_CLI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "base/style.h"
#include "broker/broker.h"
#include "export/export.h"
#include "report/report.h"

enum cli_exit { CLI_DONE = 0, CLI_COULD_NOT = 1, CLI_USAGE = 2 };

#define CLI_SOCKET "/run/cprofd/cprofd.sock"
#define CLI_SOCKET_VARIABLE "CPROFD_SOCKET"
#define CLI_SOCKET_NONE "none" /* no daemon */
#define CLI_SPEEDSCOPE "https://www.speedscope.app"

#define CLI_PIDS_MAX 16u /* sessions that a user of a daemon may have, by default (broker/limit.h) */

struct cli_options {
	pid_t pid;               /* 0: none given; of -p, as all that follow */
	pid_t pids[CLI_PIDS_MAX];
	uint32_t n_pids;
	uint32_t rate;           /* Hz */
	uint64_t duration_ms;    /* 0: until stopped */
	const char *output;      /* NULL: a name of its own; "-": stdout */
	const char *format;      /* NULL: by the name of the output, else speedscope */
	bool lines, functions;   /* functions: asked for by name */
	const char *native;      /* "off", "leaf", "full" */
	bool subprocesses, kernel, wall, gil, idle;
	bool exit_status;        /* record: ends as its command did */
	bool thread_names, unit_frames;
	const char *thread;      /* NULL: all */
	const char *class_name, *function, *module; /* only samples of these; NULL: all */
	const char *exclude[EXPORT_EXCLUDE_MAX]; /* frames that are not shown */
	uint32_t n_exclude;
	bool hide_imports;
	bool no_limits;          /* of what a recording may make us spend */
	uint32_t skip_first;     /* 0: no compile is left out */
	uint64_t from_ns, to_ns; /* convert: window; to 0: the end */
	uint32_t report_tables;  /* 1 << enum report_by; 0: none was asked for */
	const char *callers, *callees; /* NULL: not asked for */
	enum report_sort sort;
	uint32_t top;            /* rows; 0: all */
	bool top_given, csv;
	double until, min_share; /* 0 to 1 */
	bool native_frames;      /* report: the interpreter's own, too */
	uint32_t depth;          /* report: of the tree; 0: all of it */
	bool tree;               /* report: its table, too */
	bool phases;             /* report: the tree has phases and passes */
	const char *per;         /* diff: "share", "compile"; NULL: not asked for */
	double level;            /* diff: 0 to 1; 0: not asked for */
	bool stream;
	bool open;               /* in a browser */
	bool after_dashes;       /* the operands came after `--`: a command */
	bool json;
	bool dump;               /* what is asked for is a dump, not a recording */
	bool verbose, quiet;
	enum style_when color;
	bool debug;              /* what libbpf and the parts say, too */
	bool interpreter_frames; /* in flame graphs and profiles, too */
	enum broker_allow allow; /* serve */
	struct broker_limits limits; /* serve */
	const char *socket;      /* NULL: not asked for by name */
	const char *hlo;         /* file; NULL: not asked for */
	const char *rules;       /* NULL: those of the program alone */
	const char *generate;    /* help: "man", "bash", "zsh" */
	char **operands;         /* what is not an option, NULL-terminated */
	int n_operands;
};

/* --- commands.c --- */
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
extern const struct command commands[]; /* ended by a NULL name */
const struct command *command__find(const char *name);
/* There is none of this name: says so, which is like it, and which there are. CLI_USAGE. */
int command__unknown(const char *name);

int attach__run(const struct cli_options *options);
int record__run(const struct cli_options *options);
int serve__run(const struct cli_options *options);
int convert__run(const struct cli_options *options);
int check__run(const struct cli_options *options);
int status__run(const struct cli_options *options);
int dump__run(const struct cli_options *options);
int report__run(const struct cli_options *options);
int diff__run(const struct cli_options *options);
int rules__run(const struct cli_options *options);
int top__run(const struct cli_options *options);
int help__run(const struct cli_options *options);

/* --- rules.c --- */
struct rules;
struct rules_error;
void rules_error__say(const struct rules_error *error);
/* The program's own, and those of `path` (NULL: none). CLI_*, what is wrong was said. */
int rules__all(const char *path, struct rules **ret);

/* --- options.c --- */
struct option_row {
	const char *name;
	char letter;             /* 0: none */
	const char *argument;    /* NULL: a flag. "[X]": may be left out */
	const char *values;      /* closed list "a|b", for completion; NULL: free. "@format": the exporters */
	unsigned commands;       /* COMMAND_* */
	const char *help;        /* an option that means another thing to another command is a row of its own */
	/* Takes the value; NULL, or a sentence about what is wrong with it. */
	const char *(*set)(struct cli_options *options, const char *value);
};
extern const struct option_row option_rows[]; /* ended by a NULL name */
#define OPTIONS_MAX 96

/* The one PID that a command is about: -p or the operand. CLI_DONE or CLI_USAGE. */
int options__pid(const struct cli_options *options, bool required, pid_t *ret);
/* Those of -p and of the operands, each once; at least one. CLI_DONE or CLI_USAGE. */
int options__pids(const struct cli_options *options, pid_t ret[CLI_PIDS_MAX], uint32_t *ret_n);

/* --- parse.c --- */
/* argv[0] is the command's name. CLI_DONE: go on; CLI_USAGE was said already.
 * *ret_help: --help was asked for. */
int options__parse(const struct command *command, int argc, char **argv, struct cli_options *ret,
		   bool *ret_help);

/* --- help.c --- */
void help__overview(FILE *out);
void help__command(FILE *out, const struct command *command);

/* --- say.c: words, on stderr; each call is one line, whatever it quotes (base/safe_text.h) --- */
void say(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* A line that goes on with what was said before it. */
void say__more(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* What is no failure: not said with --quiet. */
void say__note(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* What was made, and what to do with it. */
void say__done(const char *hint, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* A failure and what to do about it (hint: NULL or "": nothing known). */
void say__failure(const char *hint, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Words of one line that the next say() or progress takes the place of; only on a terminal. */
void say__progress(const char *format, ...) __attribute__((format(printf, 1, 2)));
bool say__is_terminal(void);
/* From now on failures alone are said. */
void say__quietly(void);
bool say__is_quiet(void);
/* Columns of lines on stderr: the terminal's, at most SAY_WIDTH_MAX; SAY_WIDTH where it is none. */
#define SAY_WIDTH 80
#define SAY_WIDTH_MAX 160
int say__width(void);

/* 1234567 -> "1,234,567"; 123456789 ns -> "123 ms"; bytes -> "1.2 MB". One of a
 * few static buffers: valid for the next seven calls. */
const char *words__count(uint64_t n);
const char *words__duration(uint64_t ns);
const char *words__bytes(uint64_t bytes);

#endif
