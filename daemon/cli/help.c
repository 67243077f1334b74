/* SPDX-License-Identifier: MIT */
/* --help, the man page and the shell completions, all printed from the tables of options and commands.
 * Nothing here knows a single command or option by its meaning, but for the kind of operand that each command
 * completes.
 *
 * `make docs` runs `cprofd help --man` and so on; a packager installs what it prints. */
#include <string.h>

#include "cli/cli.h"

/* Width of the left column in --help: "  -d, --duration SECS       text". */
#define COLUMN 26

static const char synopsis[] = "a sampling profiler for Python programs that compile";

/* Prints text wrapped at `width`. The first line starts at column `at`, the others at `indent`. '\n' in the
 * text ends a paragraph. A word longer than the width stays whole. */
static void fill(FILE *out, const char *text, int indent, int width, int at)
{
	/* `first`: the next word stands at the beginning of a line, so neither a blank nor a line break goes
	 * before it. */
	bool first = true;

	while (*text) {
		size_t word = strcspn(text, " \n");

		if (!first && at + 1 + (int)word > width) {
			fprintf(out, "\n%*s", indent, "");
			at = indent;
		} else if (!first) {
			fputc(' ', out);
			at++;
		}
		fwrite(text, 1, word, out);
		at += (int)word;
		text += word;
		first = *text == '\n';
		if (first) {
			fprintf(out, "\n%*s", indent, "");
			at = indent;
		}
		text += *text != '\0';
	}
	fputc('\n', out);
}

/* "--native[=KIND]", "-d, --duration SECS" */
static void spelling(char *out, size_t size, const struct option_row *row)
{
	char letter[8] = "    ";

	if (row->letter)
		snprintf(letter, sizeof(letter), "-%c, ", row->letter);
	if (!row->argument)
		snprintf(out, size, "%s--%s", letter, row->name);
	else if (*row->argument == '[')
		snprintf(out, size, "%s--%s[=%s", letter, row->name, row->argument + 1);
	else
		snprintf(out, size, "%s--%s %s", letter, row->name, row->argument);
}

static bool is_documented(const struct option_row *row, const struct command *command)
{
	return row->help && row->commands & command->bit;
}

/* Calls fn for each line "command\texplanation\n". Each line must have a tab, also without an explanation:
 * the tables in commands.c are the only input. */
static void each_example(const char *examples,
			 void (*fn)(FILE *out, const char *command, size_t len, const char *what,
				    size_t what_len),
			 FILE *out)
{
	while (*examples) {
		size_t command = strcspn(examples, "\t"),
		       what = strcspn(examples + command + 1, "\n");

		fn(out, examples, command, examples + command + 1, what);
		examples += command + 1 + what + 1;
	}
}

/* The explanation goes beside the command if that is short, else above it. */
static void print_example(FILE *out, const char *command, size_t len, const char *what,
			  size_t what_len)
{
	if (what_len && len + 4 < 56)
		fprintf(out, "    %-54.*s  # %.*s\n", (int)len, command, (int)what_len, what);
	else if (what_len)
		fprintf(out, "    # %.*s\n    %.*s\n", (int)what_len, what, (int)len, command);
	else
		fprintf(out, "    %.*s\n", (int)len, command);
}

void help__overview(FILE *out)
{
	fprintf(out, "cprofd %s: %s\n\n", CPROFD_VERSION, synopsis);
	print_example(out, "sudo cprofd attach 4242", 23,
		      "what is process 4242 doing? Ctrl-C ends it", 42);
	print_example(out, "sudo cprofd record -- python3 compile.py", 40,
		      "from the first instruction", 26);
	print_example(out, "cprofd check", 12, "can it work here?", 17);
	fprintf(out, "\nBoth write a file for %s and a summary.\n\nCommands:\n", CLI_SPEEDSCOPE);
	for (const struct command *command = commands; command->name; command++) {
		/* fprintf() returns how many columns it has used, as all text is ASCII. */
		int at = fprintf(out, "    %s %s", command->name, command->operands);

		at += fprintf(out, "%*s", at < COLUMN + 8 ? COLUMN + 8 - at : 1, "");
		fill(out, command->summary, COLUMN + 8, 96, at);
	}
	fprintf(out, "\n`cprofd COMMAND --help` describes one of them. Exit status: 0 done, 1 could "
		     "not, 2 wrong usage.\n");
}

