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

/* A marker of the thread, before it is written by columns. */
struct marker {
	uint64_t begin, end;
	uint32_t name, data; /* name: a string of the thread; data: where its JSON ends */
};

struct markers {
	struct buf items, data;
};

static int add_marker(struct markers *markers, struct firefox_tables *tables, const struct kind *kind, uint64_t begin, uint64_t end)
{
	struct marker marker = {begin, end, 0, (uint32_t)markers->data.len};
	int err = firefox_tables__string(tables, kind->name, &marker.name);

	return err ?: buf__append(&markers->items, &marker, sizeof(marker));
}

static int open_data(struct markers *markers, const struct kind *kind)
{
	return buf__printf(&markers->data, "{\"type\":\"cprofd-%s\"", kind->name);
}

static int add_span(struct markers *markers, const struct firefox *firefox, struct firefox_tables *tables, const struct unit_span *span)
{
	struct unit_node node = unit_tree__node(&firefox->model.units, span->node);
	const struct kind *kind = &kinds[node.kind < UNIT_KINDS ? node.kind : UNIT_PASS];
	int err = open_data(markers, kind) ?: json__member(&markers->data, "name", *node.name ? node.name : UNIT_NO_NAME);

	if (node.kind == UNIT_COMPILE)
		err = err ?: json__member(&markers->data, "signature", node.signature);
	err = err ?: json__member(&markers->data, "compiler", node.compiler);
	if (node.kind == UNIT_COMPILE && *node.file) {
		struct buf place = {};

		err = err ?: buf__printf(&place, "%s:%u", node.file, node.line) ?: buf__append(&place, "", 1);
		err = err ?: json__member(&markers->data, "file", place.data);
		buf__free(&place);
	}
	err = err ?: buf__puts(&markers->data, "}");
	return err ?: add_marker(markers, tables, kind, span->begin, span->end);
}

static int add_waits(struct markers *markers, const struct firefox *firefox, struct firefox_tables *tables, const struct model_thread *thread)
{
	uint64_t time = model__begin(&firefox->model, thread), begin;
	enum wait_cause cause;
	const char *holder;
	const struct firefox_row *row;
	uint32_t i, n;
	int err = 0;

	row = firefox__rows(firefox, thread, &n);
	for (i = 0; i < n && !err; i++) {
		begin = time;
		time += row[i].ns;
		cause = waiting__cause(&firefox->model, firefox__place(firefox, row[i].place).stack, &holder);
		if (cause <= WAIT_READY)
			continue;
		for (; i + 1 < n && row[i + 1].place == row[i].place; i++)
			time += row[i + 1].ns;
		err = open_data(markers, &kinds[UNIT_KINDS]) ?: json__member(&markers->data, "cause", wait__frame(cause));
		err = err ?: json__member(&markers->data, "holder", holder) ?: buf__puts(&markers->data, "}");
		err = err ?: add_marker(markers, tables, &kinds[UNIT_KINDS], begin, time);
	}
	return err;
}

static void put_all(struct firefox *firefox, const struct markers *markers)
{
	uint32_t i, n = LENGTH(markers->items, struct marker), at = 0;
	const struct marker *marker = (const struct marker *)markers->items.data;

	firefox__put(firefox, "\"markers\":{\"length\":%u,\n\"name\":[", n);
	for (i = 0; i < n; i++)
		firefox__item(firefox, i, marker[i].name);
	firefox__put(firefox, "],\n\"startTime\":[");
	for (i = 0; i < n; i++)
		firefox__item_ms(firefox, i, marker[i].begin);
	firefox__put(firefox, "],\n\"endTime\":[");
	for (i = 0; i < n; i++)
		firefox__item_ms(firefox, i, marker[i].end);
	/* 1: with begin and end. */
	firefox__put(firefox, "],\n\"phase\":[");
	for (i = 0; i < n; i++)
		firefox__item(firefox, i, 1);
	firefox__put(firefox, "],\n\"category\":[");
	for (i = 0; i < n; i++)
		firefox__item(firefox, i, FIREFOX_OTHER);
	firefox__put(firefox, "],\n\"data\":[");
	for (i = 0; i < n && !firefox->err; i++) {
		firefox__put(firefox, "%s", i ? ",\n" : "");
		firefox->err = firefox->err ?: buf__append(&firefox->text, markers->data.data + at, marker[i].data - at);
		at = marker[i].data;
	}
	firefox__put(firefox, "]},\n");
}

void firefox__markers(struct firefox *firefox, uint32_t index, struct firefox_tables *tables)
{
	const struct unit_span *span = unit_spans__first(&firefox->spans, index);
	struct markers markers = {};
	int err = 0;

	for (; span && !err; span = unit_spans__next(&firefox->spans, span))
		if (unit_spans__shown(&firefox->spans, span))
			err = add_span(&markers, firefox, tables, span);
	err = err ?: add_waits(&markers, firefox, tables, firefox->threads[index]);
	firefox->err = firefox->err ?: err;
	put_all(firefox, &markers);
	buf__free(&markers.items);
	buf__free(&markers.data);
}
