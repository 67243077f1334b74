/* SPDX-License-Identifier: MIT */
/* The tree of compiles. A call whose name arrives late first gets a node of its own, with the empty name;
 * unit_tree__finish() merges that into the node of its name.
 *
 *     rows of `units`             calls (runs)        nodes (paths)
 *     1 svd(float64)              0                   1 svd
 *     2   lowering, parent 1      1                   2 svd > lowering
 *     3 svd(float64)              2                   1          the same path again
 *     4   "", parent 3            3                   3 svd > (no name yet)
 *
 * A node's key is its parent, its kind and its texts. Nodes are never removed; calls are, at each epoch, once
 * they have ended (unless `keep`). */
#include "export/units.h"

#include <errno.h>
#include <string.h>


/* Head of a node's key; four strings follow, except for node 0. */
struct head {
	uint32_t parent, trigger, line;
	uint32_t serial; /* makes a call without a name a node of its own; 0: the node of all calls of that name */
	uint16_t kind, depth;
};
/* By thread, at the begin of an epoch: the call that the next row may emit again. Rows of calls that go on have the
 * time of the thread's first sample in the epoch; a row with another time is a new call. */
struct expected {
	uint32_t call;
	bool begun;
	uint64_t time;
};
/* The name of `node` arrived: it is the node `named`. */
struct late_name {
	uint32_t node, named;
};

/* Finds or adds a node. Node 0 is made first, before any other. */
static int node_id(struct unit_tree *tree, const struct head *head, const struct unit_node *words,
		   uint32_t *ret)
{
	struct buf *key = &tree->scratch;
	static const struct head outside = {};

	if (!tree->nodes.n && intern__id(&tree->nodes, &outside, sizeof(outside), ret))
		return -ENOMEM;
	buf__clear(key);
	if (buf__append(key, head, sizeof(*head)) ||
	    buf__append(key, words->compiler, strlen(words->compiler) + 1) ||
	    buf__append(key, words->name, strlen(words->name) + 1) ||
	    buf__append(key, words->signature, strlen(words->signature) + 1) ||
	    buf__append(key, words->file, strlen(words->file) + 1))
		return -ENOMEM;
	return intern__id(&tree->nodes, key->data, key->len, ret);
}

/* Copied, as keys are not aligned. */
static struct head head_of(const struct unit_tree *tree, uint32_t node)
{
	struct head head = {};
	size_t len;

	if (node) /* node 0 may not exist yet */
		memcpy(&head, intern__key(&tree->nodes, node, &len), sizeof(head));
	return head;
}

struct unit_node unit_tree__node(const struct unit_tree *tree, uint32_t node)
{
	struct head head = head_of(tree, node);
	struct unit_node ret = {.parent = head.parent,
				.kind = (uint8_t)head.kind,
				.trigger = head.trigger,
				.line = head.line};
	size_t len;

	if (!node) {
		ret.compiler = ret.name = ret.signature = ret.file = "";
		return ret;
	}
	ret.compiler = (const char *)intern__key(&tree->nodes, node, &len) + sizeof(head);
	ret.name = ret.compiler + strlen(ret.compiler) + 1;
	ret.signature = ret.name + strlen(ret.name) + 1;
	ret.file = ret.signature + strlen(ret.signature) + 1;
	return ret;
}

struct unit_call *unit_tree__call(const struct unit_tree *tree, uint32_t call)
{
	return (struct unit_call *)tree->calls.data + call;
}

uint32_t unit_tree__calls(const struct unit_tree *tree)
{
	return LENGTH(tree->calls, struct unit_call);
}

/* The call of a row of this epoch, by its id from 1. */
static uint32_t call_of(const struct unit_tree *tree, uint32_t unit)
{
	return unit && unit <= LENGTH(tree->epoch, uint32_t) ? ITEM(tree->epoch, uint32_t, unit - 1)
							     : CALL_NONE;
}

/* Calls that were not emitted again have ended. */
void unit_tree__forget(struct unit_tree *tree, uint32_t thread)
{
	struct expected *expected;
	uint32_t at, inner;

	if (thread >= LENGTH(tree->expect, struct expected))
		return;
	expected = &ITEM(tree->expect, struct expected, thread);
	for (at = expected->call; at != CALL_NONE; at = inner) {
		inner = unit_tree__call(tree, at)->inner;
		unit_tree__call(tree, at)->inner = CALL_NONE;
		unit_tree__call(tree, at)->ended = true;
	}
	expected->call = CALL_NONE;
}

bool unit_tree__is_expected(const struct unit_tree *tree, uint32_t thread)
{
	return thread < LENGTH(tree->expect, struct expected) && ITEM(tree->expect, const struct expected, thread).call != CALL_NONE;
}