static void list_formats(FILE *out, int indent)
{
	for (const struct exporter *exporter = exporters; exporter->name; exporter++) {
		int at = fprintf(out, "%*s%-14s", indent, "", exporter->name);

		fill(out, exporter->description, indent + 14, 96, at);
	}
}

void help__command(FILE *out, const struct command *command)
{
	char name[64];

	fprintf(out, "cprofd %s: %s\n\n", command->name, command->summary);
	each_example(command->examples, print_example, out);
	fprintf(out, "\nusage: cprofd %s [OPTION...] %s\n", command->name, command->operands);
	if (*command->text) {
		fputc('\n', out);
		fill(out, command->text, 0, 96, 0);
	}
	fputs("\nOptions:\n", out);
	for (const struct option_row *row = option_rows; row->name; row++) {
		int at;

		if (!is_documented(row, command))
			continue;
		spelling(name, sizeof(name), row);
		at = fprintf(out, "  %-*s ", COLUMN, name);
		fill(out, row->help, COLUMN + 3, 96, at);
	}
	fprintf(out, "  %-*s this text\n", COLUMN, "-h, --help");
	if (command->bit & (COMMAND_ATTACH | COMMAND_RECORD | COMMAND_CONVERT)) {
		fputs("\nFormats:\n", out);
		list_formats(out, 2);
	}
}

/* --- the man page: roff, man(7) macros --- */

/* Escapes text for roff: '.' and '\'' are requests at the beginning of a line, "\-" is a minus that can be
 * copied into a shell (a plain '-' may become a hyphen), "\e" is a backslash. */
static void roff_n(FILE *out, const char *text, size_t len)
{
	bool line_start = true;

	for (size_t i = 0; i < len; i++) {
		if (line_start && (text[i] == '.' || text[i] == '\''))
			fputs("\\&", out);
		if (text[i] == '\\')
			fputs("\\e", out);
		else if (text[i] == '-')
			fputs("\\-", out);
		else if (text[i] == '\n')
			fputs("\n.PP\n", out);
		else
			fputc(text[i], out);
		line_start = text[i] == '\n';
	}
}

static void roff(FILE *out, const char *text)
{
	roff_n(out, text, strlen(text));
}

/* .TP: the command as a tag, its explanation indented below. "\&" stands for an empty explanation, as .TP
 * needs a line there. */
static void roff_example(FILE *out, const char *command, size_t len, const char *what,
			 size_t what_len)
{
	fputs(".TP\n.B ", out);
	roff_n(out, command, len);
	fputc('\n', out);
	roff_n(out, what, what_len);
	fputs(what_len ? "\n" : "\\&\n", out);
}

/* Each option is listed once, with the commands that take it in parentheses at the end, as most belong to
 * several. */
static void man_page(FILE *out)
{
	char name[64];

	fprintf(out, ".TH CPROFD 1 \"\" \"cprofd %s\" \"User Commands\"\n", CPROFD_VERSION);
	fprintf(out, ".SH NAME\ncprofd \\- %s\n.SH SYNOPSIS\n.B cprofd\n.I COMMAND\n[OPTION...]\n",
		synopsis);
	fputs(".SH COMMANDS\n", out);
	for (const struct command *command = commands; command->name; command++) {
		fprintf(out, ".SS cprofd %s ", command->name);
		roff(out, command->operands);
		fputc('\n', out);
		if (*command->text)
			roff(out, command->text);
		else
			roff(out, command->summary);
		fputc('\n', out);
		each_example(command->examples, roff_example, out);
	}
	fputs(".SH OPTIONS\n", out);
	for (const struct option_row *row = option_rows; row->name; row++) {
		const char *separator = "(";

		if (!row->help)
			continue;
		spelling(name, sizeof(name), row);
		fputs(".TP\n.B ", out);
		roff(out, name + strspn(name, " "));
		fputc('\n', out);
		roff(out, row->help);
		fputc(' ', out);
		for (const struct command *command = commands; command->name; command++) {
			if (!(row->commands & command->bit))
				continue;
			fprintf(out, "%s%s", separator, command->name);
			separator = ", ";
		}
		fputs(")\n", out);
	}
	fputs(".SH FORMATS\n", out);
	for (const struct exporter *exporter = exporters; exporter->name; exporter++) {
		fprintf(out, ".TP\n.B %s\n", exporter->name);
		roff(out, exporter->description);
		fputc('\n', out);
	}
	fputs(".SH EXIT STATUS\n0: done. 1: could not, the reason is on stderr. 2: wrong usage. 3: diff or baseline compare, with --fail-on: something grew.\n",
	      out);
	fprintf(out, ".SH ENVIRONMENT\n.TP\n.B %s\nThe daemon's socket.\n.TP\n.B %s\nThe directory of baselines.\n", CLI_SOCKET_VARIABLE, CLI_BASELINES_VARIABLE);
	fprintf(out, ".SH FILES\n.TP\n.B %s\nThe daemon's socket, unless another one is given.\n",
		CLI_SOCKET);
}

