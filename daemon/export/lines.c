/* SPDX-License-Identifier: MIT */
#include "export/lines.h"

#include <errno.h>
#include <string.h>

/* Head of a line's key; its file follows. */
struct head {
	uint32_t parent, depth, line;
};

static int add_row(struct line_tree *tree, const struct source_line_row *row)
{
	const struct head head = {line_tree__id(tree, row->parent), row->depth, row->line};
	uint32_t id;
	int err;

	buf__clear(&tree->scratch);
	err = buf__append(&tree->scratch, &head, sizeof(head)) ?: buf__append(&tree->scratch, row->file, strlen(row->file) + 1);
	err = err ?: intern__id(&tree->keys, tree->scratch.data, tree->scratch.len, &id);
	if (err)
		return err;
	id++;
	return buf__append(&tree->epoch, &id, sizeof(id));
}

int line_tree__rows(struct line_tree *tree, const struct event_rows *rows)
{
	const struct source_line_row *row = rows->rows;
	int err = 0;

	for (uint32_t i = 0; i < rows->n && !err; i++)
		err = add_row(tree, &row[i]);
	return err;
}

void line_tree__epoch(struct line_tree *tree)
{
	buf__clear(&tree->epoch);
}

uint32_t line_tree__id(const struct line_tree *tree, uint32_t row)
{
	return row && row <= LENGTH(tree->epoch, uint32_t) ? ITEM(tree->epoch, uint32_t, row - 1) : 0;
}

struct source_line line_tree__line(const struct line_tree *tree, uint32_t id)
{
	struct head head;
	size_t len;
	const char *key = intern__key(&tree->keys, id - 1, &len);

	memcpy(&head, key, sizeof(head)); /* keys are not aligned */
	return (struct source_line){head.parent, head.depth, head.line, key + sizeof(head)};
}

void line_tree__free(struct line_tree *tree)
{
	intern__free(&tree->keys);
	buf__free(&tree->epoch);
	buf__free(&tree->scratch);
}
