/* SPDX-License-Identifier: MIT */
/* Names of compiles for the live view. In a live stream a name may arrive after samples of its compile: the
 * time of the provisional row is then added to the row of the real name.
 *
 *     units      7: a compile without a name     -> row "(a compile that main:12 caused, its name is not known yet)"
 *     samples    of unit 7                       -> time of that row
 *     unit_name  7: "svd", "float64"             -> that time moves to the row "svd(float64)", as do later samples
 */
#include "top/units.h"

#include <stdio.h>

#include "rules/rules.h"

#define DEPTH_MAX 256u /* levels of units that are shown */

/* A unit of the epoch: parent (an id, 0: none), index of its text, kind (enum rule_kind, or UNIT_OVER). */
struct top_unit {
	uint32_t parent, text;
	uint8_t kind;
};

/* NULL: none, or one that was over before the stream began, which has no text. */
static const struct top_unit *unit_at(const struct top_units *units, uint32_t id)
{
	const struct top_unit *all = (const struct top_unit *)units->units.data;

	return id && id <= LENGTH(units->units, struct top_unit) && all[id - 1].kind != UNIT_OVER ? &all[id - 1] : NULL;
}

/* The key of a text is kind, text, NUL; so a phase and a pass of the same name are different rows. */
static int text_of(struct top_units *units, uint8_t kind, const char *name, const char *signature, uint32_t *ret)
{
	_cleanup_(buf__free) struct buf text = {};
	int err = buf__append(&text, &kind, 1) ?: buf__puts(&text, name);

	if (!err && kind == RULE_UNIT)
		err = buf__printf(&text, "(%s)", signature);
	err = err ?: buf__append(&text, "", 1);
	return err ?: intern__id(&units->texts, text.data, text.len, ret);
}

/* A unit whose name is not known yet: a compile that was running when cprofd attached gets its values some 20 ms
 * later. Its text is unique, and names the line that caused it. */
static int unnamed(struct top_units *units, const struct unit_row *row, uint8_t kind, const struct model *model,
		   uint32_t *ret)
{
	const uint32_t *stacks = (const uint32_t *)model->epoch_stacks.data;
	_cleanup_(buf__free) struct buf text = {};
	int err = buf__append(&text, &kind, 1) ?: buf__puts(&text, kind == RULE_UNIT ? "(a compile" : "(a part of it");

	if (!err && kind == RULE_UNIT && row->trigger && row->trigger * sizeof(*stacks) < model->epoch_stacks.len) {
		struct model_frame frame = model__frame(model, model__node(model, stacks[row->trigger]).frame);

		err = buf__printf(&text, " that %s:%u caused", frame.name, frame.line);
	}
	err = err ?: buf__puts(&text, ", its name is not known yet)") ?: buf__append(&text, "", 1);
	units->unnamed++;
	/* Behind the NUL: it makes the key unique, and is not shown. */
	err = err ?: buf__append(&text, &units->unnamed, sizeof(units->unnamed));
	return err ?: intern__id(&units->texts, text.data, text.len, ret);
}

static int add_rows(struct top_units *units, const struct event_rows *event, const struct model *model)
{
	const struct unit_row *row = event->rows;
	int err = 0;

	for (uint32_t i = 0; i < event->n && !err; i++) {
		struct top_unit unit = {.parent = row[i].parent, .kind = row[i].kind};

		/* A kind of a newer engine is shown as a pass. */
		if (unit.kind >= RULE_KINDS && unit.kind != UNIT_OVER)
			unit.kind = RULE_PASS;
		if (unit.kind != UNIT_OVER)
			err = *row[i].name ? text_of(units, unit.kind, row[i].name, row[i].signature, &unit.text)
					   : unnamed(units, &row[i], unit.kind, model, &unit.text);
		err = err ?: buf__append(&units->units, &unit, sizeof(unit));
	}
	return err;
}

/* top.c moves the time: `was` and `is` say from which row to which. */
static int name_late(struct top_units *units, const struct event_unit_end *event)
{
	const struct top_unit *unit = unit_at(units, event->id);
	uint32_t text;
	int err;

	if (!unit || !*event->name)
		return 0;
	err = text_of(units, unit->kind, event->name, event->signature, &text);
	if (err || text == unit->text)
		return err;
	units->was = unit->text;
	units->is = text;
	ITEM(units->units, struct top_unit, event->id - 1).text = text;
	return 0;
}

int top_units__event(struct top_units *units, const struct event *event, const struct model *model)
{
	/* Equal: top.c has nothing to move. */
	units->was = units->is = 0;
	switch (event->kind) {
	case EVENT_SESSION:
	case EVENT_EPOCH:
		/* Texts stay: rows of the table refer to them. */
		buf__clear(&units->units);
		units->now = 0;
		return 0;
	case EVENT_UNITS:
		return add_rows(units, &event->rows, model);
	case EVENT_UNIT_NAME:
	case EVENT_UNIT_END:
		return name_late(units, &event->unit_end);
	case EVENT_SAMPLES:
		if (event->samples.n)
			units->now = event->samples.rows[event->samples.n - 1].unit;
		return 0;
	default:
		return 0;
	}
}

void top_units__free(struct top_units *units)
{
	intern__free(&units->texts);
	buf__free(&units->units);
}

struct top_units_walk top_units__walk(const struct top_units *units, uint32_t unit)
{
	return (struct top_units_walk){.at = unit, .first = unit};
}

bool top_units__next(const struct top_units *units, struct top_units_walk *walk, uint32_t *ret_text, bool *ret_own)
{
	const struct top_unit *unit = unit_at(units, walk->at);
	bool compile = unit && unit->kind == RULE_UNIT;

	if (!unit)
		return false;
	*ret_text = unit->text;
	*ret_own = compile ? !walk->compiled : walk->at == walk->first;
	walk->compiled |= compile;
	/* Parents have smaller ids, so the walk ends, whatever the stream says. */
	walk->at = unit->parent < walk->at ? unit->parent : 0;
	return true;
}

void top_units__name(const struct top_units *units, uint32_t text, const char **ret_name, const char **ret_kind)
{
	static const char *const kinds[RULE_KINDS] = {"compile", "phase", "pass"};
	size_t len;
	const char *key = intern__key(&units->texts, text, &len);

	*ret_kind = kinds[(uint8_t)key[0]];
	*ret_name = key + 1;
}

void top_units__now(const struct top_units *units, char *ret, size_t size)
{
	uint32_t ids[DEPTH_MAX], n = 0, id;
	const struct top_unit *unit;
	const char *name, *kind;
	size_t len = 0;

	*ret = '\0';
	/* Only the innermost compile and what is inside of it: compiles around it are in the table. */
	for (id = units->now; n < DEPTH_MAX && (unit = unit_at(units, id)); id = unit->parent < id ? unit->parent : 0) {
		ids[n++] = id;
		if (unit->kind == RULE_UNIT)
			break;
	}
	while (n-- && len < size) {
		top_units__name(units, unit_at(units, ids[n])->text, &name, &kind);
		len += (size_t)snprintf(ret + len, size - len, "%s%s", len ? " > " : "", name);
	}
}