/* --- completion --- */

/* The values of an option, as `compgen -W` and zsh's _arguments take them. */
static void print_values(FILE *out, const struct option_row *row)
{
	const char *value;

	if (!strcmp(row->values, "@format")) {
		for (const struct exporter *exporter = exporters; exporter->name; exporter++)
			fprintf(out, "%s%s", exporter == exporters ? "" : " ", exporter->name);
		return;
	}
	for (value = row->values; *value; value++)
		fputc(*value == '|' ? ' ' : *value, out);
}

/* All options of a command, for the word that begins with '-'. */
static void print_words(FILE *out, const struct command *command)
{
	for (const struct option_row *row = option_rows; row->name; row++) {
		if (!is_documented(row, command))
			continue;
		fprintf(out, "--%s ", row->name);
		if (row->letter)
			fprintf(out, "-%c ", row->letter);
	}
	fputs("--help", out);
}

/* The case pattern of an option in bash: "attach:--pid|attach:-p|top:--pid|..." */
static void bash_patterns(FILE *out, const struct option_row *row)
{
	const char *separator = "\t";

	for (const struct command *command = commands; command->name; command++) {
		if (!(row->commands & command->bit))
			continue;
		fprintf(out, "%s%s:--%s", separator, command->name, row->name);
		separator = "|";
		if (row->letter)
			fprintf(out, "|%s:-%c", command->name, row->letter);
	}
}

/* The script has three parts: the command itself (word 1); an option's value, by "command:option before the
 * cursor"; and options or operands, by "command:word". The second leaves out options whose value is optional
 * ("[KIND]"): it is given as --native=leaf, in one word, so what follows them is something else. */
