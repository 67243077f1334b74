/* SPDX-License-Identifier: MIT */
/* Markers: compiles, their phases and passes, and waits, with begin and end. A schema for each kind says which fields
 * Firefox Profiler shows, and the text of a marker in its chart. */
#include <string.h>

#include "events/json.h"
#include "export/firefox.h"
#include "export/waiting.h"

/* All values are text. */
static const struct kind {
	const char *name;    /* of the marker: a row of the chart */
	const char *tooltip;
	const char *label;   /* in the chart */
	const char *table;
	const char *fields[5][2]; /* keys and their labels */
} kinds[] = {
	/* The order of enum unit_kind, and waits. */
	[UNIT_COMPILE] = {"compile", "compile of {marker.data.name}", "{marker.data.name}", "{marker.data.name}{marker.data.signature}",
			  {{"name", "Function"}, {"signature", "Signature"}, {"compiler", "Compiler"}, {"file", "Defined in"}}},
	[UNIT_PHASE] = {"phase", "phase {marker.data.name}", "{marker.data.name}", "{marker.data.name}", {{"name", "Phase"}, {"compiler", "Compiler"}}},
	[UNIT_PASS] = {"pass", "pass {marker.data.name}", "{marker.data.name}", "{marker.data.name}", {{"name", "Pass"}, {"compiler", "Compiler"}}},
	[UNIT_KINDS] = {"wait", "waiting: {marker.data.cause}", "{marker.data.cause}", "{marker.data.cause} {marker.data.holder}",
			{{"cause", "For"}, {"holder", "GIL"}}},
};

void firefox__schema(struct firefox *firefox)
{
	size_t i, field;

	firefox__put(firefox, "\"markerSchema\":[");
	for (i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		const struct kind *kind = &kinds[i];

		firefox__put(firefox, "%s{\"name\":\"cprofd-%s\",\"display\":[\"marker-chart\",\"marker-table\"%s],", i ? ",\n" : "", kind->name,
			     i == UNIT_COMPILE ? ",\"timeline-overview\"" : "");
		firefox__put(firefox, "\"tooltipLabel\":\"%s\",\"chartLabel\":\"%s\",\"tableLabel\":\"%s\",\"fields\":[", kind->tooltip, kind->label,
			     kind->table);
		for (field = 0; kind->fields[field][0]; field++)
			firefox__put(firefox, "%s{\"key\":\"%s\",\"label\":\"%s\",\"format\":\"string\"}", field ? "," : "", kind->fields[field][0],
				     kind->fields[field][1]);
		firefox__put(firefox, "]}");
	}
	firefox__put(firefox, "]");
}

/* A marker: of a span, or of a wait if that is NULL. The format has columns, so all are visited once for each of these. */
struct marker {
	const struct kind *kind;
	const struct unit_span *span;
	uint64_t begin, end;
	enum wait_cause cause;
	const char *holder;
};

struct markers {
	struct firefox *firefox;
	struct firefox_tables *tables;
	uint32_t index;
};

/* Writes one column of the `i`-th marker. */
typedef void put_cell(struct markers *markers, uint32_t i, const struct marker *marker);

static void put_name(struct markers *markers, uint32_t i, const struct marker *marker)
{
	struct firefox *firefox = markers->firefox;
	uint32_t name = 0;

	firefox->err = firefox->err ?: firefox_tables__string(markers->tables, marker->kind->name, &name);
	firefox__item(firefox, i, name);
}

static void put_begin(struct markers *markers, uint32_t i, const struct marker *marker)
{
	firefox__item_ms(markers->firefox, i, marker->begin);
}

static void put_end(struct markers *markers, uint32_t i, const struct marker *marker)
{
	firefox__item_ms(markers->firefox, i, marker->end);
}

static int put_compile(struct buf *out, const struct unit_node *node, bool compile)
{
	int err = json__member(out, "name", *node->name ? node->name : UNIT_NO_NAME);

	if (compile)
		err = err ?: json__member(out, "signature", node->signature);
	err = err ?: json__member(out, "compiler", node->compiler);
	if (compile && *node->file) {
		struct buf place = {};

		err = err ?: buf__printf(&place, "%s:%u", node->file, node->line) ?: buf__append(&place, "", 1);
		err = err ?: json__member(out, "file", place.data);
		buf__free(&place);
	}
	return err;
}

