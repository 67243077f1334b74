/* SPDX-License-Identifier: MIT */
/* The first lines of a summary: samples, CPU time, sampling rate, whole stacks, classes of time, losses. Above them
 * a warning, if too little was sampled for the shares to be right. */
#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/safe_text.h"
#include "classes/classes.h"
#include "cli/summary.h"
#include "events/loss_names.h"
#include "report/fit.h"

/* Functions without names are mentioned if they have at least this share of the time. */
#define NAMELESS_MIN_PERCENT 5
/* Over less CPU time than this, a sampling rate is too noisy to print. */
#define RATE_NEEDS_NS 100000000u
/* With fewer samples than this fraction of what the CPU time should have given, the shares are not trustworthy. */
#define TRUSTED 0.95
/* The warning about processes that end too early needs both: fewer whole stacks than this, and at least this
 * part of the samples with that cause. */
#define WHOLE 0.9
#define UNKNOWN_PART 20u /* one in so many */
#define STORM 64u /* processes */
/* Without --verbose, classes below this share are added up as "others". */
#define CLASS_PERCENT 1
#define INDENT 8
#define STOPS_SHOWN 5
#define STOP_WIDTH 60

struct head {
	FILE *out;
	const struct tally_result *result;
	bool verbose;
	int at; /* columns used in the current line of items; 0: no line is open */
};

static const char *loss_sentence(const char *name)
{
	return loss__sentence(name) ?: "a loss that this version does not know";
}

/* Wall-mode recordings have waits as samples. Without the subtraction the idle threads of a pool would make
 * every share of a working thread tiny. */
uint64_t summary__whole(const struct tally_result *result)
{
	return result->waits ? result->wall - result->quiet : result->cpu;
}

uint64_t summary__without_gil(const struct tally_result *result)
{
	for (uint32_t i = 0; i < result->n_classes; i++)
		if (!strcmp(result->classes[i].name, class__name(CLASS_WITHOUT_GIL)))
			return result->classes[i].cpu;
	return 0;
}

static const char *plural(uint64_t n)
{
	return n == 1 ? "" : "s";
}

/* Adds one item to a comma-separated list that is wrapped to the screen. */
__attribute__((format(printf, 3, 4))) static void item(struct head *head, const char *title, const char *format, ...)
{
	const int width = say__width();
	char words[128];
	va_list args;
	int len;

	va_start(args, format);
	len = vsnprintf(words, sizeof(words), format, args);
	va_end(args);
	if (!head->at)
		head->at = fprintf(head->out, "%*s%s: %s", INDENT, "", title, words);
	else if (head->at + 2 + len > width - 1) /* a comma may follow */
		head->at = fprintf(head->out, ",\n%*s%s", INDENT, "", words) - 2;
	else
		head->at += fprintf(head->out, ", %s", words);
}

static void end_items(struct head *head)
{
	if (head->at)
		fputc('\n', head->out);
	head->at = 0;
}

static uint64_t loss(const struct tally_result *result, const char *name)
{
	for (uint32_t i = 0; i < result->n_losses; i++)
		if (!strcmp(result->losses[i].name, name))
			return result->losses[i].count;
	return 0;
}

/* Samples of processes of which nothing was known yet. Where many are begun, native code that is still unknown is
 * theirs, too: the tables of a process's files come after its identity. */
static uint64_t unknown(const struct tally_result *result)
{
	return loss(result, "process_unknown") + (result->processes >= STORM ? loss(result, "native_pending") : 0);
}

/* A program that runs for a few milliseconds ends before its mappings are read: there are samples, but no names for
 * them. Warns if many samples are of such processes. */
static bool print_unknown(struct head *head)
{
	const struct tally_result *result = head->result;

	if ((double)result->whole >= WHOLE * (double)result->samples || unknown(result) * UNKNOWN_PART < result->samples)
		return false;
	fprintf(head->out, "cprofd: do not trust the shares: %.0f %% of the samples have a whole stack, as processes end before it is known what they run\n",
		percent(result->whole, result->samples));
	return true;
}

/* A thread's timer starts with a whole period, so a thread that ends before its first tick has no sample. Warns if
 * less than TRUSTED of the expected samples were taken, and says whether short-lived threads are the reason. */
