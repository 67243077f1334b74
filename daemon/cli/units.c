/* SPDX-License-Identifier: MIT */
/* Prints the tables of compiles, phases and passes in the summary; aggregate/unit_sums.c makes the rows. */
#include "cli/units.h"

#include <inttypes.h>
#include <string.h>

#include "aggregate/unit_sums.h"
#include "cli/cli.h"
#include "cli/unmatched.h"
#include "report/fit.h"

/* Columns before the name. */
#define TIMES_WIDTH 29

static const uint32_t verbose_rows[RULE_KINDS] = {[RULE_UNIT] = 12, [RULE_PHASE] = 6, [RULE_PASS] = 6};

/* Counts LLVM's functions, and those without symbols ("libLLVM-14.so.1+0x1234"): passes are recognised by name. */
static void count_names(struct units_summary *summary, const struct event_rows *rows)
{
	const struct function_row *row = rows->rows;

	for (uint32_t i = 0; i < rows->n; i++, row++) {
		size_t len = strlen(row->module);

		if (row->kind != FUNCTION_NATIVE || (strncmp(row->module, "libllvmlite.", 12) && strncmp(row->module, "libLLVM", 7)))
			continue;
		summary->functions++;
		/* It has a symbol. */
		if (strncmp(row->name, row->module, len) || strncmp(row->name + len, "+0x", 3))
			continue;
		summary->nameless++;
		snprintf(summary->stripped, sizeof(summary->stripped), "%s", row->module);
	}
}

/* Counts, then hands the event on. The first error wins; without memory for units, the rest of the summary
 * ends, too. */
static int on_event(struct event_sink *self, const struct event *event)
{
	struct units_summary *summary = (struct units_summary *)self;
	int err = unit_sums__event(summary->sums, event);

	if (event->kind == EVENT_FUNCTIONS)
		count_names(summary, &event->rows);
	unmatched__event(summary->unmatched, event);
	return err ? err : summary->next->event(summary->next, event);
}

int units_summary__init(struct units_summary *summary, const char *rules, struct event_sink *next)
{
	*summary = (struct units_summary){.sink.event = on_event, .next = next};
	summary->unmatched = unmatched__new(rules);
	return unit_sums__new(&summary->sums);
}

void units_summary__free(struct units_summary *summary)
{
	summary->sums = unit_sums__free(summary->sums);
	summary->unmatched = unmatched__free(summary->unmatched);
}

/* A compile is shown with its signature, "add(int64, int64)"; phases and passes have none. */
static void print_line(const struct unit_line *line)
{
	const char *name = *line->name ? line->name : "(name unknown)";
	char words[1024];

	fprintf(stderr, "%9s  %9s  %5" PRIu32 "  ", words__duration(line->exclusive), words__duration(line->inclusive), line->count);
	snprintf(words, sizeof(words), line->kind == RULE_UNIT && (*line->name || *line->signature) ? "%s(%s)" : "%s", name, line->signature);
	fit__name(stderr, words, TIMES_WIDTH - say__width());
	fputc('\n', stderr);
}

/* The row "(in no known pass)", at its place in the order of times: before the first line below `limit` ns. */
static void print_no_pass(uint64_t *no_pass, uint64_t limit)
{
	if (!*no_pass || *no_pass < limit)
		return;
	fprintf(stderr, "%9s  %9s  %5s  (in no known pass)\n", words__duration(*no_pass), words__duration(*no_pass), "");
	*no_pass = 0;
}

uint32_t units_summary__compiles(struct units_summary *summary)
{
	const struct unit_line *lines;
	uint32_t n;

	return unit_sums__lines(summary->sums, RULE_UNIT, &lines, &n) ? 0 : n;
}

static void print_table(struct units_summary *summary, uint8_t kind, bool gil, uint32_t rows)
{
	static const char *const titles[RULE_KINDS] = {"compile", "phase", "pass"};
	uint64_t no_pass = kind == RULE_PASS ? unit_sums__no_pass(summary->sums) : 0;
	const struct unit_line *lines;
	uint32_t n, i;

	if (unit_sums__lines(summary->sums, kind, &lines, &n) || (!n && !no_pass))
		return;
	/* With --gil: time without the GIL can be assigned to a compile, but not to a phase, as it has no stack. */
	fputc('\n', stderr);
	style__begin(stderr, STYLE_HEAD);
	fprintf(stderr, "exclusive  inclusive  times  Wall time by %s%s", titles[kind], gil && kind ? ", with the GIL alone" : "");
	if (n > rows)
		fprintf(stderr, " (%" PRIu32 " of %" PRIu32 ")", rows, n);
	fputc(':', stderr);
	style__end(stderr);
	fputc('\n', stderr);
	for (i = 0; i < n && i < rows; i++) {
		print_no_pass(&no_pass, lines[i].inclusive);
		print_line(&lines[i]);
	}
	print_no_pass(&no_pass, 0);
}

void units_summary__print(struct units_summary *summary, bool gil, uint32_t rows)
{
	if (rows)
		print_table(summary, RULE_UNIT, gil, rows);
	for (uint8_t kind = 0; !rows && kind < RULE_KINDS; kind++)
		print_table(summary, kind, gil, verbose_rows[kind]);
}

/* Exported functions keep their names in a stripped file, so "no names" means: four of five have none. */
static bool has_no_passes(const struct units_summary *summary)
{
	const struct unit_line *lines;
	uint32_t n;

	return summary->nameless * 5 > summary->functions * 4 && unit_sums__no_pass(summary->sums) &&
	       !unit_sums__lines(summary->sums, RULE_PASS, &lines, &n) && !n;
}

void units_summary__print_notes(struct units_summary *summary)
{
	if (has_no_passes(summary))
		say("LLVM's passes have no names here: %s is stripped", summary->stripped);
	unmatched__print(summary->unmatched);
}

uint32_t units_summary__note_lines(const struct units_summary *summary)
{
	return unmatched__lines(summary->unmatched) + has_no_passes(summary);
}