static void put_data(struct markers *markers, uint32_t i, const struct marker *marker)
{
	struct firefox *firefox = markers->firefox;
	struct buf *out = &firefox->text;
	struct unit_node node;
	int err;

	/* Not written out inside of the object: whether a member needs a comma is seen in the text before it. */
	firefox__put(firefox, "%s", i ? ",\n" : "");
	err = buf__printf(out, "{\"type\":\"cprofd-%s\"", marker->kind->name);
	if (marker->span) {
		node = unit_tree__node(&firefox->model.units, marker->span->node);
		err = err ?: put_compile(out, &node, node.kind == UNIT_COMPILE);
	} else {
		err = err ?: json__member(out, "cause", wait__frame(marker->cause)) ?: json__member(out, "holder", marker->holder);
	}
	firefox->err = firefox->err ?: err ?: buf__puts(out, "}");
}

static uint32_t each_span(struct markers *markers, put_cell *put)
{
	struct firefox *firefox = markers->firefox;
	struct unit_span span;
	uint32_t i = 0;

	for (bool more = unit_spans__first(&firefox->spans, markers->index, &span); more && !firefox->err; more = unit_spans__next(&firefox->spans, &span)) {
		uint8_t kind = unit_tree__node(&firefox->model.units, span.node).kind;
		const struct marker marker = {.kind = &kinds[kind < UNIT_KINDS ? kind : UNIT_PASS], .span = &span, .begin = span.begin, .end = span.end};

		if (put)
			put(markers, i, &marker);
		i++;
	}
	return i;
}

/* All markers; put NULL: only counts them. Rows of one wait that follow each other are one. */
static uint32_t each(struct markers *markers, put_cell *put)
{
	struct firefox *firefox = markers->firefox;
	const struct model_thread *thread = firefox->threads[markers->index];
	struct slices_cursor cursor = SLICES(firefox__rows(firefox, thread));
	struct marker marker = {.kind = &kinds[UNIT_KINDS], .end = model__begin(&firefox->model, thread)};
	uint32_t i = each_span(markers, put);
	struct slice row;
	bool more = slices__next(&cursor, &row);

	while (more && !firefox->err) {
		uint32_t place = row.stack;

		marker.begin = marker.end;
		marker.cause = waiting__cause(&firefox->model, firefox__place(firefox, place).stack, &marker.holder);
		do {
			marker.end += row.ns;
			more = slices__next(&cursor, &row);
		} while (more && row.stack == place);
		if (marker.cause <= WAIT_READY)
			continue;
		if (put)
			put(markers, i, &marker);
		i++;
	}
	return i;
}

/* A column that is the same for all. */
static void put_same(struct firefox *firefox, uint32_t n, uint32_t value)
{
	uint32_t i;

	for (i = 0; i < n; i++)
		firefox__item(firefox, i, value);
}

void firefox__markers(struct firefox *firefox, uint32_t index, struct firefox_tables *tables)
{
	struct markers markers = {.firefox = firefox, .tables = tables, .index = index};
	uint32_t n = each(&markers, NULL);

	firefox__put(firefox, "\"markers\":{\"length\":%u,\n\"name\":[", n);
	each(&markers, put_name);
	firefox__put(firefox, "],\n\"startTime\":[");
	each(&markers, put_begin);
	firefox__put(firefox, "],\n\"endTime\":[");
	each(&markers, put_end);
	/* 1: with begin and end. */
	firefox__put(firefox, "],\n\"phase\":[");
	put_same(firefox, n, 1);
	firefox__put(firefox, "],\n\"category\":[");
	put_same(firefox, n, FIREFOX_OTHER);
	firefox__put(firefox, "],\n\"data\":[");
	each(&markers, put_data);
	firefox__put(firefox, "]},\n");
}