static void bash_completion(FILE *out)
{
	fputs("# bash completion for cprofd, printed by `cprofd help --completion=bash`\n"
	      "_cprofd()\n{\n"
	      "\tlocal word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]}\n"
	      "\tCOMPREPLY=()\n"
	      "\t# `--by=cl` is three words: --by, = and cl.\n"
	      "\t[ \"$before\" != = ] || before=${COMP_WORDS[COMP_CWORD-2]}\n"
	      "\t[ \"$word\" != = ] || word=\n"
	      "\tif [ \"$COMP_CWORD\" -eq 1 ]; then\n"
	      "\t\tCOMPREPLY=($(compgen -W '",
	      out);
	for (const struct command *command = commands; command->name; command++)
		fprintf(out, "%s ", command->name);
	fputs("--help --version' -- \"$word\"))\n\t\treturn\n\tfi\n\tcase ${COMP_WORDS[1]}:$before in\n", out);
	for (const struct option_row *row = option_rows; row->name; row++) {
		if (!row->argument || *row->argument == '[')
			continue;
		bash_patterns(out, row);
		/* Without such a rule the value would be completed like an operand. */
		if (row->values && !strcmp(row->values, "@file")) {
			fputs(") COMPREPLY=($(compgen -f -- \"$word\")); return ;;\n", out);
		} else if (row->values) {
			fputs(") COMPREPLY=($(compgen -W '", out);
			print_values(out, row);
			fputs("' -- \"$word\")); return ;;\n", out);
		} else if (!strcmp(row->argument, "PID")) {
			fputs(") COMPREPLY=($(compgen -W \"$(pgrep python 2>/dev/null)\" -- \"$word\")); "
			      "return ;;\n",
			      out);
		} else {
			fputs(") return ;;\n", out);
		}
	}
	fputs("\tesac\n\tcase ${COMP_WORDS[1]}:$word in\n", out);
	for (const struct command *command = commands; command->name; command++) {
		fprintf(out, "\t%s:-*) COMPREPLY=($(compgen -W '", command->name);
		print_words(out, command);
		fputs("' -- \"$word\")) ;;\n", out);
	}
	fputs("\tattach:*|check:*|top:*|dump:*) COMPREPLY=($(compgen -W \"$(pgrep python 2>/dev/null)\" -- \"$word\")) ;;\n"
	      "\trecord:*) COMPREPLY=($(compgen -c -f -- \"$word\")) ;;\n"
	      "\tconvert:*|report:*|diff:*) COMPREPLY=($(compgen -f -- \"$word\")) ;;\n"
	      "\trules:*) COMPREPLY=($(compgen -f -W 'list check' -- \"$word\")) ;;\n"
	      "\tbaseline:*) COMPREPLY=($(compgen -f -W 'save compare list remove' -- \"$word\")) ;;\n"
	      "\thelp:*) COMPREPLY=($(compgen -W '",
	      out);
	for (const struct command *command = commands; command->name; command++)
		fprintf(out, "%s ", command->name);
	fputs("' -- \"$word\")) ;;\n\tesac\n}\ncomplete -o filenames -F _cprofd cprofd\n", out);
}

/* Escapes text for the brackets of an _arguments specification, '...[text]'. */
static void zsh_text(FILE *out, const char *text)
{
	for (; *text; text++) {
		if (*text == '\'')
			fputs("'\\''", out);
		else if (strchr("[]:\\", *text))
			fprintf(out, "\\%c", *text);
		else
			fputc(*text, out);
	}
}

/* One specification of _arguments (zshcompsys(1)): '--duration=[help]:name:action'. "=-": the value must
 * follow in the same word; "::" : it may be left out. */
static void zsh_option(FILE *out, const struct option_row *row)
{
	fputs(" \\\n\t\t\t'", out);
	fprintf(out, "--%s%s[", row->name,
		!row->argument		? ""
		: *row->argument == '[' ? "=-"
					: "=");
	zsh_text(out, row->help);
	fputc(']', out);
	if (row->argument) {
		fputs(*row->argument == '[' ? "::" : ":", out);
		fprintf(out, "%s:", row->name);
		if (row->values && !strcmp(row->values, "@file")) {
			fputs("_files", out);
		} else if (row->values) {
			fputc('(', out);
			print_values(out, row);
			fputc(')', out);
		} else if (!strcmp(row->argument, "PID")) {
			fputs("_pids", out);
		}
	}
	fputc('\'', out);
}

static void zsh_completion(FILE *out)
{
	fputs("#compdef cprofd\n# printed by `cprofd help --completion=zsh`\n"
	      "_cprofd() {\n\tlocal -a names\n\tnames=(\n",
	      out);
	for (const struct command *command = commands; command->name; command++) {
		fprintf(out, "\t\t'%s:", command->name);
		zsh_text(out, command->summary);
		fputs("'\n", out);
	}
	fputs("\t)\n\tif (( CURRENT == 2 )); then\n\t\t_describe command names\n\t\treturn\n\tfi\n"
	      "\tlocal name=$words[2]\n\tshift words\n\t(( CURRENT-- ))\n\tcase $name in\n",
	      out);
	for (const struct command *command = commands; command->name; command++) {
		fprintf(out, "\t%s) _arguments", command->name);
		for (const struct option_row *row = option_rows; row->name; row++)
			if (is_documented(row, command))
				zsh_option(out, row);
		fprintf(out, " \\\n\t\t\t'*:operand:%s' ;;\n",
			command->bit & (COMMAND_ATTACH | COMMAND_CHECK | COMMAND_TOP | COMMAND_DUMP) ? "_pids"
			: command->bit & COMMAND_RECORD			? "_normal"
									: "_files");
	}
	fputs("\tesac\n}\n_cprofd \"$@\"\n", out);
}

