/* SPDX-License-Identifier: MIT */
/* Parses options: builds getopt_long()'s arguments from the table of options, and explains unknown options.
 * getopt knows no commands, so the arguments are built for the one command at hand, from the rows that it
 * takes.
 *
 *     cprofd record -r 10k -s -- make -j4
 *                   ^ options      ^ operands */
#include <getopt.h>
#include <string.h>

#include "cli/cli.h"
#include "export/close.h"

/* What getopt_long() returns for an option: its letter, or such a code. Letters are ASCII, so the three
 * ranges do not overlap. CODE_OF_ROW + n: the row n, which has no letter or was given by its long name. */
#define CODE_OF_ROW 0x100 /* codes of options without a letter start here */
#define CODE_HELP 0x80

/* The row of an option, by what getopt_long() returned: a letter, or CODE_OF_ROW and the row's index. */
static const struct option_row *row_of(const struct command *command, int code)
{
	if (code >= CODE_OF_ROW)
		return &option_rows[code - CODE_OF_ROW];
	for (const struct option_row *row = option_rows; row->name; row++)
		if (row->letter == code && row->commands & command->bit)
			return row;
	return NULL;
}

static void build(const struct command *command, struct option longs[OPTIONS_MAX],
		  char letters[3 * OPTIONS_MAX])
{
	char *letter = letters;
	struct option *out = longs;

	/* '+': POSIX order. In `record make -j4` the rest belongs to make, even without "--". */
	if (command->stops_at_operand)
		*letter++ = '+';
	*letter++ = 'h';
	*out++ = (struct option){"help", no_argument, NULL, CODE_HELP};
	for (const struct option_row *row = option_rows; row->name; row++) {
		int has = !row->argument	  ? no_argument
			  : *row->argument == '[' ? optional_argument
						  : required_argument;

		if (!(row->commands & command->bit))
			continue;
		if (row->help)
			*out++ = (struct option){row->name, has, NULL,
						 CODE_OF_ROW + (int)(row - option_rows)};
		if (row->letter) {
			*letter++ = row->letter;
			/* An optional value needs the long name and '=' : "-n leaf" could as well be a flag
			 * and an operand, so "-n" takes none. */
			if (has == required_argument)
				*letter++ = ':';
		}
	}
	*letter = '\0';
	*out = (struct option){};
}

/* Is the value one of "a|b|c"? Then *ret is which; NULL stands for the last one. Otherwise the sentence that lists
 * them, valid until the next call. */
static const char *find_word(const char *values, const char *value, unsigned *ret)
{
	static char sentence[128];
	size_t used = (size_t)snprintf(sentence, sizeof(sentence), "is not one of"), len;

	for (*ret = 0;; ++*ret, values += len + 1) {
		len = strcspn(values, "|");
		if (value ? strlen(value) == len && !memcmp(value, values, len) : !values[len])
			return NULL;
		used += (size_t)snprintf(sentence + used, sizeof(sentence) - used, "%s %.*s", *ret ? "," : "", (int)len, values);
		if (!values[len])
			return sentence;
	}
}

/* Is the word after an option whose value is optional one of its values? "--native leaf" would be a flag and an operand. */
static bool is_value_apart(const struct option_row *row, const char *word)
{
	unsigned choice;

	return row->argument && *row->argument == '[' && row->values && word && !find_word(row->values, word, &choice);
}

/* Stores the value of an option that has no setter. */
static const char *store(const struct option_row *row, const char *value, struct cli_options *options)
{
	void *member = (char *)options + row->member;
	const char *sentence = NULL;
	unsigned choice;

	switch (row->kind) {
	case OPTION_FLAG:
		*(bool *)member = true;
		return NULL;
	case OPTION_TEXT:
		sentence = *value ? NULL : row->empty;
		*(const char **)member = value;
		return sentence;
	case OPTION_WORD:
		sentence = find_word(row->values, value, &choice);
		*(const char **)member = value ? value : strrchr(row->values, '|') + 1;
		return sentence;
	default:
		sentence = find_word(row->values, value, &choice);
		*(unsigned *)member = row->first + choice;
		return sentence;
	}
}

/* A sentence that starts with "is" is printed after the value; any other stands alone. */
static void refuse(const struct option_row *row, const char *value, const char *sentence)
{
	if (!strncmp(sentence, "is ", 3))
		say("--%s: '%s' %s", row->name, value, sentence);
	else
		say("--%s: %s", row->name, sentence);
}

/* "; attach, record have it": the commands that have this option, when this command has not. Helps those who
 * know the option from another command, without a suggestion of a similar but wrong name. */
static void others_with(const char *name, size_t len, int letter, char *ret, size_t size)
{
	size_t at = 0;
	unsigned n = 0;

	*ret = '\0';
	/* `at` counts what would be printed. Beyond `size` the list ends, and what is there is a whole
	 * string. */
	for (const struct command *command = commands; command->name && at < size; command++)
		for (const struct option_row *row = option_rows; row->name; row++) {
			if (!row->help || !(row->commands & command->bit) || (letter ? row->letter != letter : (strlen(row->name) != len || memcmp(row->name, name, len))))
				continue;
			at += (size_t)snprintf(ret + at, size - at, "%s%s", n++ ? ", " : "; ", command->name);
			break;
		}
	if (at && at < size)
		snprintf(ret + at, size - at, "%s", n > 1 ? " have it" : " has it");
}

