#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "classes/classes.h"
#include "cli/cli.h"
#include "cli/rhythm.h"
#include "cli/summary.h"
#include "cli/units.h"
#include "cprofd/loss.h"
#include "report/fit.h"

/* Functions; the second with --verbose. */
static const uint32_t top[2] = {5, 10};
/* So much time in functions without names is worth a word. */
#define NAMELESS_TELL_PERCENT 5
/* A rate over less CPU time than this says nothing. */
#define RATE_NEEDS_NS 100000000u
#define NAME_WIDTH 44
#define FILE_WIDTH 44

static const char *loss_sentence(const char *name)
{
#define ROW(id, kind, name, sentence) {name, sentence},
	static const struct {
		const char *name, *sentence;
	} losses[] = {CPROFD_LOSSES(ROW)};
#undef ROW
	size_t i;

	for (i = 0; i < sizeof(losses) / sizeof(losses[0]); i++)
		if (!strcmp(losses[i].name, name))
			return losses[i].sentence;
	return "a loss that this version does not know";
}

static double percent(uint64_t part, uint64_t whole)
{
	return whole ? 100.0 * (double)part / (double)whole : 0;
}

/* What 100 % are. */
static uint64_t whole(const struct tally_result *result)
{
	return result->waits ? result->wall - result->quiet : result->cpu;
}

static const char *plural(uint64_t n)
{
	return n == 1 ? "" : "s";
}

/* CPU time of threads that did not hold the GIL, where only its holders were asked for. */
static uint64_t without_gil(const struct tally_result *result)
{
	uint32_t i;

	for (i = 0; i < result->n_classes; i++)
		if (!strcmp(result->classes[i].name, class__name(CLASS_WITHOUT_GIL)))
			return result->classes[i].cpu;
	return 0;
}

static bool same_stacks(const struct tally_result *result)
{
	return result->native && result->native == result->samples && result->native_whole == result->whole;
}

/* Below this part of the samples that the CPU time asks for, shares are not what ran. */
#define TRUSTED 0.95

/* Each thread's clock starts with a whole period: who ends before is in no sample. */
static void print_distrust(const struct tally_result *result)
{
	double due = (double)result->cpu / 1e9 * result->rate, missed = due - (double)result->seen;
	bool births = (double)result->unsampled / 1e9 * result->rate > missed / 4;

	if (result->cpu < RATE_NEEDS_NS || (double)result->seen >= TRUSTED * due)
		return;
	say("do not trust the shares: %.0f %% of the CPU time has samples, as %s", 100 * (double)result->seen / due,
	    births ? "threads or processes end before their first sample, or soon after one" : "the timer did not fire, or samples were lost");
	if (births)
		fprintf(stderr, "        not sampled, at ends: %s of CPU\n", words__duration(result->unsampled));
}

static void print_counts(const struct tally_result *result)
{
	uint64_t rate = result->cpu
				? (uint64_t)((double)result->seen * 1e9 / (double)result->cpu + 0.5)
				: 0;
	char waits[64] = "", processes[64] = "";

	if (result->waits)
		snprintf(waits, sizeof(waits), " and %s wait%s", words__count(result->waits), plural(result->waits));
	if (result->processes > 1)
		snprintf(processes, sizeof(processes), " of %s processes", words__count(result->processes));
	print_distrust(result);
	say("%s sample%s%s in %s: %s of CPU in %u thread%s%s", words__count(result->seen), plural(result->seen), waits,
	    words__duration(result->span), words__duration(result->cpu), result->threads, plural(result->threads), processes);
	if (!result->seen)
		return;
	fputs("        ", stderr);
	if (result->cpu >= RATE_NEEDS_NS)
		fprintf(stderr, "%s samples/s of CPU time, asked for %u%s",
			words__count(rate), result->rate, same_stacks(result) ? "" : "; ");
	else if (same_stacks(result))
		fprintf(stderr, "asked for %u samples/s", result->rate);
	/* Where all samples have native stacks, their line below tells the same. */
	if (!result->samples)
		fputs("how many stacks are whole is not known", stderr);
	else if (!same_stacks(result))
		fprintf(stderr, "whole stacks: %.2f %%", percent(result->whole, result->samples));
	fputc('\n', stderr);
	if (without_gil(result))
		fprintf(stderr, "        with the GIL: %.1f %% of the CPU time; the rest has no stacks (-g): (without the GIL)\n",
			100 - percent(without_gil(result), result->cpu));
}

#define STOPS_SHOWN 5
#define STOP_WIDTH 60