/* Could this row be the call? A missing name matches any. */
static bool is_row_of(const struct unit_tree *tree, const struct unit_call *call,
		      const struct unit_row *row, uint32_t parent)
{
	struct unit_node node = unit_tree__node(tree, call->node);

	if (call->parent != parent || node.kind != row->kind ||
	    strcmp(node.compiler, row->compiler))
		return false;
	return !*node.name || !*row->name ||
	       (!strcmp(node.name, row->name) && !strcmp(node.signature, row->signature));
}

/* Is the row a call that went on when the epoch began? Such calls are emitted first, outermost first. */
static bool is_emitted_again(struct unit_tree *tree, const struct unit_row *row, uint32_t thread,
		       uint32_t parent, uint64_t time, uint32_t *ret)
{
	struct expected *expected;
	struct unit_call *call;

	if (thread >= LENGTH(tree->expect, struct expected))
		return false;
	expected = &ITEM(tree->expect, struct expected, thread);
	*ret = expected->call;
	if (*ret == CALL_NONE)
		return false;
	call = unit_tree__call(tree, *ret);
	if ((expected->begun && expected->time != time) || !is_row_of(tree, call, row, parent)) {
		unit_tree__forget(tree, thread);
		return false;
	}
	expected->begun = true;
	expected->time = time;
	expected->call = call->inner;
	call->inner = CALL_NONE;
	return true;
}

static int add_row(struct unit_tree *tree, const struct unit_row *row, uint32_t thread, uint32_t trigger, uint64_t begin)
{
	struct unit_call call = {.thread = thread,
				 .parent = call_of(tree, row->parent),
				 .inner = CALL_NONE,
				 .object = row->object,
				 .begin = begin,
				 .end = begin};
	struct unit_node words = {.compiler = row->compiler,
				  .name = row->name,
				  .signature = row->signature,
				  .file = row->file};
	struct head head = {.trigger = trigger, .line = row->line, .kind = row->kind};
	uint32_t id = 0;
	int err;

	/* It has no call, but its row counts: ids of later rows depend on it. */
	if (row->kind == UNIT_OVER) {
		id = CALL_NONE;
		return buf__append(&tree->epoch, &id, sizeof(id));
	}
	/* The same call as before the epoch: it keeps its number, its begin and its node. */
	if (is_emitted_again(tree, row, thread, call.parent, begin, &id))
		return buf__append(&tree->epoch, &id, sizeof(id));
	if (call.parent != CALL_NONE) {
		head.parent = unit_tree__call(tree, call.parent)->node;
		head.depth = head_of(tree, head.parent).depth + 1;
		/* Too deep: its samples count for the deepest call that is kept. This bounds all recursion
		 * over units. */
		if (head.depth == UNIT_DEPTH_MAX)
			return buf__append(&tree->epoch, &call.parent, sizeof(call.parent));
	}
	if (!*row->name) /* it may arrive later */
		head.serial = ++tree->serial;
	id = unit_tree__calls(tree);
	err = node_id(tree, &head, &words, &call.node);
	err = err ?: buf__append(&tree->calls, &call, sizeof(call));
	return err ?: buf__append(&tree->epoch, &id, sizeof(id));
}

int unit_tree__row(struct unit_tree *tree, const struct unit_row *row, uint32_t thread, uint32_t trigger, uint64_t begin)
{
	int err = add_row(tree, row, thread, trigger, begin);

	if (err || !tree->keep_rows)
		return err;
	return buf__append(&tree->rows, tree->epoch.data + tree->epoch.len - sizeof(uint32_t), sizeof(uint32_t));
}

int unit_tree__name(struct unit_tree *tree, const struct event_unit_end *event)
{
	uint32_t id = call_of(tree, event->id);
	struct unit_call *call;
	struct late_name late;
	struct head head;
	struct unit_node words = {
		.name = event->name, .signature = event->signature, .file = event->file};
	int err;

	if (id == CALL_NONE)
		return 0;
	call = unit_tree__call(tree, id);
	head = head_of(tree, call->node);
	if (!*event->name)
		return 0;
	call->object = event->object;
	words.compiler = unit_tree__node(tree, call->node).compiler;
	head.line = event->line;
	if (!head.serial) /* it was mistaken for an equal call before it: correct that */
		return node_id(tree, &head, &words, &call->node);
	head.serial = 0;
	if (tree->renames)
		return node_id(tree, &head, &words, &call->node);
	late.node = call->node;
	err = node_id(tree, &head, &words, &late.named);
	return err ?: buf__append(&tree->late, &late, sizeof(late));
}

int unit_tree__end(struct unit_tree *tree, const struct event_unit_end *event, uint64_t time)
{
	uint32_t id = call_of(tree, event->id);
	struct unit_call *call;

	if (id == CALL_NONE)
		return 0;
	call = unit_tree__call(tree, id);
	call->ended = true;
	call->end = time > call->begin ? time : call->begin;
	return unit_tree__name(tree, event);
}