/* Explains an option that getopt refused. `code` is optopt: 0 for an unknown long option, the letter for an unknown
 * short one, else the code of an option whose argument is missing or not allowed. */
static void print_unknown(const struct command *command, int code, const char *given)
{
	const struct option_row *row = code ? row_of(command, code) : NULL;
	const char *name = given + strspn(given, "-");
	const size_t len = strcspn(name, "=");
	char want[CLOSE_LENGTH];
	struct close close = {.want = want};
	char likely[3 * CLOSE_LENGTH + 8], others[256];
	size_t any;

	snprintf(want, sizeof(want), "%.*s", (int)len, name);
	/* A long option with an optional value cannot come here, so what is missing is a required one. */
	if (row && row->argument) {
		say__failure("", "--%s needs %s", row->name, row->argument);
	} else if (code >= CODE_HELP) {
		say__failure("", "--%.*s takes no value", (int)len, name);
	} else if (code) {
		others_with("", 0, code, others, sizeof(others));
		say__failure("", "%s has no option -%c%s", command->name, code, others);
	} else {
		others_with(name, len, 0, others, sizeof(others));
		for (row = option_rows; row->name; row++)
			if (row->commands & command->bit)
				close__offer(&close, row->name);
		close__text(&close, likely, sizeof(likely));
		any = strcspn(likely, ",");
		if (*others || !any)
			say__failure("", "%s has no option --%.*s%s", command->name, (int)len, name, others);
		else
			say__failure("", "%s has no option --%.*s: did you mean --%.*s?", command->name, (int)len, name, (int)any, likely);
	}
	fprintf(stderr, "        see `cprofd %s --help`\n", command->name);
}

/* What was not given follows from what was: four files and more in all. */
static void set_rotation(struct cli_options *options)
{
	const uint64_t size = 64000000, keep = 1000000000;

	if (!options->rotate_size)
		options->rotate_size = options->keep && options->keep / 4 < size ? options->keep / 4 : size;
	if (!options->keep)
		options->keep = 4 * options->rotate_size > keep ? 4 * options->rotate_size : keep;
	if (!options->rotate_age)
		options->rotate_age = 600000000000;
}

/* A compile that fires is to be in the recording from its begin on. */
static void set_flight(struct cli_options *options)
{
	const uint64_t more = 10000000000;
	const bool given = options->last;

	for (uint32_t i = 0; !given && i < options->n_conditions; i++) {
		const struct condition *condition = &options->conditions[i];
		const uint64_t needs = more + (condition->kind == CONDITION_CPU ? condition->seconds * 1000000000ull : condition->limit);

		options->last = needs > options->last ? needs : options->last;
	}
	if (options->n_conditions && !given && options->last < 3 * more)
		options->last = 3 * more;
	if (!options->last)
		return;
	if (!options->cool_down_given)
		options->cool_down = 6 * more;
	if (!options->count_given)
		options->count = 10;
	options->memory = options->memory ?: 64000000;
	options->directory = options->directory ?: ".";
}

int options__parse(const struct command *command, int argc, char **argv, struct cli_options *ret,
		   bool *ret_help)
{
	struct option longs[OPTIONS_MAX];
	char letters[3 * OPTIONS_MAX];
	int code;

	*ret = (struct cli_options){.native = "full", .shown = "full", .fail_on = {.least = DIFF_LEAST}};
	limits__default(&ret->limits);
	*ret_help = false;
	build(command, longs, letters);
	/* getopt prints nothing of its own. optind = 1 starts at the first word after the command's name. */
	opterr = 0;
	optind = 1;
	while ((code = getopt_long(argc, argv, letters, longs, NULL)) != -1) {
		const struct option_row *row;
		const char *sentence;

		if (code == 'h' || code == CODE_HELP) {
			*ret_help = true;
			return CLI_DONE;
		}
		if (code == '?') {
			print_unknown(command, optopt, argv[optind - 1]);
			return CLI_USAGE;
		}
		row = row_of(command, code);
		if (!optarg && is_value_apart(row, optind < argc ? argv[optind] : NULL)) {
			say__failure("", "--%s takes its value in the same word: --%s=%s", row->name, row->name, argv[optind]);
			return CLI_USAGE;
		}
		sentence = row->set ? row->set(ret, optarg) : store(row, optarg, ret);
		if (sentence) {
			refuse(row, optarg ? optarg : "", sentence);
			return CLI_USAGE;
		}
	}
	ret->host = command->bit == COMMAND_AGENT;
	/* 999 and not 1000: a rate that does not run in step with timers and frames of round periods. */
	if (!ret->rate)
		ret->rate = ret->host ? 49 : ret->continuous ? 99 : 999;
	if (ret->continuous || ret->host)
		set_rotation(ret);
	set_flight(ret);
	/* getopt has removed nothing: the word before the first operand is the "--" that ended the options,
	 * if there was one. */
	ret->after_dashes = optind > 1 && !strcmp(argv[optind - 1], "--");
	ret->operands = argv + optind;
	ret->n_operands = argc - optind;
	return CLI_DONE;
}
