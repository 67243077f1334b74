/* SPDX-License-Identifier: MIT */
/* The head of the page: what was recorded (command, Python, compilers, times), classes of time, filters,
 * losses.
 *
 *     <h1>python3 svd.py <small>process 4242</small></h1>
 *     <dl> Python 3.12.1 | Compilers Numba, JAX | Started ... | Recorded 8.12 s, CPU clock | Time | Samples </dl>
 *     a stripe of the classes of time, and its legend
 *     Nothing was lost.
 *
 * All of it comes from the report's JSON (data.c): its first and only recording, and the time line, which has
 * the threads. */
#include <string.h>

#include "events/loss_names.h"
#include "html/html.h"

#define COMPILERS_MAX 8u /* more are only counted */

/* One pair of the list of facts. `term` is our own text; what follows until end_term() is the target's,
 * through html__text(). */
static void put_term(struct buf *out, const char *term) { buf__printf(out, "<div><dt>%s</dt><dd>", term); }

static void end_term(struct buf *out) { buf__puts(out, "</dd></div>\n"); }

static bool is_wall(const json_t *recording) { return !strcmp(get__text(recording, "mode"), "wall"); }

/* The Python version of the attached process; if it has none, that of any process. */
static const char *python_of(const json_t *report)
{
	const json_t *threads = json_object_get(json_object_get(report, "timeline"), "threads"), *thread;
	uint64_t pid = get__number(json_array_get(json_object_get(report, "recordings"), 0), "pid");
	const char *python = "";
	size_t i;

	json_array_foreach(threads, i, thread) {
		const char *version = get__text(thread, "python");

		/* The attached process's version replaces that of another process, which may come first. */
		if (*version && (!*python || get__number(thread, "pid") == pid))
			python = version;
	}
	return python;
}

/* The names of the compilers in the table of compiles, without duplicates. */
static void put_compilers(struct buf *out, const json_t *report)
{
	const json_t *rows = json_object_get(tables__find(report, "unit"), "rows"), *row, *before;
	unsigned n = 0;
	size_t i, k;

	json_array_foreach(rows, i, row) {
		const char *compiler = get__text(row, "compiler");

		json_array_foreach(rows, k, before) {
			if (k == i || !strcmp(get__text(before, "compiler"), compiler))
				break;
		}
		/* A quadratic search: the table has at most HTML_ROWS_MAX rows. Rows without a compiler are
		 * time outside of compiles. */
		if (k < i || !*compiler || ++n > COMPILERS_MAX)
			continue;
		buf__puts(out, n > 1 ? ", " : "");
		html__text(out, compiler);
	}
	if (!n)
		buf__puts(out, "none was seen at work");
	else if (n > COMPILERS_MAX)
		buf__printf(out, " and %u more", n - COMPILERS_MAX);
}

static void put_samples(struct buf *out, const json_t *recording, const json_t *line)
{
	uint64_t samples = get__number(recording, "samples"), native = get__number(line, "native");

	html__count(out, samples);
	buf__printf(out, " at %llu\u00a0Hz", (unsigned long long)get__number(recording, "rate_hz"));
	if (samples)
		buf__printf(out, ", %.2f\u00a0%% of their stacks whole",
			    100.0 * (double)get__number(recording, "whole") / (double)samples);
	if (native)
		buf__printf(out, " (native: %.2f\u00a0%%)",
			    100.0 * (double)get__number(line, "native_whole") / (double)native);
}

/* A recording of CPU time does not know why a thread did not run: "off CPU". */
static void put_times(struct buf *out, const json_t *recording)
{
	const uint64_t cpu = get__number(recording, "cpu_ns"), wall = get__number(recording, "wall_ns"),
		       threads = get__number(recording, "threads");

	html__duration(out, cpu);
	buf__puts(out, " of CPU in ");
	html__count(out, threads);
	buf__puts(out, threads == 1 ? " thread, " : " threads, ");
	/* The CPU clock may be ahead by microseconds, and a foreign recording may say anything. */
	html__duration(out, wall > cpu ? wall - cpu : 0);
	buf__puts(out, is_wall(recording) ? " waiting" : " off CPU");
}

static void put_triggers(struct buf *out, const json_t *triggers)
{
	const json_t *trigger;
	size_t i;

	if (!json_array_size(triggers))
		return;
	put_term(out, "Fired");
	json_array_foreach(triggers, i, trigger) {
		buf__puts(out, i ? "; " : "");
		html__text(out, get__text(trigger, "condition"));
		buf__puts(out, *get__text(trigger, "name") ? ", " : "");
		html__text(out, get__text(trigger, "name"));
		buf__puts(out, " at ");
		html__duration(out, get__number(trigger, "time_ns"));
	}
	end_term(out);
}