uint32_t unit_tree__sample(struct unit_tree *tree, uint32_t unit, uint32_t thread, uint64_t time)
{
	uint32_t id = call_of(tree, unit);

	/* A sample outside of all units: what was open in this thread has ended. */
	if (!unit)
		unit_tree__forget(tree, thread);
	if (id != CALL_NONE && !unit_tree__call(tree, id)->ended &&
	    unit_tree__call(tree, id)->end < time)
		unit_tree__call(tree, id)->end = time;
	return id;
}

/* Appends a call that goes on to the list of its thread, which the rows of the new epoch are compared with,
 * from the outermost inwards. */
static int set_expect(struct unit_tree *tree, struct buf *last, uint32_t thread, uint32_t call)
{
	const uint32_t none = CALL_NONE;
	const struct expected nothing = {.call = CALL_NONE};
	uint32_t *before;

	while (LENGTH(tree->expect, struct expected) <= thread)
		if (buf__append(&tree->expect, &nothing, sizeof(nothing)) ||
		    buf__append(last, &none, sizeof(none)))
			return -ENOMEM;
	before = &ITEM(*last, uint32_t, thread);
	if (*before == CALL_NONE)
		ITEM(tree->expect, struct expected, thread).call = call;
	else
		unit_tree__call(tree, *before)->inner = call;
	*before = call;
	return 0;
}

/* Starts an epoch: calls that have not ended may be emitted again; the others are dropped, unless all are kept. */
int unit_tree__epoch(struct unit_tree *tree)
{
	struct buf moved = {},
		   last = {}; /* uint32_t: old call -> new call; thread -> its innermost call */
	uint32_t i, n = unit_tree__calls(tree), kept = 0;
	int err = 0;

	buf__clear(&tree->epoch);
	buf__clear(&tree->expect);
	for (i = 0; i < n && !err; i++) {
		struct unit_call call = *unit_tree__call(tree, i);
		/* Moved towards the begin of the array: `kept` never exceeds i. */
		uint32_t to = call.ended && !tree->keep ? CALL_NONE : kept;

		err = buf__append(&moved, &to, sizeof(to));
		if (err || to == CALL_NONE)
			continue;
		if (call.parent != CALL_NONE)
			/* A parent is before its calls, so it was moved already. Of an ended parent nothing
			 * is left: CALL_NONE. */
			call.parent = ITEM(moved, uint32_t, call.parent);
		call.inner = CALL_NONE;
		*unit_tree__call(tree, kept++) = call;
		if (!call.ended)
			err = set_expect(tree, &last, call.thread, to);
	}
	tree->calls.len = kept * sizeof(struct unit_call);
	buf__free(&moved);
	buf__free(&last);
	return err;
}

int unit_tree__finish(struct unit_tree *tree)
{
	const struct late_name *late = (const struct late_name *)tree->late.data;
	uint32_t i, n = tree->nodes.n, to;
	struct buf named = {};
	int err = 0;

	buf__clear(&tree->final);
	for (i = 0; i < n && !err; i++)
		err = buf__append(&named, &i, sizeof(i));
	for (i = 0; i < LENGTH(tree->late, struct late_name) && !err; i++)
		ITEM(named, uint32_t, late[i].node) = late[i].named;
	/* Parents have lower ids than their children, so a parent is final before its children are. */
	for (i = 0; i < n && !err; i++) {
		uint32_t from = ITEM(named, uint32_t, i);
		struct head head = head_of(tree, from);
		struct unit_node words = unit_tree__node(tree, from);

		to = 0;
		if (i) {
			head.serial = 0;
			head.parent = ITEM(tree->final, uint32_t, head.parent);
			/* Usually the node itself. Below a parent that was renamed, it is another one,
			 * possibly new. */
			err = node_id(tree, &head, &words, &to);
		}
		err = err ?: buf__append(&tree->final, &to, sizeof(to));
	}
	buf__free(&named);
	return err;
}

uint32_t unit_tree__final(const struct unit_tree *tree, uint32_t node)
{
	return node < LENGTH(tree->final, uint32_t) ? ITEM(tree->final, uint32_t, node) : node;
}

void unit_tree__innermost(const struct unit_tree *tree, uint32_t node, uint32_t ret[UNIT_KINDS])
{
	memset(ret, 0, UNIT_KINDS * sizeof(*ret));
	/* Outside of the innermost compile, phases and passes belong to another one. */
	while (node && !ret[UNIT_COMPILE]) {
		struct unit_node unit = unit_tree__node(tree, node);

		if (unit.kind < UNIT_KINDS && !ret[unit.kind])
			ret[unit.kind] = node;
		node = unit.parent;
	}
}

void unit_tree__free(struct unit_tree *tree)
{
	struct buf *bufs[] = {&tree->calls, &tree->epoch, &tree->rows, &tree->expect,
			      &tree->late,  &tree->final, &tree->scratch};

	for (size_t i = 0; i < sizeof(bufs) / sizeof(bufs[0]); i++)
		buf__free(bufs[i]);
	intern__free(&tree->nodes);
}
