#include "cli/units.h"

#include <inttypes.h>
#include <stddef.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/unmatched.h"
#include "report/fit.h"
#include "rules/rules.h"
#include "units/units.h"

#define NAME_WIDTH 100

/* All of the summary fits a terminal of 24 lines; the second row with --verbose. */
static const uint32_t shown[2][RULE_KINDS] = {
	{[RULE_UNIT] = 4},
	{[RULE_UNIT] = 12, [RULE_PHASE] = 6, [RULE_PASS] = 6},
};

static int on_event(struct event_sink *self, const struct event *event)
{
	struct units_summary *summary = (struct units_summary *)self;
	int err = units_table__event(summary->table, event);

	unmatched__event(summary->unmatched, event);
	return err ? err : summary->next->event(summary->next, event);
}

int units_summary__init(struct units_summary *summary, const char *rules, struct event_sink *next)
{
	*summary = (struct units_summary){.sink.event = on_event, .next = next};
	return units_table__new(&summary->table) ?: unmatched__new(rules, &summary->unmatched);
}

void units_summary__free(struct units_summary *summary)
{
	summary->table = units_table__free(summary->table);
	summary->unmatched = unmatched__free(summary->unmatched);
}

static void print_line(const struct units_line *line)
{
	const char *name = *line->name ? line->name : "(name unknown)";
	char words[1024];

	fprintf(stderr, "%12s %12s %6" PRIu32 "  ", words__duration(line->exclusive), words__duration(line->inclusive),
		line->count);
	snprintf(words, sizeof(words), line->kind == RULE_UNIT && (*line->name || *line->signature) ? "%s(%s)" : "%s", name, line->signature);
	fit__name(stderr, words, -NAME_WIDTH);
	fputc('\n', stderr);
}

/* Its place is that of its time; `limit` ns: of the line before. */
static void print_no_pass(uint64_t *no_pass, uint64_t limit)
{
	if (!*no_pass || *no_pass < limit)
		return;
	fprintf(stderr, "%12s %12s %6s  (in no known pass)\n", words__duration(*no_pass), words__duration(*no_pass), "");
	*no_pass = 0;
}

void units_summary__print(struct units_summary *summary, bool gil, bool verbose)
{
	static const char *const titles[RULE_KINDS] = {"compile", "phase", "pass"};
	const struct units_line *lines;
	uint64_t no_pass;
	uint32_t n, i;
	uint8_t kind;

	for (kind = 0; kind < RULE_KINDS; kind++) {
		no_pass = kind == RULE_PASS ? units_table__no_pass(summary->table) : 0;
		if (!shown[verbose][kind] || units_table__lines(summary->table, kind, &lines, &n) || (!n && !no_pass))
			continue;
		/* What a thread does without the GIL is of the compile that goes on; of which phase is not known. */
		fprintf(stderr, "Wall time by %s, %s, most inclusive first:\n%12s %12s %6s\n", titles[kind],
			gil && kind ? "with the GIL alone" : "waiting included", "exclusive", "inclusive", "times");
		for (i = 0; i < n && i < shown[verbose][kind]; i++) {
			print_no_pass(&no_pass, lines[i].inclusive);
			print_line(&lines[i]);
		}
		print_no_pass(&no_pass, 0);
		if (n > i)
			fprintf(stderr, "%34s... and %" PRIu32 " more\n", "", n - i);
		fputc('\n', stderr);
	}
	unmatched__tell(summary->unmatched);
}
