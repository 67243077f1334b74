/* SPDX-License-Identifier: MIT */
/* Puts a compile, its phases and its passes as frames around a stack: new nodes in the model's tree.
 *
 *     stack:         main > compile > LLVMPY_RunPass
 *     with --units:  svd(float64) > lowering > InstCombine > main > compile > LLVMPY_RunPass */
#include "export/unit_frames.h"

#include <errno.h>

#include "base/limits.h"

int unit_frames__words(const struct unit_node *node, struct buf *out)
{
	int err = buf__puts(out, *node->name ? node->name : UNIT_NO_NAME);

	if (node->kind == UNIT_COMPILE && *node->name)
		err = err ?: buf__printf(out, "(%s)", node->signature);
	return err ?: buf__append(out, "", 1);
}

int unit_frames__frame(struct unit_frames *frames, struct model *model, uint32_t id, uint32_t *ret)
{
	struct unit_node node = unit_tree__node(&model->units, id);
	uint32_t *known = buf__at(&frames->frames, sizeof(*known), id);
	_cleanup_(buf__free) struct buf name = {};
	int err;

	if (!known)
		return -ENOMEM;
	*ret = *known - 1;
	if (*known)
		return 0;
	err = unit_frames__words(&node, &name) ?: projection__label(model, name.data, node.file, node.line, ret);
	if (!err)
		*known = *ret + 1;
	return err;
}

/* The path is built innermost first. */
static int put_path(struct buf *path, uint32_t item)
{
	return buf__append(path, &item, sizeof(item));
}

int unit_frames__stack(struct unit_frames *frames, struct model *model, uint32_t id, uint32_t stack, uint32_t *ret)
{
	struct model_node node;
	uint32_t frame, i;
	int err = 0;

	buf__clear(&frames->path);
	/* Leaf to root, then the units from the innermost outwards: all of it reversed is the new stack. */
	for (; stack != MODEL_ROOT && !err; stack = node.parent) {
		node = model__node(model, stack);
		err = put_path(&frames->path, node.frame);
	}
	for (id = unit_tree__final(&model->units, id); id && !err; id = unit_tree__node(&model->units, id).parent)
		err = unit_frames__frame(frames, model, id, &frame) ?: put_path(&frames->path, frame);
	/* Each pair of stack and unit makes a new path: a hostile recording could multiply both. */
	err = err ?: limits__walk(LENGTH(frames->path, uint32_t));
	*ret = MODEL_ROOT;
	for (i = LENGTH(frames->path, uint32_t); i-- > 0 && !err;)
		err = projection__node(model, *ret, ITEM(frames->path, uint32_t, i), ret);
	return err;
}

void unit_frames__free(struct unit_frames *frames)
{
	buf__free(&frames->frames);
	buf__free(&frames->path);
}