static bool print_distrust(struct head *head)
{
	const struct tally_result *result = head->result;
	double due = (double)result->cpu / 1e9 * result->rate, missed = due - (double)result->seen;
	/* `unsampled` is in thread_end events: time that threads ran after their last sample. If it explains
	 * a quarter of what is missing, short-lived threads are named as the reason. */
	bool births = (double)result->unsampled / 1e9 * result->rate > missed / 4;

	if (result->cpu < RATE_NEEDS_NS)
		return false;
	if (print_unknown(head))
		return true;
	/* `due`: how many ticks the CPU time should have brought at the requested rate. */
	if ((double)result->seen >= TRUSTED * due)
		return false;
	fprintf(head->out, "cprofd: do not trust the shares: %.0f %% of the CPU time has samples, as %s\n", 100 * (double)result->seen / due,
		births ? "threads or processes end before their first sample, or soon after one"
		       : "the timer did not fire, or samples were lost");
	if (births)
		fprintf(head->out, "%*snot sampled, at ends: %s of CPU\n", INDENT, "", words__duration(result->unsampled));
	return true;
}

static bool print_unsupported(struct head *head)
{
	if (!head->result->unsupported)
		return false;
	fputs("cprofd: ", head->out);
	safe_text__put(head->out, head->result->unsupported);
	fprintf(head->out, EVENT_UNSUPPORTED_FORMAT "\n", py_versions);
	return true;
}

static void print_counts(struct head *head)
{
	const struct tally_result *result = head->result;
	char waits[64] = "", processes[64] = "";

	if (result->waits)
		snprintf(waits, sizeof(waits), " and %s wait%s", words__count(result->waits), plural(result->waits));
	if (result->processes > 1)
		snprintf(processes, sizeof(processes), " of %s processes", words__count(result->processes));
	fprintf(head->out, "cprofd: %s sample%s%s in %s: %s of CPU in %u thread%s%s\n", words__count(result->seen), plural(result->seen),
		waits, words__duration(result->span), words__duration(result->cpu), result->threads, plural(result->threads), processes);
}

static void print_rate(struct head *head)
{
	const struct tally_result *result = head->result;
	double rate = result->cpu ? (double)result->seen * 1e9 / (double)result->cpu + 0.5 : 0;
	double share = percent(result->whole, result->samples);

	if (!result->seen)
		return;
	if (result->cpu >= RATE_NEEDS_NS)
		fprintf(head->out, "%*s%s samples/s of CPU time, asked for %u; ", INDENT, "", words__count((uint64_t)rate), result->rate);
	else
		fprintf(head->out, "%*sasked for %u samples/s; ", INDENT, "", result->rate);
	/* 99.996 % must not be printed as 100 %. */
	if (result->whole < result->samples && share > 99.99)
		share = 99.99;
	/* A recording that was cut off before its first ledger has samples, but no counts. */
	if (result->samples)
		fprintf(head->out, "whole stacks: %.2f %%\n", share);
	else
		fputs("how many stacks are whole is not known\n", head->out);
	if (summary__without_gil(result))
		fprintf(head->out, "%*swith the GIL: %.1f %% of the CPU time; the rest has no stacks (-g)\n", INDENT, "",
			100 - percent(summary__without_gil(result), result->cpu));
}

/* Prints a class, or returns its time if its share is too small to be printed. */
static uint64_t print_class(struct head *head, const char *name, uint64_t part, double least)
{
	const char *title = head->result->waits ? "time by class, waiting included" : "CPU time by class";
	double share = percent(part, summary__whole(head->result));

	if (share < least)
		return part;
	item(head, title, "%s %.1f %%", name, share);
	return 0;
}

/* The classes add up to all of the time; what has no class is "not determined". */
static void print_classes(struct head *head)
{
	const struct tally_result *result = head->result;
	const double least = head->verbose ? 0.05 : CLASS_PERCENT;
	uint64_t small = 0, none = summary__whole(result), part;

	if (result->quiet_threads)
		fprintf(head->out, "%*s%u thread%s that hardly ran waited %s: no part of the shares here\n", INDENT, "", result->quiet_threads,
			plural(result->quiet_threads), words__duration(result->quiet));
	/* Without native stacks only kernel time can be told from the rest. */
	if (!result->native || !result->n_classes)
		return;
	for (uint32_t i = 0; i < result->n_classes; i++) {
		part = result->classes[i].cpu;
		small += print_class(head, result->classes[i].name, part, least);
		/* Never below zero: rounding in a joined or foreign recording must not print 18446744073.7 %. */
		none -= part < none ? part : none;
	}
	small += print_class(head, "not determined", none, least);
	print_class(head, "others", small, 0.05);
	end_items(head);
}

