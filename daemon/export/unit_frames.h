/* SPDX-License-Identifier: MIT */
/* Compiles, phases and passes as frames of stacks (option --units). Private to this directory and those after it.
 *
 * Zero-initialised is empty. One thread. Errors: -ENOMEM. Use it only after model__read(), as names may arrive late. */
#pragma once

#include "export/model.h"

struct unit_frames {
	struct buf frames; /* uint32_t: frame + 1 of each node of the unit tree; 0: not made */
	struct buf path;
};

/* A compile's name and signature, or the name of a phase or pass; with its '\0'. */
int unit_frames__words(const struct unit_node *node, struct buf *out);
/* The frame with that text, at the line where the function is defined. Made once for each node. */
int unit_frames__frame(struct unit_frames *frames, struct model *model, uint32_t node, uint32_t *ret);
/* The frame of a node for which unit_frames__frame() was called before. */
static inline uint32_t unit_frames__made(const struct unit_frames *frames, uint32_t node)
{
	return ITEM(frames->frames, const uint32_t, node) - 1;
}

/* The stack with the compiles, phases and passes around it as outermost frames. Not for a model that drops its
 * stacks at each epoch. */
int unit_frames__stack(struct unit_frames *frames, struct model *model, uint32_t node, uint32_t stack, uint32_t *ret);
void unit_frames__free(struct unit_frames *frames);