/* "libfoo.so+0x1234 (name)"; code of a JIT by its name. */
static void print_stop(const struct tally_stop *stop)
{
	bool named = *stop->function && strncmp(stop->function, stop->module, strlen(stop->module));

	fprintf(stderr, "        %10s  %s", words__count(stop->count),
		*stop->module ? stop->module : "address");
	if (strcmp(stop->module, "JIT"))
		fprintf(stderr, "%s0x%" PRIx64, *stop->module ? "+" : " ", stop->offset);
	if (named || !strcmp(stop->module, "JIT")) {
		fputs(" (", stderr);
		fit__name(stderr, *stop->function ? stop->function : "?", -STOP_WIDTH);
		fputc(')', stderr);
	}
	fprintf(stderr, ": %s\n", loss_sentence(stop->loss));
}

/* Why there are not as many as samples. */
static const char *of_what(const struct tally_result *result)
{
	return result->native == result->seen ? ""
	       : without_gil(result)	      ? ", those with the GIL"
	       : result->waits		      ? ", those of waits too"
					      : ", the samples that have one";
}

static void print_native(const struct tally_result *result, bool verbose)
{
	uint64_t others = result->native - result->native_whole;
	double share = percent(result->native_whole, result->native);
	uint32_t i;

	if (!result->native)
		return;
	/* What is not whole is not rounded away. */
	if (others && share > 99.99)
		share = 99.99;
	fprintf(stderr, "        native stacks: %.2f %% whole of %s%s%s%s\n", share, words__count(result->native), of_what(result),
		same_stacks(result) ? ", and so are Python's" : "", !others ? "" : verbose ? "; the others end at" : " (-v: where the others end)");
	if (!verbose)
		return;
	for (i = 0; i < result->n_stops && i < STOPS_SHOWN; i++) {
		print_stop(&result->stops[i]);
		others -= result->stops[i].count < others ? result->stops[i].count : others;
	}
	if (others)
		fprintf(stderr, "        %10s  at other places\n", words__count(others));
}

static const char *print_class(const char *before, const char *name, uint64_t part, const struct tally_result *result)
{
	if (percent(part, whole(result)) < 0.05)
		return before;
	fprintf(stderr, "%s%s %.1f %%", before, name, percent(part, whole(result)));
	return ", ";
}

/* All of the time: what is in no class, too. */
static void print_classes(const struct tally_result *result)
{
	const char *before = result->waits ? "        time by class, waiting included: " : "        CPU time by class: ";
	uint64_t small = 0, none = whole(result), part;
	bool any = false;
	uint32_t i;

	if (result->quiet_threads)
		fprintf(stderr, "        %u thread%s that hardly ran waited %s: no part of the shares here\n", result->quiet_threads,
			plural(result->quiet_threads), words__duration(result->quiet));
	/* Without native stacks only what the kernel did is told apart. */
	if (!result->native)
		return;
	for (i = 0; i < result->n_classes; i++) {
		part = result->classes[i].cpu;
		before = print_class(before, result->classes[i].name, part, result);
		small += percent(part, whole(result)) < 0.05 ? part : 0;
		none -= part < none ? part : none;
		any = true;
	}
	if (!any)
		return;
	before = print_class(before, "not determined", none, result);
	print_class(before, "others", small, result);
	fputc('\n', stderr);
}

static void print_losses(const struct tally_result *result)
{
	bool any = false;
	uint32_t i, kinds = 0;

	for (i = 0; i < result->n_losses; i++)
		kinds += result->losses[i].count != 0;
	for (i = 0; i < result->n_losses; i++) {
		if (!result->losses[i].count)
			continue;
		if (!any)
			fprintf(stderr, "        not whole or lost%s:\n", kinds > 1 ? " (one sample can have several causes)" : "");
		any = true;
		fprintf(stderr, "        %10s  %s (%s)\n", words__count(result->losses[i].count),
			loss_sentence(result->losses[i].name), result->losses[i].name);
	}
	if (result->gap_events)
		fprintf(stderr,
			"        %10s  events did not reach this client in time: the file has a "
			"gap\n",
			words__count(result->gap_events));
	if (!result->samples && result->seen)
		fputs("        what was lost is not known: the recording ends before its first account of that\n", stderr);
	else if (!any && !result->gap_events && result->seen)
		fputs("        nothing was lost\n", stderr);
}