static void put_facts(struct buf *out, const json_t *report, const json_t *recording)
{
	const json_t *line = json_object_get(report, "timeline");
	const char *python = python_of(report), *reason = get__text(recording, "reason");

	buf__puts(out, "<dl>\n");
	put_term(out, "Python");
	html__text(out, *python ? python : "not known");
	end_term(out);
	put_term(out, "Compilers");
	put_compilers(out, report);
	end_term(out);
	put_term(out, "Started");
	html__text(out, *get__text(recording, "started") ? get__text(recording, "started") : "not known");
	end_term(out);
	put_term(out, "Recorded");
	html__duration(out, get__number(recording, "span_ns"));
	buf__printf(out, ", %s clock", is_wall(recording) ? "wall" : "CPU");
	if (*reason) {
		buf__puts(out, "; ended: ");
		html__text(out, reason);
	}
	end_term(out);
	put_triggers(out, json_object_get(recording, "triggers"));
	put_term(out, "Time");
	put_times(out, recording);
	end_term(out);
	put_term(out, "Samples");
	put_samples(out, recording, line);
	end_term(out);
	buf__puts(out, "</dl>\n");
}

/* A table that is folded at first: names are for people who search the documentation, sentences for all
 * others. */
static void put_losses(struct buf *out, const json_t *recording)
{
	json_t *losses = json_object_get(recording, "losses"), *count;
	const char *name;

	if (!json_object_size(losses)) {
		buf__puts(out, "<p class=\"note\">Nothing was lost.</p>\n");
		return;
	}
	buf__puts(out, "<details><summary>Not whole, or lost (one sample can have several causes)</summary>\n<table class=\"losses\">\n");
	json_object_foreach(losses, name, count) {
		buf__puts(out, "<tr><td>");
		html__count(out, (uint64_t)json_integer_value(count));
		buf__puts(out, "</td><td>");
		html__text(out, loss__sentence(name) ?: name);
		buf__puts(out, "</td><td><code>");
		html__text(out, name);
		buf__puts(out, "</code></td></tr>\n");
	}
	buf__puts(out, "</table></details>\n");
}

static void put_words(struct buf *out, const json_t *words)
{
	const json_t *word;
	size_t i;

	json_array_foreach(words, i, word) {
		buf__puts(out, i ? ", " : "");
		html__text(out, json_string_value(word));
	}
}

static void put_filters(struct buf *out, const json_t *report)
{
	json_t *filters = json_object_get(report, "filters"), *value;
	const char *key;

	if (!json_object_size(filters))
		return;
	buf__puts(out, "<p class=\"warning\">Filtered:");
	json_object_foreach(filters, key, value) {
		/* Keys are our own (report/json.c, put_filters()); values are the user's patterns. */
		buf__printf(out, " %s ", key);
		if (json_is_string(value))
			html__text(out, json_string_value(value));
		else if (json_is_array(value))
			put_words(out, value);
		else if (json_is_true(value))
			; /* a flag: its name says it all */
		else if (strlen(key) > 3 && !strcmp(key + strlen(key) - 3, "_ns"))
			html__duration(out, (uint64_t)json_integer_value(value));
		else
			html__count(out, (uint64_t)json_integer_value(value));
	}
	buf__puts(out, "</p>\n");
}

/* Classes of time as one stripe, with a legend. */
static void put_classes(struct buf *out, const json_t *report, const json_t *recording)
{
	const json_t *table = tables__find(report, "class"), *rows = json_object_get(table, "rows"), *row;
	size_t i;

	if (!table)
		return;
	/* The table of classes is its own order. */
	tables__stripe(out, rows, rows, get__number(table, "total_ns"));
	buf__puts(out, "<p class=\"legend\">");
	json_array_foreach(rows, i, row) {
		if (get__share(row, "exclusive_share") < 0.0005)
			continue; /* too small for the legend; the table has it */
		buf__puts(out, "<span>");
		tables__swatch(out, get__text(row, "name"));
		html__text(out, get__text(row, "name"));
		buf__puts(out, " ");
		html__percent(out, get__share(row, "exclusive_share"));
		buf__puts(out, "</span> ");
	}
	buf__puts(out, "</p>\n");
	if (!get__number(recording, "quiet_threads"))
		return;
	buf__puts(out, "<p class=\"note\">");
	html__duration(out, get__number(recording, "quiet_wall_ns"));
	buf__puts(out, " more in ");
	html__count(out, get__number(recording, "quiet_threads"));
	buf__puts(out, " threads that hardly ran: no part of the shares, but in the table of threads.</p>\n");
}

void about__put(struct buf *out, const json_t *report)
{
	const json_t *recording = json_array_get(json_object_get(report, "recordings"), 0);

	buf__puts(out, "<h1>");
	html__text(out, get__text(recording, "command"));
	if (get__number(recording, "pid")) /* 0: of a host */
		buf__printf(out, " <small>process %llu</small>", (unsigned long long)get__number(recording, "pid"));
	buf__puts(out, "</h1>\n");
	put_facts(out, report, recording);
	if (json_is_true(json_object_get(recording, "cut")))
		buf__puts(out, "<p class=\"warning\">The recording ends in the middle; everything up to there is here.</p>\n");
	put_filters(out, report);
	put_classes(out, report, recording);
	put_losses(out, recording);
}
