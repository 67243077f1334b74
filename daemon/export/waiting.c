/* SPDX-License-Identifier: MIT */
#include "export/waiting.h"

#include <string.h>

static enum wait_cause cause_of(const char *name)
{
	for (int cause = WAIT_NONE + 1; cause < WAIT_CAUSE_COUNT; cause++)
		if (!strcmp(name, wait__frame((enum wait_cause)cause)))
			return (enum wait_cause)cause;
	return WAIT_NONE;
}

enum wait_cause waiting__cause(const struct model *model, uint32_t stack, const char **ret_holder)
{
	enum wait_cause cause = WAIT_NONE;

	*ret_holder = "";
	for (uint32_t depth = 0; depth < 2 && stack != MODEL_ROOT; depth++) {
		struct model_node node = model__node(model, stack);
		struct model_frame frame = model__frame(model, node.frame);

		if (frame.kind != FUNCTION_NOTE)
			break;
		cause = cause_of(frame.name);
		if (cause)
			break;
		*ret_holder = frame.name;
		stack = node.parent;
	}
	return cause;
}
