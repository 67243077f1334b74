/* SPDX-License-Identifier: MIT */
/* The data of the time line: the compiles, phases and passes of each thread, as spans. time_line.js draws
 * them.
 *
 *     {"detail":"","native":7931,...,"from_ns":0,"to_ns":8120000000,"spans":5321,"below_ns":0,
 *      "names":[{"what":"unit","name":"svd","compiler":"Numba","signature":"array(float64, 2d, C)",...},
 *               {"what":"phase","name":"typing","compiler":"Numba"},...],
 *      "threads":[{"name":"python3","tid":4242,...,"spans":[0,-1,1000,52000000, 1,0,1200,800000, ...]}]}
 *
 * A span is four numbers: index in "names"; index of the span around it in this array of spans, -1: none;
 * begin and length in ns, the begin since from_ns. docs/report.md describes all keys. */
#include <errno.h>

#include "base/cleanup.h"
#include "events/json.h"
#include "export/unit_spans.h"
#include "html/html.h"

struct time_line {
	struct model model;
	/* the listed threads in the order of display; owned */
	struct model_thread **threads;
	uint32_t n;
	struct unit_spans spans;
	struct buf names;  /* uint32_t by node of the unit tree: its index in "names" + 1; 0: none yet */
	uint32_t names_n;
};

static void put_name(struct time_line *line, uint32_t id, struct buf *out)
{
	static const char *const kinds[UNIT_KINDS] = {"unit", "phase", "pass"};
	struct unit_node node = unit_tree__node(&line->model.units, id);

	/* Errors of the buffer are sticky (`failed`), so only the end tests for them. */
	buf__puts(out, line->names_n ? ",\n{" : "{");
	/* A kind that is not known is drawn as a phase. */
	json__member(out, "what", kinds[node.kind < UNIT_KINDS ? node.kind : UNIT_PHASE]);
	json__member(out, "name", *node.name ? node.name : UNIT_NO_NAME);
	json__member(out, "compiler", node.compiler);
	if (node.kind == UNIT_COMPILE) {
		json__member(out, "signature", node.signature);
		json__member(out, "file", node.file);
		json__number(out, "line", node.line);
	}
	/* Only outermost compiles have one. */
	if (node.trigger) {
		struct model_frame frame = model__frame(&line->model, node.trigger - 1);

		buf__puts(out, ",\"trigger\":{");
		json__member(out, "name", frame.name);
		json__member(out, "file", frame.file);
		json__number(out, "line", frame.line);
		buf__puts(out, "}");
	}
	buf__puts(out, "}");
	line->names_n++;
}

/* Names in the order of their first span, each once: a recording has far fewer names than spans. */
static void put_names(struct time_line *line, struct buf *out)
{
	struct unit_span span;
	uint32_t *known;

	buf__puts(out, ",\"names\":[");
	for (uint32_t at = 0; unit_spans__from(&line->spans, at, &span) && !out->failed; at = span.call + 1) {
		known = buf__at(&line->names, sizeof(*known), span.node);
		if (!known) {
			out->failed = true;
			return;
		}
		if (*known)
			continue;
		put_name(line, span.node, out);
		*known = line->names_n;
	}
	buf__puts(out, "]");
}

static void put_spans(struct time_line *line, uint32_t index, struct buf *out)
{
	struct unit_span span;
	uint32_t n = 0;

	buf__puts(out, ",\"spans\":[");
	for (bool more = unit_spans__first(&line->spans, index, &span); more; more = unit_spans__next(&line->spans, &span)) {
		/* Parents come before their children, and a shown span has a shown parent: its number is set. */
		unit_tree__call(&line->model.units, span.call)->number = n;
		buf__printf(out, "%s%u,%d,%llu,%llu", n++ ? "," : "", ITEM(line->names, uint32_t, span.node) - 1,
			    span.parent == CALL_NONE ? -1 : (int)unit_tree__call(&line->model.units, span.parent)->number,
			    (unsigned long long)span.begin, (unsigned long long)(span.end - span.begin));
	}
	buf__puts(out, "]");
}

static void put_thread(struct time_line *line, uint32_t index, struct buf *out)
{
	const struct model_thread *thread = line->threads[index];
	const struct model_process *process = model__process(&line->model, thread->process);

	buf__puts(out, index ? ",\n{" : "{");
	json__member(out, "name", thread->name);
	json__number(out, "tid", (uint64_t)thread->tid);
	json__member(out, "process", process->name);
	json__number(out, "pid", (uint64_t)process->pid);
	json__member(out, "python", process->python);
	json__number(out, "begin_ns", model__begin(&line->model, thread));
	json__number(out, "cpu_ns", thread->cpu);
	json__number(out, "wall_ns", thread->wall);
	put_spans(line, index, out);
	buf__puts(out, "}");
}

static int put_all(struct time_line *line, struct buf *out)
{
	const struct model *model = &line->model;

	buf__puts(out, "{");
	json__member(out, "detail", model->detail);
	json__number(out, "native", model->native);
	json__number(out, "native_whole", model->native_whole);
	json__number(out, "from_ns", model__from(model));
	json__number(out, "to_ns", model__to(model));
	json__number(out, "spans", line->spans.n);
	json__number(out, "below_ns", line->spans.below);
	put_names(line, out);
	buf__puts(out, ",\n\"threads\":[");
	for (uint32_t i = 0; i < line->n; i++)
		put_thread(line, i, out);
	return buf__puts(out, "]}");
}

int time_line__json(int recording_fd, const struct export_options *options, struct buf *out, struct export_report *ret)
{
	struct export_options how = *options;
	_cleanup_free_ struct time_line *line = calloc(1, sizeof(*line));
	int err;

	if (!line)
		return -ENOMEM;
	how.lines = true; /* triggers of compiles are lines */
	err = model__init(&line->model, &how);
	line->model.with_units = line->model.units.keep = true;
	/* It needs neither stacks nor slices of time. */
	line->model.slice = model__no_slice;
	line->model.epoch = model__no_epoch;
	err = err ?: model__read(&line->model, recording_fd, &ret->missing);
	err = err ?: model__order(&line->model, &line->threads, &line->n);
	err = err ?: unit_spans__make(&line->model, line->threads, line->n,
				      model__to(&line->model) - model__from(&line->model), HTML_SPANS_MAX, &line->spans);
	err = err ?: put_all(line, out) || out->failed ? -ENOMEM : 0;
	/* Also after an error, for `missing`. */
	model__report(&line->model, ret);
	free(line->threads);
	unit_spans__free(&line->spans);
	buf__free(&line->names);
	model__free(&line->model);
	return err;
}
