/* SPDX-License-Identifier: MIT */
/* Compiles, phases and passes as frames. Private to this folder and those after it.
 *
 * Zero-initialised is empty. One thread. Errors: -ENOMEM. After model__read() alone: names come late. */
#ifndef CPROFD_EXPORT_UNIT_FRAMES_H
#define CPROFD_EXPORT_UNIT_FRAMES_H

#include "export/model.h"

struct unit_frames {
	struct buf frames; /* uint32_t: frame + 1 of each node of the unit tree; 0: not made */
	struct buf path;
};

/* A compile's name and signature, a phase's or a pass's name; with its '\0'. */
int unit_frames__words(const struct unit_node *node, struct buf *out);
/* Those words; where it is defined. */
int unit_frames__frame(struct unit_frames *frames, struct model *model, uint32_t node, uint32_t *ret);
/* Of a node that was asked for before. */
static inline uint32_t unit_frames__made(const struct unit_frames *frames, uint32_t node)
{
	return ITEM(frames->frames, const uint32_t, node) - 1;
}

/* The stack with all that was at work around it as outermost frames. Not of a model that forgets its stacks. */
int unit_frames__stack(struct unit_frames *frames, struct model *model, uint32_t node, uint32_t stack, uint32_t *ret);
void unit_frames__free(struct unit_frames *frames);

#endif