/* Text between single quotes. */
static void fish_text(FILE *out, const char *text)
{
	fputc('\'', out);
	for (; *text; text++)
		fprintf(out, strchr("'\\", *text) ? "\\%c" : "%c", *text);
	fputc('\'', out);
}

static void fish_option(FILE *out, const struct option_row *row)
{
	fputs("complete -c cprofd -n '__cprofd_is", out);
	for (const struct command *command = commands; command->name; command++)
		if (row->commands & command->bit)
			fprintf(out, " %s", command->name);
	fprintf(out, "' -l %s", row->name);
	if (row->letter)
		fprintf(out, " -s %c", row->letter);
	/* -x: a value has to follow, which is no file; -r and -F: one that is. */
	if (row->argument && *row->argument != '[')
		fputs(row->values && !strcmp(row->values, "@file") ? " -r -F" : " -x", out);
	if (row->argument && !strcmp(row->argument, "PID"))
		fputs(" -a '(__fish_complete_pids)'", out);
	if (row->values && strcmp(row->values, "@file")) {
		fputs(" -a '", out);
		print_values(out, row);
		fputc('\'', out);
	}
	fputs(" -d ", out);
	fish_text(out, row->help);
	fputc('\n', out);
}

static void fish_completion(FILE *out)
{
	fputs("# fish completion for cprofd, printed by `cprofd help --completion=fish`\n"
	      "function __cprofd_is\n\tset -l words (commandline -opc)\n"
	      "\tif test (count $argv) -eq 0\n\t\ttest (count $words) -eq 1\n"
	      "\telse\n\t\ttest (count $words) -gt 1; and contains -- $words[2] $argv\n\tend\nend\n"
	      "complete -c cprofd -f\ncomplete -c cprofd -n __cprofd_is -l help\ncomplete -c cprofd -n __cprofd_is -l version\n",
	      out);
	for (const struct command *command = commands; command->name; command++) {
		fprintf(out, "complete -c cprofd -n __cprofd_is -a %s -d ", command->name);
		fish_text(out, command->summary);
		fprintf(out, "\ncomplete -c cprofd -n '__cprofd_is help' -a %s\n", command->name);
	}
	for (const struct option_row *row = option_rows; row->name; row++)
		if (row->help)
			fish_option(out, row);
	fputs("complete -c cprofd -n 'not __cprofd_is' -s h -l help -d 'this command\\'s options'\n"
	      "complete -c cprofd -n '__cprofd_is attach check top dump' -a '(__fish_complete_pids)'\n"
	      "complete -c cprofd -n '__cprofd_is record' -a '(__fish_complete_subcommand --fcs-skip=2)'\n"
	      "complete -c cprofd -n '__cprofd_is rules' -a 'list check'\n"
	      "complete -c cprofd -n '__cprofd_is baseline' -a 'save compare list remove'\n"
	      "complete -c cprofd -n '__cprofd_is record convert report diff rules baseline' -F\n",
	      out);
}

int help__run(const struct cli_options *options)
{
	const struct command *command;

	if (options->generate) {
		if (!strcmp(options->generate, "man"))
			man_page(stdout);
		else if (!strcmp(options->generate, "bash"))
			bash_completion(stdout);
		else if (!strcmp(options->generate, "zsh"))
			zsh_completion(stdout);
		else
			fish_completion(stdout);
		return CLI_DONE;
	}
	if (!options->n_operands) {
		help__overview(stdout);
		return CLI_DONE;
	}
	command = command__find(options->operands[0]);
	if (!command && !strcmp(options->operands[0], "man")) {
		say__failure("", "the man page: `man cprofd` once it is installed; `cprofd help --man` prints it, `make docs` makes build/cprofd.1");
		return CLI_USAGE;
	}
	if (!command)
		return command__unknown(options->operands[0]);
	help__command(stdout, command);
	return CLI_DONE;
}