/* "libfoo.so+0x1234 (name)"; JIT code has a name only. */
static void print_stop(struct head *head, const struct tally_stop *stop)
{
	/* A function without a symbol is called "libfoo.so+0x1234", which would repeat the module. */
	bool named = *stop->function && strncmp(stop->function, stop->module, strlen(stop->module));

	fprintf(head->out, "        %10s  %s", words__count(stop->count), *stop->module ? stop->module : "address");
	if (strcmp(stop->module, "JIT"))
		fprintf(head->out, "%s0x%" PRIx64, *stop->module ? "+" : " ", stop->offset);
	if (named || !strcmp(stop->module, "JIT")) {
		fputs(" (", head->out);
		fit__name(head->out, *stop->function ? stop->function : "?", -STOP_WIDTH);
		fputc(')', head->out);
	}
	fprintf(head->out, ": %s\n", loss_sentence(stop->loss));
}

/* Why fewer native stacks than samples are counted. */
static const char *of_what(const struct tally_result *result)
{
	return result->native == result->seen	   ? ""
	       : summary__without_gil(result) ? ", those with the GIL"
	       : result->waits		   ? ", those of waits too"
					   : ", the samples that have one";
}

/* --verbose: where incomplete native stacks ended. */
static void print_native(struct head *head)
{
	const struct tally_result *result = head->result;
	uint64_t others = result->native - result->native_whole;
	double share = percent(result->native_whole, result->native);

	if (!result->native || !head->verbose)
		return;
	if (others && share > 99.99)
		share = 99.99;
	fprintf(head->out, "        native stacks: %.2f %% whole of %s%s%s\n", share, words__count(result->native), of_what(result),
		others ? "; the others end at" : "");
	for (uint32_t i = 0; i < result->n_stops && i < STOPS_SHOWN; i++) {
		print_stop(head, &result->stops[i]);
		/* The engine sends only the most frequent ones (docs/protocol.md), so what is left over is
		 * elsewhere. */
		others -= result->stops[i].count < others ? result->stops[i].count : others;
	}
	if (others)
		fprintf(head->out, "        %10s  at other places\n", words__count(others));
}

/* By name where counts are equal, so that two runs print the same order. */
static int by_count(const void *a, const void *b)
{
	const struct tally_loss *one = a, *other = b;

	return one->count == other->count ? strcmp(one->name, other->name) : one->count < other->count ? 1 : -1;
}

/* A copy, most frequent first; NULL: no losses, or no memory. The caller frees it. */
static struct tally_loss *sort_losses(const struct tally_result *result)
{
	struct tally_loss *losses = result->n_losses ? malloc(result->n_losses * sizeof(*losses)) : NULL;

	if (!losses)
		return NULL;
	memcpy(losses, result->losses, result->n_losses * sizeof(*losses));
	qsort(losses, result->n_losses, sizeof(*losses), by_count);
	return losses;
}

static void print_loss_rows(struct head *head, const struct tally_loss *losses)
{
	fputs("        not whole or lost (one sample can have several causes):\n", head->out);
	for (uint32_t i = 0; i < head->result->n_losses; i++)
		if (losses[i].count)
			fprintf(head->out, "        %10s  %s (%s)\n", words__count(losses[i].count), loss_sentence(losses[i].name),
				losses[i].name);
}

/* In one line; those that do not fit are added up as "others". */
static void print_loss_names(struct head *head, const struct tally_loss *losses)
{
	static const char title[] = "not whole or lost (-v: why)";
	/* Room for one more item and for "others" at the end of the line. */
	const int width = say__width() - (int)sizeof(" 99,999, 99,999 others");
	uint64_t others = 0;

	for (uint32_t i = 0; i < head->result->n_losses; i++) {
		const struct tally_loss *loss = &losses[i];

		/* Once one did not fit, no later and shorter one is printed either: the line shows the most
		 * frequent without a gap. */
		if (others || head->at + (int)strlen(loss->name) > width)
			others += loss->count;
		else if (loss->count)
			item(head, title, "%s %s", words__count(loss->count), loss->name);
	}
	if (others)
		item(head, title, "%s others", words__count(others));
	end_items(head);
}

