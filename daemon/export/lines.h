/* SPDX-License-Identifier: MIT */
/* The lines of sources that compilers were at, and which are inside of which (docs/protocol.md, "lines"). An epoch numbers
 * them anew; here each (line inside of a line) has one id for the whole recording. Id 0 is no line.
 *
 * Zero-initialised is empty. One thread. Errors: -ENOMEM. */
#pragma once

#include "base/buf.h"
#include "base/intern.h"
#include "events/events.h"

struct line_tree {
	struct intern keys;
	struct buf epoch;   /* uint32_t: id of each row of the epoch */
	struct buf scratch;
};

struct source_line {
	uint32_t parent, depth, line;
	const char *file; /* valid until a line is added */
};

int line_tree__rows(struct line_tree *tree, const struct event_rows *rows);
void line_tree__epoch(struct line_tree *tree);
/* Of a row of the epoch, from 1; 0 for 0. */
uint32_t line_tree__id(const struct line_tree *tree, uint32_t row);
/* id > 0 */
struct source_line line_tree__line(const struct line_tree *tree, uint32_t id);
void line_tree__free(struct line_tree *tree);
