/* SPDX-License-Identifier: MIT */
/* What was compiled, inside of what: the compile units, phases and passes of a recording (docs/protocol.md, "units").
 * Private to this folder and those after it.
 *
 * A call is one compile (phase, pass) from its begin to its end. Calls of one name below callers of one name are one
 * node of a tree; node 0 is the time outside of all. Calls that go on in a new epoch, where they are emitted again, stay the
 * same call. A name that comes late makes a node of its own first: unit_tree__finish() puts it where it belongs, and
 * unit_tree__node() of an id from before leads there.
 *
 * Memory: the nodes, and the calls of an epoch (`keep`: all calls). Zero-initialised is empty. One thread.
 * Errors: -ENOMEM. Times are ns since the session's start. */
#ifndef CPROFD_EXPORT_UNITS_H
#define CPROFD_EXPORT_UNITS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "events/events.h"
#include "base/intern.h"

/* As rules/rules.h has them, and docs/protocol.md. */
enum unit_kind { UNIT_COMPILE, UNIT_PHASE, UNIT_PASS, UNIT_KINDS };
#define CALL_NONE UINT32_MAX
#define UNIT_NO_NAME "(name unknown)" /* so is called what has none */
#define UNIT_DEPTH_MAX 256u /* calls in calls; deeper ones count for the last of these */

struct unit_node {
	uint32_t parent;
	uint8_t kind;
	uint32_t trigger; /* of an outermost compile: frame of the line that caused it, + 1; 0: not known */
	const char *compiler, *name, *signature, *file; /* valid until a node is added */
	uint32_t line; /* file and line: where what is compiled is defined; "" and 0: not known */
};

struct unit_call {
	uint32_t node, thread, parent; /* parent: a call, or CALL_NONE */
	uint32_t depth, inner;         /* inner: of one that goes on in a new epoch: the next one in it */
	bool ended, met;               /* met: for whoever counts them */
	uint32_t number;               /* for whoever numbers them, 0 at first */
	uint32_t object;               /* that it was named by; 0: not known */
	uint64_t begin, end;           /* end: until it has ended, of its last sample */
};

struct unit_tree {
	bool keep, keep_rows;
	struct intern nodes;
	struct buf calls;  /* struct unit_call */
	struct buf epoch;  /* uint32_t: call of each row of the epoch */
	struct buf rows;   /* ... of the recording, with keep_rows (and keep) */
	struct buf expect; /* struct expected, by thread */
	struct buf late;   /* struct late_name */
	struct buf final;  /* uint32_t by node, after finish */
	struct buf scratch;
	uint32_t serial;
};

/* A row of `units`; `thread` is the model's. */
int unit_tree__row(struct unit_tree *tree, const struct unit_row *row, uint32_t thread, uint32_t trigger, uint64_t begin);
/* Its name, when it comes before its end. */
int unit_tree__name(struct unit_tree *tree, const struct event_unit_end *event);
int unit_tree__end(struct unit_tree *tree, const struct event_unit_end *event, uint64_t time);
int unit_tree__epoch(struct unit_tree *tree);
/* The call that a sample's `unit` is; CALL_NONE for 0. Notes the time. */
uint32_t unit_tree__sample(struct unit_tree *tree, uint32_t unit, uint32_t thread, uint64_t time);
struct unit_call *unit_tree__call(const struct unit_tree *tree, uint32_t call);
uint32_t unit_tree__calls(const struct unit_tree *tree);
/* After the last event. */
int unit_tree__finish(struct unit_tree *tree);
/* The node that stands for a call's node; 0: the time outside of all. */
uint32_t unit_tree__final(const struct unit_tree *tree, uint32_t node);
struct unit_node unit_tree__node(const struct unit_tree *tree, uint32_t node);
void unit_tree__free(struct unit_tree *tree);

#endif