static void print_losses(struct head *head)
{
	const struct tally_result *result = head->result;
	_cleanup_free_ struct tally_loss *sorted = sort_losses(result);
	const struct tally_loss *losses = sorted ? sorted : result->losses;
	uint32_t i, kinds = 0;

	for (i = 0; i < result->n_losses; i++)
		kinds += losses[i].count != 0;
	if (kinds && head->verbose)
		print_loss_rows(head, losses);
	else if (kinds)
		print_loss_names(head, losses);
	if (result->gap_events)
		fprintf(head->out, "        %s events did not reach this client in time: the file has a gap\n", words__count(result->gap_events));
	if (!result->samples && result->seen)
		fputs("        what was lost is not known: the recording ends before its first counts\n", head->out);
	else if (!kinds && !result->gap_events && result->seen)
		fputs("        nothing was lost\n", head->out);
}

/* --- functions without names --- */

/* "libfoo.so.1+0x1234": a native function without a symbol. */
static bool is_nameless(const char *name)
{
	const char *plus = strstr(name, "+0x");

	return plus && plus != name && strspn(plus + 3, "0123456789abcdef") == strlen(plus + 3);
}

/* "libLLVM-14.so.1" -> 14; 0: another library. */
static unsigned llvm_version(const char *name)
{
	unsigned version = 0;

	/* Up to LLVM 17, Debian's name of it; from 18 on, libLLVM.so.18.1, as LLVM's own build names it. */
	return sscanf(name, "libLLVM-%u.so", &version) == 1 || sscanf(name, "libLLVM.so.%u", &version) == 1 ? version : 0;
}

static void print_way_to_names(struct head *head, unsigned llvm)
{
	/* Debian's LLVM is stripped: it has names only for exported functions, and for passes, from their virtual
	 * tables. */
	if (llvm)
		fprintf(head->out, "%*smost of it is in LLVM, inside of its passes: on Debian DEBUGINFOD_URLS=https://debuginfod.debian.net in cprofd's "
			"environment has these names, or the package libllvm%u-dbgsym of its debug archive\n", INDENT, "", llvm);
	else
		fprintf(head->out, "%*sdebug symbols of such files (their -dbgsym packages, or DEBUGINFOD_URLS in cprofd's environment) have them\n",
			INDENT, "");
}

/* Prints one line if a large part of the time is in functions without names, with the heaviest library as the
 * example. */
static void print_nameless(struct head *head)
{
	const struct tally_result *result = head->result;
	const char *heaviest = NULL;
	uint64_t sum = 0, llvm = 0;
	unsigned version = 0;

	for (uint32_t i = 0; i < result->n_functions; i++) {
		const char *name = result->functions[i].name;

		if (!is_nameless(name))
			continue;
		sum += result->functions[i].self;
		/* Functions are sorted by exclusive time: The first one is the heaviest. One of LLVM
		 * takes precedence, as there is more advice for it. */
		heaviest = heaviest ? heaviest : name;
		if (llvm_version(name)) {
			llvm += result->functions[i].self;
			heaviest = version ? heaviest : name;
			version = version ? version : llvm_version(name);
		}
	}
	if (!heaviest || percent(sum, summary__whole(result)) < NAMELESS_MIN_PERCENT)
		return;
	fprintf(head->out, "%*sno names for %.1f %% of the time, as in %.*s%s\n", INDENT, "", percent(sum, summary__whole(result)),
		(int)(strstr(heaviest, "+0x") - heaviest), heaviest, head->verbose ? "" : " (-v: help)");
	if (head->verbose)
		print_way_to_names(head, llvm > sum / 2 ? version : 0);
}

bool summary__head(FILE *out, const struct tally_result *result, bool verbose)
{
	struct head head = {out, result, verbose, 0};
	bool warns = print_unsupported(&head);

	warns |= print_distrust(&head);
	print_counts(&head);
	print_rate(&head);
	print_classes(&head);
	print_native(&head);
	print_losses(&head);
	print_nameless(&head);
	return warns;
}