static void print_functions(const struct tally_result *result, bool verbose)
{
	uint32_t i;

	if (!result->seen && !result->waits)
		return;
	fprintf(stderr, "\n%s by %s%s:\nexclusive  inclusive  (in its own code; also in what it called)\n",
		result->waits ? "Time" : "CPU time", result->lines ? "line" : "function", result->waits ? ", waiting included" : "");
	for (i = 0; i < result->n_functions && i < top[verbose]; i++) {
		const struct tally_function *function = &result->functions[i];

		if (!function->self)
			break;
		fprintf(stderr, "%7.1f %%  %7.1f %%  ", percent(function->self, whole(result)),
			percent(function->total, whole(result)));
		if (!*function->file) {
			fit__name(stderr, function->name, -(NAME_WIDTH + FILE_WIDTH));
			fputc('\n', stderr);
			continue;
		}
		fit__name(stderr, function->name, NAME_WIDTH);
		fputs("  ", stderr);
		fit__path(stderr, function->file, FILE_WIDTH);
		if (function->line)
			fprintf(stderr, ":%" PRIu32, function->line);
		fputc('\n', stderr);
	}
	fputc('\n', stderr);
}

/* "libfoo.so.1+0x1234": native code that nothing has a name for. */
static bool is_nameless(const char *name)
{
	const char *plus = strstr(name, "+0x");

	return plus && plus != name && strspn(plus + 3, "0123456789abcdef") == strlen(plus + 3);
}

/* "libLLVM-14.so.1" -> 14; 0: another library. */
static unsigned llvm_version(const char *name)
{
	unsigned version = 0;

	return sscanf(name, "libLLVM-%u.so", &version) == 1 || sscanf(name, "libLLVM.so.%u", &version) == 1 ? version : 0;
}

/* Said once, when it is much. */
static void print_nameless(const struct tally_result *result)
{
	const struct tally_function *heaviest = NULL;
	uint64_t sum = 0, llvm = 0;
	unsigned version = 0;
	char hint[320];
	uint32_t i;

	for (i = 0; i < result->n_functions; i++) {
		if (!is_nameless(result->functions[i].name))
			continue;
		sum += result->functions[i].self;
		heaviest = heaviest ? heaviest : &result->functions[i];
		if (llvm_version(result->functions[i].name)) {
			llvm += result->functions[i].self;
			heaviest = version ? heaviest : &result->functions[i];
			version = version ? version : llvm_version(result->functions[i].name);
		}
	}
	snprintf(hint, sizeof(hint), "debug symbols of such files (their -dbgsym packages, or DEBUGINFOD_URLS in cprofd's environment) have them");
	/* Debian's has names of what other files may call, and by its virtual tables of passes. */
	if (llvm > sum / 2)
		snprintf(hint, sizeof(hint),
			 "most of it is in LLVM, inside of its passes: on Debian DEBUGINFOD_URLS=https://debuginfod.debian.net in cprofd's "
			 "environment has these names, or the package libllvm%u-dbgsym of its debug archive", version);
	if (heaviest && percent(sum, whole(result)) >= NAMELESS_TELL_PERCENT)
		say__failure(hint,
			     "%.1f %% of the time is in functions without a name, as %s", percent(sum, whole(result)), heaviest->name);
}

int summary__print(int recording_fd, bool lines, bool wall, const char *rules, bool verbose, uint64_t *ret_cpu)
{
	struct tally_result result;
	struct units_summary units;
	struct rhythm rhythm;
	struct tally *tally = NULL;
	bool cut;
	int err = 0;

	*ret_cpu = 0;
	rhythm__init(&rhythm);
	if (wall)
		err = lseek(recording_fd, 0, SEEK_SET) < 0 ? -errno : recording__read(recording_fd, true, &rhythm.sink, &cut);
	if (err)
		goto out;
	err = tally__new(lines, wall ? &rhythm : NULL, &tally);
	if (err)
		goto out;
	err = units_summary__init(&units, rules, tally__sink(tally));
	if (err)
		goto out;
	err = lseek(recording_fd, 0, SEEK_SET) < 0 ? -errno : 0;
	if (!err)
		err = recording__read(recording_fd, true, &units.sink, &cut);
	if (!err)
		err = tally__finish(tally, &result);
	if (!err)
		*ret_cpu = result.cpu;
	if (!err && !say__is_quiet()) {
		print_counts(&result);
		print_classes(&result);
		print_native(&result, verbose);
		print_losses(&result);
		print_functions(&result, verbose);
		units_summary__print(&units, without_gil(&result), verbose);
		print_nameless(&result);
		if (!result.seen && result.waits)
			say("the target did not use the CPU meanwhile: it only waited");
		else if (!result.seen)
			say__failure("`--mode=wall` shows where it waits, and `cprofd dump` where it is now",
				     "no sample was taken: the target did not use the CPU meanwhile");
	}
	units_summary__free(&units);
out:
	tally__free(tally);
	rhythm__free(&rhythm);
	return err;
}
