/* SPDX-License-Identifier: MIT */
/* The compile units, phases and passes of a recording, and which are inside of which (docs/protocol.md, "units").
 * Private to this directory and those after it.
 *
 * A call is one compile (phase, pass), from its begin to its end. Calls with the same name and the same chain of
 * callers are one node of the tree; node 0 is the time outside of all. A call that goes on in a new epoch, where it
 * is emitted again, stays the same call. A call whose name arrives late has a node of its own at first:
 * unit_tree__finish() merges it, and unit_tree__final() maps the old id.
 *
 * Memory: the nodes, and the calls of one epoch (with `keep` all calls). Zero-initialised is empty. One thread.
 * Errors: -ENOMEM. Times are ns since the session's start. */
#pragma once

#include "base/buf.h"
#include "events/events.h"
#include "base/intern.h"

/* The values of rules/rules.h and docs/protocol.md. */
enum unit_kind { UNIT_COMPILE, UNIT_PHASE, UNIT_PASS, UNIT_KINDS };
#define CALL_NONE UINT32_MAX
#define UNIT_NO_NAME "(name unknown)" /* shown for a call without a name */
#define UNIT_DEPTH_MAX 256u /* levels of nested calls; deeper ones count as the last of these */

/* A path: what was compiled, inside of what. Node 0 has empty strings. */
struct unit_node {
	uint32_t parent;
	uint8_t kind;
	uint32_t trigger; /* of an outermost compile: frame of the line that caused it + 1; 0: unknown */
	const char *compiler, *name, *signature, *file; /* valid until a node is added */
	uint32_t line; /* file and line of the definition; "" and 0: unknown */
};

/* One run; an hour has 800,000. Pointers to calls are valid until a row is added. */
struct unit_call {
	uint32_t node, thread, parent; /* parent: a call, or CALL_NONE */
	union {
		uint32_t inner;        /* while rows come, of a call that goes on in a new epoch: the next call inside of it */
		uint32_t next;         /* unit_spans.c, after the last row: the next span of the thread */
	};
	uint32_t number : 31, counted : 1; /* free for the user of the tree; 0 at first */
	uint32_t object : 31, ended : 1;   /* object: number of the object that named it; 0: unknown */
	uint64_t begin, end;           /* end: until it has ended, the time of its last sample */
};

/* Set `keep`, `keep_rows` and `renames` before the first row, the rest is private. */
struct unit_tree {
	bool keep, keep_rows;
	bool renames;      /* a call whose name arrives late has it at once, in place of unit_tree__finish() */
	struct intern nodes;
	struct buf calls;  /* struct unit_call */
	struct buf epoch;  /* uint32_t: call of each row of the epoch */
	struct buf rows;   /* ... of the recording, with keep_rows (and keep) */
	struct buf expect; /* struct expected, by thread */
	struct buf late;   /* struct late_name */
	struct buf final;  /* uint32_t by node, after finish */
	struct buf scratch;
	/* the last number given to a call without a name */
	uint32_t serial;
};

/* A row of `units`; `thread` is the model's. */
int unit_tree__row(struct unit_tree *tree, const struct unit_row *row, uint32_t thread, uint32_t trigger, uint64_t begin);
/* A name that arrives before the end. */
int unit_tree__name(struct unit_tree *tree, const struct event_unit_end *event);
int unit_tree__end(struct unit_tree *tree, const struct event_unit_end *event, uint64_t time);
int unit_tree__epoch(struct unit_tree *tree);
/* In a new epoch, before the thread's first row there: does it have a call that may be emitted again? And: that is over. */
bool unit_tree__is_expected(const struct unit_tree *tree, uint32_t thread);
void unit_tree__forget(struct unit_tree *tree, uint32_t thread);
/* The call of a sample's `unit`; CALL_NONE for 0. Extends the call to that time. */
uint32_t unit_tree__sample(struct unit_tree *tree, uint32_t unit, uint32_t thread, uint64_t time);
struct unit_call *unit_tree__call(const struct unit_tree *tree, uint32_t call);
uint32_t unit_tree__calls(const struct unit_tree *tree);
/* After the last event; or so far, and once more after others. */
int unit_tree__finish(struct unit_tree *tree);
/* The final node of a call's node, after unit_tree__finish(); 0: outside of all compiles. */
uint32_t unit_tree__final(const struct unit_tree *tree, uint32_t node);
struct unit_node unit_tree__node(const struct unit_tree *tree, uint32_t node);
/* What surrounds the time of a node: its innermost compile, and the phase and the pass of that. Nodes by enum unit_kind;
 * 0: none. */
void unit_tree__innermost(const struct unit_tree *tree, uint32_t node, uint32_t ret[UNIT_KINDS]);
void unit_tree__free(struct unit_tree *tree);
